"""An image's outputs beside PyTorch's."""

from collections.abc import Iterator, Sequence

import numpy as np

from tools.artifacts.golden.golden import Golden

# Elements that the table shows at most.
_ROWS = 12


def differences(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Returns absolute differences in float64; 0 where both are the same infinity or NaN, inf where only one is NaN."""
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        result = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return np.where(np.isnan(result), np.inf, result)


def outside_tolerance(actual: np.ndarray, expected: np.ndarray, atol: float, rtol: float) -> np.ndarray:
    """Returns where |actual - expected| > atol + rtol * |expected|, elementwise."""
    magnitude = np.nan_to_num(np.abs(expected.astype(np.float64)), nan=0.0, posinf=0.0, neginf=0.0)
    return differences(actual, expected) > atol + rtol * magnitude


def accuracy(outputs: np.ndarray, labels: np.ndarray) -> float:
    """Returns the share of samples whose largest output is at the label's index."""
    return float(np.mean(outputs.reshape(len(labels), -1).argmax(axis=1) == labels))


def table(name: str, actual: np.ndarray, expected: np.ndarray) -> Iterator[str]:
    """Formats an output for the user: its first elements on the device and in PyTorch."""
    yield f"{name}: {expected.dtype} {list(expected.shape[1:])}"
    yield f"  {'sample, index':<18}{'device':>14}{'PyTorch':>14}{'difference':>14}"
    difference = differences(actual, expected)
    for index in list(np.ndindex(expected.shape))[:_ROWS]:
        place = f"{index[0]}, {list(index[1:])}"
        yield f"  {place:<18}{actual[index]:>14.7g}{expected[index]:>14.7g}{difference[index]:>14.3g}"
    if expected.size > _ROWS:
        yield f"  ... {expected.size - _ROWS} more; largest difference {difference.max():.3g}"


def compare(outputs: Sequence[np.ndarray], golden: Golden, atol: float, rtol: float) -> list[str]:
    """Returns one message per output with elements outside the tolerance; empty if all are inside."""
    problems = []
    for i, (actual, expected) in enumerate(zip(outputs, golden.outputs, strict=True)):
        bad = outside_tolerance(actual, expected, atol, rtol)
        if bad.any():
            index = tuple(int(axis) for axis in np.argwhere(bad)[0])
            problems.append(
                f"output {i}: {int(bad.sum())} of {bad.size} elements differ from PyTorch by more than {atol:g} + "
                f"{rtol:g} * |PyTorch|, the first in sample {index[0]} at {list(index[1:])}: device {actual[index]}, "
                f"PyTorch {expected[index]}; the largest difference is {differences(actual, expected).max():.3g}"
            )
    return problems


def check_accuracy(device: float, expected: float, eager: float, minimum: float | None, drop: float) -> list[str]:
    """Compares the device's accuracy with that of its expected outputs and of the user's module; returns problems."""
    problems = []
    if device != expected:
        problems.append(f"accuracy on the device, {device:.4f}, is not that of the expected outputs, {expected:.4f}")
    if eager - device > drop:
        problems.append(f"accuracy on the device, {device:.4f}, is more than {drop:g} below PyTorch's, {eager:.4f}")
    if minimum is not None:
        problems += [
            f"accuracy {where} is {value:.4f}, below {minimum:g}"
            for where, value in (("on the device", device), ("in eager PyTorch", eager))
            if value < minimum
        ]
    return problems
