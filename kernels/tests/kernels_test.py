"""Kernels against eager PyTorch, under sanitizers: results and refusals, beside //conformance:op_db."""

import os
from pathlib import Path

import pytest
import torch

from kernels.tests.case_file import Case, Out, Result, output_tensor, run_cases
from kernels.tests.cases import refused_cases, supported_cases

# Tensors are too small to share among threads.
torch.set_num_threads(1)

RUNNER = Path(os.environ["CASE_RUNNER"]).absolute()
# ExecuTorch's runtime/core/error.h.
ERRORS = {
    0x00: "Ok",
    0x02: "InvalidState",
    0x10: "NotSupported",
    0x12: "InvalidArgument",
    0x13: "InvalidType",
    0x14: "OperatorMissing",
    0x23: "InvalidProgram",
}
# Two units in the last place, because eager mode rounds intermediate results of some operators.
PRECISION = {torch.float16: 2**-9, torch.bfloat16: 2**-6}
# Sums in another order than PyTorch's; exp and tanh to 2 ulp.
RELATIVE, ABSOLUTE = 2e-5, 2e-5
# Operators that round once, or are functions of one value, have these.
EXACT_RELATIVE, EXACT_ABSOLUTE = 5e-7, 1e-37
EXACT = ("abs", "neg", "relu", "exp", "sigmoid", "tanh", "add", "sub", "mul", "div", "copy", "cat", "clone", "full")


def describe(case: Case) -> str:
    """Describes a case in a line."""
    words = [f"{tuple(a.shape)}:{a.dtype}" if isinstance(a, torch.Tensor) else str(a) for a in case.arguments]
    return f"{case.operator}({', '.join(words)})"[:300]


def _stored_type(value: float) -> type:
    return float if isinstance(value, float) else int


def difference(case: Case, result: Result) -> str:
    """Describes the difference of a result; empty if there is none."""
    error = ERRORS.get(result.error, hex(result.error))
    if case.error != error:
        return f"error {error}, expected {case.error}"
    if error != "Ok":
        return ""
    if case.value is not None and (result.value, type(result.value)) != (case.value, _stored_type(case.value)):
        return f"value {result.value}, expected {case.value}"
    name = case.operator.partition("::")[2].partition(".")[0]
    is_exact = name.startswith(EXACT) and name != "addmm"
    for out, expected, (sizes, data) in zip(case.outs(), case.expected, result.outputs, strict=True):
        if expected is None:
            continue
        if sizes != tuple(expected.shape):
            return f"shape {sizes}, expected {tuple(expected.shape)}"
        actual = output_tensor(out, sizes, data)
        if actual.equal(expected):
            continue
        relative = max(EXACT_RELATIVE if is_exact else RELATIVE, PRECISION.get(out.dtype, 0))
        absolute = EXACT_ABSOLUTE if is_exact else ABSOLUTE
        if out.dtype in PRECISION:
            absolute = max(absolute, PRECISION[out.dtype] * torch.finfo(out.dtype).tiny)
        try:
            torch.testing.assert_close(
                actual,
                expected.contiguous(),
                rtol=relative if out.dtype.is_floating_point else 0,
                atol=absolute if out.dtype.is_floating_point else 0,
                equal_nan=True,
                check_stride=False,
            )
        except AssertionError as failure:
            return str(failure).replace("\n", " ")
    return ""


def check(cases: list[Case], folder: Path) -> None:
    """Runs cases and fails with the first of those that differ."""
    results = run_cases(RUNNER, cases, folder)
    failures = [
        f"{describe(case)}: {text}"
        for case, result in zip(cases, results, strict=True)
        if (text := difference(case, result))
    ]
    if failures:
        pytest.fail(f"{len(failures)} of {len(cases)} cases differ:\n" + "\n".join(failures[:20]))


def test_results_equal_pytorch(tmp_path: Path) -> None:
    check(supported_cases(), tmp_path)


FUNCTIONS = (
    "acos acosh asin asinh atan atanh cos cosh erf exp expm1 log log10 log1p log2 reciprocal rsqrt sigmoid sin sinh "
    "sqrt tan tanh"
)


@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_functions_are_accurate(name: str, tmp_path: Path) -> None:
    # All exponents and signs, then the ranges where the functions are neither 0 nor 1 nor infinite, and around 1.
    generator = torch.Generator().manual_seed(1)
    bits = torch.randint(-(2**31), 2**31, (100_000,), generator=generator, dtype=torch.int64).to(torch.int32)
    spread = (torch.rand(100_000, generator=generator) - 0.5) * 210
    near = (torch.rand(100_000, generator=generator) - 0.5) * 8
    x = torch.cat([bits.view(torch.float32), spread, near, near / 4, 1 + near / 64])
    (result,) = run_cases(RUNNER, [Case(f"aten::{name}.out", [x, Out(x.dtype, tuple(x.shape))])], tmp_path)
    actual = torch.frombuffer(bytearray(result.outputs[0][1]), dtype=torch.float32)
    # Results that are no normal numbers are 0.
    tiny = torch.finfo(torch.float32).tiny * 1.001 if name == "sigmoid" else 0.0
    assert_accurate(actual, getattr(torch, name)(x.double()), 2, tiny)


@pytest.mark.parametrize("name", ["pow.Tensor_Tensor", "atan2", "fmod.Tensor"])
def test_functions_of_two_are_accurate(name: str, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(2)

    def numbers() -> torch.Tensor:
        bits = torch.randint(-(2**31), 2**31, (100_000,), generator=generator, dtype=torch.int64).to(torch.int32)
        return torch.cat([bits.view(torch.float32), (torch.rand(200_000, generator=generator) - 0.4) * 10])

    x, y = numbers(), numbers()
    # Powers of numbers near 1, with results of all exponents.
    base = torch.rand(100_000, generator=generator) + 0.5
    x = torch.cat([x, base])
    y = torch.cat([y, (torch.rand(100_000, generator=generator) * 250 - 125) / base.log2()])
    case = Case(f"aten::{name}{'_' if '.' in name else '.'}out", [x, y, Out(x.dtype, tuple(x.shape))])
    (result,) = run_cases(RUNNER, [case], tmp_path)
    actual = torch.frombuffer(bytearray(result.outputs[0][1]), dtype=torch.float32)
    exact = getattr(torch, name.partition(".")[0])(x.double(), y.double())
    assert_accurate(actual, exact, 0 if name.startswith("fmod") else 2)


def assert_accurate(actual: torch.Tensor, exact: torch.Tensor, ulps: int, tiny: float = 0.0) -> None:
    """Compares floats with exact doubles; numbers below `tiny` are excluded."""
    assert torch.equal(actual.isnan(), exact.isnan())
    overflows = exact.abs() > torch.finfo(torch.float32).max
    # From half an ulp above the largest float on, rounding overflows.
    is_near = (exact.abs() / torch.finfo(torch.float32).max - 1).abs() < 2e-7
    assert torch.equal(actual.isinf() & ~is_near, overflows & ~is_near)
    # The distance between neighbouring floats at each result; below the smallest normal number it stays the same.
    ulp = torch.exp2((torch.frexp(exact).exponent.clamp(min=-125) - 24).double())
    is_checked = ~exact.isnan() & ~overflows & ~is_near & (exact.abs() >= tiny)
    error = ((actual.double() - exact).abs() / ulp)[is_checked]
    assert error.max() <= ulps


def test_what_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    check(list(refused_cases()), tmp_path)
