"""Implements int8 LSTM and GRU: torch_fusion::quantized_lstm and quantized_gru, one call per layer and direction.

The operators compute the integers that kernels/cortex_m/recurrent.cpp computes: int8 weights with a scale per row,
32-bit sums, sigmoid and tanh from one table, and fixed-point states that float32 represents exactly, so that a sequence
may be processed in pieces.
"""

import functools
import math
import operator
from dataclasses import dataclass
from typing import Any

import torch
from executorch.backends.transforms.utils import get_param_tensor
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.library import Library, impl, register_fake

from tools.pipeline.export.backends.cortex_m.own_layers import is_marked
from tools.pipeline.export.ir.constants import add_constant
from tools.pipeline.export.ir.operators import DEQUANTIZE, QUANTIZE
from tools.pipeline.export.ir.rewriting import emit, place_of, replace_node
from tools.pipeline.export.plan.manifest import MACS
from tools.pipeline.export.rewrite.own_operators import RECURRENT, define_out_variant

_aten = torch.ops.aten
_own = torch.ops.torch_fusion

_library = Library("torch_fusion", "FRAGMENT")

# Fractional bits of the operands of gates and of an LSTM's cell, and additional bits of a GRU's state compared with
# what weights are multiplied with.
_SUM_BITS, _CELL_BITS, _MORE_BITS = 12, 16, 8
_LARGEST = 0x7FFFFF

_NUMBERS = "int input_zero_point, int state_bits, int out_factor, int out_shift, int out_zero_point, "
_NUMBERS += "bool reverse, bool batch_first"
# The last result is scratch memory of the kernel.
_library.define(
    f"quantized_lstm(Tensor input, Tensor? hidden0, Tensor? cell0, Tensor weights, Tensor factors, {_NUMBERS}) -> "
    "(Tensor out, Tensor hidden, Tensor cell, Tensor work)"
)
_library.define(
    f"quantized_gru(Tensor input, Tensor? hidden0, Tensor weights, Tensor factors, {_NUMBERS}) -> "
    "(Tensor out, Tensor hidden, Tensor work)"
)
for _layer in (torch.ops.torch_fusion.quantized_lstm.default, torch.ops.torch_fusion.quantized_gru.default):
    define_out_variant(_layer)


def _columns(features: int) -> int:
    return -(-features // 4) * 4


def work_size(features: int, hidden: int) -> int:
    """Returns the number of elements of a layer's scratch memory."""
    return 2 * (_columns(features) + _columns(hidden)) + 2 * hidden


@dataclass(frozen=True)
class Constants:
    """A layer's constants in its kernel's format: QuantizedRecurrentLayer of kernels/cortex_m/recurrent.h.

    Attributes:
      weights: int8, [hidden, columns * gates].
      factors: int32, [hidden, 2 * gates + 4].
    """

    weights: Tensor
    factors: Tensor


def constants(
    gates: int, input_weight: Tensor, hidden_weight: Tensor, bias: Tensor | None, input_scale: float, state_bits: int
) -> Constants | None:
    """Quantizes a layer's weights; returns None for weights whose sums exceed 32 bits.

    Args:
      gates: 4 for an LSTM, 3 for a GRU.
      bias: in the format of torch_fusion::lstm and gru.
    """
    size = hidden_weight.shape[1]
    scales = [input_scale * 2.0 ** (_SUM_BITS + 25), 2.0 ** (_SUM_BITS + 32 - state_bits)]
    integers, factors = [], []
    for weight, scale in zip((input_weight, hidden_weight), scales, strict=True):
        steps = _row_steps(weight)
        rows = (weight.double() / steps).round()
        multipliers = (steps.squeeze(1) * scale).round()
        if float(rows.abs().sum(1).max()) * 2**15 >= 2**31 or float(multipliers.max()) >= 2**31:
            return None
        columns = _columns(weight.shape[1])
        padded = torch.nn.functional.pad(rows, (0, columns - weight.shape[1]))
        # From [gate, unit, fours, 4] to [unit, fours, gate, 4].
        integers.append(padded.reshape(gates, size, -1, 4).permute(1, 2, 0, 3).reshape(size, -1))
        factors.append(multipliers.reshape(gates, size).T)
    biases = torch.zeros(size, 4, dtype=torch.float64) if bias is None else bias.double().reshape(4, size).T
    factors.append((biases * 2.0**_SUM_BITS).round().clamp(-(2.0**30), 2.0**30))
    return Constants(torch.cat(integers, 1).to(torch.int8), torch.cat(factors, 1).to(torch.int32))


def _row_steps(weight: Tensor) -> Tensor:
    """Returns the int8 scale of each row of a matrix, [rows, 1]."""
    return weight.double().abs().amax(1, True).clamp(min=1e-12) / 127


def round_weights(module: GraphModule) -> None:
    """Rounds the weights of the recurrent layers of a quantized module to int8 values, in place."""
    for node in module.graph.nodes:
        if node.target not in RECURRENT or not is_marked(node) or node.args[0].target != DEQUANTIZE:
            continue
        first = 3 if node.target == _own.lstm.default else 2
        for parameter in node.args[first : first + 2]:
            owner, _, name = parameter.target.rpartition(".")
            holder = module.get_submodule(owner)
            weight = getattr(holder, name)
            steps = _row_steps(weight.detach())
            rounded = ((weight.detach() / steps).round() * steps).to(weight.dtype)
            # The module in floating point shares the parameter, so this one gets its own. Another layer may share it,
            # but rounding it twice changes nothing.
            setattr(holder, name, torch.nn.Parameter(rounded, requires_grad=False))


def output_factor(scale: float, state_bits: int) -> tuple[int, int] | None:
    """Returns the multiplier and shift from a hidden state to int8 with a scale, or None if there are none."""
    shift = math.floor(math.log2(scale)) + state_bits + 14
    factor = round(2.0 ** (shift - state_bits) / scale)
    return (factor, shift) if 0 < shift <= 22 and 0 <= factor < 2**15 else None


@functools.cache
def _table() -> Tensor:
    values = torch.tanh(torch.arange(257, dtype=torch.float64) / 32) * 32768
    return (values + 0.5).floor().clamp(max=32767).to(torch.int64)


def _tangent(x: Tensor, bits: int) -> Tensor:
    table = _table()
    magnitude = x.abs().clamp(max=(256 << bits) - 1)
    place, part = magnitude >> bits, magnitude & ((1 << bits) - 1)
    value = table[place] + (((table[place + 1] - table[place]) * part + (1 << (bits - 1))) >> bits)
    return torch.where(x < 0, -value, value)


def _sigmoid(x: Tensor) -> Tensor:
    return (32769 + _tangent(x, 8)) >> 1


def _product(a: Tensor, b: Tensor) -> Tensor:
    return (a * b + (1 << 14)) >> 15


def _rounded(sums: Tensor, factors: Tensor) -> Tensor:
    return (sums * factors + (1 << 31)) >> 32


def _integer(state: Tensor, bits: int) -> Tensor:
    return (state * 2.0**bits).round().nan_to_num(0.0).clamp(-_LARGEST, _LARGEST).to(torch.int64)


class _Layer:
    """The common part of LSTM and GRU."""

    def __init__(self, gates: int, input: Tensor, weights: Tensor, factors: Tensor, numbers: list[int]) -> None:
        self.gates = gates
        self.size = weights.shape[0]
        rows = weights.to(torch.int64).reshape(self.size, -1, gates, 4).permute(2, 0, 1, 3)
        rows = rows.reshape(gates, self.size, -1)
        features = input.shape[2]
        self.input_weight = rows[..., :features]
        self.hidden_weight = rows[..., _columns(features) : _columns(features) + self.size]
        self.factors = factors.to(torch.int64).T
        self.zero_point, self.bits, self.out_factor, self.out_shift, self.out_zero_point = numbers

    def from_input(self, x: Tensor) -> Tensor:
        """Returns [batch, hidden] per gate, without bias, from [batch, features]."""
        sums = torch.einsum("bi,ghi->gbh", (x.to(torch.int64) - self.zero_point) * 128, self.input_weight)
        return _rounded(sums, self.factors[: self.gates].unsqueeze(1))

    def from_hidden(self, hidden: Tensor) -> Tensor:
        """Like from_input(), from [batch, hidden]."""
        sums = torch.einsum("bi,ghi->gbh", hidden, self.hidden_weight)
        return _rounded(sums, self.factors[self.gates : 2 * self.gates].unsqueeze(1))

    @property
    def biases(self) -> Tensor:
        return self.factors[2 * self.gates :].unsqueeze(1)

    def output(self, hidden: Tensor) -> Tensor:
        offset = (self.out_zero_point << self.out_shift) + (1 << (self.out_shift - 1))
        return ((hidden * self.out_factor + offset) >> self.out_shift).clamp(-128, 127).to(torch.int8)


def _steps(input: Tensor, reverse: int, batch_first: int) -> list[int]:
    steps = list(range(input.shape[1 if batch_first else 0]))
    return steps[::-1] if reverse else steps


def _initial(state: Tensor | None, input: Tensor, size: int, batch_first: int) -> Tensor:
    return torch.zeros(input.shape[0 if batch_first else 1], size) if state is None else state


@impl(_library, "quantized_lstm", "CompositeExplicitAutograd")
def quantized_lstm(
    input: Tensor, hidden0: Tensor | None, cell0: Tensor | None, weights: Tensor, factors: Tensor, *numbers: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes an LSTM layer; the numbers are those of the schema."""
    *scales, reverse, batch_first = numbers
    state_bits = numbers[1]
    layer = _Layer(4, input, weights, factors, scales)
    hidden = _integer(_initial(hidden0, input, layer.size, batch_first), state_bits).clamp(-32767, 32767)
    cell = _integer(_initial(cell0, input, layer.size, batch_first), _CELL_BITS)
    out = input.new_empty(*input.shape[:2], layer.size)
    for step in _steps(input, reverse, batch_first):
        place = (slice(None), step) if batch_first else (step,)
        i, f, g, o = layer.from_input(input[place]) + layer.from_hidden(hidden) + layer.biases
        entered = _sigmoid(i) * _tangent(g, 7)
        cell = ((_sigmoid(f) * cell + 2 * entered + (1 << 14)) >> 15).clamp(-_LARGEST, _LARGEST)
        hidden = _sigmoid(o) * _tangent((cell + 8) >> (_CELL_BITS - _SUM_BITS), 7)
        hidden = (hidden + (1 << (29 - state_bits))) >> (30 - state_bits)
        out[place] = layer.output(hidden)
    work = torch.empty(work_size(input.shape[2], layer.size), dtype=torch.int16)
    return out, hidden.float() / 2**state_bits, cell.float() / 2**_CELL_BITS, work


@impl(_library, "quantized_gru", "CompositeExplicitAutograd")
def quantized_gru(
    input: Tensor, hidden0: Tensor | None, weights: Tensor, factors: Tensor, *numbers: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes a GRU layer; the numbers are those of the schema."""
    *scales, reverse, batch_first = numbers
    state_bits = numbers[1]
    layer = _Layer(3, input, weights, factors, scales)
    bits = state_bits + _MORE_BITS
    state = _integer(_initial(hidden0, input, layer.size, batch_first), bits)
    out = input.new_empty(*input.shape[:2], layer.size)

    def short_of(state: Tensor) -> Tensor:
        return ((state + (1 << (_MORE_BITS - 1))) >> _MORE_BITS).clamp(-32767, 32767)

    for step in _steps(input, reverse, batch_first):
        place = (slice(None), step) if batch_first else (step,)
        given, kept, biases = layer.from_input(input[place]), layer.from_hidden(short_of(state)), layer.biases
        reset, update = (_sigmoid(given[gate] + kept[gate] + biases[gate]) for gate in range(2))
        fresh = _tangent(given[2] + biases[2] + _product(kept[2] + biases[3], reset), 7) << (bits - 15)
        state = fresh + _product(state - fresh, update)
        out[place] = layer.output(short_of(state))
    work = torch.empty(work_size(input.shape[2], layer.size), dtype=torch.int16)
    return out, state.float() / 2**bits, work


@register_fake("torch_fusion::quantized_lstm")
def _fake_lstm(
    input: Tensor, hidden0: Tensor | None, cell0: Tensor | None, weights: Tensor, factors: Tensor, *numbers: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    out, hidden, work = _fake_gru(input, hidden0, weights, factors, *numbers)
    return out, hidden, torch.empty_like(hidden), work


@register_fake("torch_fusion::quantized_gru")
def _fake_gru(
    input: Tensor, hidden0: Tensor | None, weights: Tensor, factors: Tensor, *numbers: int
) -> tuple[Tensor, Tensor, Tensor]:
    size = weights.shape[0]
    state = input.new_empty((input.shape[0 if numbers[-1] else 1], size), dtype=torch.float32)
    work = input.new_empty((work_size(input.shape[2], size),), dtype=torch.int16)
    return input.new_empty((*input.shape[:2], size)), state, work


def make_layers_of_cells(program: ExportedProgram) -> ExportedProgram:
    """Turns LSTMCell and GRUCell into layers of one step, in place."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.target not in (_aten.lstm_cell.default, _aten.gru_cell.default):
            continue
        x, state, *parameters = node.args
        values = [each.meta["val"] for each in (x, *parameters) if each is not None]
        if x.meta["val"].dim() != 2 or any(value.dtype != torch.float32 for value in values):
            continue
        with graph.inserting_before(node):
            _replace_cell(program, node, x, state, [*parameters, None, None][:4])
    graph.eliminate_dead_code()
    return program


def _replace_cell(program: ExportedProgram, node: Node, x: Node, state: Any, parameters: list[Node | None]) -> None:
    def make(target: Any, *args: Any) -> Node:
        return emit(node, target, *args)

    is_lstm = node.target == _aten.lstm_cell.default
    input_weight, hidden_weight, *biases = parameters
    bias = None
    if biases[0] is not None and biases[1] is not None:
        if is_lstm:
            bias = make(_aten.add.Tensor, *biases)
        else:
            size = biases[0].meta["val"].shape[0] // 3
            both = [make(_aten.slice.Tensor, each, 0, 0, 2 * size) for each in biases]
            new = [make(_aten.slice.Tensor, each, 0, 2 * size, 3 * size) for each in biases]
            bias = make(_aten.cat.default, [make(_aten.add.Tensor, *both), *new], 0)
    steps = make(_aten.unsqueeze.default, x, 0)
    states = [None if each.target == _aten.zeros.default else each for each in (state if is_lstm else [state])]
    target = _own.lstm.default if is_lstm else _own.gru.default
    layer = make(target, steps, *states, input_weight, hidden_weight, bias, False, False)
    results = [make(operator.getitem, layer, index + 1) for index in range(len(states))]
    # Reads the state itself, which is more exact than the layer's int8 output.
    replaced = {user: results[user.args[1]] for user in node.users} if is_lstm else {node: results[0]}
    for user, result in replaced.items():
        replace_node(program, user, result)
        program.graph.erase_node(user)
    if is_lstm:
        program.graph.erase_node(node)


def lower_recurrent(program: ExportedProgram) -> None:
    """Replaces recurrent layers that the quantizer annotated by int8 operators, in place."""
    for node in list(program.graph.nodes):
        if node.target in RECURRENT and is_marked(node) and node.args[0].target == DEQUANTIZE:
            _lower(program, node)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _lower(program: ExportedProgram, node: Node) -> None:
    graph = program.graph
    is_lstm = node.target == _own.lstm.default
    gates = 4 if is_lstm else 3
    source, *states = node.args[: gates - 1]
    *parameters, reverse, batch_first = node.args[gates - 1 :]
    operand, scale, zero_point = source.args[:3]
    input_weight, hidden_weight, bias = (each and get_param_tensor(program, each) for each in parameters)
    outs = [user for user in node.users if user.args[1] == 0]
    quantized = [user for out in outs for user in out.users]
    if any(user.target != QUANTIZE or user.args[1:] != quantized[0].args[1:] for user in quantized):
        return
    if input_weight is None or hidden_weight is None or (bias is None) != (parameters[2] is None):
        return
    # A model's initial state may exceed the range that a layer returns.
    state_bits = 15 if all(state is None for state in states) else 14
    out_scale, out_zero_point = quantized[0].args[1:3] if quantized else (1 / 128, 0)
    factor = output_factor(out_scale, state_bits)
    made = constants(gates, input_weight, hidden_weight, bias, scale, state_bits)
    if factor is None or made is None:
        return
    tables = [
        add_constant(program, f"{node.name}_{name}", value)
        for name, value in (("weights", made.weights), ("factors", made.factors))
    ]
    target = _own.quantized_lstm.default if is_lstm else _own.quantized_gru.default
    numbers = (zero_point, state_bits, *factor, out_zero_point, reverse, batch_first)
    with graph.inserting_before(node):
        layer = graph.call_function(target, (operand, *states, *tables, *numbers))
        out, *kept = node.meta["val"]
        work = torch.empty(work_size(operand.meta["val"].shape[2], hidden_weight.shape[1]), dtype=torch.int16)
        layer.meta = place_of(node)
        layer.meta["val"] = (torch.empty_like(out, dtype=torch.int8), *kept[:-1], work.to(out.device))
        layer.meta[MACS] = out.numel() // out.shape[2] * (input_weight.numel() + hidden_weight.numel())
        for user in list(node.users):
            item = graph.call_function(operator.getitem, (layer, user.args[1]))
            item.meta = {**place_of(node), "val": layer.meta["val"][user.args[1]]}
            for old in list(user.users) if user.args[1] == 0 else [user]:
                replace_node(program, old, item)
                graph.erase_node(old)
