"""The arguments of `quantization()`: attributes of torch_program's rule, and why their values can't be."""

visibility(["//rules/..."])

# The types of the arguments of `quantization()`, each of which is an attribute of the rule of torch_program().
_TYPES = {
    "packed": attr.bool,
    "float_where_faster": attr.bool,
    "float_growth": attr.int,
    "keep_float": attr.string_list,
    "min_snr": attr.int,
    "min_accuracy": attr.string,
    "weight_dtype": attr.string,
    "weight_dtypes": attr.string_dict,
    "group_size": attr.int,
    "activation_range": attr.string,
    "activation_ranges": attr.string_dict,
}

QUANTIZATION_ATTRS = {
    "quantization_" + name: kind(doc = "`%s` of `quantization()`. Set by the macro." % name)
    for name, kind in _TYPES.items()
}

def quantization_values(attributes):
    """Returns a rule's value of `quantization()`; {} if it has none."""
    if not attributes.quantization_weight_dtype:
        return {}
    return {name: getattr(attributes, "quantization_" + name) for name in _TYPES}

_ALLOWED = {
    "weight_dtype": ["int8", "int4", "auto"],
    "group_size": [32, 0],
    "activation_range": ["auto", "min_max", "percentile", "mse"],
}

# Layers have one of each.
_ALLOWED_OF_LAYERS = {
    "weight_dtypes": ["int8", "int4"],
    "activation_ranges": _ALLOWED["activation_range"],
}
_COUNTS = {"float_growth": "bytes", "min_snr": "dB"}

def _is_share(text):
    """Returns whether a text is a number from 0 to 1, in digits."""
    whole, _, decimals = text.partition(".")
    return (whole == "0" and (not decimals or decimals.isdigit())) or (whole == "1" and not decimals.strip("0"))

def quantization_error(values, io):
    """Returns the reason for which a value of `quantization()` can't be, or None.

    Args:
      values: its arguments, as a dict.
      io: dtype of the program's inputs and outputs.
    """
    for name, unit in _COUNTS.items():
        if values[name] < 0:
            return "%s = %s; it is a number of %s, 0 for none" % (name, values[name], unit)
    for name, allowed in _ALLOWED.items():
        if values[name] not in allowed:
            return "%s = %r; allowed: %s" % (name, values[name], allowed)
    for name, allowed in _ALLOWED_OF_LAYERS.items():
        for layer, value in values[name].items():
            if value not in allowed:
                return "%s: '%s' has '%s'; allowed: %s" % (name, layer, value, allowed)
    share = values["min_accuracy"]
    if share and not _is_share(share):
        return "min_accuracy = %r; it is a share from 0 to 1, such as \"0.95\", or empty for none" % share
    if share and io != "float32":
        return "min_accuracy is for io = \"float32\": with integers at the border nothing stays in floating point"
    if values["min_snr"] and io != "float32" and values["weight_dtype"] != "auto":
        return "min_snr is for io = \"float32\" or weight_dtype = \"auto\""
    if values["weight_dtype"] == "auto" and not values["min_snr"]:
        return "weight_dtype = \"auto\" needs min_snr, which the outputs must still have with int4 weights"
    if not values["packed"] and (values["weight_dtype"] != "int8" or "int4" in values["weight_dtypes"].values()):
        return "int4 weights are for packed = True: no other kernels take them"
    return None
