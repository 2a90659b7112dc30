"""Plans the memory of programs with branches and loops.

A branch passes its results on by their pointers. ExecuTorch plans all branches of a program in the same memory, so that
a later branch would overwrite the results of an earlier one. Here a branch writes its results into the memory of the
whole operator's results, and a check follows each value through the plan.
"""

from dataclasses import dataclass

import torch
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.schema import ExecutionPlan, Instruction, JumpFalseCall, KernelCall, MoveCall, Tensor
from torch.export.graph_signature import ExportGraphSignature
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult
from torch.utils._pytree import tree_leaves

from tools.pipeline.export.ir.control_flow import graphs_inside
from tools.pipeline.export.plan.plan_passes import Region, nbytes_of, reads_and_writes

# Writes one slice of its first operand in each iteration of a loop.
_WRITE_PART = "executorch_prim::et_copy_index"
# Overwrites its first operand completely, although its schema declares it as an operand.
_COPY = "aten::copy_"


class BranchPlanning(MemoryPlanningPass):
    """ExecuTorch's memory plan, with the results of branches in the memory of the whole operator's results."""

    def run(self, graph_module: GraphModule, graph_signature: ExportGraphSignature | None = None) -> PassResult:
        result = super().run(graph_module, graph_signature)
        # From outer to inner branches: an inner one's results may be those of the branch around it.
        for node, branch in graphs_inside(graph_module):
            if node.target is torch.ops.higher_order.cond:
                specs = (tree_leaves(each.meta["spec"]) for each in (node, branch.graph.output_node()))
                for whole, inner in zip(*specs, strict=True):
                    inner.mem_id, inner.mem_offset, inner.mem_obj_id = whole.mem_id, whole.mem_offset, whole.mem_obj_id
        return result


def check_plan(plan: ExecutionPlan) -> None:
    """Raises AssertionError if an instruction of a plan with jumps overwrites a value that is read later, or moves a
    result to memory that other instructions may write.
    """
    _Flow(plan).check()


@dataclass
class _Step:
    """The planned tensors that an instruction reads and writes, and the instructions that may follow it."""

    reads: set[int]
    writes: set[int]
    # Values that are completely overwritten, so that their previous contents don't matter.
    replaces: set[int]
    next: list[int]


class _Flow:
    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._regions = {
            index: Region(
                place.memory_id, place.memory_offset_low | place.memory_offset_high << 32, nbytes_of(value.val)
            )
            for index, value in enumerate(plan.values)
            if isinstance(value.val, Tensor) and (place := value.val.allocation_info) is not None
        }
        self._steps = [self._step(place, call) for place, call in enumerate(plan.chains[0].instructions)]
        # A tensor that a loop writes slice by slice has no value before it.
        for place, step in enumerate(self._steps):
            starts = [other for other in step.next if other <= place]
            for start in starts:
                for inside in self._steps[start : place + 1]:
                    self._steps[start - 1].replaces |= inside.writes - inside.replaces - inside.reads

    def _step(self, place: int, instruction: Instruction) -> _Step:
        call = instruction.instr_args
        following = [place + 1]
        if isinstance(call, JumpFalseCall):
            return _Step(set(), set(), set(), [*following, call.destination_instruction])
        if isinstance(call, MoveCall):
            return self._moved(call, following)
        if not isinstance(call, KernelCall):
            return _Step(set(), set(), set(), following)
        name = self._plan.operators[call.op_index].name
        if name in (_WRITE_PART, _COPY):
            target, source = ({index} & self._regions.keys() for index in call.args[:2])
            return _Step(source, target, target if name == _COPY else set(), following)
        if name.startswith("executorch_prim::"):
            return _Step(set(call.args) & self._regions.keys(), set(), set(), following)
        reads, writes = (set(each) & self._regions.keys() for each in reads_and_writes(self._plan, instruction))
        return _Step(reads, writes, writes - reads, following)

    def _moved(self, call: MoveCall, following: list[int]) -> _Step:
        source, target = call.move_from, call.move_to
        if target not in self._regions:
            return _Step(set(), set(), set(), following)
        assert self._regions.get(source) == self._regions[target], f"value {source} is moved to where {target} is not"
        return _Step({source}, {target}, {target}, following)

    def check(self) -> None:
        lasting = set(self._plan.outputs) & self._regions.keys()
        before = self._needed_before(lasting)
        # State that exists before the first instruction must exist after the last one, too.
        state = before[0] - set(self._plan.inputs)
        before = self._needed_before(lasting | state)
        for place, step in enumerate(self._steps):
            kept = set().union(*(before[other] for other in step.next)) | step.reads
            for written in step.writes:
                for value in kept - step.writes:
                    is_same = self._regions[value] == self._regions[written] and isinstance(
                        self._plan.chains[0].instructions[place].instr_args, MoveCall
                    )
                    assert is_same or not self._regions[value].overlaps(self._regions[written]), (
                        f"instruction {place} overwrites value {value}, which is read later"
                    )

    def _needed_before(self, lasting: set[int]) -> list[set[int]]:
        """Returns the values that must exist before each instruction, and before the end."""
        before: list[set[int]] = [*(set() for _ in self._steps), lasting]
        changes = True
        while changes:
            changes = False
            for place in reversed(range(len(self._steps))):
                step = self._steps[place]
                after = set().union(*(before[other] for other in step.next))
                needed = (after - step.replaces) | step.reads
                changes |= needed != before[place]
                before[place] = needed
        return before
