"""Ranges of tensors."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tools.pipeline.export.options import Options
from tools.pipeline.export.quantize.accuracy import decibels, ratio_text
from tools.pipeline.export.quantize.ranges import AUTO, METHODS, MIN_MAX, MSE, PERCENTILE, RangeObserver
from tools.pipeline.export.testing import Result, export_source, functions, model_source
from tools.quiet.console import UserError


def _observed(samples: list[Tensor], method: str = AUTO, tensors: int = 1) -> RangeObserver:
    observer = RangeObserver(dtype=torch.int8, qscheme=torch.per_tensor_affine, quant_min=-128, quant_max=127)
    observer.tensors, observer.bounds, observer.method = tensors, (-math.inf, math.inf), method
    for sample in samples:
        observer(sample)
    return observer


def _noise(observer: RangeObserver, samples: list[Tensor]) -> float:
    """Returns the mean square error of int8 with an observer's parameters."""
    scale, zero_point = observer.calculate_qparams()
    values = torch.cat([sample.flatten() for sample in samples])
    rounded = torch.fake_quantize_per_tensor_affine(values, float(scale), int(zero_point), -128, 127)
    return float((rounded - values).square().mean())


def _normal(generator: torch.Generator) -> Tensor:
    return torch.randn(1000, generator=generator)


def _laplace(generator: torch.Generator) -> Tensor:
    values = torch.rand(5000, generator=generator) - 0.5
    return -values.sign() * (1 - 2 * values.abs()).clamp(min=1e-9).log()


def _scores(generator: torch.Generator) -> Tensor:
    return (
        torch.randn(10, generator=generator) * torch.tensor([1.0, 8.0])[int(torch.rand(1, generator=generator) > 0.8)]
    )


@pytest.mark.parametrize("draw", [_normal, _laplace, _scores])
def test_unseen_samples_have_less_noise_than_with_the_range_that_was_seen(draw) -> None:
    """Over many draws, as a single one has luck."""
    chosen, seen = 0.0, 0.0
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        samples, others = ([draw(generator) for _ in range(size)] for size in (8, 50))
        chosen += _noise(_observed(samples), others)
        bounded = _observed(samples, MIN_MAX)
        bounded.bounds = (math.inf, -math.inf)
        seen += _noise(bounded, others)
    # Ends of a normal distribution differ less than is taken of the numbers beyond them.
    assert chosen < 1.1 * seen
    if draw is _scores:
        # Eight samples are too few to tell.
        assert chosen < 0.7 * seen


def test_rare_numbers_far_out_are_cut_off_if_that_costs_less_than_steps_that_have_them() -> None:
    def spiked(seed: int, spikes: int = 1) -> Tensor:
        values = torch.randn(200_000, generator=torch.Generator().manual_seed(seed))
        values[:spikes] = 12
        return values

    samples, others = [spiked(seed) for seed in range(8)], [spiked(seed) for seed in range(50, 53)]
    # A step of 0.07 for all numbers costs more than a spike.
    assert _noise(_observed(samples), others) < 0.8 * _noise(_observed(samples, MIN_MAX), others)
    # Many in one sample cost more than that, though the others are better without.
    assert _observed([spiked(seed, 40 * int(seed == 7)) for seed in range(8)]).own_range()[1] >= 11.9


@pytest.mark.parametrize("method", METHODS)
def test_last_bits_of_samples_change_no_parameter(method) -> None:
    """Processors round sums differently, and programs must be the same on all of them."""
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        samples = [_normal(generator) for _ in range(8)]
        # Up to four units in the last place.
        others = [each * (1 + (torch.rand(each.shape, generator=generator) - 0.5) * 2**-20) for each in samples]
        assert _observed(samples, method).calculate_qparams() == _observed(others, method).calculate_qparams()


def test_a_method_can_be_forced() -> None:
    samples = [_laplace(torch.Generator().manual_seed(seed)) for seed in range(8)]
    values = torch.cat(samples)
    widths = {}
    for method in METHODS:
        low, high = _observed(samples, method).own_range()
        widths[method] = high - low
    seen = float(values.max() - values.min())
    assert widths[PERCENTILE] < seen <= 1.001 * widths[MIN_MAX]
    ends = values.quantile(torch.tensor([0.5e-4, 1 - 0.5e-4]))
    assert widths[PERCENTILE] == pytest.approx(float(ends[1] - ends[0]), rel=0.1)
    least = min(_noise(_observed(samples, method), samples) for method in (MIN_MAX, PERCENTILE))
    assert _noise(_observed(samples, MSE), samples) <= least


def test_a_histogram_counts_numbers_that_grow_from_sample_to_sample() -> None:
    steady, growing = (
        _observed([torch.linspace(-1, 1, 1000) * factor for factor in (1.0, 30.0, 1000.0, 1000.0)][first:], MSE)
        for first in (2, 0)
    )
    assert growing.own_range() == pytest.approx(steady.own_range(), rel=0.02)


def test_ranges_of_what_is_the_same_in_each_sample_stay_what_they_are() -> None:
    for samples, tensors, expected in (
        ([torch.linspace(-1, 3, 100)] * 8, 1, (-1, 3)),
        ([torch.linspace(-1, 1, 100), torch.linspace(0, 9, 100)] * 4, 2, (-1, 9)),
    ):
        assert _observed(samples, AUTO, tensors).own_range() == pytest.approx(expected, abs=0.1)
    # One sample doesn't show how much others differ. The range is at most twice as wide.
    assert _observed([torch.linspace(-1, 3, 100)]).own_range()[1] > 3.5
    # No more than twice as wide.
    low, high = _observed(list(torch.randn(8, 1, generator=torch.Generator().manual_seed(0)))).own_range()
    assert 2 < high < 4.5 and -4.5 < low < -2.5


_SAMPLES = "[(sample,) for sample in torch.randn({}, 1, 8, generator=torch.Generator().manual_seed({}))]"
_MORE = functions(
    calibration_inputs=_SAMPLES.format(16, 2),
    evaluation_set=f"[*{_SAMPLES.format(20, 3)}, calibration_inputs()[0]], torch.zeros(21, dtype=torch.long)",
)


def _export(folder: Path, ranges: str = "auto", **layers: str) -> Result:
    init = "self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 3)"
    source = model_source("return self.head(torch.relu(self.body(x)))", "(torch.randn(1, 8),)", init) + _MORE
    options = Options(
        "cortex-m4", "cortex_m", activation_range=ranges, activation_ranges=tuple(layers.items())
    )  # fmt: skip
    return export_source(folder, source, options=options)


def test_a_method_is_chosen_for_a_program_or_for_layers(tmp_path: Path) -> None:
    def scales(result: Result) -> list[float]:
        assert result.report is not None
        return [layer["output"]["scale"] for layer in result.report["layers"] if "output" in layer]

    wide, narrow, mixed = (scales(_export(tmp_path, *ranges[:1], **ranges[1])) for ranges in (
        ("min_max", {}), ("percentile", {}), ("min_max", {"head": "percentile"})
    ))  # fmt: skip
    assert all(first > second for first, second in zip(wide, narrow, strict=True))
    assert mixed == [wide[0], narrow[1]]
    with pytest.raises(UserError, match="activation_ranges names 'haed', which is no layer of the model; it has head"):
        _export(tmp_path, haed="mse")


def test_the_build_says_what_the_outputs_have_on_samples_that_were_not_calibrated_on(tmp_path: Path) -> None:
    result = _export(tmp_path)
    expected, actual = (result.golden[name][:20].astype(float) for name in ("eager_0", "output_0"))
    ratio = 10 * math.log10((expected**2).sum() / ((expected - actual) ** 2).sum())
    line = f"the outputs have {ratio:.1f} dB against floating point on 20 samples not used for calibration"
    assert result.report is not None and line in result.report["notes"]
    assert any(said.endswith(line) for said in result.said)


def test_outputs_that_are_those_of_floating_point_have_no_error() -> None:
    assert (ratio_text(decibels(2.0, 0.0)), ratio_text(decibels(2.0, 0.02))) == ("no error", "20.0 dB")
    assert decibels(2.0, float("inf")) == decibels(2.0, float("nan")) == decibels(0.0, 1.0) == -float("inf")
