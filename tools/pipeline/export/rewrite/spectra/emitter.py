"""Emits operators on real numbers in place of a program's complex ones."""

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from executorch.backends.transforms.utils import create_constant_placeholder
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, Node

from tools.pipeline.export.capture.diagnosis import written
from tools.pipeline.export.ir.rewriting import emit
from tools.pipeline.export.rewrite.spectra.spectrum import Spectrum
from tools.pipeline.export.rewrite.spectra.spectrum_operators import fft_roots
from tools.quiet.console import UserError

_aten = torch.ops.aten
_own = torch.ops.torch_fusion


class Emitter:
    """Emits real operators before the node that is being rewritten.

    Args:
      program: the captured program.
      path: the model file, for messages.
    """

    def __init__(self, program: ExportedProgram, path: Path) -> None:
        self.program = program
        self.graph: Graph = program.graph
        self.path = path
        # The node that is being rewritten.
        self.node: Node = next(iter(program.graph.nodes))
        # Complex nodes that are just transforms of signals.
        self.spectra: dict[Node, Spectrum] = {}
        # Maps complex nodes to their real and imaginary part.
        self.pairs: dict[Node, Node] = {}
        self.constants: dict[str, Node] = {}

    def emit(self, target: Callable[..., Any], *args: Any, **options: Any) -> Node:
        """Emits a call with the source location of the current node."""
        return emit(self.node, target, *args, **options)

    def constant(self, name: str, value: Tensor) -> Node:
        """Returns a constant of the program; those of one name are the same."""
        if name not in self.constants:
            with self.graph.inserting_before(next(iter(self.graph.nodes))):
                self.constants[name] = create_constant_placeholder(
                    self.program, self.graph, f"b_{name}", InputKind.BUFFER, value, persistent_buffer=True
                )
        return self.constants[name]

    def run(self, target: Any, spectrum: Spectrum, filters: tuple[Node, ...], *options: bool) -> Node:
        """Emits one of our own operators on a spectrum."""
        roots = self.constant(f"fft_roots_{spectrum.size}", fft_roots(spectrum.size))
        arguments = (spectrum.signal, spectrum.window, roots, *filters, *spectrum.frames, *options)
        return self.emit(operator.getitem, emit(spectrum.transform, target, *arguments), 0)

    def pair(self, node: Node) -> Node:
        """Returns real and imaginary part of a complex node."""
        spectrum = self.spectra.get(node)
        if node not in self.pairs and spectrum is not None:
            pair = self.run(_own.stft.default, spectrum, (), spectrum.onesided)
            if spectrum.has_frames and spectrum.frames_first:
                pair = self.emit(_aten.transpose.int, pair, 1, 2)
            self.pairs[node] = self.emit(_aten.reshape.default, pair, [*spectrum.shape, 2])
        return self.pairs[node]

    def part(self, pair: Node, index: int) -> Node:
        """Emits the real (0) or imaginary (1) part of a pair."""
        return self.emit(_aten.select.int, pair, -1, index)

    def joined(self, real: Node, imaginary: Node) -> Node:
        """Emits the pair of a real and an imaginary part."""
        return self.emit(_aten.stack.default, [real, imaginary], -1)

    def value(self, node: Any) -> Tensor | None:
        """Evaluates a node that only depends on constants; returns None for others."""
        if not isinstance(node, Node):
            return None
        signature = self.program.graph_signature
        if node.op == "placeholder":
            name = (
                signature.inputs_to_buffers.get(node.name)
                or signature.inputs_to_parameters.get(node.name)
                or signature.inputs_to_lifted_tensor_constants.get(node.name)
            )
            if name is None or name in signature.buffers_to_mutate.values():
                return None
            value = self.program.state_dict.get(name, self.program.constants.get(name))
            return value if isinstance(value, Tensor) else None
        if node.op != "call_function" or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            return None
        operands = {each: self.value(each) for each in node.all_input_nodes}
        if any(value is None for value in operands.values()):
            return None
        args, options = torch.fx.node.map_arg((node.args, node.kwargs), operands.__getitem__)
        result = node.target(*args, **options)
        return result if isinstance(result, Tensor) else None

    def unknown(self) -> UserError:
        """Returns the error about a node that has no real form."""
        return UserError(
            f"{written(self.node, self.path)}: what the model does here with complex numbers has no form on a "
            "device; use abs(), angle(), real and imag, sums and products, or torch.view_as_real() and real numbers."
        )
