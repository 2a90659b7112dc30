"""Identifies files that are mistaken for model files, and explains what to write instead, without loading them."""

from __future__ import annotations

import pickletools
import zipfile
from pathlib import Path

# All names in a state dict's pickle.
_OF_TENSORS = (
    "collections",
    "torch",
    "torch._utils",
    "torch._tensor",
    "torch.nn.parameter",
    "torch.storage",
    "_codecs",
    "numpy",
)
_OTHERS = {".onnx": "ONNX", ".tflite": "LiteRT", ".h5": "Keras", ".keras": "Keras", ".pb": "TensorFlow"}
_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".tar")


def advice(path: Path) -> str:
    """Explains what a file is that isn't a Python file, and what to write."""
    wanted = f"a model file must be a Python file, named *.py, and this is {_kind(path)}"
    if path.suffix in _OTHERS:
        return f"{wanted}: bring the PyTorch module that it was made of: docs/models.md"
    line = _line(path)
    if line is None:
        return f"{wanted}; docs/models.md says what to write into one" if path.is_file() else wanted
    return (
        f"{wanted}. Write {path.stem}.py beside it, with\n"
        f"  import torch\n  def model():\n{line}"
        "  def example_inputs():\n      return (torch.randn(1, 3, 32, 32),)  # what one call takes\n"
        "and give that: docs/models.md"
    )


def _kind(path: Path) -> str:
    if not path.is_file():
        return "no file" if not path.is_dir() else "a folder"
    if path.suffix in _OTHERS:
        return f"a model of {_OTHERS[path.suffix]}"
    if _is_exported(path):
        return "a program that torch.export.save() wrote"
    if _is_script(path):
        return "a TorchScript module"
    foreign = _foreign(path)
    if foreign is None:
        return "a state dict, the weights of a module alone" if path.suffix == ".safetensors" else "something else"
    return f"a pickled module, of {foreign}" if foreign else "a state dict, the weights of a module alone"


def _line(path: Path) -> str | None:
    """Returns the body of model() for a file; None if none is known."""
    name = repr(path.name)
    if _is_exported(path):
        return f"      return torch.export.load({name}).module()\n"
    if _is_script(path):
        return "      return Net().eval()  # your class, of which the script was made: TorchScript can't be captured\n"
    if path.suffix == ".safetensors" and path.is_file():
        load = f"safetensors.torch.load_file({name})"
    else:
        foreign = _foreign(path)
        if foreign is None:
            return None
        load = f"torch.load({name})"
        if foreign:
            package, _, kind = foreign.rpartition(".")
            origin = f"from {package} import {kind}  # noqa: F401" if package != "__main__" else f"the class {kind}"
            return f"      # with {origin}\n      return torch.load({name}, weights_only=False).eval()\n"
    return f"      module = Net()  # your class\n      module.load_state_dict({load})\n      return module.eval()\n"


def _members(path: Path) -> list[str]:
    if not path.is_file() or not zipfile.is_zipfile(path):
        return []
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def _is_exported(path: Path) -> bool:
    return any(name.endswith(("serialized_exported_program.json", "models/model.json")) for name in _members(path))


def _is_script(path: Path) -> bool:
    return any(name.endswith("constants.pkl") for name in _members(path))


def _foreign(path: Path) -> str | None:
    """Returns the first class in a pickle that no state dict has, empty if there is none; None if it isn't a pickle."""
    pickles = [name for name in _members(path) if name.endswith("/data.pkl")]
    if pickles:
        with zipfile.ZipFile(path) as archive:
            data = archive.read(pickles[0])
    elif path.is_file() and path.suffix in _PICKLES:
        data = path.read_bytes()
    else:
        return None
    strings: list[str] = []
    found = []
    try:
        for code, argument, _ in pickletools.genops(data):
            if code.name == "GLOBAL":
                found.append(str(argument).replace(" ", "."))
            elif code.name == "STACK_GLOBAL":
                found.append(".".join(strings[-2:]))
            elif isinstance(argument, str):
                strings.append(argument)
    except ValueError:
        return None
    return next((name for name in found if name.rpartition(".")[0] not in _OF_TENSORS), "")
