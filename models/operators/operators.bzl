"""The programs of one operator each."""

OPERATORS = [
    "add",
    "cat",
    "layer_norm",
    "linear",
    "mean",
    "mul",
    "permute",
    "relu",
    "sigmoid",
    "softmax",
]
