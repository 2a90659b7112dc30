"""Runs a program (.pte) on an emulated Cortex-M or on this machine, with every kernel: nothing is built for it.

A program with VGF runs on this machine, on Vulkan.
"""

import argparse
import json
import math
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools.abi.layouts.layouts import RUNNER_MAX_DIM
from tools.artifacts.program.program import ProgramError, Tensor, load, read, with_first_method
from tools.quiet.console import UserError, printable, user_path
from tools.quiet.files import reading
from tools.quiet.tool import option_parser, run_tool
from tools.verify.environment.hosted import EmulationError
from tools.verify.run_pte import vulkan
from tools.verify.run_pte.cases import Case, CaseResult, Runner, run_cases
from tools.verify.run_pte.values import Value, dtype_name, encode, name_of, numpy_dtype

_FOLDER = "tools/verify/run_pte"
_INDEXES = ("runners.json", "daily_runners.json", "core_runners.json")

# Bytes of an input that is not given; no board has more memory.
_LARGEST_INPUT = 1 << 30
# ExecuTorch's ScalarType of inputs that are numbers, by the schema's type.
_NUMBERS: dict[str, tuple[int, Any]] = {"Int": (4, 1), "Double": (7, 1.0), "Bool": (11, True)}


class RunError(UserError):
    """A program that could not be run: the error's name (ExecuTorch's, or how the run ended) and a message."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


@dataclass(frozen=True)
class Runners:
    """The list of //tools/verify/run_pte:runners or :daily_runners: per board its runner, `host` for this machine's."""

    boards: dict[str, Runner]


def read_runners() -> Runners:
    """Reads the index of the runner images from the runfiles that hold this file; run_pte_vgf has none there."""
    root = Path(__file__).parents[len(Path(_FOLDER).parts)]
    found = [root / _FOLDER / name for name in _INDEXES if (root / _FOLDER / name).exists()]
    if not found:
        return Runners({})
    index = json.loads(found[0].read_text(encoding="utf-8"))
    qemu = root / index["qemu"]
    return Runners(
        {
            name: Runner(root / entry["binary"], root / entry["board"] if entry["board"] else None, qemu)
            for name, entry in index["runners"].items()
        }
    )


def load_input(path: Path) -> np.ndarray:
    """Reads an input.

    Raises:
        RunError: the file is missing or no .npy file.
    """
    try:
        with reading(".npy file", path, "write it with numpy.save"):
            array = np.load(path, allow_pickle=False)
            if not isinstance(array, np.ndarray):
                raise ValueError("it has several arrays")
            return array
    except UserError as error:
        name = "AccessFailed" if isinstance(error.__cause__, OSError) else "InvalidArgument"
        raise RunError(name, f"input {error}") from error


def _array(index: int, tensor: Tensor, given: np.ndarray | None) -> np.ndarray:
    """Returns the array that was given for an input if it fits, else ones."""
    scalar_type, shape = int(tensor.scalar_type), tuple(tensor.sizes or ())
    kind = numpy_dtype(scalar_type)
    if kind is None:
        raise RunError("NotSupported", f"input {index} is of {dtype_name(scalar_type)}, which cannot be passed")
    order = tuple(tensor.dim_order or range(len(shape)))
    if len(shape) > RUNNER_MAX_DIM or sorted(order) != list(range(len(shape))) or min(shape, default=0) < 0:
        raise RunError(
            "InvalidProgram",
            f"input {index} has {len(shape)} dimensions {list(shape)} in the order {list(order)}; "
            f"at most {RUNNER_MAX_DIM} can be passed, each of which the order names once",
        )
    if given is None and math.prod(shape) * kind.itemsize > _LARGEST_INPUT:
        raise RunError("NotSupported", f"input {index} is of {list(shape)}; at most {_LARGEST_INPUT:,} bytes are made")
    array = np.ones(shape, dtype=kind) if given is None else given
    is_static = int(tensor.shape_dynamism) == 0
    if array.dtype != kind or array.ndim != len(shape) or (is_static and array.shape != shape):
        raise RunError(
            "InvalidArgument",
            f"input {index} is {array.dtype} {list(array.shape)}, but the program takes {kind} {list(shape)}"
            + ("" if is_static else " at most"),
        )
    return array


def _encode_tensor(index: int, tensor: Tensor, given: np.ndarray | None) -> bytes:
    array = _array(index, tensor, given)
    return encode(array, int(tensor.scalar_type), tuple(tensor.dim_order or range(array.ndim)))


def _wanted(plan: Any, inputs: Sequence[np.ndarray]) -> list[int]:
    """Returns the places of the plan's inputs among its values, if as many are given or none."""
    wanted = list(plan.inputs or [])
    if inputs and len(inputs) != len(wanted):
        raise RunError(
            "InvalidArgument",
            f"{len(inputs)} inputs given, but the program takes {len(wanted)}; give --input for each or none",
        )
    return wanted


def _exported_number(value: Any, one: Any) -> Any:
    """Returns the number that a program was exported with, the only one that it takes; else one."""
    number = next(iter(vars(value).values()), None)
    return one if number is None else number


def check_outputs(plan: Any) -> None:
    """Raises RunError for outputs that the runner can't return."""
    for i, index in enumerate(plan.outputs or []):
        kind = type(plan.values[index].val).__name__
        if kind != "Tensor" and kind not in _NUMBERS:
            raise RunError("NotSupported", f"output {i} is of type {kind}, which cannot be returned; leave it out")


def find_plan(program: Path, method: str | None) -> Any:
    """Returns a method of a program, the first one if none is named.

    Raises:
        RunError: there is no such method.
        ProgramError: the file is no program.
    """
    plans = read(program).execution_plan
    for plan in plans:
        if method in (None, plan.name):
            return plan
    names = ", ".join(str(plan.name) for plan in plans)
    raise RunError("InvalidArgument", f"{program} has no method {method}; give --method one of: {names}")


def encode_inputs(program: Path, inputs: Sequence[np.ndarray], method: str | None = None) -> tuple[bytes, ...]:
    """Returns the inputs of a program's method, the first one if none is named, as the runner takes them: those given,
    or ones.

    Raises:
        RunError: they do not fit the program.
        ProgramError: the file is no program.
    """
    plan = find_plan(program, method)
    check_outputs(plan)
    encoded = []
    for i, index in enumerate(_wanted(plan, inputs)):
        value = plan.values[index].val
        given = inputs[i] if inputs else None
        if isinstance(value, Tensor):
            encoded.append(_encode_tensor(i, value, given))
            continue
        kind = type(value).__name__
        if kind not in _NUMBERS:
            raise RunError("NotSupported", f"input {i} is of type {kind}, which cannot be passed")
        scalar_type, one = _NUMBERS[kind]
        number = np.asarray(_exported_number(value, one) if given is None else given, dtype=numpy_dtype(scalar_type))
        if number.size != 1:
            raise RunError("InvalidArgument", f"input {i} has {number.size} elements, but the program takes one number")
        encoded.append(encode(number.reshape(()), scalar_type, ()))
    return tuple(encoded)


def run(
    program: Path,
    runners: Runners,
    board_name: str,
    inputs: Sequence[np.ndarray],
    timeout: float,
    method: str | None = None,
) -> CaseResult:
    """Runs a program.

    Args:
        program: the .pte.
        runners: the runner images.
        board_name: the board to emulate, or `host`.
        inputs: one array per input, or none for ones.
        timeout: seconds until the run counts as hung.
        method: which of the program's methods; None: the first.

    Raises:
        RunError: the program could not be run.
    """
    if board_name not in runners.boards:
        raise RunError(
            "NotSupported", f"there is no runner for board {board_name}; there are {', '.join(sorted(runners.boards))}"
        )
    try:
        content = program.read_bytes()
    except OSError as error:
        raise RunError("AccessFailed", f"program {program}: {error.strerror}") from error
    values: tuple[bytes, ...] = ()
    problem = None
    try:
        values = encode_inputs(program, inputs, method)
        if method is not None:
            # The runner runs a program's first one.
            content = with_first_method(load(program), method)
    except ProgramError as error:
        # The runtime has the say, and the name of the error.
        problem = RunError("InvalidProgram", str(error))
    try:
        (result,) = run_cases(runners.boards[board_name], [Case(content, values)], timeout)
    except EmulationError as error:
        raise RunError(error.name, error.reason) from error
    if problem and result.step != "load":
        raise problem
    if result.error != "Ok":
        raise RunError(result.error, for_this_command("; ".join(result.messages)))
    return result


def for_this_command(message: str) -> str:
    """Rewrites a message of the runtime, which is about images built for a program, for this tool, which has every
    kernel and no backend.
    """
    missing = re.match(r"no kernel for operator (\S+?): the image was built", message)
    if missing:
        return (
            f"Torch Fusion has no kernel for operator {missing[1]}; let torch_program export the model, which "
            "decomposes many, or express it by other functions of torch"
        )
    backend = re.match(r"the image has no backend (\S+?);", message)
    if backend:
        return (
            f"the program has parts for {backend[1]}, which run_pte has not; lower the model without its partitioner, "
            "or put the program into a torch_firmware that has the torch_backend"
        )
    return message


def has_vgf(program: Path) -> bool:
    """Returns whether a program has parts for Vulkan; no if it is none, which its run tells."""
    try:
        plans = read(program).execution_plan
    except (ProgramError, OSError):
        return False
    return any(delegate.id == vulkan.VGF for plan in plans for delegate in plan.delegates or [])


def _run_on_vulkan(arguments: argparse.Namespace, inputs: Sequence[np.ndarray]) -> CaseResult | None:
    """Runs a program with VGF; None if this tool lacks what that needs."""
    if arguments.board not in (None, "host"):
        raise RunError(
            "NotSupported", f"the program has parts for Vulkan, which {arguments.board} has not; leave --board out"
        )
    try:
        from tools.verify.vgf.vulkan import VulkanError
        from tools.verify.vgf.vulkan import run as run_on_vulkan
    except ModuleNotFoundError:
        return None
    if arguments.method not in (None, find_plan(arguments.program, None).name):
        raise RunError(
            "NotSupported", f"--method {arguments.method}: of a program with parts for Vulkan the first method is run"
        )
    plan = find_plan(arguments.program, None)
    arrays = []
    for i, index in enumerate(_wanted(plan, inputs)):
        value = plan.values[index].val
        if not isinstance(value, Tensor):
            raise RunError("NotSupported", f"input {i} is of type {type(value).__name__}, which cannot be passed")
        arrays.append(_array(i, value, inputs[i] if inputs else None))
    try:
        (outputs,) = run_on_vulkan(arguments.program, [arrays], arguments.timeout)
    except VulkanError as error:
        raise RunError("DelegateFailed", str(error)) from error
    return CaseResult("Ok", outputs=tuple(Value(name_of(array.dtype), array) for array in outputs))


def save_outputs(outputs: Sequence[Value], folder: Path) -> list[Path]:
    """Writes each output as output_<i>.npy.

    Raises:
        RunError: the folder cannot be written to.
    """
    paths = [folder / f"output_{i}.npy" for i in range(len(outputs))]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, value in zip(paths, outputs, strict=True):
            np.save(path, value.array)
    except OSError as error:
        raise RunError("AccessFailed", f"output directory {folder}: {error.strerror}") from error
    return paths


def as_json(run_: CaseResult, files: Sequence[Path]) -> dict[str, Any]:
    """Returns the documented JSON of a run that worked."""
    return {
        "outputs": [
            {"dtype": value.dtype, "shape": list(value.array.shape), "file": str(path)}
            for value, path in zip(run_.outputs, files, strict=True)
        ],
        "instructions": {"load": run_.load, "execute": run_.execute},
        "arena": {"method": run_.method, "planned": run_.planned, "temp": run_.temp},
        "error": None,
    }


def error_json(error: RunError) -> dict[str, Any]:
    """Returns the documented JSON of a run that failed."""
    return {
        "outputs": [],
        "instructions": {"load": None, "execute": None},
        "arena": {"method": None, "planned": None, "temp": None},
        "error": {"name": error.name, "message": error.message},
    }


def note_of_methods(program: Path, method: str | None) -> list[str]:
    """Returns a line that says which method of a program with several ones is run."""
    names = [str(plan.name) for plan in read(program).execution_plan]
    if len(names) < 2:
        return []
    run_ = method or f"{names[0]}, the first one"
    others = [name for name in names if name != (method or names[0])]
    return [f"method {run_}; others by --method: {', '.join(others)}"]


def _text(run_: CaseResult, files: Sequence[Path], lines: list[str]) -> str:
    for i, value in enumerate(run_.outputs):
        elements = np.array2string(value.array, threshold=64, precision=7, separator=", ")
        lines += [f"output {i}: {value.dtype} {list(value.array.shape)}", "  " + elements.replace("\n", "\n  ")]
    lines += [f"written: {path}" for path in files]
    if run_.load is not None and run_.execute is not None:
        lines.append(f"load {run_.load:,} instructions, inference {run_.execute:,} instructions")
    if run_.method:
        lines.append(f"arenas: method {run_.method:,}, planned {run_.planned:,}, temp {run_.temp:,} bytes")
    return "\n".join(lines)


def _default_board(runners: Runners) -> str:
    """Returns the first that is emulated, which counts instructions."""
    return next(board for board in runners.boards if board != "host")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("run_pte", __doc__)
    parser.add_argument("program", type=user_path, metavar="FILE.pte", help="the program")
    runners = read_runners()
    boards = "host, which is this machine"
    if runners.boards:
        names, default = ", ".join(runners.boards), _default_board(runners)
        boards = f"one of {names}; host is this machine; default: {default}, host with VGF"
    parser.add_argument("--board", help=boards)
    parser.add_argument("--method", metavar="NAME", help="which of the program's methods; default: the first")
    parser.add_argument(
        "--input",
        type=user_path,
        action="append",
        default=[],
        metavar="X.npy",
        help="an input; repeat in order; default: ones",
    )
    parser.add_argument(
        "--output-dir", type=user_path, metavar="D", help="where the outputs are written as output_<i>.npy"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON; without --output-dir the outputs go to a new temporary directory",
    )
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS", help="when a run counts as hung")
    return parser.parse_args(argv)


def _words(arguments: argparse.Namespace) -> list[str]:
    """Returns the arguments, with paths that are valid in any directory."""
    words = [str(arguments.program.absolute()), "--timeout", str(arguments.timeout)]
    words += [word for path in arguments.input for word in ("--input", str(path.absolute()))]
    words += ["--method", arguments.method] if arguments.method else []
    words += ["--output-dir", str(arguments.output_dir.absolute())] if arguments.output_dir else []
    return words + (["--json"] if arguments.json else [])


def _run(arguments: argparse.Namespace) -> int | None:
    try:
        inputs = [load_input(path) for path in arguments.input]
        if has_vgf(arguments.program):
            on_vulkan = _run_on_vulkan(arguments, inputs)
            if on_vulkan is None:
                status = vulkan.start(_words(arguments))
                if status is None:
                    raise RunError(
                        "NotSupported",
                        "the program has parts for Vulkan; start this by `./bazelw run //tools:run_pte -- ...`",
                    )
                return status
            result = on_vulkan
        else:
            runners = read_runners()
            if not runners.boards:
                raise RunError("NotSupported", "the program has no parts for Vulkan; start //tools:run_pte for it")
            board = arguments.board or _default_board(runners)
            result = run(arguments.program, runners, board, inputs, arguments.timeout, arguments.method)
        folder = arguments.output_dir
        if folder is None and arguments.json:
            folder = Path(tempfile.mkdtemp(prefix="run_pte-"))
        files = save_outputs(result.outputs, folder.absolute()) if folder else []
        if arguments.json:
            print(json.dumps(as_json(result, files), indent=2))
        else:
            print(printable(_text(result, files, note_of_methods(arguments.program, arguments.method))))
    except RunError as error:
        if arguments.json:
            print(json.dumps(error_json(error), indent=2))
        raise
    return None


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("run_pte", _run, _parse(argv))
