"""Replaces complex numbers by real ones, and spectra by operators of our own, in a captured program.

A program can't hold complex numbers. Each complex tensor becomes a real one with a last dimension of two, real and
imaginary part, and operators on it are written in real numbers. `torch.stft` and `torch.fft` become the operators of
spectrum_operators.py. Where only absolute values or their squares are read, and where a constant matrix such as a mel
filter bank sums these, the operator computes just that, and the rest is never stored.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.backends.transforms.utils import create_constant_placeholder, delete_constant_placeholder
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, Node

from tools.pipeline.export.capture.diagnosis import written
from tools.pipeline.export.ir.operators import COPIES, FILLS, RESHAPES, SIZE_CHANGES, SUMS, TRANSPOSITIONS
from tools.pipeline.export.ir.rewriting import emit, named_arguments, replace_node, run_decompositions
from tools.pipeline.export.plan.manifest import origin
from tools.pipeline.export.rewrite.spectra.spectrum_operators import fft_roots
from tools.quiet.console import UserError

_aten = torch.ops.aten
_own = torch.ops.torch_fusion

_SAME = COPIES | {_aten.resolve_conj.default, _aten.resolve_neg.default}
_CONJUGATES = (_aten._conj.default, _aten.conj.default, _aten.conj_physical.default)
# Operators on complex tensors that apply to pairs in the same way, with the indices of their dims arguments.
_ON_DIMS: dict[Any, tuple[int, ...]] = {
    _aten.cat.default: (1,),
    _aten.flip.default: (1,),
    _aten.index_select.default: (1,),
    _aten.mean.dim: (1,),
    _aten.movedim.int: (1, 2),
    _aten.permute.default: (1,),
    _aten.roll.default: (2,),
    _aten.select.int: (1,),
    _aten.slice.Tensor: (1,),
    _aten.squeeze.dim: (1,),
    _aten.squeeze.dims: (1,),
    _aten.stack.default: (1,),
    _aten.sum.dim_IntList: (1,),
    _aten.transpose.int: (1, 2),
    _aten.unsqueeze.default: (1,),
}
_POWERS = (_aten.pow.Tensor_Scalar, _aten.pow.Tensor_Tensor)
SPECTRA = (_own.stft.default, _own.spectrogram.default, _own.filtered_spectrogram.default)


def remove_complex_numbers(program: ExportedProgram, path: Path) -> ExportedProgram:
    """Returns the captured program in real numbers; one without complex numbers is returned unchanged.

    Args:
      path: the model file, for messages.

    Raises UserError, with the source line, for operators that have no real form here.
    """
    if not any(
        _is_complex(node) or node.target in _ALONG_LAST or node.target in _TRANSFORMS for node in program.graph.nodes
    ):
        return program
    if any(_is_complex(node) and _is_mutation(node) for node in program.graph.nodes):
        program = run_decompositions(program, {})
    _RealNumbers(program, path).rewrite()
    return program


def front_end(program: ExportedProgram, path: Path) -> frozenset[str]:
    """Returns the source locations that compute spectra, and features from these up to the first layers with
    parameters.

    Values that span many orders of magnitude, such as power before its logarithm, have no accurate int8 form.
    """
    parameters = program.graph_signature.inputs_to_parameters
    found: set[Node] = set()
    # Nodes that depend on a spectrum. A network may follow before an inverse transform.
    behind: set[Node] = set()
    for node in program.graph.nodes:
        is_behind = not behind.isdisjoint(node.all_input_nodes)
        if is_behind or node.target in SPECTRA:
            behind.add(node)
        pending = [node] if node.target in SPECTRA else []
        found.update(pending)
        while pending:
            before = [
                operand
                for operand in pending.pop().all_input_nodes
                if operand not in found
                and not (operand in behind and any(each.name in parameters for each in operand.all_input_nodes))
            ]
            found.update(before)
            pending += before
    features = {node for node in found if node.target in SPECTRA}
    for node in program.graph.nodes:
        operands = node.all_input_nodes
        if not features.isdisjoint(operands) and not any(operand.name in parameters for operand in operands):
            features.add(node)
    return frozenset(origin(node, path) for node in found | features if node.op == "call_function")


def _is_complex(node: Any) -> bool:
    if isinstance(node, complex):
        return True
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, Tensor) and value.is_complex()


def _is_mutation(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


@dataclass(frozen=True)
class _Spectrum:
    """Transforms of the frames of signals, which are emitted once their readers are known.

    Attributes:
      transform: the node of the model that transforms.
      signal: [signals, samples].
      window: [size].
      size, hop, pad, reflect, count, onesided: arguments of the operators.
      shape: the shape of the complex tensor in the model: any dimensions, then those of frames and frequencies.
      has_frames: whether frames have a dimension; otherwise there is one frame per signal.
      frames_first: whether the dimension of frames precedes that of frequencies.
    """

    transform: Node
    signal: Node
    window: Node | None
    size: int
    hop: int
    pad: int
    reflect: bool
    count: int
    onesided: bool
    shape: tuple[int, ...]
    has_frames: bool
    frames_first: bool

    @property
    def frames(self) -> tuple[Any, ...]:
        """Returns the operators' arguments about frames."""
        return (self.size, self.hop, self.pad, self.reflect, self.count)

    def rearranged(self, node: Node) -> _Spectrum | None:
        """Returns the result of a node if it only reorders the transforms or selects frames, or None otherwise."""
        value = node.meta.get("val")
        if not isinstance(value, Tensor) or node.target not in _REARRANGING:
            return None
        shape = tuple(value.shape)
        if node.target == _aten.slice.Tensor:
            given = named_arguments(node)
            is_first = given["start"] in (None, 0) and given["step"] == 1
            axis = len(self.shape) - (2 if self.frames_first else 1)
            if not self.has_frames or not is_first or given["dim"] % len(self.shape) != axis:
                return None
            return dataclasses.replace(self, count=shape[axis], shape=shape)
        if node.target in _TRANSPOSITIONS:
            order = list(range(len(self.shape)))
            order[-2:] = reversed(order[-2:])
            if not self.has_frames or _order(node) != order:
                return None
            return dataclasses.replace(self, shape=shape, frames_first=not self.frames_first)
        kept = 2 if self.has_frames else 1
        if shape[-kept:] != self.shape[-kept:] or math.prod(shape) != math.prod(self.shape):
            return None
        return dataclasses.replace(self, shape=shape)


_TRANSPOSITIONS = TRANSPOSITIONS | {_aten.mT.default, _aten.numpy_T.default, _aten.t.default}
_REARRANGING = _SAME | _TRANSPOSITIONS | SIZE_CHANGES | {_aten.select.int, _aten.slice.Tensor}


def _order(node: Node) -> list[int]:
    """Returns the permutation that a transposition applies to the dimensions of its operand."""
    rank = node.meta["val"].dim()
    order = list(range(rank))
    if node.target == _aten.permute.default:
        return [dim % rank for dim in node.args[1]]
    one, other = (node.args[1], node.args[2]) if node.target == _aten.transpose.int else (-2, -1)
    if rank > 1:
        order[one], order[other] = order[other], order[one]
    return order


def _is_square(node: Node) -> bool:
    if node.target == _aten.mul.Tensor:
        return node.args[0] is node.args[1]
    return node.target == _aten.square.default or (node.target == _aten.pow.Tensor_Scalar and node.args[1] == 2)


def _is_sum_of_last(node: Node) -> bool:
    """Whether a node sums its operand over the last dimension."""
    if node.target != _aten.sum.dim_IntList or len(node.args) != 2 or node.kwargs:
        return False
    rank = node.args[0].meta["val"].dim()
    return [dim % rank for dim in node.args[1]] == [rank - 1]


def _squared_magnitude(node: Node) -> Node | None:
    """Returns z if a node computes |z|^2 in any notation, or None."""
    args = [each for each in node.args if isinstance(each, Node)]
    if node.target == _aten.add.Tensor and len(args) == 2 and not node.kwargs and all(map(_is_square, args)):
        parts = [each.args[0] for each in args]
        if {part.target for part in parts} == {_aten.real.default, _aten.imag.default}:
            return parts[0].args[0] if parts[0].args[0] is parts[1].args[0] else None
    if _is_sum_of_last(node) and _is_square(args[0]) and args[0].args[0].target == _aten.view_as_real.default:
        return args[0].args[0].args[0]
    if node.target == _aten.real.default and args[0].target == _aten.mul.Tensor:
        one, other = args[0].args
        for z, conjugate in ((one, other), (other, one)):
            if isinstance(conjugate, Node) and conjugate.target in _CONJUGATES and conjugate.args[0] is z:
                return z
    return None


def _bands(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Returns, per row of a matrix, the first nonzero column and the number of columns up to the last one, and their
    values.
    """
    bands, weights = [], []
    for row in matrix:
        columns = row.nonzero().flatten().tolist()
        first, end = (columns[0], columns[-1] + 1) if columns else (0, 0)
        bands.append([first, end - first])
        weights.append(row[first:end])
    return torch.tensor(bands, dtype=torch.int32).reshape(-1, 2), torch.cat(weights)


def _normalized(dims: Any, rank: int) -> Any:
    """Normalizes dims of a complex tensor to those of its pairs."""
    return [dim % rank for dim in dims] if isinstance(dims, (list, tuple)) else dims % rank


class _RealNumbers:
    """Rewrites a program node by node."""

    def __init__(self, program: ExportedProgram, path: Path) -> None:
        self._program = program
        self._graph: Graph = program.graph
        self._path = path
        # Complex nodes that are just transforms of signals.
        self._spectra: dict[Node, _Spectrum] = {}
        # Maps complex nodes to their real and imaginary part.
        self._pairs: dict[Node, Node] = {}
        # Maps real nodes to their spectrum if they are absolute values of it (False) or the squares (True).
        self._powers: dict[Node, tuple[_Spectrum, bool]] = {}
        # Maps complex nodes with several results to the real and imaginary parts of these.
        self._several: dict[Node, list[Node]] = {}
        self._constants: dict[str, Node] = {}
        # The node that is being rewritten.
        self._node: Node = next(iter(program.graph.nodes))

    def rewrite(self) -> None:
        """Rewrites the program's nodes."""
        for node in list(self._graph.nodes):
            self._node = node
            z = _squared_magnitude(node) if node.op == "call_function" else None
            if z is not None:
                with self._graph.inserting_before(node):
                    square = self._emit(_aten.square.default, self._emit(_aten.abs.default, z))
                replace_node(self._program, node, square)
            elif node.target in _ALONG_LAST:
                with self._graph.inserting_before(node):
                    replace_node(self._program, node, self._along_last(node))
        self._graph.eliminate_dead_code()
        for node in list(self._graph.nodes):
            self._node = node
            if node.op == "output":
                self._check_outputs(node)
            elif node.op == "placeholder":
                self._check_input(node)
            elif node.op == "call_function":
                with self._graph.inserting_before(node):
                    self._rewrite(node)
        self._graph.eliminate_dead_code()
        for node in list(self._graph.nodes):
            if node.op == "placeholder" and _is_complex(node) and not node.users and self._value(node) is not None:
                delete_constant_placeholder(self._program, node)
        self._program.graph_module.recompile()

    def _rewrite(self, node: Node) -> None:
        operands = node.all_input_nodes
        transform = _TRANSFORMS.get(node.target)
        if transform is not None and not any(map(_is_complex, operands)):
            self._spectra[node] = transform(self, node)
            if not _is_complex(node):
                replace_node(self._program, node, self._pair(node))
        elif node.target == _aten.view_as_complex.default:
            self._pairs[node] = operands[0]
        elif node.target in (_aten.complex.default, _aten.polar.default):
            self._pairs[node] = self._joined(*self._parts_given(node))
        elif node.target == operator.getitem and operands[0] in self._several:
            self._pairs[node] = self._several[operands[0]][node.args[1]]
        elif any(map(_is_complex, operands)):
            self._compute(node)
        elif _is_complex(node):
            self._pairs[node] = self._made_complex(node)
        elif any(each in self._powers for each in operands):
            self._follow_powers(node)

    def _check_input(self, node: Node) -> None:
        if not _is_complex(node) or not node.users:
            return
        value = self._value(node)
        if value is not None:
            pair = torch.view_as_real(value.detach().resolve_conj()).contiguous()
            self._pairs[node] = self._constant(f"pairs_{node.name}", pair)
        else:
            raise UserError(
                f"{self._path}: {node.name} is complex, which a program cannot hold; use torch.view_as_real(...) of "
                "it, and torch.view_as_complex() in the model."
            )

    def _check_outputs(self, output: Node) -> None:
        if any(map(_is_complex, output.all_input_nodes)):
            raise UserError(
                f"{self._path}: the model returns complex numbers, which a program cannot hold; return "
                "torch.view_as_real(...) of them."
            )

    def _unknown(self) -> UserError:
        return UserError(
            f"{written(self._node, self._path)}: what the model does here with complex numbers has no form on a "
            "device; use abs(), angle(), real and imag, sums and products, or torch.view_as_real() and real numbers."
        )

    def _emit(self, target: Callable[..., Any], *args: Any, **options: Any) -> Node:
        """Emits a call with the source location of the current node."""
        return emit(self._node, target, *args, **options)

    def _constant(self, name: str, value: Tensor) -> Node:
        if name not in self._constants:
            with self._graph.inserting_before(next(iter(self._graph.nodes))):
                self._constants[name] = create_constant_placeholder(
                    self._program, self._graph, f"b_{name}", InputKind.BUFFER, value, persistent_buffer=True
                )
        return self._constants[name]

    def _run(self, target: Any, spectrum: _Spectrum, filters: tuple[Node, ...], *options: bool) -> Node:
        """Emits one of our own operators on a spectrum."""
        roots = self._constant(f"fft_roots_{spectrum.size}", fft_roots(spectrum.size))
        arguments = (spectrum.signal, spectrum.window, roots, *filters, *spectrum.frames, *options)
        return self._emit(operator.getitem, emit(spectrum.transform, target, *arguments), 0)

    # Complex numbers.

    def _pair(self, node: Node) -> Node:
        """Returns real and imaginary part of a complex node."""
        spectrum = self._spectra.get(node)
        if node not in self._pairs and spectrum is not None:
            pair = self._run(_own.stft.default, spectrum, (), spectrum.onesided)
            if spectrum.has_frames and spectrum.frames_first:
                pair = self._emit(_aten.transpose.int, pair, 1, 2)
            self._pairs[node] = self._emit(_aten.reshape.default, pair, [*spectrum.shape, 2])
        return self._pairs[node]

    def _part(self, pair: Node, index: int) -> Node:
        return self._emit(_aten.select.int, pair, -1, index)

    def _joined(self, real: Node, imaginary: Node) -> Node:
        return self._emit(_aten.stack.default, [real, imaginary], -1)

    def _parts_given(self, node: Node) -> list[Node]:
        """Returns the real and imaginary part that a node combines to a complex number."""
        one, other = node.args
        if node.target == _aten.polar.default:
            functions = (_aten.cos.default, _aten.sin.default)
            return [self._emit(_aten.mul.Tensor, one, self._emit(function, other)) for function in functions]
        shape = list(node.meta["val"].shape)
        return [self._emit(_aten.expand.default, part, shape) for part in (one, other)]

    def _compute(self, node: Node) -> None:
        """Computes the result of a node with complex operands."""
        source = node.args[0]
        spectrum = self._spectra.get(source) if isinstance(source, Node) else None
        moved = None if spectrum is None else spectrum.rearranged(node)
        if moved is not None:
            self._spectra[node] = moved
        elif node.target == _aten.abs.default:
            self._absolute(node)
        elif node.target in (_aten.real.default, _aten.imag.default):
            replace_node(self._program, node, self._part(self._pair(source), int(node.target == _aten.imag.default)))
        elif node.target == _aten.angle.default:
            parts = [self._part(self._pair(source), index) for index in (1, 0)]
            replace_node(self._program, node, self._emit(_aten.atan2.default, *parts))
        elif node.target == _aten.view_as_real.default:
            replace_node(self._program, node, self._pair(source))
        elif node.target == _aten.fft_irfft.default:
            replace_node(self._program, node, self._signals_of(node))
        elif node.target == _aten.istft.default and not _is_complex(node):
            replace_node(self._program, node, self._overlapped(node))
        elif node.target in (_aten.fft_fft.default, _aten.fft_ifft.default):
            self._pairs[node] = self._transformed(node)
        elif _is_complex(node):
            self._pairs[node] = self._complex_result(node)
        else:
            self._in_parts(node)

    def _complex_result(self, node: Node) -> Node:
        target, args = node.target, list(node.args)
        first = args[0]
        if target in _SAME:
            return self._pair(first)
        if target in _CONJUGATES:
            pair = self._pair(first)
            return self._joined(self._part(pair, 0), self._emit(_aten.neg.default, self._part(pair, 1)))
        if target == _aten.neg.default:
            return self._emit(target, self._pair(first))
        if target == _aten.mul.Tensor:
            return self._product(*args)
        if _is_square(node):
            return self._product(first, first)
        if target == _aten.div.Tensor and not _is_complex(args[1]) and not node.kwargs:
            return self._emit(target, self._pair(first), self._beside_pairs(args[1]))
        if target in _POWERS and not _is_complex(args[1]):
            return self._raised(target, *args)
        if target in SUMS and all(isinstance(each, Node) and _is_complex(each) for each in args):
            one, other = map(self._pair, args)
            if one.meta["val"].dim() == other.meta["val"].dim():
                return self._emit(target, one, other, **node.kwargs)
        if target in RESHAPES:
            return self._emit(_aten.reshape.default, self._pair(first), [*node.meta["val"].shape, 2])
        if target == _aten.expand.default:
            return self._emit(target, self._pair(first), [*node.meta["val"].shape, 2])
        if target in _ON_DIMS and not (target == _aten.roll.default and len(args) < 3):
            return self._on_dims(node)
        return self._in_parts(node)

    def _made_complex(self, node: Node) -> Node:
        """Computes the complex result of a node with real operands or none."""
        shape, operands = list(node.meta["val"].shape), node.all_input_nodes
        if node.target == _aten.mul.Tensor:
            return self._product(*node.args)
        if node.target in _CASTS:
            part = self._emit(_aten.to.dtype, operands[0], node.meta["val"].dtype.to_real())
            return self._joined(part, self._emit(_aten.zeros_like.default, part))
        if not operands and all(isinstance(size, int) for size in shape):
            numbers = torch.view_as_real(node.target(*node.args, **node.kwargs))
            return self._constant(f"made_{node.name}", numbers)
        if node.target in FILLS:
            real = self._emit(_aten.full.default, shape, float(FILLS[node.target]))
            return self._joined(real, self._emit(_aten.zeros_like.default, real))
        parts = {each: [each, self._emit(_aten.zeros_like.default, each)] for each in operands}
        return self._computed(node, parts)

    def _in_parts(self, node: Node) -> Node:
        """Computes a node by PyTorch's decomposition into real and imaginary parts; a real result replaces the node."""
        operands = {
            each: [self._part(self._pair(each), index) for index in (0, 1)] if _is_complex(each) else [each]
            for each in node.all_input_nodes
        }
        return self._computed(node, operands)

    def _computed(self, node: Node, operands: dict[Node, list[Node]]) -> Node:
        """Emits the computation of a node on real tensors, or on real and imaginary parts."""
        # Imported here: it takes time, and few programs need it.
        from tools.pipeline.export.rewrite.spectra.complex_parts import real_graph

        module = real_graph(node, {each: [part.meta["val"] for part in parts] for each, parts in operands.items()})
        if module is None:
            raise self._unknown()
        given = iter([part for parts in operands.values() for part in parts])
        copies: dict[Node, Any] = {}
        for each in module.graph.nodes:
            if each.op == "placeholder":
                copies[each] = next(given)
            elif each.op == "get_attr":
                value = getattr(module, each.target)
                copies[each] = self._constant(f"{node.name}_{each.name}", value)
            elif each.op == "call_function":
                args, options = torch.fx.node.map_arg((each.args, each.kwargs), copies.__getitem__)
                copies[each] = self._emit(each.target, *args, **options)
        (results,) = module.graph.output_node().args
        parts = [copies[result] for result in results]
        if isinstance(node.meta["val"], (list, tuple)):
            self._several[node] = [self._joined(*parts[index : index + 2]) for index in range(0, len(parts), 2)]
        elif not _is_complex(node):
            replace_node(self._program, node, parts[0])
            return parts[0]
        return self._joined(*parts) if len(parts) == 2 else parts[0]

    def _on_dims(self, node: Node) -> Node:
        args = list(node.args)
        many = isinstance(args[0], (list, tuple))
        rank = (args[0][0] if many else args[0]).meta["val"].dim()
        adds_dim = node.target in (_aten.unsqueeze.default, _aten.stack.default)
        places = _ON_DIMS[node.target]
        if len(args) <= max(places):
            args.append(0)
        for place in places:
            args[place] = _normalized(args[place], rank + adds_dim)
        if node.target == _aten.permute.default:
            args[1] = [*args[1], rank]
        args[0] = [self._pair(each) for each in args[0]] if many else self._pair(args[0])
        return self._emit(node.target, *args, **node.kwargs)

    def _beside_pairs(self, operand: Any) -> Any:
        """Broadcasts a real operand against pairs."""
        return self._emit(_aten.unsqueeze.default, operand, -1) if isinstance(operand, Node) else operand

    def _product(self, one: Any, other: Any) -> Node:
        if not isinstance(one, Node) or not _is_complex(one):
            one, other = other, one
        if not isinstance(one, Node) or not _is_complex(one):
            # The product of a complex number and a real tensor.
            one, number = (other, one) if isinstance(other, Node) else (one, other)
            return self._joined(*(self._emit(_aten.mul.Tensor, one, part) for part in (number.real, number.imag)))
        pair = self._pair(one)
        if not _is_complex(other):
            return self._emit(_aten.mul.Tensor, pair, self._beside_pairs(other))
        a, b = (self._part(pair, index) for index in (0, 1))
        if isinstance(other, complex):
            c, d = other.real, other.imag
        else:
            c, d = (self._part(self._pair(other), index) for index in (0, 1))
        ac, bd, ad, bc = (self._emit(_aten.mul.Tensor, *factors) for factors in ((a, c), (b, d), (a, d), (b, c)))
        return self._joined(self._emit(_aten.sub.Tensor, ac, bd), self._emit(_aten.add.Tensor, ad, bc))

    def _raised(self, target: Any, base: Node, exponent: Any) -> Node:
        """Computes a power with a real exponent."""
        real, imaginary = (self._part(self._pair(base), index) for index in (0, 1))
        size = self._emit(target, self._emit(_aten.hypot.default, real, imaginary), exponent)
        angle = self._emit(_aten.mul.Tensor, self._emit(_aten.atan2.default, imaginary, real), exponent)
        parts = [self._emit(function, angle) for function in (_aten.cos.default, _aten.sin.default)]
        return self._joined(*(self._emit(_aten.mul.Tensor, size, part) for part in parts))

    # Absolute values, and sums of them.

    def _absolute(self, node: Node) -> None:
        source = node.args[0]
        spectrum = self._spectra.get(source)
        squares = [user for user in node.users if _is_square(user)]
        if spectrum is None:
            pair = self._pair(source)
            power = self._emit(_aten.sum.dim_IntList, self._emit(_aten.mul.Tensor, pair, pair), [-1])
            replace_node(self._program, node, self._emit(_aten.sqrt.default, power))
        elif squares and len(squares) == len(node.users):
            power = self._power(spectrum, True)
            for square in squares:
                replace_node(self._program, square, power)
        else:
            replace_node(self._program, node, self._power(spectrum, False))

    def _power(self, spectrum: _Spectrum, squared: bool) -> Node:
        result = self._run(_own.spectrogram.default, spectrum, (), spectrum.onesided, squared, spectrum.frames_first)
        result = self._emit(_aten.view.default, result, list(spectrum.shape))
        self._powers[result] = (spectrum, squared)
        return result

    def _follow_powers(self, node: Node) -> None:
        """Follows absolute values to a product with a constant matrix, which is then computed from the spectrum."""
        first = node.args[0]
        if isinstance(first, Node) and first in self._powers:
            spectrum, squared = self._powers[first]
            moved = spectrum.rearranged(node)
            if moved is not None:
                self._powers[node] = (moved, squared)
                return
        if node.target == _aten.matmul.default:
            one, other = node.args
            if self._has_frames_first(one):
                self._filter(node, one, other, is_transposed=True)
            elif other in self._powers:
                spectrum = self._powers[other][0]
                if len(spectrum.shape) == 1 or not spectrum.frames_first:
                    self._filter(node, other, one, is_transposed=False)
        elif node.target == _aten.linear.default and len(node.args) == 2 and self._has_frames_first(first):
            self._filter(node, first, node.args[1], is_transposed=False)

    def _has_frames_first(self, node: Any) -> bool:
        return node in self._powers and self._powers[node][0].frames_first

    def _filter(self, node: Node, power: Node, matrix: Any, is_transposed: bool) -> None:
        """Sums frequencies by a constant matrix [filters, frequencies], or the transposed one."""
        spectrum, squared = self._powers[power]
        value = self._value(matrix)
        if value is None or value.dim() != 2 or not spectrum.onesided or not self._is_read_once(power):
            return
        bands, weights = _bands((value.T if is_transposed else value).detach().float())
        result = dataclasses.replace(spectrum, shape=tuple(node.meta["val"].shape))
        # A transposition of the result costs nothing here.
        (user,) = node.users if len(node.users) == 1 else (None,)
        moved = result.rearranged(user) if user is not None and user.target in _TRANSPOSITIONS else None
        if user is not None and moved is not None:
            node, result = user, moved
        number = len(self._constants)
        filters = (self._constant(f"bands_{number}", bands), self._constant(f"weights_{number}", weights))
        filtered = self._run(_own.filtered_spectrogram.default, result, filters, squared, result.frames_first)
        replace_node(self._program, node, self._emit(_aten.view.default, filtered, list(result.shape)))

    def _is_read_once(self, power: Node) -> bool:
        """Whether only the current node reads a spectrogram, possibly in another order."""
        node = power
        while node in self._powers and len(node.users) == 1:
            node = node.all_input_nodes[0]
        return node not in self._powers

    def _value(self, node: Any) -> Tensor | None:
        """Evaluates a node that only depends on constants; returns None for others."""
        if not isinstance(node, Node):
            return None
        signature = self._program.graph_signature
        if node.op == "placeholder":
            name = (
                signature.inputs_to_buffers.get(node.name)
                or signature.inputs_to_parameters.get(node.name)
                or signature.inputs_to_lifted_tensor_constants.get(node.name)
            )
            if name is None or name in signature.buffers_to_mutate.values():
                return None
            value = self._program.state_dict.get(name, self._program.constants.get(name))
            return value if isinstance(value, Tensor) else None
        if node.op != "call_function" or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            return None
        operands = {each: self._value(each) for each in node.all_input_nodes}
        if any(value is None for value in operands.values()):
            return None
        args, options = torch.fx.node.map_arg((node.args, node.kwargs), operands.__getitem__)
        result = node.target(*args, **options)
        return result if isinstance(result, Tensor) else None

    # Transforms.

    def _signal(self, x: Node, takes_pad: bool) -> tuple[Node, int, bool, float]:
        """Returns the source of frames: [signals, samples], pad, reflect, and a factor for all samples."""
        pad, reflect, factor = 0, False, 1.0
        samples = x.meta["val"].shape[-1]
        while x.op == "call_function" and x.args and isinstance(x.args[0], Node):
            source = x.args[0]
            value = source.meta["val"]
            if x.target in RESHAPES | _SAME | {_aten.unsqueeze.default} and value.shape[-1:] == (samples,):
                pass
            elif x.target == _aten.pad.default and takes_pad and pad == 0 and _is_even_pad(x):
                pad, reflect = x.args[1][0], len(x.args) > 2 and x.args[2] == "reflect"
                samples -= 2 * pad
            elif x.target == _aten.mul.Tensor and _is_number(x.args[1]) and value.dtype == torch.float32:
                factor *= x.args[1]
            elif x.target == _aten.div.Tensor and _is_number(x.args[1]) and value.dtype == torch.float32:
                factor /= x.args[1]
            elif x.target != _aten.to.dtype or value.dtype != torch.int16:
                break
            x = source
        value = x.meta["val"]
        if value.dtype not in (torch.float32, torch.int16):
            dtype = str(value.dtype).removeprefix("torch.")
            raise UserError(
                f"{origin(self._node, self._path)}: a spectrum of {dtype} numbers has no form on a device; use float32."
            )
        if list(value.shape) != [value.numel() // max(samples, 1), samples]:
            x = self._emit(_aten.reshape.default, x, [-1, samples])
        return x, pad, reflect, factor

    def _check_sizes(self, x: Node) -> None:
        if not all(isinstance(size, int) for size in x.meta["val"].shape):
            raise UserError(
                f"{origin(self._node, self._path)}: a spectrum on a device is of a signal whose size is known at build "
                "time; leave it out of dynamic_shapes()."
            )

    def _window(self, window: Node | None, size: int, before: int, factor: float) -> Node | None:
        """Returns a window of `size` elements: the given one, padded with zeros on both sides, times a factor. None
        means ones.
        """
        if window is None:
            return None if factor == 1.0 else self._emit(_aten.full.default, [size], factor)
        missing = size - window.meta["val"].shape[0]
        if missing:
            window = self._emit(_aten.constant_pad_nd.default, window, [before, missing - before])
        return window if factor == 1.0 else self._emit(_aten.mul.Tensor, window, factor)

    def _stft(self, node: Node) -> _Spectrum:
        given = named_arguments(node)
        x, size = given["self"], given["n_fft"]
        self._check_sizes(x)
        if given.get("center"):
            rank = x.meta["val"].dim()
            shape = list(x.meta["val"].shape)
            x = self._emit(_aten.view.default, x, [*[1] * (3 - rank), *shape])
            x = self._emit(_aten.pad.default, x, [size // 2, size // 2], given["pad_mode"])
            x = self._emit(_aten.view.default, x, [*shape[:-1], shape[-1] + size // 2 * 2])
        hop = given["hop_length"] or size // 4
        length = given["win_length"] or size
        window = given["window"]
        if window is None and length < size:
            window = self._emit(_aten.full.default, [length], 1.0)
        count = 1 + (x.meta["val"].shape[-1] - size) // hop
        signal, pad, reflect, factor = self._signal(x, takes_pad=True)
        if given["normalized"]:
            factor /= math.sqrt(size)
        window = self._window(window, size, (size - length) // 2, factor)
        onesided = given["onesided"] is None or given["onesided"]
        result = node.meta["val"].shape
        of_transforms = tuple(result if _is_complex(node) else result[:-1])
        return _Spectrum(node, signal, window, size, hop, pad, reflect, count, onesided, of_transforms, True, False)

    def _along_last(self, node: Node) -> Node:
        """Applies the same transforms along the last dimension, one after another, by operators that have a real form.
        """
        given = named_arguments(node)
        x, norm = given["self"], given["norm"]
        rank = x.meta["val"].dim()
        if "n" in given:
            return self._along(node.target, x, given["n"], given["dim"], norm)
        sizes, dims = given["s"], given["dim"]
        if dims is None:
            dims = range(rank if sizes is None else len(sizes))
            dims = [dim - len(dims) for dim in dims]
        sizes = [None if sizes is None or sizes[index] == -1 else sizes[index] for index in range(len(dims))]
        others, last = _ALONG_LAST[node.target]
        axes = [(others, sizes[index], dims[index]) for index in range(len(dims) - 1)]
        axes.append((last, sizes[-1], dims[-1]))
        # For real signals, the last dimension has half a spectrum: it is transformed first, and last by the inverse.
        for target, size, dim in axes if last == _aten.fft_irfft.default else reversed(axes):
            x = self._along(target, x, size, dim, norm)
        return x

    def _along(self, target: Any, x: Node, size: int | None, dim: int, norm: str | None) -> Node:
        rank = x.meta["val"].dim()
        dim %= rank
        if dim != rank - 1:
            x = self._emit(_aten.transpose.int, x, dim, rank - 1)
        if target in (_aten.fft_hfft.default, _aten.fft_irfft.default) and not _is_complex(x):
            x = self._emit(_aten.to.dtype, x, x.meta["val"].dtype.to_complex())
        if target == _aten.fft_hfft.default:
            conjugate = self._emit(_aten.conj_physical.default, x)
            x = self._emit(_aten.fft_irfft.default, conjugate, size, -1, _INVERSE_NORMS[norm])
        elif target == _aten.fft_ihfft.default or (target == _aten.fft_ifft.default and not _is_complex(x)):
            forward = _aten.fft_rfft.default if target == _aten.fft_ihfft.default else _aten.fft_fft.default
            x = self._emit(_aten.conj_physical.default, self._emit(forward, x, size, -1, _INVERSE_NORMS[norm]))
        else:
            x = self._emit(target, x, size, -1, norm)
        return x if dim == rank - 1 else self._emit(_aten.transpose.int, x, dim, rank - 1)

    def _fft(self, node: Node) -> _Spectrum:
        """Transforms the last dimension, or frames that unfold() cut from signals, possibly with a window."""
        given = named_arguments(node)
        x = given["self"]
        self._check_sizes(x)
        rank = x.meta["val"].dim()
        length = x.meta["val"].shape[-1]
        size = given["n"] or length
        scale = _scale(given["norm"], size)
        onesided = node.target == _aten.fft_rfft.default
        shape = tuple(node.meta["val"].shape)
        source, window = x, None
        if x.target == _aten.mul.Tensor and isinstance(x.args[1], Node):
            for frames, factors in (x.args, x.args[::-1]):
                if frames.target == _aten.unfold.default and factors.meta["val"].shape == (length,):
                    source, window = frames, factors
        is_cut = source.target == _aten.unfold.default and size >= length
        if is_cut and source.args[1] % (rank - 1) == rank - 2 and self._is_constant_window(window):
            signal, pad, reflect, factor = self._signal(source.args[0], takes_pad=False)
            if window is None and size > length:
                window = self._emit(_aten.full.default, [length], 1.0)
            window = self._window(window, size, 0, factor * scale)
            hop, count = source.args[3], shape[-2]
            return _Spectrum(node, signal, window, size, hop, pad, reflect, count, onesided, shape, True, True)
        signal, pad, reflect, factor = self._signal(x, takes_pad=False)
        window = self._window(None, size, 0, factor * scale)
        return _Spectrum(node, signal, window, size, size, pad, reflect, 1, onesided, shape, False, True)

    def _transformed(self, node: Node) -> Node:
        """Transforms complex numbers in either direction, as the sum of the transforms of their real and imaginary
        parts.
        """
        given = named_arguments(node)
        source = given["self"]
        self._check_sizes(source)
        pair = self._pair(source)
        *outer, length, _ = pair.meta["val"].shape
        size = given["n"] or length
        if pair.meta["val"].dtype != torch.float32:
            raise self._unknown()
        if length > size:
            pair = self._emit(_aten.slice.Tensor, pair, -2, 0, size)
        elif length < size:
            pair = self._emit(_aten.constant_pad_nd.default, pair, [0, 0, 0, size - length])
        signal = self._emit(_aten.transpose.int, pair, len(outer), len(outer) + 1)
        signal = self._emit(_aten.reshape.default, signal, [-1, size])
        is_inverse = node.target == _aten.fft_ifft.default
        norm = _INVERSE_NORMS[given["norm"]] if is_inverse else given["norm"]
        window = self._window(None, size, 0, _scale(norm, size))
        spectrum = _Spectrum(node, signal, window, size, size, 0, False, 1, False, (), False, True)
        result = self._run(_own.stft.default, spectrum, (), False)
        result = self._emit(_aten.reshape.default, result, [*outer, 2, size, 2])
        (a, b), (c, d) = (
            [self._part(self._emit(_aten.select.int, result, -3, each), part) for part in (0, 1)] for each in (0, 1)
        )
        # The inverse transform of real numbers is the conjugate of the forward one.
        add, sub = _aten.add.Tensor, _aten.sub.Tensor
        if is_inverse:
            return self._joined(self._emit(add, a, d), self._emit(sub, c, b))
        return self._joined(self._emit(sub, a, d), self._emit(add, b, c))

    # Inverse transforms.

    def _inverse(self, pair: Node, size: int, norm: str | None) -> Node:
        """Returns the real signals [..., size] of spectra [..., frequencies, 2], of which only the half of a real
        signal is read.

        The real part A and the imaginary part B of a real signal's spectrum are even and odd. So the signal is the
        discrete Hartley transform of A - B, which is the difference of real and imaginary part of the Fourier transform
        of A - B (R. N. Bracewell, The Fourier Transform and Its Applications, chapter 19). The operator for spectra
        computes it.
        """
        value = pair.meta["val"]
        *outer, frequencies, _ = value.shape
        if value.dtype != torch.float32 or size < 1:
            raise self._unknown()
        used = size // 2 + 1
        if frequencies > used:
            pair = self._emit(_aten.slice.Tensor, pair, -2, 0, used)
        elif frequencies < used:
            pair = self._emit(_aten.constant_pad_nd.default, pair, [0, 0, 0, used - frequencies])
        even, odd = (self._part(pair, index) for index in (0, 1))
        # The imaginary parts of the first frequency, and of the last one of an even size, are zero for real signals.
        end = size - used + 1
        inner = self._emit(_aten.slice.Tensor, odd, -1, 1, end)
        odd = self._emit(_aten.constant_pad_nd.default, inner, [1, used - end])
        transformed = self._emit(_aten.sub.Tensor, even, odd)
        if end > 1:
            mirrored = self._emit(_aten.slice.Tensor, self._emit(_aten.add.Tensor, even, odd), -1, 1, end)
            mirrored = self._emit(_aten.flip.default, mirrored, [mirrored.meta["val"].dim() - 1])
            transformed = self._emit(_aten.cat.default, [transformed, mirrored], -1)
        signal = self._emit(_aten.reshape.default, transformed, [-1, size])
        window = self._window(None, size, 0, _scale(_INVERSE_NORMS[norm], size))
        shape = (math.prod(outer), size)
        spectrum = _Spectrum(self._node, signal, window, size, size, 0, False, 1, False, shape, False, True)
        result = self._emit(_aten.reshape.default, self._run(_own.stft.default, spectrum, (), False), [*shape, 2])
        parts = [self._part(result, index) for index in (0, 1)]
        return self._emit(_aten.reshape.default, self._emit(_aten.sub.Tensor, *parts), [*outer, size])

    def _signals_of(self, node: Node) -> Node:
        given = named_arguments(node)
        source = given["self"]
        self._check_sizes(source)
        size = 2 * (source.meta["val"].shape[-1] - 1) if given["n"] is None else given["n"]
        return self._inverse(self._pair(source), size, given["norm"])

    def _overlapped(self, node: Node) -> Node:
        """Reconstructs signals from transforms of their frames, as torch.istft() documents it."""
        given = named_arguments(node)
        source, size = given["self"], given["n_fft"]
        self._check_sizes(source)
        hop, length = given["hop_length"] or size // 4, given["win_length"] or size
        window = given["window"]
        if window is None:
            window = self._emit(_aten.full.default, [length], 1.0)
        window = self._window(window, size, (size - length) // 2, 1.0)
        assert window is not None
        rank = source.meta["val"].dim()
        frames = self._emit(_aten.transpose.int, self._pair(source), rank - 2, rank - 1)
        frames = self._inverse(frames, size, "ortho" if given["normalized"] else None)
        sums = self._overlap(self._emit(_aten.mul.Tensor, frames, window), size, hop)
        # The sum of the windows of all frames.
        count = frames.meta["val"].shape[-2]
        squares = self._emit(_aten.expand.default, self._emit(_aten.mul.Tensor, window, window), [count, size])
        weights = self._overlap(squares, size, hop)
        samples = size + hop * (count - 1)
        start = size // 2 if given["center"] else 0
        wanted = samples - 2 * start if given["length"] is None else given["length"]
        end = min(start + wanted, samples)
        sums, weights = (self._emit(_aten.slice.Tensor, each, -1, start, end) for each in (sums, weights))
        result = self._emit(_aten.mul.Tensor, sums, self._emit(_aten.reciprocal.default, weights))
        missing = wanted - (end - start)
        return self._emit(_aten.constant_pad_nd.default, result, [0, missing]) if missing else result

    def _overlap(self, frames: Node, size: int, hop: int) -> Node:
        """Returns overlap-add sums of frames [..., count, size] that are `hop` samples apart: [..., samples]."""
        parts = -(-size // hop)
        if size % hop:
            frames = self._emit(_aten.constant_pad_nd.default, frames, [0, parts * hop - size])
        *outer, count, _ = frames.meta["val"].shape
        total: Node | None = None
        # The first `hop` samples of all frames form a contiguous signal, and so do the next ones, `hop` samples later.
        for index in range(parts):
            part = self._emit(_aten.slice.Tensor, frames, -1, index * hop, (index + 1) * hop)
            part = self._emit(_aten.reshape.default, part, [*outer, count * hop])
            part = self._emit(_aten.constant_pad_nd.default, part, [index * hop, (parts - 1 - index) * hop])
            total = part if total is None else self._emit(_aten.add.Tensor, total, part)
        assert total is not None
        return total

    def _is_constant_window(self, window: Node | None) -> bool:
        return window is None or self._value(window) is not None


_TRANSFORMS: dict[Any, Callable[[_RealNumbers, Node], _Spectrum]] = {
    _aten.stft.default: _RealNumbers._stft,
    _aten.stft.center: _RealNumbers._stft,
    _aten.fft_rfft.default: _RealNumbers._fft,
    _aten.fft_fft.default: _RealNumbers._fft,
}


_CASTS = (_aten.to.dtype, _aten._to_copy.default)
# Transforms that are rewritten to the last dimension: the operator for all dimensions but the last, and for the last.
_ALONG_LAST: dict[Any, tuple[Any, Any]] = {
    **{
        target: (target, target)
        for target in (
            _aten.fft_fft.default,
            _aten.fft_hfft.default,
            _aten.fft_ifft.default,
            _aten.fft_ihfft.default,
            _aten.fft_irfft.default,
            _aten.fft_rfft.default,
        )
    },
    _aten.fft_fft2.default: (_aten.fft_fft.default, _aten.fft_fft.default),
    _aten.fft_fftn.default: (_aten.fft_fft.default, _aten.fft_fft.default),
    _aten.fft_ifft2.default: (_aten.fft_ifft.default, _aten.fft_ifft.default),
    _aten.fft_ifftn.default: (_aten.fft_ifft.default, _aten.fft_ifft.default),
    _aten.fft_irfft2.default: (_aten.fft_ifft.default, _aten.fft_irfft.default),
    _aten.fft_irfftn.default: (_aten.fft_ifft.default, _aten.fft_irfft.default),
    _aten.fft_rfft2.default: (_aten.fft_fft.default, _aten.fft_rfft.default),
    _aten.fft_rfftn.default: (_aten.fft_fft.default, _aten.fft_rfft.default),
}
# The normalization of a transform that is computed by the inverse transform.
_INVERSE_NORMS = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _scale(norm: str | None, size: int) -> float:
    """Returns the factor of a forward transform."""
    return {"forward": 1 / size, "ortho": 1 / math.sqrt(size)}.get(norm or "", 1.0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_even_pad(node: Node) -> bool:
    """Whether a node pads the last dimension equally on both sides, by reflection or with zeros."""
    given = named_arguments(node)
    amounts, mode = given["pad"], given["mode"]
    if len(amounts) != 2 or amounts[0] != amounts[1] or amounts[0] < 0:
        return False
    return mode == "reflect" or (mode == "constant" and not given["value"])
