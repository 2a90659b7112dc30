"""Ranges of tensors that few samples were seen of, wider than what was seen."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torchao.quantization.pt2e import HistogramObserver
from torchao.quantization.pt2e.quantizer import QuantizationSpec
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from tools.pipeline.export.cortex_m.functions import Quantizers, bounds, keeps_bounds

# As if so many times as many numbers had been seen.
_FURTHER = 10


class WideningObserver(HistogramObserver):
    """A histogram of what is seen, whose range is larger than that by what more samples are expected to show.

    The largest of n numbers of a normal distribution is about sqrt(2 ln n) standard deviations away, so the range of n
    numbers is widened by sqrt(ln 10 n / ln n): by 1.27 for 40 numbers, and by 1.09 for 100,000.

    Attributes:
      bounds: what the tensor can't be beyond, as bounds() has it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.bounds: tuple[float, float] = (math.inf, -math.inf)
        self._count = 0

    def forward(self, x_orig: Tensor) -> Tensor:
        """Sees a tensor, and returns it."""
        self._count += x_orig.numel()
        return super().forward(x_orig)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point of the widened range."""
        scale, zero_point = super().calculate_qparams()
        factor = math.sqrt(1 + math.log(_FURTHER) / math.log(max(self._count, 3)))
        seen = [float((limit - zero_point) * scale) for limit in (self.quant_min, self.quant_max)]
        low = max(seen[0] * factor, min(seen[0], self.bounds[0]))
        high = min(seen[1] * factor, max(seen[1], self.bounds[1]))
        return self._calculate_qparams(torch.tensor(low), torch.tensor(high))


class WideningQuantizers(Quantizers):
    """Quantizers whose histograms widen what they see."""

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotates, as ExecuTorch's quantizer does."""
        annotated = super().annotate(model)
        for node in annotated.graph.nodes:
            annotation = node.meta.get(Q_ANNOTATION_KEY)
            if annotation is not None:
                operands = annotation.input_qspec_map
                annotation.input_qspec_map = {operand: _widening(spec) for operand, spec in operands.items()}
                annotation.output_qspec = _widening(annotation.output_qspec)
        return annotated


def _widening(spec: Any) -> Any:
    if isinstance(spec, QuantizationSpec) and spec.observer_or_fake_quant_ctr is HistogramObserver:
        return dataclasses.replace(spec, observer_or_fake_quant_ctr=WideningObserver)
    return spec


def note_bounds(prepared: GraphModule) -> None:
    """Tells the observers of a module that is to be calibrated what their tensors can't be beyond."""
    for node in prepared.graph.nodes:
        observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        if not isinstance(observer, WideningObserver):
            continue
        (observed,) = node.all_input_nodes
        if not keeps_bounds(observed):
            low, high = bounds(observed)
            observer.bounds = (min(observer.bounds[0], low), max(observer.bounds[1], high))
