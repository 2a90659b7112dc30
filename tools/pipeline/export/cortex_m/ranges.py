"""Ranges of tensors that few samples were seen of, wider than what was seen."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torchao.quantization.pt2e import HistogramObserver
from torchao.quantization.pt2e.quantizer import QuantizationSpec
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from tools.pipeline.export.cortex_m.functions import Quantizers, bounds, keeps_bounds

# Of so many samples the ranges are taken as they are seen; of fewer they are widened to what so many would show.
_SAMPLES = 100
# No range is more times as wide as what was seen: samples may have been chosen for their extremes.
_WIDEST = 2


class WideningObserver(HistogramObserver):
    """A histogram of what is seen, whose range is larger than that by what more samples are expected to show.

    The largest numbers of the samples are taken to be of a Gumbel distribution, as those of many numbers of a normal
    one nearly are, and the smallest ones likewise: among t times as many samples the largest number is expected to be
    larger by b ln t, where b is sqrt(6) / pi times their standard deviation. A tensor whose extremes are the same in
    each sample keeps its range. Of a single sample with n numbers, taken to be of a normal distribution, the range is
    widened by sqrt(ln t n / ln n).

    Attributes:
      bounds: what the tensor can't be beyond, as bounds() has it; it is not widened without.
      tensors: how many tensors of each sample it sees.
      count: how many numbers it has seen.
      group: observers that give the same parameters, those of the range that has all of theirs; empty: it is alone.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.bounds: tuple[float, float] = (math.inf, -math.inf)
        self.tensors = 0
        self._extremes: list[tuple[float, float]] = []
        self.count = 0
        self.group: tuple[WideningObserver, ...] = ()
        # With the count that it is of.
        self._own_range: tuple[int, tuple[float, float]] | None = None

    def forward(self, x_orig: Tensor) -> Tensor:
        """Sees a tensor, and returns it."""
        if x_orig.numel():
            low, high = x_orig.aminmax()
            self._extremes.append((float(low), float(high)))
            self.count += x_orig.numel()
        return super().forward(x_orig)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point of the widened range, or of that of the group."""
        if not self.group:
            return self._own_qparams()
        lows, highs = zip(*(observer.own_range() for observer in self.group), strict=True)
        return self._calculate_qparams(torch.tensor(min(lows)), torch.tensor(max(highs)))

    def own_range(self) -> tuple[float, float]:
        """What the integers stand for with parameters of its own."""
        # The histogram is searched anew each time, and the members of a group ask one another.
        if self._own_range is None or self._own_range[0] != self.count:
            scale, zero_point = self._own_qparams()
            low, high = (float((limit - zero_point) * scale) for limit in (self.quant_min, self.quant_max))
            self._own_range = self.count, (low, high)
        return self._own_range[1]

    def _own_qparams(self) -> tuple[Tensor, Tensor]:
        scale, zero_point = super().calculate_qparams()
        samples = len(self._extremes) // max(self.tensors, 1)
        if not samples or samples >= _SAMPLES or self.bounds[0] > self.bounds[1]:
            return scale, zero_point
        seen = [float((limit - zero_point) * scale) for limit in (self.quant_min, self.quant_max)]
        low, high = self._widened(seen[0], seen[1], _SAMPLES / samples)
        low, high = max(low, self.bounds[0]), min(high, self.bounds[1])
        if low > seen[0] - scale and high < seen[1] + scale:
            # The zero point is rounded; an activation that is fused into its layer ends at what was seen.
            return scale, zero_point
        return self._calculate_qparams(torch.tensor(low), torch.tensor(high))

    def _widened(self, low: float, high: float, further: float) -> tuple[float, float]:
        """A range that was seen, as `further` times as many samples are expected to have it."""
        tensors = max(self.tensors, 1)
        if len(self._extremes) < 2 * tensors:
            factor = math.sqrt(1 + math.log(further) / math.log(max(self.count / tensors, 3)))
            return low * min(factor, _WIDEST), high * min(factor, _WIDEST)
        growth = math.log(further) * math.sqrt(6) / math.pi
        # The histogram may have chosen a smaller range than what was seen.
        lows, highs, limit = [low], [high], (high - low) * (_WIDEST - 1) / 2
        for tensor in range(tensors):
            smallest, largest = zip(*self._extremes[tensor::tensors], strict=True)
            lows.append(max(low, min(smallest)) - min(limit, growth * statistics.stdev(smallest)))
            highs.append(min(high, max(largest)) + min(limit, growth * statistics.stdev(largest)))
        return min(lows), max(highs)


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
    """Tells the observers of a module that is to be calibrated how many tensors they see, and the bounds of these."""
    for node in prepared.graph.nodes:
        observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        if not isinstance(observer, WideningObserver):
            continue
        observer.tensors += 1
        (observed,) = node.all_input_nodes
        if not keeps_bounds(observed):
            low, high = bounds(observed)
            observer.bounds = (min(observer.bounds[0], low), max(observer.bounds[1], high))
