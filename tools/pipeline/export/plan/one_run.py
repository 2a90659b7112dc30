"""Runs an exported program once in ExecuTorch's own runtime, as a check."""

from collections.abc import Sequence

import torch
from executorch.exir.schema import DelegateCall, ExecutionPlan, KernelCall
from executorch.extension.pybindings.portable_lib import _get_operator_names

from tools.pipeline.export.plan.plan_passes import is_random
from tools.pipeline.export.upstream.loaded_program import LoadedProgram

# The limit for a run in multiply-accumulates: ExecuTorch's kernels on the host are plain loops.
_MOST_WORK = 30_000_000
# The largest share of an output's energy that may be noise: kernels sum in another order, but memory errors are larger.
_MOST_NOISE = 1e-3
# A relative change of the inputs within rounding: an output that it changes as much as the error can't be checked.
_ROUNDING = 1e-6
# The share of integers that may differ: an index of the maximum of almost equal numbers.
_MOST_OTHERS = 0.1


def check_run(
    program: bytes, plan: ExecutionPlan, macs: int, inputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]
) -> None:
    """Raises AssertionError if the program's results differ from the module's.

    Programs that have operators or delegates outside ExecuTorch's runtime on the host, that draw random numbers, or
    that take long, are not run. Neither are those with topk, of which sorting consists: ExecuTorch's finds equal
    elements in another order than PyTorch and a device's kernel.
    """
    calls = [instruction.instr_args for instruction in plan.chains[0].instructions]
    names = {f"{each.name}.{each.overload}" if each.overload else each.name for each in plan.operators}
    if macs > _MOST_WORK or "aten::topk.values" in names or not names <= set(_get_operator_names()):
        return
    if any(isinstance(call, DelegateCall) for call in calls) or any(
        is_random(plan, each)
        for each, call in zip(plan.chains[0].instructions, calls, strict=True)
        if isinstance(call, KernelCall) and not plan.operators[call.op_index].name.startswith("executorch_prim::")
    ):
        return
    try:
        results = LoadedProgram(program).run(*(tensor.clone() for tensor in inputs))
    except RuntimeError:
        # ExecuTorch's kernels refuse some cases that the device's support, such as volume convolutions.
        return
    for index, (result, value) in enumerate(zip(results, expected, strict=True)):
        if result.shape != value.shape or _differs(result, value):
            changed = (tensor * (1 + _ROUNDING) if tensor.is_floating_point() else tensor for tensor in inputs)
            assert result.shape == value.shape and _differs(LoadedProgram(program).run(*changed)[index], result), (
                f"output {index} of the program is not what the module returns for its first golden inputs"
            )


def _differs(result: torch.Tensor, expected: torch.Tensor) -> bool:
    if not expected.numel():
        return False
    if not expected.is_floating_point():
        return float((result != expected).double().mean()) > _MOST_OTHERS and expected.numel() > 1
    is_number = torch.isfinite(expected)
    value = expected.double()[is_number]
    noise = (result.double()[is_number] - value).square().sum()
    return not bool(noise <= _MOST_NOISE * value.square().sum() + torch.finfo(expected.dtype).eps)
