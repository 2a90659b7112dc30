"""Holds the options of an export."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.document.document import from_json
from tools.artifacts.ethos_u.npu import Npu, read_npu
from tools.quiet.files import reading

# rules/torch_program.bzl writes it.
FORMAT, VERSION = "options of an export", 1
_ADVICE = "pass the options.json of a torch_program"


@dataclass(frozen=True)
class Options:
    """The options of an export.

    Attributes:
      core: the core that the program is for, or `portable` for any core.
      backend: how the program computes: `portable` uses kernels of ExecuTorch's operator set in the model's own dtypes;
        `cortex_m` quantizes the model to int8; `ethos_u` quantizes it for the NPU; `vgf` uses Vulkan on the host.
      io: the dtype of a quantized program's inputs and outputs: `float32`, `int8`, or with `ethos_u` `int16`, which
        makes all activations 16 bits wide.
      packed: whether a quantized program's layers become this project's own operators, with constants in the layout of
        their kernels. If false, it consists of ExecuTorch's `cortex_m::` operators.
      float_where_faster: whether operators of a packed program with floating-point inputs and outputs stay in floating
        point where they take fewer instructions and are no larger.
      float_growth: the bytes of program and memory by which such a program may grow to be all in floating point, if
        that takes fewer instructions. With 0, only memory may grow, by a few bytes.
      keep_float: the names of modules that stay in floating point when the model is quantized.
      min_snr: the lowest signal-to-noise ratio of an int8 program's outputs, in dB; 0 demands none.
      min_accuracy: the share of evaluation samples that an int8 program must classify correctly; 0 demands none.
      weight_dtype: the weight dtype of linear layers and 1x1 convolutions, with backend `cortex_m`: `int8`, `int4`, or
        `auto`: int4 where the outputs still have min_snr.
      weight_dtypes: maps names of modules to the dtypes of the weights inside them, `int8` or `int4`.
      group_size: the number of inputs that share a scale of int4 weights, 32; 0: all inputs of an output channel do.
      activation_range: how the ranges of int8 tensors are chosen, with backend `cortex_m`: one of ranges.METHODS.
      activation_ranges: maps names of modules to how the ranges of the tensors inside them are chosen.
      operators: the user's own operators that have a kernel, `namespace::name`.
      folders: the folders that the model file imports from, besides its own folder and the workspace.
      methods: the methods of the module, besides forward(), that the program has.
      npu: the board's NPU, with backend `ethos_u`.
      entry: the name of the model in a file that describes several; empty if it describes one.
    """

    core: str = "portable"
    backend: str = "portable"
    io: str = "float32"
    packed: bool = True
    float_where_faster: bool = False
    float_growth: int = 0
    keep_float: tuple[str, ...] = ()
    min_snr: int = 0
    min_accuracy: float = 0.0
    weight_dtype: str = "int8"
    weight_dtypes: tuple[tuple[str, str], ...] = ()
    group_size: int = 32
    activation_range: str = "auto"
    activation_ranges: tuple[tuple[str, str], ...] = ()
    operators: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    methods: tuple[str, ...] = ()
    npu: Npu | None = None
    entry: str = ""


def read_options(path: Path | None, folders: Iterable[Path] = (), npu: Path | None = None) -> Options:
    """Reads the record of a torch_program's options, which the rule has checked.

    Args:
      path: the record, whose fields are those of Options; None if all have their defaults.
      folders: Options.folders.
      npu: the description of the board's NPU.

    Raises:
      UserError: a file is missing, something else, or of another version.
    """
    content = from_json(path, FORMAT, VERSION, _ADVICE) if path else {}
    with reading(FORMAT, path or Path(), _ADVICE):
        fields = {name: value for name, value in content.items() if name not in ("format", "version")}
        for name in ("keep_float", "methods", "operators"):
            fields[name] = tuple(fields.get(name, ()))
        for name in ("activation_ranges", "weight_dtypes"):
            fields[name] = tuple(fields.get(name, {}).items())
        fields["min_accuracy"] = float(fields.get("min_accuracy") or 0)
        return Options(**fields, folders=tuple(folders), npu=read_npu(npu) if npu else None)
