"""Keeps numbers that a model reads from tensors as tensors: `x / x.max().item()`, `x.clamp(min=peak.item() - 80)`.

PyTorch makes symbols of them, which few passes and no quantizer accept. A tensor without dimensions takes the place of
a number in Python's arithmetic and in most operators; the others are written of operators that take tensors. Checks
that raise are left out, those of PyTorch's functions, too, as a device has no exceptions.
"""

import dis
import math
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class NumberConvertedError(Exception):
    """The model converts what a tensor holds to a number or an array: float(x.max()), math.sqrt(x.sum())."""


class NumbersKept(TorchFunctionMode):
    """Returns tensors in place of numbers that a model reads, other than those of constants with known values.

    Attributes:
      are_read: whether the model has read a number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.are_read = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func is Tensor.item and not _is_asked_by_torch():
            self.are_read = True
            return args[0].reshape(()) if _is_unknown(*args) else args[0].item()
        if func in _CONVERSIONS and _is_unknown(args[0]):
            raise NumberConvertedError
        if func is Tensor.__format__ and isinstance(args[0], FakeTensor):
            return repr(args[0])
        if func is Tensor.__bool__ and _is_unknown(*args) and (answer := _answer_without_error()) is not None:
            return answer
        if func in _WITHOUT_READS:
            return _WITHOUT_READS[func](*args, **given)
        if func in _OF_NUMBERS and any(map(_holds_tensor, [*args[1:], *given.values()])):
            return _OF_NUMBERS[func](*args, **given)
        if func is torch.tensor and _holds_tensor(args[0]) and not isinstance(args[0], Tensor):
            return _stack(args[0]).to(**given)
        return func(*args, **given)


_CONVERSIONS = (Tensor.__float__, Tensor.__int__, Tensor.__array__, Tensor.numpy)
# Functions of PyTorch that read numbers for their callers.
_PASSED_ON = ("__torch_function__", "tolist", "<listcomp>")


def _caller() -> types.FrameType:
    """Returns the code that calls a function of PyTorch's."""
    frame = sys._getframe(3)
    while frame.f_code.co_name in _PASSED_ON and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _answer_without_error() -> bool | None:
    """Returns the value of a condition with which the caller doesn't raise an error, such as by `assert`."""
    frame = _caller()
    code = list(dis.get_instructions(frame.f_code))
    places = {each.offset: place for place, each in enumerate(code)}
    place = places[frame.f_lasti]
    # The value of a condition is read by bool() and by comparisons of lists, too, and by an instruction of Python 3.13.
    place += code[place].opname in ("CALL", "COMPARE_OP", "CONTAINS_OP")
    place += code[place].opname == "TO_BOOL"
    if "JUMP_" not in code[place].opname or code[place].argval not in places:
        return None
    here, there = (_raises(code[start:]) for start in (place + 1, places[code[place].argval]))
    return None if here == there else here == ("IF_TRUE" in code[place].opname)


def _raises(code: list[dis.Instruction]) -> bool:
    """Returns whether code raises an error before it branches or returns."""
    ends = (each.opname for each in code if "JUMP" in each.opname or each.opname.startswith(("RAISE", "RETURN")))
    return next(ends, "") == "RAISE_VARARGS"


def _is_asked_by_torch() -> bool:
    """Returns whether PyTorch's own code reads a number: it needs those of the ends of slices."""
    frame = _caller()
    return frame.f_globals.get("__name__", "").partition(".")[0] == "torch"


def _is_unknown(tensor: Tensor) -> bool:
    return isinstance(tensor, FakeTensor) and tensor.constant is None


def _holds_tensor(value: Any) -> bool:
    return any(map(_holds_tensor, value)) if isinstance(value, (list, tuple)) else isinstance(value, Tensor)


def _stack(values: Any) -> Tensor:
    """Returns nested lists of numbers, of which some are tensors, as a tensor."""
    if isinstance(values, (list, tuple)):
        return torch.stack([_stack(value) for value in values])
    return torch.as_tensor(values)


def _clamp(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    for bound, by_tensor, by_number in (min, torch.maximum, torch.clamp_min), (max, torch.minimum, torch.clamp_max):
        if bound is not None:
            x = by_tensor(x, bound.to(x.dtype)) if isinstance(bound, Tensor) else by_number(x, bound)
    return x


def _hardtanh(x: Tensor, min_val: Any = -1.0, max_val: Any = 1.0, inplace: bool = False) -> Tensor:
    return _clamp(x, min_val, max_val)


def _threshold(x: Tensor, threshold: Any, value: Any, inplace: bool = False) -> Tensor:
    return torch.where(x > threshold, x, value)


def _leaky_relu(x: Tensor, negative_slope: Any, inplace: bool = False) -> Tensor:
    return torch.where(x > 0, x, x * negative_slope)


def _elu(x: Tensor, alpha: Any, inplace: bool = False) -> Tensor:
    return torch.where(x > 0, x, torch.expm1(x) * alpha)


def _full(size: Sequence[int], fill_value: Tensor, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return fill_value.to(dtype or fill_value.dtype).expand(size).clone()


def _full_like(x: Tensor, fill_value: Tensor, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _full(x.shape, fill_value, dtype or x.dtype)


def _new_full(x: Tensor, size: Sequence[int], fill_value: Tensor, **_: Any) -> Tensor:
    return _full(size, fill_value, x.dtype)


def _linspace(start: Any, end: Any, steps: int, **options: Any) -> Tensor:
    return start + (end - start) * torch.linspace(0, 1, steps, **options)


def _cov(x: Tensor, *, correction: float = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    rows = torch.atleast_2d(x)
    if fweights is None and aweights is None:
        distances = rows - rows.mean(1, True)
        return (distances @ distances.mT / max(rows.shape[1] - correction, 0)).squeeze()
    weights = torch.ones(()) if fweights is None else fweights
    importance = weights if aweights is None else weights * aweights
    total = importance.sum()
    distances = rows - (rows * importance).sum(1, True) / total
    lost = correction if aweights is None else correction * (importance * aweights).sum() / total
    return ((distances * importance) @ distances.mT / torch.clamp_min(total - lost, 0)).squeeze()


def _corrcoef(x: Tensor) -> Tensor:
    covariance = _cov(x)
    deviation = torch.atleast_1d(covariance.diagonal() if covariance.dim() else covariance).sqrt()
    return (covariance / deviation.unsqueeze(-1) / deviation).clamp(-1, 1).reshape(covariance.shape)


def _gaussian_nll_loss(
    x: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    var = torch.as_tensor(var)
    if var.shape == x.shape[:-1] and var.shape != x.shape:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (var.log() + (x - target) ** 2 / var) + (0.5 * math.log(2 * math.pi) if full else 0.0)
    return {"none": loss, "mean": loss.mean(), "sum": loss.sum()}[reduction]


def _normed(weight: Tensor, most: float, order: float) -> Tensor:
    norms = torch.linalg.vector_norm(weight, order, 1, True)
    return weight * torch.where(norms > most, most / (norms + 1e-7), 1.0)


def _embedding(
    x: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    *further: Any,
    **options: Any,
) -> Tensor:
    if max_norm is not None:
        weight = _normed(weight, max_norm, norm_type)
    return functional.embedding(x, weight, padding_idx, None, norm_type, *further, **options)


def _embedding_bag(
    x: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    *further: Any,
    **options: Any,
) -> Tensor:
    if max_norm is not None:
        weight = _normed(weight, max_norm, norm_type)
    return functional.embedding_bag(x, weight, offsets, None, norm_type, *further, **options)


# Functions that check the values of their operands, and those that write to one: an embedding with a largest norm
# scales the rows of its weights that it reads. A program has all rows scaled.
_WITHOUT_READS: dict[Any, Callable[..., Tensor]] = {
    **dict.fromkeys((torch.corrcoef, Tensor.corrcoef), _corrcoef),
    **dict.fromkeys((torch.cov, Tensor.cov), _cov),
    functional.embedding: _embedding,
    functional.embedding_bag: _embedding_bag,
    functional.gaussian_nll_loss: _gaussian_nll_loss,
}
_OF_NUMBERS: dict[Any, Callable[..., Tensor]] = {
    torch.clamp: _clamp,
    torch.clip: _clamp,
    Tensor.clamp: _clamp,
    Tensor.clip: _clamp,
    functional.hardtanh: _hardtanh,
    functional.threshold: _threshold,
    functional.leaky_relu: _leaky_relu,
    functional.elu: _elu,
    torch.full: _full,
    torch.full_like: _full_like,
    Tensor.new_full: _new_full,
    torch.linspace: _linspace,
}
