"""The models that are compiled to C++ and tested, by what is special about them."""

# These are compared to the bit with the runtime on this machine.
HOST_MODELS = {
    # Inner functions.
    "sine": "//models/sine",
    "softmax": "//models/softmax",
    "add_float32": "//models/add:add_float32",
    "avg_pool2d": "//models/layers:avg_pool2d",
    "conv2d_grouped": "//models/layers:conv2d_grouped",
    "phyto_cnn": "//models/phyto_cnn",
    "resnet8": "//models/resnet8",
    # Its int8 layers are laid out for a core with the DSP extension, which kernels for this machine read, too.
    "ds_cnn_int8": "//models/ds_cnn:ds_cnn_int8",
    # An inference reads the rows of its image.
    "streamed_mobile": "//tests/compiled:streamed_mobile",
    # Outer functions of several kinds, lists, and views.
    "transformer": "//models/architectures:transformer",
    "lstm": "//models/layers:lstm",
    # State, branches, and dynamic shapes.
    "state": "//firmware/tests/programs:state",
    "initial_state": "//firmware/tests/programs:initial_state",
    "branch": "//firmware/tests/programs:branch",
    "dynamic": "//firmware/tests/programs:dynamic",
}

# The other engine runs these on an emulated core, compared with PyTorch; //firmware/tests/programs has more.
BOARD_MODELS = {
    "sine": "//models/sine",
    "sine_int8": "//models/sine:sine_int8",
    "ds_cnn_int8": "//models/ds_cnn:ds_cnn_int8",
}
