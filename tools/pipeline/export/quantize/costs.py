"""Estimates the instructions of operators in int8 and in floating point.

They follow from an operator's shapes and from costs.json: instructions per call, per output and per product, which
`bazel run //conformance/networks:costs` measures with the kernels of the checkout on an emulated Cortex-M4, and on a
Cortex-M55 for cores with vectors. A vector instruction there takes two cycles or more, so that floating point, which
has few of them, gains even more than the estimate says.
"""

import json
import operator
from collections.abc import Iterable
from pathlib import Path

from torch.fx import Node

from tools.artifacts.core.core import has_fpu, layout
from tools.pipeline.export.quantize.float_work import Work, work_of_call

_TABLE = Path(__file__).with_name("costs.json")


class Costs:
    """The instructions of operators on a core that has_costs(), from costs.json."""

    def __init__(self, core: str) -> None:
        self._core = core
        self._forms: dict[str, dict[str, list[float]]] = json.loads(_TABLE.read_text(encoding="utf-8"))[layout(core)]

    def int8(self, work: Work | None) -> float:
        """Returns the instructions of an operator in int8."""
        return self._of("int8", None if work is None else work.in_int8(self._core), "table")

    def float32(self, work: Work | None) -> float:
        """Returns the instructions of an operator in floating point."""
        return self._of("float32", None if work is None else work.in_float(), "add")

    def border(self, is_quantized: bool, elements: int, is_in_layer: bool = False) -> float:
        """Returns the instructions that quantize or dequantize a tensor: by an own call, or in that of a layer."""
        amounts = (0 if is_in_layer else 1, elements)
        return self._of("int8", Work("quantize" if is_quantized else "dequantize", amounts), "")

    def _of(self, form: str, work: Work | None, other: str) -> float:
        if work is None:
            return 0.0
        factors = self._forms[form].get(work.kind) or self._forms[form][other]
        return sum(map(operator.mul, factors, work.amounts))


def instructions(nodes: Iterable[Node | None], costs: Costs) -> float:
    """Returns the instructions of the operators of a program in floating point."""
    return sum(costs.float32(work_of_call(node)) for node in nodes if node is not None)


def has_costs(core: str) -> bool:
    """Whether costs.json is valid for a core: it was measured with an FPU, and with DSP instructions or vectors."""
    return has_fpu(core) and layout(core) != "scalar"
