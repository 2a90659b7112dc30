"""Replaces complex numbers by real ones, and spectra by operators of our own, in a captured program.

A program can't hold complex numbers. Each complex tensor becomes a real one with a last dimension of two, real and
imaginary part, and operators on it are written in real numbers. `torch.stft` and `torch.fft` become the operators of
spectrum_operators.py. Where only absolute values or their squares are read, and where a constant matrix such as a mel
filter bank sums these, the operator computes just that, and the rest is never stored.
"""

import dataclasses
import operator
from pathlib import Path
from typing import Any

import torch
from executorch.backends.transforms.utils import delete_constant_placeholder
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.operators import FILLS, RESHAPES, SUMS
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.ir.rewriting import replace_node, run_decompositions
from tools.pipeline.export.rewrite.spectra.emitter import Emitter
from tools.pipeline.export.rewrite.spectra.spectrum import ALL_TRANSPOSITIONS, SAME, Spectrum
from tools.pipeline.export.rewrite.spectra.transforms import (
    ALONG_LAST,
    FORWARD,
    along_last,
    is_complex,
    overlapped,
    signals_of,
    transformed,
)
from tools.quiet.console import UserError

_aten = torch.ops.aten
_own = torch.ops.torch_fusion

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
_CASTS = (_aten.to.dtype, _aten._to_copy.default)
_POWERS = (_aten.pow.Tensor_Scalar, _aten.pow.Tensor_Tensor)
SPECTRA = (_own.stft.default, _own.spectrogram.default, _own.filtered_spectrogram.default)


def remove_complex_numbers(program: ExportedProgram, path: Path) -> ExportedProgram:
    """Returns the captured program in real numbers; one without complex numbers is returned unchanged.

    Args:
      path: the model file, for messages.

    Raises UserError, with the source line, for operators that have no real form here.
    """
    if not any(is_complex(node) or node.target in ALONG_LAST or node.target in FORWARD for node in program.graph.nodes):
        return program
    if any(is_complex(node) and _is_mutation(node) for node in program.graph.nodes):
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


def _is_mutation(node: Node) -> bool:
    """Whether an operator is an in-place form, detach_ of a complex constant among them: none has a real form here."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


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


class _RealNumbers(Emitter):
    """Rewrites a program node by node."""

    def __init__(self, program: ExportedProgram, path: Path) -> None:
        super().__init__(program, path)
        # Maps real nodes to their spectrum if they are absolute values of it (False) or the squares (True).
        self._powers: dict[Node, tuple[Spectrum, bool]] = {}
        # Maps complex nodes with several results to the real and imaginary parts of these.
        self._several: dict[Node, list[Node]] = {}

    def rewrite(self) -> None:
        """Rewrites the program's nodes."""
        for node in list(self.graph.nodes):
            self.node = node
            z = _squared_magnitude(node) if node.op == "call_function" else None
            if z is not None:
                with self.graph.inserting_before(node):
                    square = self.emit(_aten.square.default, self.emit(_aten.abs.default, z))
                replace_node(self.program, node, square)
            elif node.target in ALONG_LAST:
                with self.graph.inserting_before(node):
                    replace_node(self.program, node, along_last(self, node))
        self.graph.eliminate_dead_code()
        for node in list(self.graph.nodes):
            self.node = node
            if node.op == "output":
                self._check_outputs(node)
            elif node.op == "placeholder":
                self._check_input(node)
            elif node.op == "call_function":
                with self.graph.inserting_before(node):
                    self._rewrite(node)
        self.graph.eliminate_dead_code()
        for node in list(self.graph.nodes):
            if node.op == "placeholder" and is_complex(node) and not node.users and self.value(node) is not None:
                delete_constant_placeholder(self.program, node)
        self.program.graph_module.recompile()

    def _rewrite(self, node: Node) -> None:
        operands = node.all_input_nodes
        transform = FORWARD.get(node.target)
        if transform is not None and not any(map(is_complex, operands)):
            self.spectra[node] = transform(self, node)
            if not is_complex(node):
                replace_node(self.program, node, self.pair(node))
        elif node.target == _aten.view_as_complex.default:
            self.pairs[node] = operands[0]
        elif node.target in (_aten.complex.default, _aten.polar.default):
            self.pairs[node] = self.joined(*self._parts_given(node))
        elif node.target == operator.getitem and operands[0] in self._several:
            self.pairs[node] = self._several[operands[0]][node.args[1]]
        elif any(map(is_complex, operands)):
            self._compute(node)
        elif is_complex(node):
            self.pairs[node] = self._made_complex(node)
        elif any(each in self._powers for each in operands):
            self._follow_powers(node)

    def _check_input(self, node: Node) -> None:
        if not is_complex(node) or not node.users:
            return
        value = self.value(node)
        if value is not None:
            pair = torch.view_as_real(value.detach().resolve_conj()).contiguous()
            self.pairs[node] = self.constant(f"pairs_{node.name}", pair)
        else:
            raise UserError(
                f"{self.path}: {node.name} is complex, which a program cannot hold; use torch.view_as_real(...) of "
                "it, and torch.view_as_complex() in the model."
            )

    def _check_outputs(self, output: Node) -> None:
        if any(map(is_complex, output.all_input_nodes)):
            raise UserError(
                f"{self.path}: the model returns complex numbers, which a program cannot hold; return "
                "torch.view_as_real(...) of them."
            )

    # Complex numbers.

    def _parts_given(self, node: Node) -> list[Node]:
        """Returns the real and imaginary part that a node combines to a complex number."""
        one, other = node.args
        if node.target == _aten.polar.default:
            functions = (_aten.cos.default, _aten.sin.default)
            return [self.emit(_aten.mul.Tensor, one, self.emit(function, other)) for function in functions]
        shape = list(node.meta["val"].shape)
        return [self.emit(_aten.expand.default, part, shape) for part in (one, other)]

    def _compute(self, node: Node) -> None:
        """Computes the result of a node with complex operands."""
        source = node.args[0]
        spectrum = self.spectra.get(source) if isinstance(source, Node) else None
        moved = None if spectrum is None else spectrum.rearranged(node)
        if moved is not None:
            self.spectra[node] = moved
        elif node.target == _aten.abs.default:
            self._absolute(node)
        elif node.target in (_aten.real.default, _aten.imag.default):
            replace_node(self.program, node, self.part(self.pair(source), int(node.target == _aten.imag.default)))
        elif node.target == _aten.angle.default:
            parts = [self.part(self.pair(source), index) for index in (1, 0)]
            replace_node(self.program, node, self.emit(_aten.atan2.default, *parts))
        elif node.target == _aten.view_as_real.default:
            replace_node(self.program, node, self.pair(source))
        elif node.target == _aten.fft_irfft.default:
            replace_node(self.program, node, signals_of(self, node))
        elif node.target == _aten.istft.default and not is_complex(node):
            replace_node(self.program, node, overlapped(self, node))
        elif node.target in (_aten.fft_fft.default, _aten.fft_ifft.default):
            self.pairs[node] = transformed(self, node)
        elif is_complex(node):
            self.pairs[node] = self._complex_result(node)
        else:
            self._in_parts(node)

    def _complex_result(self, node: Node) -> Node:
        target, args = node.target, list(node.args)
        first = args[0]
        if target in SAME:
            return self.pair(first)
        if target in _CONJUGATES:
            pair = self.pair(first)
            return self.joined(self.part(pair, 0), self.emit(_aten.neg.default, self.part(pair, 1)))
        if target == _aten.neg.default:
            return self.emit(target, self.pair(first))
        if target == _aten.mul.Tensor:
            return self._product(*args)
        if _is_square(node):
            return self._product(first, first)
        if target == _aten.div.Tensor and not is_complex(args[1]) and not node.kwargs:
            return self.emit(target, self.pair(first), self._beside_pairs(args[1]))
        if target in _POWERS and not is_complex(args[1]):
            return self._raised(target, *args)
        if target in SUMS and all(isinstance(each, Node) and is_complex(each) for each in args):
            one, other = map(self.pair, args)
            if one.meta["val"].dim() == other.meta["val"].dim():
                return self.emit(target, one, other, **node.kwargs)
        if target in RESHAPES:
            return self.emit(_aten.reshape.default, self.pair(first), [*node.meta["val"].shape, 2])
        if target == _aten.expand.default:
            return self.emit(target, self.pair(first), [*node.meta["val"].shape, 2])
        if target in _ON_DIMS and not (target == _aten.roll.default and len(args) < 3):
            return self._on_dims(node)
        return self._in_parts(node)

    def _made_complex(self, node: Node) -> Node:
        """Computes the complex result of a node with real operands or none."""
        shape, operands = list(node.meta["val"].shape), node.all_input_nodes
        if node.target == _aten.mul.Tensor:
            return self._product(*node.args)
        if node.target in _CASTS:
            part = self.emit(_aten.to.dtype, operands[0], node.meta["val"].dtype.to_real())
            return self.joined(part, self.emit(_aten.zeros_like.default, part))
        if not operands and all(isinstance(size, int) for size in shape):
            numbers = torch.view_as_real(node.target(*node.args, **node.kwargs))
            return self.constant(f"made_{node.name}", numbers)
        if node.target in FILLS:
            real = self.emit(_aten.full.default, shape, float(FILLS[node.target]))
            return self.joined(real, self.emit(_aten.zeros_like.default, real))
        parts = {each: [each, self.emit(_aten.zeros_like.default, each)] for each in operands}
        return self._computed(node, parts)

    def _in_parts(self, node: Node) -> Node:
        """Computes a node by PyTorch's decomposition into real and imaginary parts; a real result replaces the node."""
        operands = {
            each: [self.part(self.pair(each), index) for index in (0, 1)] if is_complex(each) else [each]
            for each in node.all_input_nodes
        }
        return self._computed(node, operands)

    def _computed(self, node: Node, operands: dict[Node, list[Node]]) -> Node:
        """Emits the computation of a node on real tensors, or on real and imaginary parts."""
        # Imported here: it takes time, and few programs need it.
        from tools.pipeline.export.rewrite.spectra.complex_parts import real_graph

        module = real_graph(node, {each: [part.meta["val"] for part in parts] for each, parts in operands.items()})
        if module is None:
            raise self.unknown()
        given = iter([part for parts in operands.values() for part in parts])
        copies: dict[Node, Any] = {}
        for each in module.graph.nodes:
            if each.op == "placeholder":
                copies[each] = next(given)
            elif each.op == "get_attr":
                value = getattr(module, each.target)
                copies[each] = self.constant(f"{node.name}_{each.name}", value)
            elif each.op == "call_function":
                args, options = torch.fx.node.map_arg((each.args, each.kwargs), copies.__getitem__)
                copies[each] = self.emit(each.target, *args, **options)
        (results,) = module.graph.output_node().args
        parts = [copies[result] for result in results]
        if isinstance(node.meta["val"], (list, tuple)):
            self._several[node] = [self.joined(*parts[index : index + 2]) for index in range(0, len(parts), 2)]
        elif not is_complex(node):
            replace_node(self.program, node, parts[0])
            return parts[0]
        return self.joined(*parts) if len(parts) == 2 else parts[0]

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
        args[0] = [self.pair(each) for each in args[0]] if many else self.pair(args[0])
        return self.emit(node.target, *args, **node.kwargs)

    def _beside_pairs(self, operand: Any) -> Any:
        """Broadcasts a real operand against pairs."""
        return self.emit(_aten.unsqueeze.default, operand, -1) if isinstance(operand, Node) else operand

    def _product(self, one: Any, other: Any) -> Node:
        if not isinstance(one, Node) or not is_complex(one):
            one, other = other, one
        if not isinstance(one, Node) or not is_complex(one):
            # The product of a complex number and a real tensor.
            one, number = (other, one) if isinstance(other, Node) else (one, other)
            return self.joined(*(self.emit(_aten.mul.Tensor, one, part) for part in (number.real, number.imag)))
        pair = self.pair(one)
        if not is_complex(other):
            return self.emit(_aten.mul.Tensor, pair, self._beside_pairs(other))
        a, b = (self.part(pair, index) for index in (0, 1))
        if isinstance(other, complex):
            c, d = other.real, other.imag
        else:
            c, d = (self.part(self.pair(other), index) for index in (0, 1))
        ac, bd, ad, bc = (self.emit(_aten.mul.Tensor, *factors) for factors in ((a, c), (b, d), (a, d), (b, c)))
        return self.joined(self.emit(_aten.sub.Tensor, ac, bd), self.emit(_aten.add.Tensor, ad, bc))

    def _raised(self, target: Any, base: Node, exponent: Any) -> Node:
        """Computes a power with a real exponent."""
        real, imaginary = (self.part(self.pair(base), index) for index in (0, 1))
        size = self.emit(target, self.emit(_aten.hypot.default, real, imaginary), exponent)
        angle = self.emit(_aten.mul.Tensor, self.emit(_aten.atan2.default, imaginary, real), exponent)
        parts = [self.emit(function, angle) for function in (_aten.cos.default, _aten.sin.default)]
        return self.joined(*(self.emit(_aten.mul.Tensor, size, part) for part in parts))

    # Absolute values, and sums of them.

    def _absolute(self, node: Node) -> None:
        source = node.args[0]
        spectrum = self.spectra.get(source)
        squares = [user for user in node.users if _is_square(user)]
        if spectrum is None:
            pair = self.pair(source)
            power = self.emit(_aten.sum.dim_IntList, self.emit(_aten.mul.Tensor, pair, pair), [-1])
            replace_node(self.program, node, self.emit(_aten.sqrt.default, power))
        elif squares and len(squares) == len(node.users):
            power = self._power(spectrum, True)
            for square in squares:
                replace_node(self.program, square, power)
        else:
            replace_node(self.program, node, self._power(spectrum, False))

    def _power(self, spectrum: Spectrum, squared: bool) -> Node:
        result = self.run(_own.spectrogram.default, spectrum, (), spectrum.onesided, squared, spectrum.frames_first)
        result = self.emit(_aten.view.default, result, list(spectrum.shape))
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
        value = self.value(matrix)
        if value is None or value.dim() != 2 or not spectrum.onesided or not self._is_read_once(power):
            return
        bands, weights = _bands((value.T if is_transposed else value).detach().float())
        result = dataclasses.replace(spectrum, shape=tuple(node.meta["val"].shape))
        # A transposition of the result costs nothing here.
        (user,) = node.users if len(node.users) == 1 else (None,)
        moved = result.rearranged(user) if user is not None and user.target in ALL_TRANSPOSITIONS else None
        if user is not None and moved is not None:
            node, result = user, moved
        number = len(self.constants)
        filters = (self.constant(f"bands_{number}", bands), self.constant(f"weights_{number}", weights))
        filtered = self.run(_own.filtered_spectrogram.default, result, filters, squared, result.frames_first)
        replace_node(self.program, node, self.emit(_aten.view.default, filtered, list(result.shape)))

    def _is_read_once(self, power: Node) -> bool:
        """Whether only the current node reads a spectrogram, possibly in another order."""
        node = power
        while node in self._powers and len(node.users) == 1:
            node = node.all_input_nodes[0]
        return node not in self._powers
