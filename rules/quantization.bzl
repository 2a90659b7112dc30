"""`quantization()`: how a torch_program with `backend = "cortex_m"` becomes int8."""

def quantization(packed = True, float_where_faster = True, float_growth = 0, keep_float = [], min_snr = 0, min_accuracy = "", weight_dtype = "int8", weight_dtypes = {}, group_size = 32, activation_range = "auto", activation_ranges = {}):
    """Describes how a torch_program becomes int8, for `torch_program(backend = "cortex_m", quantization = ...)`; several programs can have one value.

    Args:
      packed: whether the constants are packed for this project's kernels; otherwise the program consists of ExecuTorch's
        `cortex_m::` operators and also runs elsewhere.
      float_where_faster: whether operators stay in floating point where they take fewer instructions and are no larger, or
        the whole program does, see `float_growth`. Otherwise everything is int8 that can be. That is always the case with
        `io = "int8"`, where the build only prints the estimate for floating point, without `packed`, and on cores without
        an FPU, or with neither the DSP extension nor vectors.
      float_growth: how many more bytes of program and of tensor memory than int8 a program all in floating point may take
        under `float_where_faster`, if it is estimated to take at least 10 % fewer instructions. 0: it may take no more of
        program, and less than 512 more of memory.
      keep_float: layers that stay in floating point, including all layers inside them, by their names in the model:
        `["head", "blocks.3.attention"]`. The quantization report lists the names and the accuracy that each layer costs.
      min_snr: the signal-to-noise ratio in dB that the outputs must have against floating point, on calibration samples:
        the layers that cost most stay in floating point until it is reached. 0: none is demanded, but the export aims at
        15 dB.
      min_accuracy: the share of the samples of `evaluation_set()` that the program must classify correctly, such as "0.95":
        the layers that cost most stay in floating point until it is reached. Empty: none is demanded.
      weight_dtype: dtype of the weights of linear layers and 1x1 convolutions (without stride): `int8`; `int4`, which takes
        half of the flash; or `auto`, which is int4 except for the layers that cost most accuracy, until the outputs have
        `min_snr`, whatever `io` is. Activations are always int8, and so are the weights of all other layers.
      weight_dtypes: weight dtypes of single layers, including all layers inside them, by their names in the model:
        `{"head": "int8", "encoder.3": "int4"}`. The longest matching name wins.
      group_size: how many inputs share a scale of int4 weights: 32, which costs a byte per 32 weights; 0: all inputs of an
        output channel do.
      activation_range: how the ranges of tensors are chosen: `min_max`, the range in calibration, widened for the least
        expected noise on other inputs; `percentile`, 99.99 % of the numbers in calibration; `mse`, the smallest square
        error of these numbers; `auto`, for each tensor the method with the least expected noise, estimated on samples that
        are not used to choose the range.
      activation_ranges: methods for single layers' results, including those of all layers inside them, by their names in
        the model: `{"head": "min_max"}`. The longest matching name wins.

    Returns:
      A value for `quantization` of `torch_program()`.
    """
    return {
        "packed": packed,
        "float_where_faster": float_where_faster and packed,
        "float_growth": float_growth,
        "keep_float": keep_float,
        "min_snr": min_snr,
        "min_accuracy": min_accuracy,
        "weight_dtype": weight_dtype,
        "weight_dtypes": weight_dtypes,
        "group_size": group_size,
        "activation_range": activation_range,
        "activation_ranges": activation_ranges,
    }
