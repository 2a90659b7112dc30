"""Chooses ranges of tensors that are expected to leave the least noise on inputs beyond calibration.

Numbers beyond a tensor's range are clipped, but a wider range has a coarser scale. The module tries several methods:
`min_max`, the observed range, widened by what more samples are expected to show; `percentile`, without the few
outermost numbers; `mse`, with the smallest square error. For each tensor it takes the method whose ranges, chosen on
most of the samples, leave the least noise on the others.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import HistogramObserver
from torchao.quantization.pt2e.observer import UniformQuantizationObserverBase
from torchao.quantization.pt2e.quantizer import QuantizationSpec

from tools.pipeline.export.quantize.annotations import specify
from tools.pipeline.export.quantize.nodes import attribute, bounds, by_layer, is_product, keeps_bounds
from tools.pipeline.export.quantize.quantizer import Quantizers

AUTO, MIN_MAX, PERCENTILE, MSE = METHODS = ("auto", "min_max", "percentile", "mse")

# The range of a single sample is widened to what this number of samples would show.
_SAMPLES = 100
# The largest ratio of a range to the observed one: samples may have been chosen for their extremes.
_WIDEST = 2
# The ratio of 16-bit ranges to the observed ones.
_ROOM = 4
# The share of samples with the largest numbers that determines the tail of their distribution.
_TOP = 8
# Stays a quarter of an integer inside bounds on both sides of zero.
_INSIDE_BOUNDS = 1 - 1 / 512
# The number of cross-validation folds, and the smallest number of samples for them.
_FOLDS = 8
_LEAST_SAMPLES = 4
# The bins of a histogram on either side of zero.
_BINS = 2048
# The significant bits of a range's ends.
_BITS = 10
# The share of numbers outside of a percentile range.
_OUTSIDE = 1e-4
# The ratios to the observed range that `mse` tries for either end.
_NEARER = numpy.linspace(1, 0.25, 25)
# The share of min_max's noise that another method must stay below.
_LEAST_GAIN = 0.8
# The share of the folds in which another method must be better and clip numbers: the cost of rare numbers that only
# some samples have can't be estimated from few folds.
_AGREED = 0.75

# The scale of tensors and weights that are all zero.
_SCALE_OF_ZEROS = torch.finfo(torch.float32).eps

# Activations whose results have an upper bound.
_CUT_OFF = tuple(getattr(torch.ops.aten, name).default for name in ("hardtanh", "clamp", "hardsigmoid"))

_Range = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Methods:
    """The methods by which the ranges of a model's tensors are chosen.

    Attributes:
      method: one of METHODS.
      by_layer: maps module names, which include all modules inside, to methods for their results; the longest name
        wins.
    """

    method: str = AUTO
    by_layer: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def of(self, node: Node) -> str:
        """Returns the method for a node's result."""
        return by_layer(node, self.by_layer, self.method)


class _Histogram:
    """Counts numbers in bins of equal width, a power of two, which doubles when a number exceeds the last bin.

    Attributes:
      counts: [fold, bin]; the bins from _BINS on count positive numbers.
      zeros: the number of zeros per fold, which any range represents exactly; `counts` includes them.
    """

    def __init__(self) -> None:
        self._width = 0.0
        self.counts = numpy.zeros((_FOLDS, 2 * _BINS))
        self.zeros = numpy.zeros(_FOLDS)

    def see(self, numbers: numpy.ndarray, largest: float, fold: int) -> None:
        """Counts numbers.

        Args:
          largest: their largest absolute value.
        """
        if largest:
            needed = math.ldexp(1.0, max(math.frexp(largest)[1] - 11, -1000))
            self._width = self._width or needed
            while self._width < needed:
                pairs = self.counts.reshape(_FOLDS, -1, 2).sum(2)
                self.counts[:] = 0
                self.counts[:, _BINS // 2 : _BINS + _BINS // 2] = pairs
                self._width *= 2
        places = numpy.floor(numbers * (1 / (self._width or 1.0))).astype(numpy.int64) + _BINS
        self.counts[fold] += numpy.bincount(places.clip(0, 2 * _BINS - 1), minlength=2 * _BINS)
        self.zeros[fold] += numbers.size - numpy.count_nonzero(numbers)

    def select(self, folds: list[int]) -> _Numbers:
        """Returns the numbers of some folds."""
        centers = (numpy.arange(-_BINS, _BINS) + 0.5) * (self._width or 1.0)
        return _Numbers(centers, self.counts[folds].sum(0), float(self.zeros[folds].sum()))


class _Numbers:
    """Numbers that are known by their histogram.

    Args:
      centers: the centers of the bins.
      counts: the counts of the bins.
      zeros: the number of zeros.
    """

    def __init__(self, centers: numpy.ndarray, counts: numpy.ndarray, zeros: float) -> None:
        self._centers = centers
        self._counts = counts
        self._others = float(counts.sum()) - zeros
        moments = numpy.stack([counts, counts * centers, counts * centers**2])
        # Sums over all bins before each one.
        self._below = numpy.concatenate([numpy.zeros((3, 1)), moments.cumsum(1)], 1)

    def noise(self, low: Any, high: Any) -> Any:
        """Returns the sum of squared errors of ranges: of rounding inside, and of clipping outside."""
        low, high = numpy.asarray(low, float), numpy.asarray(high, float)
        count, total, squares = self._below[:, numpy.searchsorted(self._centers, low)]
        below = squares - 2 * low * total + low**2 * count
        up_to = self._below[:, numpy.searchsorted(self._centers, high, "right")]
        more, total, squares = self._below[:, -1].reshape(3, *[1] * low.ndim) - up_to
        above = squares - 2 * high * total + high**2 * more
        inside = numpy.maximum(self._others - count - more, 0)
        return numpy.maximum(below, 0) + numpy.maximum(above, 0) + inside * ((high - low) / 255) ** 2 / 12

    def outside(self, low: float, high: float) -> float:
        """Returns the number of values outside of a range."""
        sums = self._below[0]
        within = sums[numpy.searchsorted(self._centers, high, "right")] - sums[numpy.searchsorted(self._centers, low)]
        return float(sums[-1] - within)

    def percentile(self, seen: _Range) -> _Range:
        """Returns the range without the outermost share _OUTSIDE of the numbers, within the observed range."""
        sums = self._below[0]
        ends = numpy.searchsorted(sums, [sums[-1] * _OUTSIDE / 2, sums[-1] * (1 - _OUTSIDE / 2)])
        low, high = self._centers[numpy.clip(ends - 1, 0, len(self._centers) - 1)]
        return max(seen[0], min(float(low), 0.0)), min(seen[1], max(float(high), 0.0))

    def least_squares(self, seen: _Range) -> _Range:
        """Returns the range with the smallest square error, within the observed range."""
        lows, highs = (end * _NEARER if end else numpy.zeros(1) for end in seen)
        pairs = numpy.meshgrid(lows, highs, indexing="ij")
        place = numpy.unravel_index(self.noise(*pairs).argmin(), pairs[0].shape)
        return float(pairs[0][place]), float(pairs[1][place])


class RangeObserver(UniformQuantizationObserverBase):
    """Keeps a histogram of the observed numbers, and chooses a range.

    For min_max, the maxima of the samples are assumed to have a Gumbel distribution, as maxima of many normally
    distributed numbers approximately do; the same goes for minima. Of N numbers, one exceeds a range that ends d beyond
    the observed maximum with a probability of about exp(-d / b) / N, by b on average, where b is the scale of the
    distribution's tail. The chosen d minimizes the noise of clipping and rounding together. A tensor whose extremes are
    the same in each sample keeps its range. The range of a single sample with n numbers, which are assumed to be
    normally distributed, is widened by sqrt(1 + ln 100 / ln n).

    Attributes:
      method: how the range is chosen, one of METHODS.
      bounds: known bounds of the tensor, from bounds(); without them the range is not widened.
      tensors: the number of observed tensors per sample.
      count: the number of observed values.
      least: the smallest scale that the layers which read the tensor can handle.
      is_averaged: whether an average pooling reads the tensor.
      is_cut_off: whether the range must end at the activation's bound, because int8 saturation computes the activation.
      group: observers that must have the same parameters, those of their joint range; empty if the observer is alone.
      min_val, max_val: the observed range.
    """

    min_val: Tensor
    max_val: Tensor

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.register_buffer("min_val", torch.tensor(math.inf))
        self.register_buffer("max_val", torch.tensor(-math.inf))
        self.method = AUTO
        self.bounds: _Range = (math.inf, -math.inf)
        self.tensors = 0
        self.count = 0
        self.least = 0.0
        self.is_averaged = False
        self.is_cut_off = False
        self.group: tuple[RangeObserver, ...] = ()
        self._extremes: list[_Range] = []
        self._sizes: list[int] = []
        self._histogram = _Histogram()
        # The parameters, with the count that they belong to.
        self._own: tuple[int, tuple[Tensor, Tensor]] | None = None

    def forward(self, x_orig: Tensor) -> Tensor:
        """Observes a tensor, and returns it."""
        # Calibration refuses what is not finite after the sample.
        if x_orig.numel() and bool(torch.isfinite(x_orig).all()):
            low, high = (float(end) for end in x_orig.aminmax())
            fold = len(self._extremes) // max(self.tensors, 1) % _FOLDS
            self._extremes.append((low, high))
            self._sizes.append(x_orig.numel())
            self.count += x_orig.numel()
            self.min_val, self.max_val = (
                torch.tensor(end) for end in (min(low, float(self.min_val)), max(high, float(self.max_val)))
            )
            self._histogram.see(x_orig.detach().float().flatten().numpy(), max(high, -low), fold)
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Returns scale and zero point of the range, or of the joint range of the group."""
        if self.group:
            lows, highs = zip(*(observer.own_range() for observer in self.group), strict=True)
            scale, zero_point = self._qparams(min(lows), max(highs), max(observer.least for observer in self.group))
        else:
            scale, zero_point = self._own_qparams()
        together = self.group or (self,)
        # Means of integers are exact then, and average pooling (kernels/cortex_m/pool.cpp) has less to do.
        is_short = any(each.is_averaged for each in together) and not any(each.is_cut_off for each in together)
        return (_shortened(scale, 8) if is_short else scale), zero_point

    def own_range(self) -> _Range:
        """Returns the range of the integers with the observer's own parameters."""
        scale, zero_point = self._own_qparams()
        low, high = (float((limit - zero_point) * scale) for limit in (self.quant_min, self.quant_max))
        return low, high

    def _own_qparams(self) -> tuple[Tensor, Tensor]:
        if self._own is None or self._own[0] != self.count:
            low, high = self._rounded(*self._choose())
            self._own = self.count, self._qparams(low, high, self.least)
        return self._own[1]

    def _rounded(self, low: float, high: float) -> _Range:
        """Rounds the ends of a range outwards to a few significant bits, and keeps it within known bounds.

        Sums are rounded differently on different machines: the last bits of what is observed must not matter.
        """
        low, high = (math.copysign(float(_shortened(torch.tensor(abs(end)), _BITS)), end) for end in (low, high))
        least, largest = self.bounds
        if least > largest:
            return low, high
        if -math.inf < least < 0 < largest < math.inf:
            # The zero point is rounded. With both bounds in the range, one might have no integer, and int8 saturation
            # would not compute an activation between them.
            least, largest = least * _INSIDE_BOUNDS, largest * _INSIDE_BOUNDS
        return max(low, least), min(high, largest)

    def _qparams(self, low: float, high: float, least: float) -> tuple[Tensor, Tensor]:
        # Activations of untrained networks fade from layer to layer, down to ranges far below the usual minimum of
        # observers. That minimum is only used for zeros, which have no range.
        smallest = max(least, torch.finfo(torch.float32).tiny) if low < high else _SCALE_OF_ZEROS
        self.eps = torch.tensor([smallest])
        return self._calculate_qparams(torch.tensor(low), torch.tensor(high))

    def _choose(self) -> _Range:
        samples = len(self._extremes) // max(self.tensors, 1)
        everything = list(range(len(self._extremes)))
        if not samples:
            return math.inf, -math.inf
        if self.quant_max - self.quant_min > 2 * _BINS:
            return self._with_room(everything)
        if self.method != AUTO:
            return self._ways()[self.method](everything, list(range(_FOLDS)))
        if samples < _LEAST_SAMPLES:
            return self._widened(everything)
        folds = list(range(min(samples, _FOLDS)))
        noise: dict[str, list[float]] = {way: [] for way in self._ways()}
        # The number of folds that show what a method clips.
        shown = dict.fromkeys(noise, 0)
        for fold in folds:
            others = [each for each in folds if each != fold]
            seen = [index for index in everything if index // max(self.tensors, 1) % _FOLDS != fold]
            held_out = self._histogram.select([fold])
            for way, range_of in self._ways().items():
                chosen = range_of(seen, others)
                noise[way].append(float(held_out.noise(*chosen)))
                shown[way] += bool(held_out.outside(*chosen))
        usual = numpy.array(noise[MIN_MAX])
        means = {
            way: numpy.mean(each)
            for way, each in noise.items()
            if shown[way] >= _AGREED * len(folds) and (each < usual).mean() >= _AGREED
        }
        best = min(means, key=lambda way: means[way], default=MIN_MAX)
        if best != MIN_MAX and means[best] > _LEAST_GAIN * usual.mean():
            best = MIN_MAX
        return self._ways()[best](everything, folds)

    def _ways(self) -> dict[str, Callable[[list[int], list[int]], _Range]]:
        """Returns functions that choose a range from observed tensors and from the numbers of some folds."""
        return {
            MIN_MAX: lambda indices, folds: self._widened(indices),
            PERCENTILE: lambda indices, folds: self._histogram.select(folds).percentile(self._seen(indices)),
            MSE: lambda indices, folds: self._histogram.select(folds).least_squares(self._seen(indices)),
        }

    def _seen(self, indices: list[int]) -> _Range:
        lows, highs = zip(*(self._extremes[index] for index in indices), strict=True)
        return min(0.0, *lows), max(0.0, *highs)

    def _with_room(self, indices: list[int]) -> _Range:
        """Returns a multiple of the observed range: 16 bits have a resolution finer than the histogram's."""
        low, high = self._seen(indices)
        if self.bounds[0] > self.bounds[1]:
            return low, high
        return max(_ROOM * low, min(low, self.bounds[0])), min(_ROOM * high, max(high, self.bounds[1]))

    def _further(self, scale: float, count: int, width: float) -> float:
        """Returns how far a range should end beyond the observed maximum, for the least expected noise.

        Args:
          scale: the scale of the distribution's tail: the growth of the maximum with e times as many numbers.
          count: the number of observed values.
          width: the width of the range.
        """
        rounding = 1 / (12 * (self.quant_max - self.quant_min) ** 2)
        distance = 0.0
        for _ in range(4):
            more = scale / (count * rounding * (width + distance)) if scale else 1.0
            distance = min(scale * math.log(max(more, 1.0)), width * (_WIDEST - 1) / 2)
        return distance

    def _widened(self, indices: list[int]) -> _Range:
        """Returns the observed range, widened for the least noise on other samples."""
        low, high = self._seen(indices)
        tensors = max(self.tensors, 1)
        samples = len(indices) // tensors
        if not samples or self.bounds[0] > self.bounds[1]:
            return low, high
        if samples < 2:
            factor = math.sqrt(1 + math.log(_SAMPLES) / math.log(max(self.count / tensors, 3)))
            lows, highs = [low * min(factor, _WIDEST)], [high * min(factor, _WIDEST)]
        else:
            lows, highs = [low], [high]
            for tensor in range(tensors):
                chosen = indices[tensor::tensors]
                smallest, largest = zip(*(self._extremes[index] for index in chosen), strict=True)
                count = sum(self._sizes[index] for index in chosen)
                downwards = [-end for end in smallest]
                lows.append(min(smallest) - self._further(_scale(downwards), count, high - low))
                highs.append(max(largest) + self._further(_scale(largest), count, high - low))
        wide = max(min(lows), self.bounds[0]), min(max(highs), self.bounds[1])
        step = (high - low) / (self.quant_max - self.quant_min)
        # The zero point is rounded; an activation that is fused into its layer ends at the observed maximum.
        return (
            (low, high) if wide[0] > low - step and wide[1] < high + step else (min(wide[0], low), max(wide[1], high))
        )


def _shortened(value: Tensor, bits: int) -> Tensor:
    """Rounds a positive number up to significant bits."""
    mantissa, exponent = torch.frexp(value)
    return torch.ldexp(torch.ceil(torch.ldexp(mantissa, torch.tensor(bits))), exponent - bits)


def _scale(largest: Sequence[float]) -> float:
    """Returns the scale of the tail of the Gumbel distribution that samples' maxima have."""
    scale = statistics.stdev(largest) * math.sqrt(6) / math.pi
    top = len(largest) // _TOP
    if top < 2:
        return scale
    # There are enough samples to use the tail only: that of a bounded distribution is short.
    descending = sorted(largest, reverse=True)
    return min(scale, statistics.fmean(descending[:top]) - descending[top])


class RangeQuantizers(Quantizers):
    """Quantizers whose observers choose ranges."""

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotates as ExecuTorch's quantizer does."""
        return with_ranges(super().annotate(model))


def with_ranges(annotated: GraphModule) -> GraphModule:
    """Replaces the histogram observers of annotations by RangeObserver, and returns the module."""
    return specify(annotated, _observed)


def _observed(spec: Any) -> Any:
    if not isinstance(spec, QuantizationSpec):
        return spec
    made = spec.observer_or_fake_quant_ctr
    # An observer with arguments is a partial function.
    kind = getattr(getattr(made, "p", None), "func", made)
    return dataclasses.replace(spec, observer_or_fake_quant_ctr=RangeObserver) if kind is HistogramObserver else spec


def _least_scale(prepared: GraphModule, layer: Node) -> float:
    """Returns a layer's smallest input scale at which its biases, in the scale of its products, are below 2**30."""
    weight, bias = (_parameter(prepared, argument) for argument in [*layer.args, None][1:3])
    if weight is None or bias is None:
        return 0.0
    largest = weight.detach().abs()
    channel = 1 if layer.target == torch.ops.aten.conv_transpose2d.input else 0
    per_channel = largest.movedim(channel, 0).flatten(1).amax(1)
    if per_channel.shape != bias.shape or layer.target == torch.ops.aten.linear.default:
        per_channel = largest.max().expand_as(bias)
    scales = (per_channel.double() / 127).clamp(min=_SCALE_OF_ZEROS)
    return float((bias.detach().double().abs() / scales).max()) / 2**30


def _parameter(prepared: GraphModule, argument: Any) -> Tensor | None:
    """Returns the tensor of a constant argument, looking through observers; None if it is computed."""
    while isinstance(argument, Node) and argument.op == "call_module":
        argument = argument.args[0]
    is_constant = isinstance(argument, Node) and argument.op == "get_attr"
    return attribute(prepared, str(argument.target)) if is_constant else None


def prepare_observers(prepared: GraphModule, methods: Methods, least: float = 0.0) -> None:
    """Configures the observers of a module before calibration.

    Args:
      least: the smallest scale that any tensor can have.
    """
    for node in prepared.graph.nodes:
        observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        if not isinstance(observer, RangeObserver):
            continue
        observer.tensors += 1
        (observed,) = node.all_input_nodes
        layers = [user for user in node.users if is_product(user) and user.args[0] is node]
        observer.is_averaged |= any(user.target == torch.ops.aten.avg_pool2d.default for user in node.users)
        observer.is_cut_off |= observed.target in _CUT_OFF
        observer.least = max([observer.least, least, *(_least_scale(prepared, layer) for layer in layers)])
        # If several tensors share a range, the last one with a named layer wins.
        method = methods.of(observed)
        if observer.tensors == 1 or method != methods.method:
            observer.method = method
        if not keeps_bounds(observed):
            low, high = bounds(observed)
            observer.bounds = (min(observer.bounds[0], low), max(observer.bounds[1], high))
