"""What is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.pipeline.compile.program import Method
from tools.pipeline.registry.registry import Selected

# At the beginning of a function of an instance.
UNLESS_READY = [
    "  if (model == nullptr || model->ready != kReady) {",
    "    return TORCH_FUSION_INVALID_STATE;",
    "  }",
]


@dataclass(frozen=True)
class Model:
    """A method that is to be C++.

    Attributes:
        name: a C identifier: prefix of the functions, and the namespace.
        core: the core that it is for, `host` for another processor.
        lowered: the core that the program's layers are laid out for, or `portable`.
        keeps_state: whether an inference depends on earlier ones.
        method: its values.
        kernels: of each operator its kernel, with what programs use of it.
        bounds: of each input of dynamic shape the smallest and largest size of each dimension, as far as that is known.
    """

    name: str
    core: str
    lowered: str
    keeps_state: bool
    method: Method
    kernels: Mapping[str, Selected]
    bounds: Sequence[Sequence[tuple[int, int]]] = ()
