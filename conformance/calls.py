"""Calls of operators with real tensors: what a program's instruction does, and what eager PyTorch makes of it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from executorch.exir.operator.convert import to_out_variant
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from conformance.operators import DTYPES, find_overload

# Elements of a tensor, and tensors of a call, at most: larger samples show nothing more.
_MAX_ELEMENTS = 2048
_MAX_TENSORS = 40

# Views and their like, which a program computes with the operator that copies.
_COPIES = {
    "aten::alias": "aten::alias_copy",
    "aten::as_strided": "aten::as_strided_copy",
    "aten::detach": "aten::detach_copy",
    "aten::diagonal": "aten::diagonal_copy",
    "aten::expand": "aten::expand_copy",
    "aten::lift_fresh": "aten::lift_fresh_copy",
    "aten::permute": "aten::permute_copy",
    "aten::select": "aten::select_copy",
    "aten::slice": "aten::slice_copy",
    "aten::split": "aten::split_copy",
    "aten::split_with_sizes": "aten::split_with_sizes_copy",
    "aten::squeeze": "aten::squeeze_copy",
    "aten::t": "aten::t_copy",
    "aten::transpose": "aten::transpose_copy",
    "aten::unbind": "aten::unbind_copy",
    "aten::unfold": "aten::unfold_copy",
    "aten::unsqueeze": "aten::unsqueeze_copy",
    "aten::view": "aten::view_copy",
    "aten::view_as_real": "aten::view_as_real_copy",
    "aten::_unsafe_view": "aten::view_copy",
    "aten::_reshape_alias": "aten::view_copy",
}


class Refused(Exception):
    """Eager PyTorch refuses a call; the text says why, in a line."""


@dataclass(frozen=True)
class Call:
    """A call of an operator.

    Attributes:
      operator: as in programs, the variant with outputs.
      arguments: by the schema's names, without outputs.
      expected: contents of the outputs; for one that is written in place, of that argument.
      arbitrary: the elements of the outputs are random or undefined: their shape and dtype count.
      scratch: the number of last outputs that are memory for the operator's work.
      is_dynamic: the outputs have room for more, and the kernel sets their shape.
      source: its origin, for messages.
    """

    operator: str
    arguments: dict[str, Any]
    expected: tuple[torch.Tensor, ...]
    arbitrary: bool = False
    scratch: int = 0
    is_dynamic: bool = False
    source: str = ""

    @property
    def dtype(self) -> torch.dtype:
        """Returns the dtype that the call counts for: its first tensor's (not a condition's), or its result's."""
        return next(iter([*_counted(self.arguments), *self.expected])).dtype

    def signature(self) -> tuple[Any, ...]:
        """Returns what tells calls apart: shapes, dtypes and parameters."""

        def key(value: Any) -> Any:
            return (tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else repr(value)

        return tuple(key(value) for value in tree_flatten((self.arguments, self.expected))[0])


def _counted(arguments: dict[str, Any]) -> Iterator[torch.Tensor]:
    """Yields the tensors among arguments that are no conditions."""
    values = [value for name, value in arguments.items() if name != "condition"]
    return (value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor))


# Their results are random numbers or whatever memory holds.
_ARBITRARY = ("aten::empty", "aten::rand.", "aten::randn.", "dim_order_ops::_empty", "aten::native_dropout")


# Memory formats by a tensor's dims.
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy in the order of channels-last tensors if it is one, else in the default order."""
    tensor = tensor.detach()
    memory_format = CHANNELS_LAST.get(tensor.dim())
    if memory_format and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=memory_format):
        return tensor.clone(memory_format=memory_format)
    return tensor.clone(memory_format=torch.contiguous_format)


def _is_suitable(values: Any) -> bool:
    tensors = [value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor)]
    return (
        len(tensors) <= _MAX_TENSORS
        and all(tensor.numel() <= _MAX_ELEMENTS and tensor.layout == torch.strided for tensor in tensors)
        and all(tensor.dtype in DTYPES and not tensor.is_quantized and tensor.dim() <= 8 for tensor in tensors)
        and not any(isinstance(value, complex) for value in tree_flatten(values)[0])
    )


def _reason(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _quantized_add(**arguments: Any) -> torch.Tensor:
    """Computes quantized_decomposed::add by its definition, of which PyTorch has the schema alone."""
    scope = torch.ops.quantized_decomposed

    def affine(name: str) -> tuple[Any, ...]:
        keys = ("scale", "zero_point", "quant_min", "quant_max")
        return (*(arguments[f"{name}_{key}"] for key in keys), arguments["a"].dtype)

    a, b = (scope.dequantize_per_tensor(arguments[name], *affine(name)) for name in ("a", "b"))
    return scope.quantize_per_tensor(a + b, *affine("out"))


def _mixed_mm(**arguments: Any) -> torch.Tensor:
    """Computes quantized_decomposed::mixed_mm in float32: weights are [inner, columns] with a scale per row."""
    x, scales = arguments["input"], arguments["weight_scales"]
    weights = arguments["weight"].float() * scales.float().unsqueeze(-1)
    return (x.float() @ weights).to(x.dtype)


def _mixed_linear(**arguments: Any) -> torch.Tensor:
    """Computes quantized_decomposed::mixed_linear: as mixed_mm, with weights [out_features, in_features]."""
    x, scales = arguments["input"], arguments["weight_scales"]
    weights = arguments["weight"].float() * scales.float().unsqueeze(-1)
    return (x.float() @ weights.t()).to(arguments["dtype"] or x.dtype)


# Operators that PyTorch cannot run.
_REFERENCES = {
    "quantized_decomposed::add.out": _quantized_add,
    "quantized_decomposed::mixed_linear.out": _mixed_linear,
    "quantized_decomposed::mixed_mm.out": _mixed_mm,
}


# The number of an operator's last outputs that are memory for its work.
_SCRATCH = {"torch_fusion::gru.out": 1, "torch_fusion::lstm.out": 1}


def make_call(operator: str, function: torch._ops.OpOverload, arguments: dict[str, Any], source: str = "") -> Call:
    """Returns a call with what eager makes of it.

    Args:
      operator: the variant with outputs.
      function: the functional operator, called with the arguments that it has.
      arguments: of the functional operator, by name.

    Raises:
      Refused: eager refuses it, or it is not within what programs hold.
    """
    # This seeds the generator itself: torch.manual_seed() formats Python's stack for the devices that are not there.
    torch.default_generator.manual_seed(0)
    given = tree_map_only(torch.Tensor, _dense, arguments)
    known = {argument.name for argument in function._schema.arguments}
    taken = {name: value for name, value in given.items() if name in known}
    try:
        result = _REFERENCES.get(operator, function)(**tree_map_only(torch.Tensor, torch.clone, taken))
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError) as error:
        raise Refused(_reason(error)) from error
    outputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if not all(isinstance(output, torch.Tensor) for output in outputs) or not _is_suitable((given, outputs)):
        raise Refused("the call takes or gives what a program does not hold")
    schema = find_overload(operator)._schema
    for argument in inputs_of(schema):
        value = given.get(argument.name)
        if isinstance(argument.type, torch.TensorType) and not isinstance(value, (torch.Tensor, type(None))):
            raise Refused(f"{argument.name} is no tensor")
        is_position = argument.name == "index" and isinstance(value, torch.Tensor)
        if is_position and value.dtype not in (torch.int32, torch.int64):
            # Eager takes an empty tensor of any dtype.
            raise Refused("positions are int32 or int64")
        if isinstance(value, torch.memory_format) and value not in (torch.contiguous_format, torch.preserve_format):
            raise Refused("programs have other operators for memory formats")
    kept = {argument.name: given.get(argument.name, argument.default_value) for argument in inputs_of(schema)}
    if operator == "aten::scalar_tensor.out" and outputs[0].isinf() and abs(given["s"]) != float("inf"):
        # Eager lets this operator alone overflow.
        raise Refused("the number is out of the dtype's range")
    arbitrary = operator.startswith(_ARBITRARY)
    expected = tuple(_dense(output) for output in outputs)
    return Call(operator, kept, expected, arbitrary, _SCRATCH.get(operator, 0), source=source)


def inputs_of(schema: torch.FunctionSchema) -> list[torch.Argument]:
    """Returns the arguments of an operator that are no outputs."""
    return [argument for argument in schema.arguments if not argument.is_out]


def bind(schema: torch.FunctionSchema, args: Iterable[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call by the schema's names, defaults included."""
    bound = {argument.name: argument.default_value for argument in schema.arguments}
    positional = [argument.name for argument in schema.arguments if not argument.kwarg_only]
    return {**bound, **dict(zip(positional, args, strict=False)), **kwargs}


class Names:
    """Operators of the list by the functional ones that they are the variants of."""

    def __init__(self, names: Iterable[str]) -> None:
        self._functions = {name: _functional(name) for name in names}
        self._names: dict[torch._ops.OpOverload, list[str]] = {}
        for name, function in self._functions.items():
            self._names.setdefault(function, []).append(name)

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def function(self, name: str) -> torch._ops.OpOverload:
        """Returns the functional operator of one of the list."""
        return self._functions[name]

    def find(self, called: torch._ops.OpOverload) -> list[str]:
        """Returns what a program calls where eager calls this: functional, in place or a view."""
        namespace, _, base = called._schema.name.partition("::")
        overload = called._schema.overload_name or "default"
        if called._schema.name in _COPIES:
            base = _COPIES[called._schema.name].partition("::")[2]
        elif base.endswith("_"):
            base = base.removesuffix("_")
        functional = getattr(getattr(getattr(torch.ops, namespace), base, None), overload, None)
        return self._names.get(functional, [])


# ExecuTorch's own search does not find these.
_FUNCTIONS = {
    "aten::copy_": torch.ops.aten.copy.default,
    "aten::index_put_": torch.ops.aten.index_put.default,
    "aten::pow.Scalar_out": torch.ops.aten.pow.Scalar,
    "aten::pow.Tensor_Scalar_out": torch.ops.aten.pow.Tensor_Scalar,
    "aten::pow.Tensor_Tensor_out": torch.ops.aten.pow.Tensor_Tensor,
}


def _functional(name: str) -> torch._ops.OpOverload:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    out = find_overload(name)
    packet = getattr(getattr(torch.ops, out.namespace), out._schema.name.partition("::")[2])
    functions = [getattr(packet, overload) for overload in packet.overloads()]
    candidates = [function for function in functions if not any(a.is_out for a in function._schema.arguments)]
    (found,) = (function for function in candidates if _is_variant(out, function))
    return found


def _is_variant(out: torch._ops.OpOverload, function: torch._ops.OpOverload) -> bool:
    try:
        return to_out_variant(function)[0] is out
    except (AttributeError, AssertionError, RuntimeError):
        return False


class Recorder(TorchDispatchMode):
    """Records the operators of the list that code calls, decomposing others as the exporter does."""

    def __init__(self, names: Names, decompositions: dict[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self._names = names
        self._decompositions = decompositions
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = self._names.find(func)
        for name in found:
            bound = bind(func._schema, args, kwargs)
            known = {argument.name for argument in self._names.function(name)._schema.arguments}
            if set(bound) <= known and _is_suitable(bound):
                self.calls.append((name, tree_map_only(torch.Tensor, _dense, bound)))
        if not found and func in self._decompositions:
            with self:
                result = self._decompositions[func](*args, **kwargs)
            if result is not NotImplemented:
                return result
        return func(*args, **kwargs)


# Tensors that hold positions: their dtype is their own.
_POSITIONS = {"index", "indices", "mask", "repeats"}


def cast_arguments(arguments: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """Returns the same arguments with tensors of another dtype; positions and conditions keep theirs."""
    old = next(iter(_counted(arguments)), None)

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        if old is None or tensor.dtype != old.dtype:
            return tensor
        if dtype == torch.bool:
            return tensor > 0
        return tensor.nan_to_num(0, 100, -100).clamp(0 if dtype == torch.uint8 else -100, 100).to(dtype)

    result: dict[str, Any] = {}
    is_first = True
    for name, value in arguments.items():
        has_tensor = any(isinstance(item, torch.Tensor) for item in tree_flatten(value)[0])
        if has_tensor and name != "condition" and (is_first or name not in _POSITIONS):
            result[name] = tree_map_only(torch.Tensor, convert, value)
            is_first = False
        else:
            result[name] = value
    if old is None:
        # There is no tensor: the result's dtype is a parameter of the functional operator alone.
        result["dtype"] = dtype
    return result


def with_dtype(call: Call, function: torch._ops.OpOverload, dtype: torch.dtype) -> Call:
    """Returns the same call on tensors of another dtype.

    Raises:
      Refused: eager refuses it.
    """
    arguments = cast_arguments(call.arguments, dtype)
    converted = make_call(call.operator, function, arguments, f"{call.source}, cast")
    if converted.dtype != dtype:
        raise Refused("there is no such call")
    return converted


def in_float32(call: Call) -> Call | None:
    """Returns a call of half-precision tensors with eager's results in float32, rounded; None if it refuses that."""
    halves = (torch.float16, torch.bfloat16)

    def widen(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.float() if tensor.dtype in halves else tensor

    try:
        wide = make_call(
            call.operator, _functional(call.operator), tree_map_only(torch.Tensor, widen, call.arguments), call.source
        )
    except Refused:
        return None
    pairs = zip(wide.expected, call.expected, strict=True)
    return replace(call, expected=tuple(value.to(expected.dtype) for value, expected in pairs))


def with_dynamic_outputs(call: Call) -> Call:
    """Returns the same call with more room in its outputs than their shape takes."""
    return replace(call, is_dynamic=True, source=f"{call.source}, resized")
