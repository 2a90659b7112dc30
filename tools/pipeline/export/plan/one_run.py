"""Runs an exported program once in ExecuTorch's own runtime, as a check."""

import functools
from collections.abc import Sequence

import torch
from executorch.exir.scalar_type import ScalarType
from executorch.exir.schema import DelegateCall, ExecutionPlan, KernelCall

from tools.pipeline.export.capture.reference import differs
from tools.pipeline.export.plan.plan_passes import is_random
from tools.pipeline.export.upstream.loaded_program import LoadedProgram, without_kernel

# The limit for a run in multiply-accumulates: ExecuTorch's kernels on the host are plain loops.
_MOST_WORK = 30_000_000
_FLOATS = (ScalarType.HALF, ScalarType.BFLOAT16, ScalarType.FLOAT, ScalarType.DOUBLE)
# A relative change of the inputs within rounding: an output that it changes as much as the error can't be checked.
_ROUNDING = 1e-6


def _is_integer_remainder(plan: ExecutionPlan, call: KernelCall) -> bool:
    if plan.operators[call.op_index].name != "aten::remainder":
        return False
    return plan.values[call.args[-1]].val.scalar_type not in _FLOATS


def check_run(
    program: bytes,
    plan: ExecutionPlan,
    macs: int,
    samples: Sequence[Sequence[torch.Tensor]],
    expected: Sequence[Sequence[torch.Tensor]],
) -> None:
    """Raises AssertionError if the results of a program's method, `plan`, differ from the module's.

    Programs that have operators or delegates outside ExecuTorch's runtime on the host, that draw random numbers, or
    that take long, are not run. Neither are those with operators that ExecuTorch computes unlike PyTorch and a device's
    kernel: topk, of which sorting consists, finds equal elements in another order, and remainders of negative integers
    have the dividend's sign.
    """
    name, calls = plan.name, [instruction.instr_args for instruction in plan.chains[0].instructions]
    if macs > _MOST_WORK or any(each.name == "aten::topk" for each in plan.operators) or without_kernel(plan):
        return
    if any(isinstance(call, DelegateCall) for call in calls) or any(
        is_random(plan, each) or _is_integer_remainder(plan, call)
        for each, call in zip(plan.chains[0].instructions, calls, strict=True)
        if isinstance(call, KernelCall) and not plan.operators[call.op_index].name.startswith("executorch_prim::")
    ):
        return

    @functools.cache
    def run(factor: float) -> list[list[torch.Tensor]]:
        loaded = LoadedProgram(program)
        return [
            loaded.run(*(each * factor if each.is_floating_point() else each.clone() for each in sample), method=name)
            for sample in samples
        ]

    try:
        results = run(1)
    except RuntimeError:
        # ExecuTorch's kernels refuse some cases that the device's support, such as volume convolutions.
        return
    pairs = zip(zip(*results, strict=True), zip(*expected, strict=True), strict=True)
    for index, (result, value) in enumerate(pairs):
        if differs(result, value):
            changed = [outputs[index] for outputs in run(1 + _ROUNDING)]
            shapes, wanted = ([tensor.shape for tensor in tensors] for tensors in (result, value))
            assert shapes == wanted and differs(changed, result), (
                f"output {index} of {name}() is not what the module returns for its first golden inputs"
            )
