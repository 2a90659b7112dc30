"""Defines operators of our own, `torch_fusion::*`, where ATen's take memory or time for unused results.

Each has a functional variant for graphs, which computes what PyTorch computes, and an out variant for programs, which
is implemented in kernels/.
"""

import operator
from collections.abc import Iterable
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.properties import has_kernel
from tools.pipeline.export.ir.rewriting import emit, replace_node
from tools.pipeline.export.rewrite.maxima import drop_unused_argmax
from tools.quiet.console import UserError

_aten = torch.ops.aten

_library = torch.library.Library("torch_fusion", "FRAGMENT")
_own_libraries: list[torch.library.Library] = []


def define_out_variant(functional: torch._ops.OpOverload) -> None:
    """Defines the out variant of an operator, which writes its results to given memory.

    Raises:
      UserError: the operator writes to its arguments, or returns anything but tensors.
    """
    schema = functional._schema
    name = schema.name
    if any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments):
        raise UserError(f"operator {name} writes to its arguments; return new tensors instead: {schema}")
    if not schema.returns or any(str(result.type) != "Tensor" or result.alias_info for result in schema.returns):
        raise UserError(f"operator {name} must return tensors of its own, not views: {schema}")
    if "out" in getattr(getattr(torch.ops, functional.namespace), name.partition("::")[2]).overloads():
        return
    numbered = ["out"] if len(schema.returns) == 1 else [f"out{index}" for index in range(len(schema.returns))]
    taken = {None, "", *(argument.name for argument in schema.arguments)}
    outs = [n if result.name in taken else result.name for result, n in zip(schema.returns, numbered, strict=True)]
    kinds = [f"Tensor({chr(ord('a') + index)}!)" for index in range(len(outs))]
    given, _, _ = str(schema).partition("(")[2].rpartition(") -> ")
    keyword_only = "" if any(argument.kwarg_only for argument in schema.arguments) else "*, "
    arguments = ", ".join(filter(None, [given, keyword_only + ", ".join(map(" ".join, zip(kinds, outs, strict=True)))]))
    results = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"

    def write(*args: Any, **kwargs: Any) -> Any:
        given_outs = [kwargs.pop(out) for out in outs]
        computed = functional(*args, **kwargs)
        computed = [computed] if len(outs) == 1 else computed
        copies = tuple(out.copy_(result) for out, result in zip(given_outs, computed, strict=True))
        return copies[0] if len(outs) == 1 else copies

    # The library must live as long as the process: its operators are removed when it is collected.
    library = torch.library.Library(functional.namespace, "FRAGMENT")
    _own_libraries.append(library)
    library.define(f"{name.partition('::')[2]}.out({arguments}) -> {results}")
    library.impl(f"{name.partition('::')[2]}.out", write, "CompositeExplicitAutograd")


_library.define(
    "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode) "
    "-> Tensor"
)


@torch.library.impl(_library, "max_pool2d", "CompositeExplicitAutograd")
def _max_pool2d(
    self: Tensor, kernel_size: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil_mode: bool
) -> Tensor:
    return torch.ops.aten.max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]


define_out_variant(torch.ops.torch_fusion.max_pool2d.default)


def drop_pool_indices(program: ExportedProgram) -> ExportedProgram:
    """Replaces max_pool2d_with_indices where nothing reads the indices, which would take twice the result's memory."""
    edge = exir_ops.edge
    drop_unused_argmax(
        program.graph_module, {edge.aten.max_pool2d_with_indices.default: edge.torch_fusion.max_pool2d.default}, program
    )
    return program


# The last result is scratch memory of the kernel.
_library.define(
    "lstm(Tensor input, Tensor? hidden0, Tensor? cell0, Tensor input_weight, Tensor hidden_weight, Tensor? bias, "
    "bool reverse, bool batch_first) -> (Tensor out, Tensor hidden, Tensor cell, Tensor gates)"
)
_library.define(
    "gru(Tensor input, Tensor? hidden0, Tensor input_weight, Tensor hidden_weight, Tensor? bias, bool reverse, "
    "bool batch_first) -> (Tensor out, Tensor hidden, Tensor gates)"
)

RECURRENT = (torch.ops.torch_fusion.lstm.default, torch.ops.torch_fusion.gru.default)
"""Recurrent layers of one direction, which keep_recurrent_layers() inserts."""


def _in_time_order(x: Tensor, reverse: bool, batch_first: bool) -> Tensor:
    return x.flip(1 if batch_first else 0) if reverse else x


def _state(given: Tensor | None, x: Tensor, hidden: int, batch_first: bool) -> Tensor:
    return x.new_zeros(1, x.shape[0 if batch_first else 1], hidden) if given is None else given.unsqueeze(0)


@torch.library.impl(_library, "lstm", "CompositeExplicitAutograd")
def _lstm(
    input: Tensor,
    hidden0: Tensor | None,
    cell0: Tensor | None,
    input_weight: Tensor,
    hidden_weight: Tensor,
    bias: Tensor | None,
    reverse: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    size = hidden_weight.shape[1]
    x = _in_time_order(input, reverse, batch_first)
    states = [_state(state, x, size, batch_first) for state in (hidden0, cell0)]
    parameters = [input_weight, hidden_weight] + ([bias, torch.zeros_like(bias)] if bias is not None else [])
    out, hidden, cell = torch.lstm(x, states, parameters, bias is not None, 1, 0.0, False, False, batch_first)
    return _in_time_order(out, reverse, batch_first).clone(), hidden[0], cell[0], x.new_empty(4 * size)


@torch.library.impl(_library, "gru", "CompositeExplicitAutograd")
def _gru(
    input: Tensor,
    hidden0: Tensor | None,
    input_weight: Tensor,
    hidden_weight: Tensor,
    bias: Tensor | None,
    reverse: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    size = hidden_weight.shape[1]
    x = _in_time_order(input, reverse, batch_first)
    parameters = [input_weight, hidden_weight]
    if bias is not None:
        parameters += [bias[: 3 * size], torch.cat([torch.zeros_like(bias[: 2 * size]), bias[3 * size :]])]
    state = _state(hidden0, x, size, batch_first)
    out, hidden = torch.gru(x, state, parameters, bias is not None, 1, 0.0, False, False, batch_first)
    return _in_time_order(out, reverse, batch_first).clone(), hidden[0], x.new_empty(4 * size)


@torch.library.register_fake("torch_fusion::lstm", lib=_library)
def _fake_lstm(
    input: Tensor, hidden0: Tensor | None, cell0: Tensor | None, *others: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    out, hidden, gates = _fake_gru(input, hidden0, *others)
    return out, hidden, torch.empty_like(hidden), gates


@torch.library.register_fake("torch_fusion::gru", lib=_library)
def _fake_gru(input: Tensor, hidden0: Tensor | None, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    _, hidden_weight, _, _, batch_first = others
    size = hidden_weight.shape[1]
    out = input.new_empty(*input.shape[:2], size)
    return out, input.new_empty(input.shape[0 if batch_first else 1], size), input.new_empty(4 * size)


for _layer in RECURRENT:
    define_out_variant(_layer)


def keep_recurrent_layers(program: ExportedProgram, nodes: Iterable[Node] | None = None) -> ExportedProgram:
    """Replaces each LSTM and GRU, or those of `nodes`, by one operator per layer and direction, in place.

    ExecuTorch would unroll them into several instructions per time step. Layers that the kernels don't support are left
    to it: other dtypes than float32, projections, packed sequences, dynamic sizes.
    """
    for node in list(program.graph.nodes if nodes is None else nodes):
        if node.target not in (_aten.lstm.input, _aten.gru.input) or not has_kernel(node):
            continue
        is_lstm = node.target == _aten.lstm.input
        x, states, parameters, has_biases, _, _, _, bidirectional, batch_first = node.args
        _Recurrent(program, node, is_lstm, batch_first).replace(
            x, list(states) if is_lstm else [states], list(parameters), has_biases, 1 + bidirectional
        )
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    return program


class _Recurrent:
    """Writes the layers of one LSTM or GRU into the graph, before its node."""

    def __init__(self, program: ExportedProgram, node: Node, is_lstm: bool, batch_first: bool) -> None:
        self._program = program
        self._node = node
        self._is_lstm = is_lstm
        self._batch_first = batch_first

    def replace(self, x: Node, states: list[Node], parameters: list[Node], has_biases: bool, directions: int) -> None:
        """Computes the node's results by operators of our own and removes the node."""
        per_direction = 4 if has_biases else 2
        finals: list[list[Node]] = [[] for _ in states]
        for first in range(0, len(parameters), directions * per_direction):
            outs = []
            for direction in range(directions):
                start = first + direction * per_direction
                input_weight, hidden_weight, *biases = parameters[start : start + per_direction]
                bias = self._bias(*biases) if biases else None
                initial = [self._initial(state, start // per_direction) for state in states]
                operator_ = torch.ops.torch_fusion.lstm if self._is_lstm else torch.ops.torch_fusion.gru
                arguments = (x, *initial, input_weight, hidden_weight, bias, direction == 1, self._batch_first)
                layer = self._emit(operator_.default, *arguments)
                outs.append(self._emit(operator.getitem, layer, 0))
                for index, final in enumerate(finals):
                    final.append(self._emit(_aten.unsqueeze.default, self._emit(operator.getitem, layer, index + 1), 0))
            x = outs[0] if directions == 1 else self._emit(_aten.cat.default, outs, 2)
        results = [x, *(final[0] if len(final) == 1 else self._emit(_aten.cat.default, final, 0) for final in finals)]
        for user in list(self._node.users):
            replace_node(self._program, user, results[user.args[1]])
            self._program.graph.erase_node(user)
        self._program.graph.erase_node(self._node)

    def _initial(self, state: Node, index: int) -> Node | None:
        """Returns the initial state of a layer and direction, or None for zeros."""
        if state.target == _aten.zeros.default:
            return None
        return self._emit(_aten.select.int, state, 0, index)

    def _bias(self, from_input: Node, from_hidden: Node) -> Node:
        if self._is_lstm:
            return self._emit(_aten.add.Tensor, from_input, from_hidden)
        # The biases of a GRU's new gate can't be added to each other.
        size = from_input.meta["val"].shape[0] // 3
        both = [self._emit(_aten.slice.Tensor, bias, 0, 0, 2 * size) for bias in (from_input, from_hidden)]
        new = [self._emit(_aten.slice.Tensor, bias, 0, 2 * size, 3 * size) for bias in (from_input, from_hidden)]
        return self._emit(_aten.cat.default, [self._emit(_aten.add.Tensor, *both), *new], 0)

    def _emit(self, target: Any, *args: Any) -> Node:
        with self._program.graph.inserting_before(self._node):
            return emit(self._node, target, *args)
