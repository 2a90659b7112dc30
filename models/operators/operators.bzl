"""The programs of one operator each."""

OPERATORS = [
    "add",
    "cat",
    "index",
    "layer_norm",
    "linear",
    "mean",
    "mm",
    "mul",
    "pad",
    "permute",
    "relu",
    "scatter_add",
    "sigmoid",
    "softmax",
    "var",
]
