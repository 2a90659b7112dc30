"""Transposes constants to the order in which a subgraph reads them.

Late passes of ExecuTorch add transpositions, so that an NPU would transpose a constant image in every run. The commands
that Vela 5.2 makes of that for Ethos-U55 and U65 write the result after the weights, which are in flash.
"""

from contextlib import AbstractContextManager

from executorch.backends.arm._passes import ArmPass, arm_pass_manager
from executorch.backends.arm._passes.arm_pass_utils import (
    get_constant_placeholder_kind,
    get_param_tensor,
    is_param_node,
)
from executorch.backends.arm.tosa.mapping import TosaSpecialDtype
from executorch.backends.transforms.utils import create_constant_placeholder
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassResult

from tools.pipeline.export.backends.arm.passes import inserted

_aten = exir_ops.edge.aten
_MOVES = (_aten.permute_copy.default, _aten.view_copy.default)


class _MoveConstants(ArmPass):
    """Transposes and reshapes integer constants instead of letting the graph do it."""

    _passes_required_after: set[type[ExportPass]] = set()

    def __init__(self, exported_program: ExportedProgram) -> None:
        super().__init__()
        # The passes' manager replaces it when it calls this pass.
        self.exported_program = exported_program

    def call(self, graph_module: GraphModule) -> PassResult:
        program, graph = self.exported_program, graph_module.graph
        if graph_module is not program.graph_module:
            # The graph of a branch, whose placeholders are arguments.
            return PassResult(graph_module, False)
        moved: dict[tuple[Node, str], Node] = {}
        for node in list(graph.nodes):
            if node.target not in _MOVES or not is_param_node(program, node.args[0]):
                continue
            source, key = node.args[0], (node.args[0], repr((node.target, node.args[1:])))
            if key not in moved:
                # The operator applies the quantization that its node's metadata excludes.
                data = node.target(get_param_tensor(program, source), *node.args[1:]).contiguous()
                kind = get_constant_placeholder_kind(program, source)
                with graph.inserting_before(source):
                    moved[key] = create_constant_placeholder(program, graph, f"{node.name}_moved", kind, data, True)
                special = TosaSpecialDtype.meta_key()
                if special in source.meta:
                    moved[key].meta[special] = source.meta[special]
            node.replace_all_uses_with(moved[key])
            graph.erase_node(node)
        graph_module.recompile()
        return PassResult(graph_module, bool(moved))


def moved_constants() -> AbstractContextManager[None]:
    """Makes ExecuTorch's passes move constants after they have added all transpositions."""
    # This pass splits transpositions.
    return inserted({arm_pass_manager.RewriteHighRankSingletonPermutePass: _MoveConstants})
