"""Replaces floating-point inputs and outputs of a quantized program by integers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.ir.signature import user_inputs, user_outputs
from tools.pipeline.export.plan.manifest import Parameters
from tools.quiet.console import UserError


@dataclass(frozen=True)
class Border:
    """Quantization parameters of the program's inputs and outputs, in order; None for those that are not quantized."""

    inputs: list[Parameters | None]
    outputs: list[Parameters | None]


@dataclass(frozen=True)
class BorderOperators:
    """The operators with which a backend's programs quantize inputs and dequantize outputs.

    Attributes:
      quantize, dequantize: the operators, with the arguments of `quantized_decomposed::quantize_per_tensor`.
      dtype: the dtype of the integers, int8 or int16.
    """

    quantize: Any
    dequantize: Any
    dtype: torch.dtype

    def border(self, program: ExportedProgram) -> Border:
        """Returns the scales and zero points of the program's inputs and outputs."""
        return Border(
            [self._shared(node) for node in user_inputs(program)],
            [self._parameters(node) if node.target == self.dequantize else None for node in user_outputs(program)],
        )

    def remove(self, program: ExportedProgram, path: Path) -> list[str]:
        """Makes inputs and outputs integers by removing their quantization and dequantization, in place.

        Returns:
          sentences about those that stay in floating point: they are read or computed there.

        Raises UserError if all of them would.
        """
        io = str(self.dtype).removeprefix("torch.")
        kept: list[str] = []
        removed = 0
        for index, node in enumerate(user_inputs(program)):
            if not node.meta["val"].is_floating_point():
                continue
            if self._shared(node) is None:
                users = dict.fromkeys(origin(user, path) for user in node.users if user.target != self.quantize)
                read = f"is read in floating point at {', '.join(users)}" if users else "is read with several scales"
                kept.append(f"input {index} {read if node.users else 'is not read'}")
                continue
            _become_quantized(program, node)
            removed += 1
        output = program.graph.output_node()
        results = list(output.args[0])
        specs = program.graph_signature.output_specs
        for index, (spec, node) in enumerate(zip(specs, results, strict=True)):
            if spec.kind != OutputKind.USER_OUTPUT or not node.meta["val"].is_floating_point():
                continue
            if node.target != self.dequantize:
                kept.append(f"output {index} comes in floating point from {origin(node, path)}")
                continue
            results[index] = node.args[0]
            spec.arg.name = results[index].name
            removed += 1
        if kept and not removed:
            raise UserError(f"{path}: io = '{io}', but {'; '.join(kept)}; use io = 'float32'.")
        output.args = (tuple(results),)
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()
        return [f"io = '{io}', but {each}, and stays so." for each in kept]

    def keep_states(self, program: ExportedProgram, buffers: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Makes states integers that are quantized where they are read, and dequantized with the same scale where they
        are written, in place.

        Args:
          buffers: the first values of states, which are the program's first inputs and outputs.

        Returns:
          their first values, as integers where they are.
        """
        output = program.graph.output_node()
        results = list(output.args[0])
        kept = dict(buffers)
        specs = program.graph_signature.output_specs
        for index, (node, name) in enumerate(zip(user_inputs(program), buffers, strict=False)):
            read, result = self._shared(node), results[index]
            if read is None or result.target != self.dequantize or self._parameters(result) != read:
                continue
            _become_quantized(program, node)
            results[index] = result.args[0]
            specs[index].arg.name = results[index].name
            (kept[name],) = self.quantize_sample((buffers[name],), [read])
        output.args = (tuple(results),)
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()
        return kept

    def quantize_sample(
        self, tensors: tuple[torch.Tensor, ...], parameters: list[Parameters | None]
    ) -> tuple[torch.Tensor, ...]:
        """Quantizes tensors for such a program: round(x / scale) + zero_point, as the program itself would."""
        limits = torch.iinfo(self.dtype)
        # The range of 16 bits is symmetric.
        low = limits.min if self.dtype == torch.int8 else -limits.max
        return tuple(
            tensor
            if found is None
            else torch.ops.quantized_decomposed.quantize_per_tensor(
                tensor, found.scale, found.zero_point, low, limits.max, self.dtype
            )
            for tensor, found in zip(tensors, parameters, strict=True)
        )

    def _parameters(self, node: Node) -> Parameters | None:
        if node.target not in (self.quantize, self.dequantize) or node.args[5] != self.dtype:
            return None
        return Parameters(float(node.args[1]), int(node.args[2]))

    def _shared(self, node: Node) -> Parameters | None:
        """Returns the parameters if all users of a node quantize it with the same ones."""
        found = {self._parameters(user) if user.target == self.quantize else None for user in node.users}
        return found.pop() if len(found) == 1 else None


def _become_quantized(program: ExportedProgram, node: Node) -> None:
    """Makes an input the integers that all its users, which only quantize it, compute."""
    quantizers = list(node.users)
    node.meta["val"] = quantizers[0].meta["val"]
    for user in quantizers:
        user.replace_all_uses_with(node)
        program.graph.erase_node(user)
