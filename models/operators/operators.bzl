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

# Tests hold the images of these to limits each time, and those of the others at night: these have a limit of speed, or are the
# largest.
LIMITED_OPERATORS = [
    "add",
    "layer_norm",
    "mul",
    "pad",
    "relu",
    "sigmoid",
    "softmax",
]
