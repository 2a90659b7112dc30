"""One run of an exported program, by ExecuTorch's own runtime, before anybody calls it good."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from executorch.exir.schema import DelegateCall, ExecutionPlan, KernelCall
from executorch.extension.pybindings.portable_lib import _get_operator_names

from tools.pipeline.export.plan.plan_passes import is_random
from tools.pipeline.export.upstream.loaded_program import LoadedProgram

# What a run may take of multiply-accumulates: ExecuTorch's kernels on the host are plain loops.
_MOST_WORK = 30_000_000
# The largest share of an output's energy that may be noise: kernels add in another order, but wrong memory is far off.
_MOST_NOISE = 1e-3
# A relative change of the inputs that rounding explains: where it changes an output as much, nothing can be said of it.
_ROUNDING = 1e-6
# The share of integers that may be others: an index of the largest number, where two are about equal.
_MOST_OTHERS = 0.1


def check_run(
    program: bytes, plan: ExecutionPlan, macs: int, inputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]
) -> None:
    """AssertionError if the program returns something else than the module does.

    A program with operators or delegates that ExecuTorch's runtime on the host does not have is not run, and neither is
    one that draws random numbers or takes long.
    """
    calls = [instruction.instr_args for instruction in plan.chains[0].instructions]
    names = {f"{each.name}.{each.overload}" if each.overload else each.name for each in plan.operators}
    if macs > _MOST_WORK or not names <= set(_get_operator_names()):
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
        # ExecuTorch's kernels refuse what the device's compute, such as convolutions of volumes.
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
