"""Prepares ExecuTorch's Cortex-M backend: this package imports this module before any other part of the backend.

In the wheel, `ops.operators`, which registers the operators, imports a module of the package `passes`, while the
package `passes` looks up the registered operators on import. Neither can be imported first. This module imports the
operators first, with an empty package instead of `passes`, and then `passes` itself.

The operators' Python implementation defines the integers that a program must return. It convolves int32 tensors, which
PyTorch cannot do with dilation, or float32 ones, which rounds sums over 2**24; here it computes in float64 instead. The
same goes for its pooling of int8 images, in which PyTorch allows at most 127 pixels. The results of its table lookups
get the memory order of the indices, because operators derive an image's order of dimensions from its strides.

Nine gaps of the quantizer and the passes are filled. A difference becomes a sum with a negative factor, until the
release that does so itself. A hardswish
that is marked as int8 but can't be fused into the layer before it becomes a lookup table. A relu or clamp of a
convolution or linear layer with other readers gets int8 bounds: the pass checks the dtype of the layer's result, which
is not known yet. Results of `maximum` and `minimum` have the memory order of their operands. A product of two matrices
becomes int8 before the next pass infers its dtype. Transposed convolutions may have an output_padding. The operands of
sums and products may have any two shapes that broadcast, whereas CMSIS-NN supports one value per channel only. In
graphs with padding, convolutions and poolings are lowered before the readers of their results, which are channels-last:
PyTorch gives an image of one channel another order, and the padding pass pads by the order that it finds. And a maximum
with a used index stays in floating point by itself, whereas the pass that drops unused indices refuses the whole
program for it.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace as replace_fields
from types import ModuleType
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass
from torch.fx.passes.infra.pass_base import PassResult
from torch.nn import functional

from tools.pipeline.export.rewrite.maxima import drop_unused_argmax
from tools.pipeline.export.upstream.gaps import is_open
from tools.pipeline.export.upstream.replaced import replace

_BACKEND = "executorch.backends.cortex_m"
_PASSES = f"{_BACKEND}.passes"
# The index of an argument of cortex_m::quantized_add.
_SECOND_MULTIPLIER = 6


def _import_backend() -> None:
    if _PASSES in sys.modules:
        return
    found = importlib.util.find_spec(_PASSES)
    assert found is not None and found.submodule_search_locations is not None, f"the executorch wheel has no {_PASSES}"
    bare = ModuleType(_PASSES)
    bare.__path__ = list(found.submodule_search_locations)
    sys.modules[_PASSES] = bare
    try:
        importlib.import_module(f"{_BACKEND}.ops.operators")
    finally:
        del sys.modules[_PASSES]
    importlib.import_module(_PASSES)


class _ExactFunctional:
    """torch.nn.functional with pooling and convolutions that compute exact integers below 2**53."""

    def __getattr__(self, name: str) -> Any:
        return getattr(functional, name)

    @staticmethod
    def conv2d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, **options: Any) -> torch.Tensor:
        return functional.conv2d(x.double(), weight.double(), bias.double(), **options).to(x.dtype)

    @staticmethod
    def conv_transpose2d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, **options: Any) -> torch.Tensor:
        return functional.conv_transpose2d(x.double(), weight.double(), bias.double(), **options)

    @staticmethod
    def max_pool2d(x: torch.Tensor, kernel_size: tuple[int, int], **options: Any) -> torch.Tensor:
        return functional.max_pool2d(x.double(), kernel_size, **options).to(x.dtype)


def _add_hardswish() -> None:
    lowering = importlib.import_module(f"{_PASSES}.aten_to_cortex_m_pass")
    hardswish = importlib.import_module("executorch.exir.dialects._ops").ops.edge.aten.hardswish.default
    passes_utils._ACTIVATION_FNS[hardswish] = _hardswish
    lowering.AtenToCortexMPass.register_dialect_substitution(hardswish)(lowering._get_activation_replacement)


def _accept_output_padding() -> None:
    """Makes the quantizer accept transposed convolutions with output_padding, which CMSIS-NN doesn't support."""
    checkers = importlib.import_module(f"{_BACKEND}.quantizer.pattern_checkers")

    def check(cls: type, node: torch.fx.Node) -> bool:
        if not checkers.is_channels_last(checkers.get_first_fake_tensor(node)):
            return False
        if node.target != torch.ops.aten.conv_transpose2d.input:
            return True
        given: list[Any] = list(node.args[6:8])
        groups, dilation = given + [1, 1][len(given) :]
        return groups == 1 and dilation in (1, [1], [1, 1])

    replace(checkers.CortexMConvTranspose2DCheck, "_check_node", classmethod(check))


def _add_differences() -> None:
    """Makes a quantized difference a sum, with the negated factor of the second operand."""
    lowering = importlib.import_module(f"{_PASSES}.aten_to_cortex_m_pass")

    def difference(node: torch.fx.Node, dialect_pass: Any) -> Any:
        found = None if node.kwargs else lowering._get_add_replacement(node, dialect_pass)
        if found is None:
            return None
        args = list(found.args)
        args[_SECOND_MULTIPLIER] = -args[_SECOND_MULTIPLIER]
        return replace_fields(found, args=tuple(args))

    lowering.AtenToCortexMPass.register_dialect_substitution(exir_ops.edge.aten.sub.Tensor)(difference)


def _accept_broadcasts(operators: ModuleType) -> None:
    """Allows operands of sums and products of any two shapes that broadcast, which the kernels support.

    An operand with a factor (alpha) stays in floating point. Differences, which 1.5 takes, are left to our own
    quantizer: it has them in int8 only where both operands are.
    """
    checkers = importlib.import_module(f"{_BACKEND}.quantizer.pattern_checkers")

    def check(_: type, pattern: list[torch.fx.Node]) -> bool:
        differences = (torch.ops.aten.sub.Tensor, torch.ops.aten.sub_.Tensor)
        return all(node.kwargs.get("alpha", 1) == 1 and node.target not in differences for node in pattern)

    replace(checkers.CortexMAddMulCheck, "check_pattern", classmethod(check))
    if is_open(f"{_BACKEND}.quantizer.pattern_checkers:CortexMDivCheck.check_pattern"):
        replace(checkers.CortexMDivCheck, "check_pattern", classmethod(lambda *_: False))
    operators.__dict__["is_channel_broadcast"] = lambda *_: True

    def result(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        # The result has the memory order of an operand of its shape; PyTorch would choose its own for dimensions of
        # size 1.
        like = [operand for operand in (b, a) if operand.shape == torch.broadcast_shapes(a.shape, b.shape)]
        return torch.empty_like(like[0]) if like else torch.add(a, b)

    def add(a: torch.Tensor, _zero: int, _multiplier: int, _shift: int, b: torch.Tensor, *_: int) -> torch.Tensor:
        return result(a, b)

    def mul(a: torch.Tensor, _zero: int, b: torch.Tensor, *_: int) -> torch.Tensor:
        return result(a, b)

    torch.library.register_fake("cortex_m::quantized_add", add, allow_override=True)
    torch.library.register_fake("cortex_m::quantized_mul", mul, allow_override=True)


def _look_up(indices: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(indices).copy_(table[indices.int() + 128])


def _is_quantized(_: Any, node: torch.fx.Node) -> bool:
    """Whether quantization was folded into a clamp, with one scale for all channels."""
    results = node.meta.get("output_qparams") or {}
    return bool(node.meta.get("input_qparams")) and 0 in results and isinstance(results[0].scale, float)


def _passes() -> list[Any]:
    lowering = importlib.import_module(f"{_PASSES}.aten_to_cortex_m_pass")
    known = importlib.import_module(f"{_PASSES}.cortex_m_pass_manager").CortexMPassManager.pass_list
    products: Any = type("Products", (lowering.AtenToDialectPass,), {})
    bmm = importlib.import_module("executorch.exir.dialects._ops").ops.edge.aten.bmm.default
    products.register_dialect_substitution(bmm)(lowering._get_bmm_replacement)
    known = [_Maxima if each.__name__ == "RemoveGetItemPass" else each for each in known]
    fold = [each.__name__ for each in known].index("FoldAndAnnotateQParamsPass")
    substitution = lowering.AtenToCortexMPass
    images: Any = type("Images", (substitution,), {"call": _where_padded(substitution)})
    for operator in (exir_ops.edge.aten.convolution.default, exir_ops.edge.aten.max_pool2d.default):
        images.register_dialect_substitution(operator)(substitution._DIALECT_SUBSTITUTIONS[operator])
    last = known.index(substitution)
    return [*known[: fold + 1], products, *known[fold + 1 : last], images, *known[last:]]


def _where_padded(substitution: Any) -> Callable[[Any, torch.fx.GraphModule], PassResult]:
    """Returns a `call` for a substitution pass that skips graphs without padding, in which no pass depends on the
    order.
    """

    def call(self: Any, graph_module: torch.fx.GraphModule) -> PassResult:
        if all(node.target != exir_ops.edge.aten.constant_pad_nd.default for node in graph_module.graph.nodes):
            return PassResult(graph_module, False)
        return substitution.call(self, graph_module)

    return call


class _Maxima(ExportPass):
    """Computes maxima without indices where nothing reads these; the others stay unchanged."""

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        edge = exir_ops.edge.aten
        alone = {edge.max_pool2d_with_indices.default: edge.max_pool2d.default, edge.max.dim: edge.amax.default}
        drop_unused_argmax(graph_module, alone)
        return super().call(graph_module)


def _hardswish(x: float) -> float:
    """Computes torch.nn.Hardswish."""
    return x * min(max(x + 3.0, 0.0), 6.0) / 6.0


_import_backend()

PASSES = _passes()
"""ExecuTorch's passes to the dialect, with products of two int8 matrices first.

PyTorch infers int32 for such a product, and the next pass that infers dtypes would refuse its readers.
"""

passes_utils = importlib.import_module(f"{_PASSES}.passes_utils")
_operators = sys.modules[f"{_BACKEND}.ops.operators"]
_operators.__dict__["F"] = _ExactFunctional()
_operators.__dict__["lib"].impl("quantized_activation", _look_up, "CompositeExplicitAutograd", allow_override=True)
_add_hardswish()
if is_open(f"{_BACKEND}.quantizer.quantizer_support:BINARY_OP_PATTERNS"):
    _add_differences()
_accept_output_padding()
_accept_broadcasts(_operators)
_clamps = importlib.import_module(f"{_PASSES}.quantized_clamp_activation_pass").QuantizedClampActivationPass
_clamps._is_quantized_int8_activation = _is_quantized
torch.library.register_fake("cortex_m::maximum", torch.maximum, allow_override=True)
torch.library.register_fake("cortex_m::minimum", torch.minimum, allow_override=True)
