"""What a program is exported to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.ethos_u.npu import Npu


@dataclass(frozen=True)
class Options:
    """What a program is exported to.

    Attributes:
      core: the core that the program is for, `portable` if any.
      backend: what computes: `portable`, kernels of ExecuTorch's operator set in the model's own dtypes; `cortex_m`,
        which quantizes the model to int8; `ethos_u`, which quantizes it for the NPU; `vgf`, Vulkan on the host.
      io: dtype of a quantized program's inputs and outputs, `float32`, `int8`, or with `ethos_u` `int16`, with which
        all activations have 16 bits.
      packed: whether a quantized program's layers become this project's own operators, with constants in the layout of
        their kernels; without, it consists of ExecuTorch's `cortex_m::` operators.
      float_where_faster: whether operators of a packed program with inputs and outputs in floating point stay there
        where they take fewer instructions and are no larger.
      float_growth: bytes of program and memory that such a program may take more for being all in floating point,
        where that takes fewer instructions; 0: it may take no more of either.
      winograd_growth: bytes of memory that a packed program for a core with the DSP extension may take more for
        convolutions with fewer multiplications.
      keep_float: names of modules of a model that is quantized which stay in floating point.
      min_snr: what the outputs of an int8 program must have of signal-to-noise ratio, in dB; 0: nothing is demanded.
      min_accuracy: the share of evaluation samples that an int8 program must classify right; 0: nothing is demanded.
      weight_dtype: of the weights of linear layers and convolutions of one by one, with backend `cortex_m`: `int8`,
        `int4`, or `auto`: int4 where the outputs still have min_snr.
      weight_dtypes: names of modules and the dtypes of the weights inside them, `int8` or `int4`.
      group_size: how many inputs share a scale of int4 weights, 32; 0: all of an output channel do.
      activation_range: how the ranges of int8 tensors are chosen, with backend `cortex_m`: one of ranges.METHODS.
      activation_ranges: names of modules and how the ranges of what is computed inside them are chosen.
      operators: operators of the user's own that have a kernel, `namespace::name`.
      folders: what the model file imports from, besides its own folder and the workspace.
      methods: methods of the module besides forward(), which the program has too.
      npu: the board's NPU, with backend `ethos_u`.
      entry: which of the models that the file describes; empty: it describes one.
    """

    core: str = "portable"
    backend: str = "portable"
    io: str = "float32"
    packed: bool = True
    float_where_faster: bool = False
    float_growth: int = 0
    winograd_growth: int = 0
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
