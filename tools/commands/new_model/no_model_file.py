"""Writes model files around weights, modules and programs that were saved, without running code of theirs."""

import json
import pickletools
import re
import textwrap
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.quiet.console import UserError
from tools.quiet.files import reading

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


# Reads a file of safetensors, whose package exports don't have: the length of a header in JSON, the header, and bytes.
_LOAD_FILE = """import json

import torch


def load_file(path):
    data = bytearray(open(path, "rb").read())
    begin = 8 + int.from_bytes(data[:8], "little")
    dtypes = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool", "U8": "uint8"}
    dtypes |= {f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}
    tensors = {}
    for name, each in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            part = data[slice(*(begin + offset for offset in each["data_offsets"]))]
            tensors[name] = torch.frombuffer(part, dtype=getattr(torch, dtypes[each["dtype"]])).reshape(each["shape"])
    return tensors
"""
_SHAPE = re.compile(r"(?:(?P<dtype>[a-z]+\d*):)?(?P<sizes>\d+(?:,\d+)*)")


def model_file_text(path: Path, module: str | None, shapes: Sequence[str]) -> str:
    """Returns the text of a model file around a file that isn't a Python file.

    Args:
        path: a program of torch.export.save(), a pickled module, or a state dict.
        module: the class of the module, as `package.module.Class`; None if it wasn't given.
        shapes: for each input its sizes and, before a colon, its dtype: `1,3,32,32`, `int64:1,16`.

    Raises:
        UserError: the file is of another kind, or needs a module or shapes that weren't given; says what to write.
    """
    kind = _kind(path)
    wanted = f"{path}: a model file must be a Python file, named *.py, and this is {kind}"
    if path.suffix in _OTHERS:
        raise UserError(f"{wanted}: bring the PyTorch module that it was made of: docs/models.md")
    if not path.exists():
        raise UserError(f"{path}: there is no such file: check the path")
    if module and "." not in module:
        raise UserError(f"--module {module}: put the name of its file or package before it, such as net.{module}")
    if kind.startswith("a TorchScript"):
        saved = f"torch.save(torch.jit.load({path.name!r}).state_dict(), {path.stem + '_weights.pt'!r})"
        raise UserError(f"{wanted}: save its weights where you trust it, {saved}, and give those: docs/models.md")
    body, needs_module = _body(path, module)
    if body is None:
        raise UserError(f"{wanted}; docs/models.md says what to write into one")
    architecture = _architecture(path)
    if _is_exported(path):
        inputs = (
            f"arguments, keywords = torch.export.load({path.name!r}).example_inputs\n    return arguments or keywords"
        )
    else:
        takes_ids = architecture and "vocab_size" in (path / "config.json").read_text(encoding="utf-8")
        tensors = ", ".join(_input(shape) for shape in shapes or ["int64:1,16" if takes_ids else "1,3,32,32"])
        inputs = f"return ({tensors},)" + ("" if shapes else "  # what one call takes")
    missing = ["--module PACKAGE.CLASS"] * needs_module + ["--shape SIZES"] * (not shapes and not _is_exported(path))
    head = _LOAD_FILE if path.suffix == ".safetensors" else "import torch\n"
    text = f"{head}\n\ndef model():\n{body}\n\n\ndef example_inputs():\n    {inputs}\n"
    if not missing and not architecture:
        return text
    shown = textwrap.indent(text.replace("\n\n\n", "\n"), "  ")
    given = f"Give {' and '.join(missing)} for a model file around it, or write {path.stem}.py beside it, with\n"
    end = "and give that: docs/models.md"
    if architecture:
        given = f"Write {path.name}.py beside it, with\n"
        end = "for a torch_program with the folder's files in data and the package transformers in deps: docs/models.md"
    raise UserError(f"{wanted}. {given}{shown}{end}")


def _input(shape: str) -> str:
    # Costs seconds, and Python files don't need it.
    import torch

    match = _SHAPE.fullmatch(shape)
    if match is None or not isinstance(getattr(torch, match["dtype"] or "float32", None), torch.dtype):
        raise UserError(
            f"--shape {shape}: give sizes such as 1,3,32,32, with a dtype before it if it isn't float32: int64:1,16"
        )
    sizes, dtype = match["sizes"].replace(",", ", "), match["dtype"] or "float32"
    return f"torch.randn({sizes})" if dtype == "float32" else f"torch.zeros({sizes}, dtype=torch.{dtype})"


def _kind(path: Path) -> str:
    if not path.is_file():
        if architecture := _architecture(path):
            return f"a folder of Hugging Face's transformers, of {architecture}"
        return "a folder"
    if path.suffix == ".ipynb":
        return "a notebook, whose cells a .py file can have"
    if path.suffix in _OTHERS:
        return f"a model of {_OTHERS[path.suffix]}"
    if _is_exported(path):
        return "a program that torch.export.save() wrote"
    if any(name.endswith("constants.pkl") for name in _members(path)):
        return "a TorchScript module, and loading it runs any code that is in it"
    foreign = _foreign(path)
    if foreign:
        return f"a pickled module, of {foreign}, and loading it runs any code that is in it"
    if foreign is None and path.suffix != ".safetensors":
        return "nothing that PyTorch saved"
    return "a state dict, the weights of a module alone"


def _architecture(path: Path) -> str:
    """Returns the class that the config.json of a folder of transformers names; empty if there is none."""
    try:
        names = json.loads((path / "config.json").read_text(encoding="utf-8"))["architectures"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    name = names[0] if isinstance(names, list) and names else ""
    return name if isinstance(name, str) and name.isidentifier() else ""


def _body(path: Path, module: str | None) -> tuple[str | None, bool]:
    """Returns the lines of model() for a file, None if none are known, and whether they lack the module's class."""
    name = repr(path.name)
    if _is_exported(path):
        return f"    return torch.export.load({name}).module()", False
    if architecture := _architecture(path):
        load = f"{architecture}.from_pretrained(pathlib.Path(__file__).with_name({name}))"
        return f"    import pathlib\n    from transformers import {architecture}\n\n    return {load}.eval()", False
    package, _, kind = (module or "").rpartition(".")
    origin = f"    from {package} import {kind}\n\n" if package else ""
    made = f"{kind}()" if module else "Net()"
    yours = "" if module else "  # your class"
    if path.suffix == ".safetensors" and path.is_file():
        load = f"load_file({name})"
    else:
        foreign = _foreign(path)
        if foreign is None:
            return None, True
        if foreign:
            package, _, kind = foreign.rpartition(".")
            imported = (
                f"from {package} import {kind}  # noqa: F401" if package != "__main__" else f"# with the class {kind}"
            )
            return f"    {imported}\n\n    return torch.load({name}, weights_only=False).eval()", module != foreign
        load = _weights(path)
    return (
        f"{origin}    module = {made}{yours}\n    module.load_state_dict({load})\n    return module.eval()",
        not module,
    )


def _weights(path: Path) -> str:
    """Returns the expression that loads the state dict of a checkpoint, which may be stored with an optimizer's."""
    # Costs seconds, and Python files don't need it.
    import torch

    load = f"torch.load({path.name!r})"

    def is_state_dict(value: object) -> bool:
        return (
            isinstance(value, Mapping)
            and bool(value)
            and all(isinstance(each, torch.Tensor) for each in value.values())
        )

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:
        # A message about a damaged file is the model file's, which names its line.
        return load
    if isinstance(found, Mapping) and not is_state_dict(found):
        key = next((key for key, value in found.items() if is_state_dict(value)), None)
        if key is not None:
            load, found = f"{load}[{key!r}]", found[key]
    if is_state_dict(found) and all(str(name).startswith("module.") for name in found):
        # DataParallel adds it.
        return f'{{name.removeprefix("module."): value for name, value in {load}.items()}}'
    return load


def _members(path: Path) -> list[str]:
    if not path.is_file() or not zipfile.is_zipfile(path):
        return []
    with _opened(path) as archive:
        return archive.namelist()


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    with reading("archive that PyTorch wrote", path, "save it again"), zipfile.ZipFile(path) as archive:
        yield archive


def _is_exported(path: Path) -> bool:
    return any(name.endswith(("serialized_exported_program.json", "models/model.json")) for name in _members(path))


def _foreign(path: Path) -> str | None:
    """Returns the first class in a pickle that no state dict has, empty if there is none; None if it isn't a pickle."""
    pickles = [name for name in _members(path) if name.endswith("/data.pkl")]
    if pickles:
        with _opened(path) as archive:
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
    # They become a line of Python.
    if not all(part.isidentifier() for name in found for part in name.split(".")):
        return None
    return next((name for name in found if name.rpartition(".")[0] not in _OF_TENSORS), "")
