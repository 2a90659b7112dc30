"""Imports a program that was exported elsewhere: writes the files that a torch_program has beside its .pte.

These are a manifest, with information from the file itself, and golden inputs and outputs. They are the user's, or
generated inputs with the outputs of ExecuTorch's own runtime, or of the NPU's model for programs with delegates.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tools.artifacts.ethos_u.npu import Npu
from tools.artifacts.ethos_u.payload import BACKEND
from tools.artifacts.golden.golden import load_arrays
from tools.artifacts.manifest.manifest import manifest_json
from tools.artifacts.program.program import ProgramFile, calls_of, load, operator_name
from tools.artifacts.program.program_schema import KernelCall
from tools.pipeline.export.capture.golden import serialize
from tools.pipeline.link.interface import Interface, TensorSpec, find_method, interface_of
from tools.pipeline.pte.delegates import Delegates
from tools.pipeline.pte.reference import DTYPES, compute
from tools.pipeline.registry.catalog import read_catalog
from tools.quiet.console import UserError
from tools.quiet.files import reading

_ADVICE = "docs/models.md says what examples are"


def take(path: Path, name: str, examples: Path | None, npu: Npu | None = None) -> tuple[str, bytes, list[str]]:
    """Returns the manifest and the golden file of a program.

    Args:
        path: the program.
        name: its name.
        examples: a NumPy file with the arrays input_0, input_1, ... of one sample, and optionally output_0, ... to
          compare with; None: inputs are generated.
        npu: the board's NPU, which the program has delegates for; None: it has none.

    Returns:
        The manifest, the golden file, and notes for the user.

    Raises:
        UserError: the file is no program, or one that needs the tool which made it; the examples don't fit; there are
          no outputs, and nothing here can compute them; or its delegates are not for the NPU.
    """
    file = load(path)
    plan = find_method(file)
    _check_operators(file, plan)
    if npu is None and any(delegate.id == BACKEND for delegate in plan.delegates):
        raise UserError(
            f"{path} has a delegate of {BACKEND}, for an Ethos-U; give the pte_program "
            'backend = "ethos_u", and build it for a board with that NPU'
        )
    delegates = Delegates(file, plan, npu) if npu else None
    interface = interface_of(path, plan)
    given = _read_examples(examples) if examples else {}
    inputs = [
        _example(examples, given, f"input_{place}", spec) if examples else _made(place, spec)
        for place, spec in enumerate(interface.inputs)
    ]
    if any(key.startswith("output_") for key in given):
        outputs = [_example(examples, given, f"output_{i}", spec) for i, spec in enumerate(interface.outputs)]
    elif delegates is not None:
        outputs = compute(file, plan, delegates, inputs)
        _check_outputs(path, interface, outputs)
    else:
        outputs = _compute(path, file.data, interface, inputs)
    orders = ([list(spec.dim_order) for spec in interface.inputs], [list(spec.dim_order) for spec in interface.outputs])
    golden = serialize([tuple(inputs)], [outputs], None, dim_orders=orders)
    backend = "ethos_u" if npu else "portable"
    return manifest_json(_manifest(name, plan, interface, backend)), golden, delegates.notes if delegates else []


def _check_operators(file: ProgramFile, plan: Any) -> None:
    """Refuses packed int8 layers, because the file doesn't tell which kind of core they are for."""
    catalog = read_catalog()
    for operator in plan.operators or []:
        kernel = catalog.get(operator_name(operator.name, operator.overload))
        if kernel is not None and kernel.packed:
            raise UserError(
                f"{file.path}: a torch_program laid out the layers of operator {kernel.operator} for one kind of core; "
                "use that torch_program itself, or export it with packed = False"
            )


def _read_examples(path: Path) -> dict[str, np.ndarray]:
    with reading("file of examples", path, _ADVICE):
        return load_arrays(path)


def _example(path: Path | None, given: dict[str, np.ndarray], key: str, spec: TensorSpec) -> torch.Tensor:
    if key not in given:
        raise UserError(f"{path} has no array {key}, which the program has; it has {', '.join(given) or 'none'}")
    array, dtype = given[key], DTYPES[spec.dtype.name]
    # NumPy has no bfloat16.
    if str(array.dtype) != str(dtype).removeprefix("torch.") and not (
        dtype == torch.bfloat16 and array.dtype == np.float32
    ):
        raise UserError(f"{path}: {key} has dtype {array.dtype}, and the program takes {dtype}; convert it")
    if array.shape != spec.sizes:
        raise UserError(f"{path}: {key} has the shape {list(array.shape)}, and in the program {list(spec.sizes)}")
    return _ordered(torch.from_numpy(array).to(dtype), spec)


def _made(place: int, spec: TensorSpec) -> torch.Tensor:
    """Generates numbers between 0 and 1, or zeros where they may be indices."""
    dtype = DTYPES[spec.dtype.name]
    if not dtype.is_floating_point:
        return _ordered(torch.zeros(spec.sizes, dtype=dtype), spec)
    return _ordered(torch.rand(spec.sizes, generator=torch.Generator().manual_seed(place)).to(dtype), spec)


def _ordered(tensor: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    """Returns a tensor in the program's order of dimensions."""
    order = list(spec.dim_order)
    return tensor.permute(order).contiguous().permute([order.index(dim) for dim in range(len(order))])


def _compute(path: Path, program: bytes, interface: Interface, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Runs ExecuTorch's runtime in a separate process, which it ends when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        results, log = Path(folder, "results"), Path(folder, "log")
        # Imported here: it takes seconds, and isn't needed if the user provides outputs.
        from tools.pipeline.export.upstream.loaded_program import LoadedProgram

        child = os.fork()
        if child == 0:
            _child(LoadedProgram, program, inputs, results, log)
        _, status = os.waitpid(child, 0)
        if status != 0 or not results.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
            raise UserError(
                f"{path}: ExecuTorch's runtime on this machine can't run it ({lines[-1] if lines else 'no message'}); "
                'give examples = "NAME.npz" with input_0, ... and what the model computes of them, output_0, ...'
            )
        outputs: list[torch.Tensor] = torch.load(results)
    _check_outputs(path, interface, outputs)
    return outputs


def _check_outputs(path: Path, interface: Interface, outputs: list[torch.Tensor]) -> None:
    found = [(list(output.shape), output.dtype) for output in outputs]
    wanted = [(list(spec.sizes), DTYPES[spec.dtype.name]) for spec in interface.outputs]
    if found != wanted:
        raise UserError(f"{path}: running it returns tensors of {found}, and the program has {wanted}")


def _child(load: Any, program: bytes, inputs: list[torch.Tensor], results: Path, log: Path) -> None:
    """Runs the program and ends the process."""
    status = 1
    with log.open("w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        try:
            torch.save(load(program).run(*inputs), results)
            status = 0
        except Exception as error:
            print(f"{error}".replace("\n", " "), file=output, flush=True)
        finally:
            os._exit(status)


def _manifest(name: str, plan: Any, interface: Interface, backend: str) -> dict[str, Any]:
    calls = [call.op_index for call in calls_of(plan) if isinstance(call, KernelCall)]
    tensors = [value.val for value in plan.values if type(value.val).__name__ == "Tensor"]
    return {
        "name": name,
        "core": "portable",
        "backend": backend,
        "operators": [
            {"name": operator.name, "overload": operator.overload or "", "origin": [], "calls": calls.count(index)}
            for index, operator in enumerate(plan.operators)
        ],
        # The file doesn't contain the locations in the model.
        "instructions": [{"operator": index, "origin": "", "macs": 0} for index in calls],
        "inputs": [{"name": ""} for _ in interface.inputs],
        "outputs": [{"name": ""} for _ in interface.outputs],
        # Memory with initial contents, or that is written in place, is state.
        "keeps_state": any(tensor.data_buffer_idx and tensor.allocation_info is not None for tensor in tensors)
        or any(operator.name.endswith("_") for operator in plan.operators),
    }
