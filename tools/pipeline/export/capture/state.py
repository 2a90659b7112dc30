"""Turns the state of a model into inputs and outputs while the model is quantized.

Quantization and lowering handle pure functions. Buffers that a model changes become inputs before it, and their new
values outputs; the lowered program gets them back as buffers. They stay in floating point, as do the elementwise
operators that compute them: a sum over many calls would not move by less than one int8 quantization step.
"""

from dataclasses import dataclass

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec
from torch.utils import _pytree as pytree

from tools.pipeline.export.ir.rewriting import run_decompositions
from tools.pipeline.export.rewrite.batch_norm import fold_batch_norm


@dataclass(frozen=True)
class State:
    """The buffers that a model changes, in the order of the inputs and outputs that represent them.

    Attributes:
      buffers: maps their names to their initial values.
    """

    buffers: dict[str, torch.Tensor]

    def start(self) -> tuple[torch.Tensor, ...]:
        """Returns the state before the first call."""
        return tuple(value.clone() for value in self.buffers.values())


def state_to_inputs(program: ExportedProgram) -> tuple[ExportedProgram, State]:
    """Returns the program with its changed buffers as the first inputs, and their new values as the first outputs."""
    if not any(getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in program.graph.nodes):
        return program, State({})
    # Batch normalization is folded first, because run_decompositions() would decompose it, too.
    functional = run_decompositions(fold_batch_norm(program), {})
    signature = functional.graph_signature
    if not signature.buffers_to_mutate:
        return program, State({})
    _forget_unread(functional)
    changed = set(signature.buffers_to_mutate.values())
    program = functional
    buffers = {}
    for index, spec in enumerate(signature.input_specs):
        if spec.kind == InputKind.BUFFER and spec.target in changed:
            assert spec.target is not None
            value = program.state_dict.get(spec.target, program.constants.get(spec.target))
            assert value is not None
            buffers[spec.target] = value
            signature.input_specs[index] = InputSpec(InputKind.USER_INPUT, spec.arg, None)
    # State outputs precede all others, in the order of the inputs.
    output = program.graph.output_node()
    pairs = list(zip(signature.output_specs, output.args[0], strict=True))
    by_target = {spec.target: (spec, node) for spec, node in pairs if spec.kind == OutputKind.BUFFER_MUTATION}
    states = [by_target[name] for name in buffers]
    others = [(spec, node) for spec, node in pairs if spec.kind == OutputKind.USER_OUTPUT]
    signature.output_specs = [
        *(OutputSpec(OutputKind.USER_OUTPUT, spec.arg, None) for spec, _ in states),
        *(spec for spec, _ in others),
    ]
    output.args = (tuple(node for _, node in [*states, *others]),)
    examples, named = program.example_inputs
    assert not named
    _set_call(program, (*buffers.values(), *examples))
    program.graph_module.recompile()
    return program, State(buffers)


def _forget_unread(program: ExportedProgram) -> None:
    """Removes the new values of buffers that a model writes and never reads from the outputs of a program, in place."""
    signature, output = program.graph_signature, program.graph.output_node()
    names = {name: node for node, name in signature.inputs_to_buffers.items()}
    unread = {node.name for node in program.graph.find_nodes(op="placeholder") if not node.users}
    kept = [
        (spec, node)
        for spec, node in zip(signature.output_specs, output.args[0], strict=True)
        if spec.kind != OutputKind.BUFFER_MUTATION or names[spec.target] not in unread
    ]
    signature.output_specs = [spec for spec, _ in kept]
    output.args = (tuple(node for _, node in kept),)
    program.graph.eliminate_dead_code()


def _set_call(program: ExportedProgram, examples: tuple[torch.Tensor, ...]) -> None:
    """Sets the program's calling convention: positional inputs, and a tuple of outputs."""
    call = program.module_call_graph[0].signature
    assert call is not None
    call.in_spec = pytree.tree_structure((examples, {}))
    outputs = [spec for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    call.out_spec = pytree.tree_structure(tuple(range(len(outputs))))
    call.forward_arg_names = None
    program.example_inputs = (examples, {})


def inputs_to_state(program: ExportedProgram, state: State, examples: tuple[torch.Tensor, ...]) -> None:
    """Turns the first inputs of a lowered program into buffers, which its first outputs update, in place.

    Args:
      examples: examples of the other inputs.
    """
    if not state.buffers:
        return
    signature = program.graph_signature
    names = list(state.buffers)
    inputs = [index for index, spec in enumerate(signature.input_specs) if spec.kind == InputKind.USER_INPUT]
    for index, name in zip(inputs, names, strict=False):
        arg = signature.input_specs[index].arg
        signature.input_specs[index] = InputSpec(InputKind.BUFFER, arg, name, persistent=True)
        program.state_dict[name] = state.buffers[name].clone()
    for index, name in enumerate(names):
        arg = signature.output_specs[index].arg
        signature.output_specs[index] = OutputSpec(OutputKind.BUFFER_MUTATION, arg, name)
    _set_call(program, tuple(examples))
