"""The layers that //benchmarks measures one by one."""

LAYERS = [
    "avg_pool2d",
    "bmm",
    "conv1d",
    "conv2d_depthwise",
    "conv2d_dilated",
    "conv2d_grouped",
    "conv_transpose2d",
    "gru",
    "linear",
    "lstm",
    "max_pool2d",
]
