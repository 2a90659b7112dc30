"""Errors about a file that is given in place of a target, or a wrong name of an attribute."""

_SAVED = (".pt", ".pt2", ".pth", ".ckpt", ".bin", ".safetensors")

def program_error(src, weights, others):
    """Returns an error of a torch_program's attributes, or None.

    Args:
      src: the model file.
      weights: the trained program.
      others: the remaining attributes, by name.
    """
    for name in ["model", "models", "srcs", "module"]:
        if name in others:
            return "there is no %s: src is the model file, a Python file with model() and example_inputs() (docs/models.md)" % name
    for name in ["int8", "quantize", "quantized"]:
        if name in others:
            return "there is no %s: backend = \"cortex_m\" makes an int8 program (docs/quantize.md)" % name
    if type(src) == "string" and src.endswith(_SAVED):
        return "src = \"%s\": src is a Python file; `bazelw run //tools:new_model -- %s` writes one around this" % (src, src)
    if type(weights) == "string" and weights.endswith(_SAVED):
        return "weights = \"%s\": that is for a trained torch_program; put the file into data, and load_state_dict(torch.load(\"%s\")) into model()" % (weights, weights)
    return None

def model_error(model, models):
    """Returns an error of an image's model or models, or None."""
    for model in [model] + (models if type(models) == "list" else []):
        if type(model) == "string" and model.endswith((".py",) + _SAVED):
            return "model \"%s\": a file can't be one; give the torch_program that is made of it" % model
    return None
