"""Describes the model that is compiled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.pipeline.compile.program import Method
from tools.pipeline.registry.registry import Selected

# The beginning of each function on an instance.
UNLESS_READY = ["  if (model == nullptr || model->ready != kReady) {", "    return TORCH_FUSION_INVALID_STATE;", "  }"]


@dataclass(frozen=True)
class Model:
    """A method that becomes C++.

    Attributes:
        name: a C identifier: prefix of the functions, and the namespace.
        core: the core that it is for, or `host` for another processor.
        lowered: the core whose layout the program's layers have, or `portable`.
        keeps_state: whether an inference depends on earlier ones.
        method: its values.
        kernels: the kernel of each operator, with the variants that programs use.
        bounds: the smallest and largest size of each dimension of inputs with dynamic shapes, where known.
    """

    name: str
    core: str
    lowered: str
    keeps_state: bool
    method: Method
    kernels: Mapping[str, Selected]
    bounds: Sequence[Sequence[tuple[int, int]]] = ()
