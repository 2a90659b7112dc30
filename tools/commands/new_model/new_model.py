"""Writes a Bazel workspace that makes firmware of a model file; examples/own_model is an example of the result.

The model file is loaded and its model run once before anything is written. Files that it imports and reads from its own
folder are copied.
"""

import argparse
import ast
import contextlib
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.artifacts.board.board import Board, read_board
from tools.commands.new_model.no_model_file import model_file_text
from tools.pipeline.compile.names import name_problem
from tools.quiet.console import Console, UserError, run_quietly, system_error, user_path
from tools.quiet.files import reading
from tools.quiet.tool import option_parser

if TYPE_CHECKING:
    from tools.pipeline.model_file.model_file import ModelFile

_ROOT = Path(__file__).parents[3]
_TEMPLATES = Path(__file__).parent / "template"
_BOARDS = ("nucleo_wb55rg", "pico2_w")
_RULES = ("firmware_test", "torch_firmware", "torch_program")
# In buildifier's format.
_PROGRAM = """
torch_program(
    name = "{name}",
    src = "{src}",
{options})
"""
_FIRMWARE = """
torch_firmware(
    name = "{board}",
    board = BOARDS + "{board}",
    model = ":{name}",
)
"""
_TEST = """
firmware_test(
    name = "{name}_test",
    boards = [
{boards}    ],
    model = ":{name}",
)
"""

_BESIDE = "A relative path is the current folder's, or else beside the model file: there is no {file!r} in either"


@dataclass(frozen=True)
class Model:
    """A model file that works.

    Attributes:
        path: the file.
        name: the program's.
        trains: whether it has train().
        calibrates: whether it has calibration_inputs().
        beside: the files in its folder, or below it, that it imports and reads.
        entry: its key in entries(), if the file describes several models.
    """

    path: Path
    name: str
    trains: bool
    calibrates: bool
    beside: tuple[Path, ...]
    entry: str = ""


def program_name(path: Path, boards: Sequence[str] = _BOARDS, entry: str = "") -> str:
    """Returns the name of a model file's program, a C identifier in lower case that no board's firmware has."""
    letters = unicodedata.normalize("NFKD", f"{path.stem} {entry}").encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9]+", "_", letters.lower()).strip("_") or "model"
    if name[0].isdigit():
        return f"_{name}"
    return f"{name}_model" if name in boards or name_problem(name) else name


def check_model(path: Path, boards: Sequence[str] = _BOARDS, entry: str = "") -> Model:
    """Loads a model file and runs its model once.

    Args:
        path: the file.
        boards: names that the program can't have.
        entry: the key in entries() of the model; empty: the file itself describes it.

    Raises:
        UserError: the file, one of its functions or the model does not work.
    """
    read = _files_read()
    file = _load(path, entry)
    if not entry and "" not in (models := file.models()):
        raise UserError(f"{path} describes several models: choose one with --entry, of {', '.join(models)}")
    return _checked_model(file, program_name(path, boards, entry), entry, read)


def check_models(path: Path) -> list[Model]:
    """Loads a model file and runs each model that it describes once, as check_model() does."""
    read = _files_read()
    models = _load(path).models()
    return [_checked_model(file, program_name(path, (), entry), entry, read) for entry, file in models.items()]


def _load(path: Path, entry: str = "") -> "ModelFile":
    # torch costs seconds, and checking the arguments comes first.
    from tools.pipeline.model_file.model_file import ModelFile

    try:
        return ModelFile(path, entry=entry, advice=_BESIDE)
    except UserError as error:
        if isinstance(error.__cause__, ImportError):
            raise UserError(
                f"{error}\nHere a model has the packages that Torch Fusion comes with. Begin with one that needs no "
                'other, and add yours in its workspace: docs/models.md, "Python packages"'
            ) from error
        raise


def _checked_model(file: "ModelFile", name: str, entry: str, read: Sequence[str]) -> Model:
    import torch

    from tools.pipeline.model_file.call import called, read_result
    from tools.pipeline.model_file.explain_forward import explain_forward

    model = file.model()
    call = file.example_call()
    tensors_to_results = called(model, call, call.names(model.forward))
    try:
        with torch.no_grad():
            read_result(tensors_to_results(*call.tensors))
    except UserError as error:
        raise UserError(f"{file.path}: {error}") from error
    except Exception as error:
        raise explain_forward(file, tensors_to_results, call.tensors, error) from error
    if file.has("calibration_inputs"):
        file.calibration_inputs()
    if file.has("evaluation_set"):
        file.evaluation_set()
    beside = _beside(file.path, [*read, *_named(file.path)])
    return Model(file.path, name, file.has("train"), file.has("calibration_inputs"), beside, entry)


def _named(path: Path) -> list[str]:
    """Returns the files in its folder that a model file may name: not all functions that read files open them by
    Python.
    """
    strings = (node.value for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Constant))
    return [str(path.parent.absolute() / name) for name in strings if isinstance(name, str) and _may_be_a_file(name)]


def _may_be_a_file(name: str) -> bool:
    return name.isprintable() and 0 < len(name) < 200 and not Path(name).is_absolute()


def _files_read() -> list[str]:
    """Returns a list that gets the names of the files that Python opens to read, from now on."""
    names: list[str] = []

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], (str, Path)) and str(arguments[1] or "r").startswith("r"):
            names.append(os.path.abspath(arguments[0]))  # noqa: PTH100  # resolve() would open folders

    sys.addaudithook(note)
    return names


def _beside(path: Path, read: Sequence[str]) -> tuple[Path, ...]:
    """Returns the files that were read, and those of imported modules, in the model file's folder or below it."""
    folder = path.parent.resolve()
    # Some of PyTorch's modules give a relative path, which is no file's.
    modules = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    imported = {file: name for name, file in modules.items() if file and Path(file).is_absolute()}
    files = {Path(name).resolve() for name in (*imported, *read)}
    # The model file itself if others import it by its name.
    itself = path.resolve()
    if imported.get(str(itself)) != itself.stem:
        files.discard(itself)
    return tuple(
        sorted(
            file for file in files if file.is_relative_to(folder) and file.is_file() and "__pycache__" not in file.parts
        )
    )


def _targets(model: Model, boards: Sequence[Board], int8: bool) -> str:
    """Returns programs, firmware and tests: in int8, boards with an NPU have a program of their own."""
    with_npu = [board for board in boards if int8 and board.npu]
    others = [board for board in boards if board not in with_npu]
    programs = [(model.name, "cortex_m" if int8 else "", others)] if others else []
    if with_npu:
        programs.append((f"{model.name}_npu" if others else model.name, "ethos_u", with_npu))
    data = ""
    if model.beside:
        folder = model.path.parent.resolve()
        names = [json.dumps(str(file.relative_to(folder)), ensure_ascii=False) for file in model.beside]
        listed = f"[{names[0]}]" if len(names) == 1 else "[\n        " + ",\n        ".join(names) + ",\n    ]"
        data = f"    data = {listed},\n"
    text = ""
    for name, backend, its_boards in programs:
        options = (f'    backend = "{backend}",\n' if backend else "") + data
        if model.entry:
            options += f"    entry = {json.dumps(model.entry, ensure_ascii=False)},\n"
        if model.trains:
            options += "    train = True,\n" if name == model.name else f'    weights = ":{model.name}",\n'
        text += _PROGRAM.format(name=name, src=f"{model.name}.py", options=options)
        text += "".join(_FIRMWARE.format(board=board.name, name=name) for board in its_boards)
        tested = "".join(f'        BOARDS + "{board.name}",\n' for board in its_boards if is_tested(board))
        if tested:
            text += _TEST.format(name=name, boards=tested)
    return text


def is_tested(board: Board) -> bool:
    """Whether a test can run a board's images: in QEMU, or on the board simulator."""
    return board.emulator is not None or board.simulator is not None


def workspace_files(model: Model, checkout: Path, boards: Sequence[Board], int8: bool = False) -> dict[str, str]:
    """Names and texts of the workspace's own files.

    Args:
        model: the model.
        checkout: this project's folder, which the workspace refers to.
        boards: the boards to make firmware for.
        int8: whether the program is quantized.
    """
    targets = _targets(model, boards, int8)

    def fill(name: str) -> str:
        text = (_TEMPLATES / f"{name}.in").read_text(encoding="utf-8")
        # Starlark's strings of one line are JSON's.
        return text.format(
            rules=", ".join(f'"{rule}"' for rule in _RULES if f"\n{rule}(" in targets),
            targets=targets,
            checkout=json.dumps(str(checkout), ensure_ascii=False),
            folder=("" if checkout.is_absolute() else '"$(dirname "$0")"/') + shlex.quote(str(checkout)),
        )

    return {
        ".bazelrc": (_TEMPLATES / "bazelrc").read_text(encoding="utf-8"),
        ".bazelversion": (_ROOT / ".bazelversion").read_text(encoding="utf-8"),
        ".gitignore": "/bazel-*\n",
        "BUILD.bazel": fill("BUILD.bazel"),
        "MODULE.bazel": fill("MODULE.bazel"),
        "bazelw": fill("bazelw"),
    }


def write_workspace(model: Model, output: Path, checkout: Path, boards: Sequence[Board], int8: bool = False) -> None:
    """Writes the workspace.

    Args:
        model: the checked model file.
        output: the folder, which must not exist or be empty.
        checkout: this project's folder, which the workspace refers to.
        boards: the boards to make firmware for.
        int8: whether the program is quantized.

    Raises:
        UserError: there is something besides a git repository's data in the folder, or it cannot be written.
    """
    is_ours = False
    try:
        repository = output / ".git"
        if output.exists() and any(file != repository for file in output.iterdir()):
            raise UserError(f"{output} is not empty: name another folder with --output")
        output.mkdir(parents=True, exist_ok=True)
        is_ours = True
        for name, text in workspace_files(model, checkout, boards, int8).items():
            (output / name).write_text(text, encoding="utf-8")
        (output / "bazelw").chmod(0o755)
        folder = model.path.parent.resolve()
        copies = {output / file.relative_to(folder): file for file in model.beside}
        copies[output / f"{model.name}.py"] = model.path
        for copy, source in copies.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    except BaseException as error:
        if is_ours:
            # An incomplete workspace would prevent the next attempt, also after Ctrl-C.
            made = [file for file in output.iterdir() if file != repository] if repository.exists() else [output]
            for file in made:
                if file.is_dir():
                    shutil.rmtree(file, ignore_errors=True)
                else:
                    file.unlink()
        if isinstance(error, OSError):
            raise UserError(system_error(error, error.filename or output)) from error
        raise


@contextlib.contextmanager
def _model_file(path: Path, module: str | None, shapes: Sequence[str]) -> Iterator[Path]:
    """Gives the model file: the one that was named, or a new one beside a file of weights, a module or a program.

    A new one is removed again if the workspace can't be made.

    Raises:
        UserError: the file can't be made, or there is one of that name.
    """
    if path.suffix == ".py":
        if module or shapes:
            raise UserError(
                f"{path}: --module and --shape are for files of weights; model() and example_inputs() say it here"
            )
        yield path
        return
    with reading("file of a model", path, "docs/models.md says what to write into a model file"):
        text = model_file_text(path, module, shapes)
    file = path.parent / f"{path.stem}.py"
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise UserError(f"{file} exists already: give that, or another name to {path.name}") from None
    except OSError as error:
        raise UserError(system_error(error, file)) from error
    try:
        yield file
    except BaseException as error:
        file.unlink()
        if isinstance(error.__cause__, ImportError):
            raise UserError(
                f"{path}: its class can't be imported: {error.__cause__}. Name one that Python finds in {path.parent}, "
                "or in the packages that Torch Fusion has: --module PACKAGE.CLASS"
            ) from error
        if isinstance(error, UserError) and str(error).startswith(str(file)):
            # It names a line of the file that is gone.
            shown = textwrap.indent(text.replace("\n\n\n", "\n"), "  ")
            asked = f"Write {file.name} with what is missing and give that; it was:"
            raise UserError(f"{error}\n{asked}\n{shown}") from error
        raise


def known_boards() -> dict[str, Board]:
    """Returns the project's boards by name."""
    boards = [read_board(_ROOT / path) for path in os.environ["BOARD_DEFINITIONS"].split()]
    return {board.name: board for board in boards}


def _boards(text: str) -> list[str]:
    return list(dict.fromkeys(filter(None, re.split(r"[\s,]+", text))))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("new_model", __doc__)
    parser.add_argument(
        "model",
        type=user_path,
        nargs="?",
        help="the model file: model() and example_inputs(), see docs/models.md; or a .pt2, a pickled module, or "
        "weights, around which a model file is written. A terminal is asked for it and the rest if it is left out",
    )
    parser.add_argument("--entry", default="", help="the model's key in entries(), of a file that describes several")
    parser.add_argument("--module", metavar="PACKAGE.CLASS", help="class of the module that weights are for")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="[DTYPE:]SIZES",
        help="an input of a pickled module or of weights, such as 1,3,32,32; once for each input",
    )
    parser.add_argument(
        "--boards",
        type=_boards,
        default=list(_BOARDS),
        help=f"names of the boards to make firmware for, with commas; default: {','.join(_BOARDS)}",
    )
    parser.add_argument(
        "--int8",
        action="store_true",
        help="quantize the program to int8, for which calibration_inputs() gives the ranges",
    )
    parser.add_argument(
        "--output", type=user_path, help="folder to write; default: one with the model's name beside the model file"
    )
    parser.add_argument(
        "--checkout",
        type=Path,
        default=Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")).resolve(),
        help="Torch Fusion's folder, as the workspace is to name it; default: the one that this command runs from",
    )
    arguments = parser.parse_args(argv)
    if arguments.model is None:
        if not sys.stdin.isatty():
            parser.error("give the model file")
        _ask(arguments)
    known = known_boards()
    for board in arguments.boards:
        if board not in known:
            parser.error(f"--boards: there is no board {board}; it can be {', '.join(sorted(known))}")
    if not arguments.boards:
        parser.error("--boards: name one board at least")
    arguments.boards = [known[board] for board in arguments.boards]
    return arguments


def _ask(arguments: argparse.Namespace) -> None:
    """Asks the user at the terminal for what the command line leaves out."""
    print("A model file, or what PyTorch saved (.pt2, .pt, .pth, .ckpt, .safetensors)")
    arguments.model = user_path(input("File: ").strip())
    if arguments.model.is_file() and arguments.model.suffix not in (".py", ".pt2"):
        arguments.module = input("Class of the module, as package.Class (empty if the file has it): ").strip() or None
        arguments.shape = input("Shape of each input, such as 1,3,96,96: ").split()
    elif not arguments.model.is_file():
        # The error says at once what it is, and what to write.
        return
    known = known_boards()
    print(textwrap.fill(f"Boards: {', '.join(sorted(known))}", shutil.get_terminal_size().columns - 1))
    default = arguments.boards
    while True:
        arguments.boards = _boards(input(f"Which? [{' '.join(default)}] ")) or default
        unknown = [board for board in arguments.boards if board not in known]
        if not unknown:
            break
        print(f"There is no board {unknown[0]}")
    arguments.int8 = input("Quantize to int8? [y/N] ").strip().lower().startswith("y")


def main(argv: Sequence[str] | None = None) -> int:
    try:
        arguments = _parse(argv)
    except (EOFError, KeyboardInterrupt):
        print("\nnew_model: nothing was written", file=sys.stderr)
        return 130

    def step(console: Console) -> None:
        boards: list[Board] = arguments.boards
        names = [board.name for board in boards]
        with _model_file(arguments.model, arguments.module, arguments.shape) as path:
            output = arguments.output or path.parent.resolve() / program_name(path, names, arguments.entry)
            here = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
            if arguments.output is None and here is not None and output.is_relative_to(here):
                raise UserError(
                    f"{path} lies in {here}, and a workspace in a workspace confuses Bazel: name a folder outside with "
                    "--output"
                )
            if os.environ.get("BAZELW") == "debian" and not str(output.absolute()).isascii():
                raise UserError(
                    f"{output} has characters other than ASCII, which Debian's Bazel can't handle: name another folder "
                    "with --output, or install bazelisk"
                )
            model = check_model(path, names, arguments.entry)
            write_workspace(model, output, arguments.checkout, boards, arguments.int8)
        copied = "" if model.path.stem == model.name else f", in which {model.path.name} is {model.name}.py"
        lines = [] if path == arguments.model else [f"{path} is a model file for {arguments.model.name}."]
        lines += [f"{output} is a workspace for {model.name}{copied}:", f"  cd {shlex.quote(str(output))}"]
        if arguments.int8 and not model.calibrates:
            lines.append(
                f"Give {model.name}.py calibration_inputs(), of data like the device's: int8 is calibrated with them "
                "(docs/quantize.md)"
            )
        if idle := [] if arguments.int8 else [board.name for board in boards if board.npu]:
            lines.append(f"This program leaves the NPU of {', '.join(idle)} idle; with --int8 there is one for it")
        if any(map(is_tested, boards)):
            lines += ["Against PyTorch, on simulated boards:", "  ./bazelw test //..."]
        else:
            lines += ["Nothing simulates these boards; their images:", "  ./bazelw build //..."]
        if onto := [board.name for board in boards if board.programmer]:
            lines += ["Onto a connected board:", f"  ./bazelw run //:{onto[0]}.flash"]
        console.say("\n".join(lines))

    # A name that nobody can know before, and a file that only this user can read: the folder is everybody's.
    descriptor, name = tempfile.mkstemp(prefix="torch_fusion_new_model_", suffix=".log")
    os.close(descriptor)
    log = Path(name)
    status = 0
    try:
        status = run_quietly(step, log, "new_model")
    finally:
        # Only a message refers to it.
        if status == 0 or log.stat().st_size == 0:
            log.unlink()
    return status
