"""Builds models in several variants for several boards: a table of what fits and how fast it is, and a page.

Every combination is a target of a package that this writes, explore/FILE in the workspace. Bazel builds what has
changed, so that an interrupted run goes on where it was. A combination that fails has its reason in the table. If QEMU
emulates none of the boards with a core, an emulated board of the project counts for that core. A model file whose
entries() describes several models, such as widths or resolutions of a network, stands for all of them.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.artifacts.board.board import Board
from tools.commands.explore.build_events import NOT_FOR_BOARD, Built, path_of, read_build_events
from tools.commands.explore.progress import Progress, find_bazel
from tools.commands.new_model.new_model import Model, check_models, known_boards, program_name
from tools.pipeline.page.page import Image, page_data, read_image, write_page
from tools.quiet.console import UserError, user_path
from tools.quiet.tool import option_parser, run_tool
from tools.verify.exploration.exploration import Row, best, parse_budget, rows_of, table


class _Expression(str):
    """Starlark that is no text."""


# Attributes of a torch_program by the name of the variant.
_VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {},
    "int8": {"backend": "cortex_m"},
    "int4": {"backend": "cortex_m", "quantization": _Expression('quantization(weight_dtype = "int4")')},
    "ethos_u": {"backend": "ethos_u"},
}


def build_file(models: Sequence[Model], variants: Sequence[str], boards: Sequence[str], root: str) -> str:
    """Returns the text of the package's BUILD.bazel.

    Args:
        models: those of one file, which is copied beside it.
        variants, boards: names.
        root: what labels of Torch Fusion begin with: empty in its own tree, else `@torch_fusion`.
    """
    lines = [f'load("{root}//rules:defs.bzl", "model_page", "quantization", "torch_program")']
    for model in models:
        common: dict[str, Any] = {"src": _copied_as(model.path), "tags": ["manual"]}
        if model.entry:
            common["entry"] = model.entry
        if model.beside:
            folder = model.path.parent.resolve()
            common["data"] = [str(file.relative_to(folder)) for file in model.beside]
        trained = f"{model.name}_float32"
        for variant in dict.fromkeys((["float32"] if model.trains else []) + list(variants)):
            attributes = {"name": f"{model.name}_{variant}"} | common | _VARIANTS[variant]
            if model.trains:
                attributes |= {"train": True} if variant == "float32" else {"weights": f":{trained}"}
            lines += ["", *_call("torch_program", attributes)]
        for variant in variants:
            for board in boards:
                label = board if re.search("[:/]", board) else f"{root}//firmware/boards/{board}"
                page = {
                    "name": target_name(model, variant, board),
                    "boards": [label],
                    "models": [f":{model.name}_{variant}"],
                }
                lines += ["", *_call("model_page", page)]
    return "\n".join(lines) + "\n"


def _copied_as(path: Path) -> str:
    """Returns the name of a model file's copy, which is another one if no label can have its own."""
    return path.name if re.fullmatch(r"[A-Za-z0-9_+=,@~. -]+", path.name) else f"{program_name(path, ())}.py"


def target_name(model: Model, variant: str, board: str) -> str:
    """Returns the name of the target of a combination."""
    return f"{model.name}_{variant}_on_{re.sub(r'[^A-Za-z0-9_]+', '_', board).strip('_')}"


def _call(rule: str, attributes: Mapping[str, Any]) -> Iterator[str]:
    yield f"{rule}("
    for name, value in attributes.items():
        # Starlark's texts, lists of them and numbers are JSON's.
        is_written_so = isinstance(value, bool | _Expression)
        yield f"    {name} = {value if is_written_so else json.dumps(value, ensure_ascii=False)},"
    yield ")"


def write_package(folder: Path, models: Sequence[Model], text: str) -> None:
    """Writes the package: BUILD.bazel, the model file and what it reads.

    Raises:
        UserError: there is something else in the folder.
    """
    mark = "# Written by //tools:explore, which writes it anew each time.\n"
    build = folder / "BUILD.bazel"
    if folder.exists() and any(folder.iterdir()) and not (build.is_file() and build.read_text().startswith(mark)):
        raise UserError(f"{folder} has other files: move them, since this folder is for what explore builds")
    for model in models:
        own = model.path.parent.resolve()
        names = {source: str(source.relative_to(own)) for source in model.beside}
        for source, name in (names | {model.path: _copied_as(model.path)}).items():
            copy = folder / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    build.write_text(mark + text, encoding="utf-8")


def _build(bazel: str, workspace: Path, packages: Sequence[str], images: int) -> dict[str, Built]:
    """Builds all of the packages, with so many images; returns what became of each target by its label."""
    with tempfile.TemporaryDirectory() as temporary:
        events = Path(temporary, "events.json")
        command = [bazel, "build", "--keep_going", "--output_groups=reports", f"--build_event_json_file={events}"]
        command += [f"//{package}:all" for package in packages]
        if sys.stderr.isatty():
            # Not in a terminal of its own, Bazel prints its state in lines.
            with subprocess.Popen(command, cwd=workspace, stderr=subprocess.PIPE, text=True, errors="replace") as build:
                assert build.stderr is not None
                log = workspace / "explore/bazel.log"
                with log.open("w", encoding="utf-8") as file:
                    # The table has what failed, in a line each.
                    Progress(workspace, events, images).show(build.stderr, file.write)
                print(f"Bazel's messages: {log}", file=sys.stderr, flush=True)
        else:
            subprocess.run(command, cwd=workspace, check=False)
        if not events.is_file():
            raise UserError(f"{bazel} built nothing; its messages say why")
        return read_build_events(events)


def _image(built: Built | None) -> Image | str:
    """Returns the image of a target, or why there is none."""
    if built is None:
        return NOT_FOR_BOARD
    if not built.files:
        return built.reason or "it was not built"
    files = {_kind(file): path_of(file) for file in built.files}
    return read_image([files.get(name, "") for name in ("report", "board", "graph", "quantization", "profile", "npu")])


def _images(
    bazel: str,
    workspace: Path,
    root: str,
    packages: Mapping[str, Sequence[Model]],
    variants: Sequence[str],
    boards: Sequence[str],
) -> dict[tuple[str, str], Image | str]:
    """Builds every combination; returns its image, or why there is none, by the program's name and the board."""
    for package, models in packages.items():
        write_package(workspace / package, models, build_file(models, variants, boards, root))
    number = sum(map(len, packages.values())) * len(variants) * len(boards)
    built = _build(bazel, workspace, list(packages), number)
    return {
        (f"{model.name}_{variant}", board): _image(built.get(f"//{package}:{target_name(model, variant, board)}"))
        for package, models in packages.items()
        for model in models
        for variant in variants
        for board in boards
    }


def timing_boards(images: Sequence[Image], known: Sequence[Board]) -> list[str]:
    """Returns names of emulated boards that count instructions for the cores of images that have no counts yet."""
    emulators = {board.core: board.name for board in reversed(known) if board.emulator and not board.npu}
    counted = {image.board.core for image in images if image.profile}
    cores = dict.fromkeys(image.board.core for image in images if not image.npu)
    return [emulators[core] for core in cores if core in emulators and core not in counted]


def _kind(file: str) -> str:
    """Returns which of the page's inputs a file is: the last part of its name before `.json`."""
    return file.rpartition("/")[2].removesuffix(".json").rpartition(".")[2]


def _names(option: str, known: Sequence[str] = ()) -> Any:
    def parse(text: str) -> list[str]:
        names = list(dict.fromkeys(filter(None, text.split(","))))
        unknown = [name for name in names if known and name not in known]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}; {option} are {', '.join(known)}")
        return names

    return parse


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("explore", __doc__)
    parser.add_argument(
        "models",
        type=user_path,
        nargs="+",
        metavar="MODEL",
        help="model files: model() and example_inputs(), or entries() for several; see docs/models.md",
    )
    parser.add_argument(
        "--boards", type=_names("boards"), help="names of boards, or labels, with commas (default: all)"
    )
    parser.add_argument(
        "--variants",
        type=_names("variants", list(_VARIANTS)),
        default=["float32", "int8"],
        help=f"of {', '.join(_VARIANTS)}, with commas (default: float32,int8)",
    )
    parser.add_argument("--budget", type=str, default="", help="limits, such as flash=256K,ram=64K,ms=20,accuracy=0.95")
    parser.add_argument("--output", type=user_path, help="the page to write (default: FILE.html where you are)")
    parser.add_argument("--bazel", help="the Bazel to build with (default: the workspace's bazelw, or that on PATH)")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> int:
    budget = parse_budget(arguments.budget)
    workspace = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")).resolve()
    known = known_boards()
    boards = arguments.boards or list(known)
    unknown = [board for board in boards if board not in known and not re.search("[:/]", board)]
    if unknown:
        raise UserError(
            f"--boards {','.join(unknown)}: the boards are {', '.join(known)}, and your own by their labels"
        )
    root = "" if (workspace / "rules/model_page.bzl").is_file() else "@torch_fusion"
    packages: dict[str, list[Model]] = {}
    for path in arguments.models:
        package = f"explore/{program_name(path, ())}"
        if package in packages:
            raise UserError(f"{path}: {packages[package][0].path} has the same name; give one of them another")
        packages[package] = check_models(path)
    bazel = arguments.bazel or find_bazel(workspace)
    built = asked = _images(bazel, workspace, root, packages, arguments.variants, boards)
    # A board whose images were not built, or not measured, is not asked again.
    others = [board for name, board in known.items() if name not in boards]
    timers = timing_boards([image for image in built.values() if isinstance(image, Image)], others)
    if timers:
        print(f"next: instructions and times, counted on {', '.join(timers)}", file=sys.stderr, flush=True)
        timed = _images(bazel, workspace, root, packages, arguments.variants, [*boards, *timers])
        # Images that are built stay, also if this build ends early.
        built = timed | {key: image for key, image in asked.items() if isinstance(image, Image)}
    images = {key: image for key, image in built.items() if isinstance(image, Image)}
    title = ", ".join(package.removeprefix("explore/") for package in packages)
    data = page_data(title, list(images.values()))
    numbers = dict(zip(images, rows_of(data), strict=True))
    rows = [numbers.get(key) or Row(*key, reason=str(image)) for key, image in asked.items()]
    print(table(rows, budget))
    print("\n".join(best(rows, budget) or ["nothing fits"]))
    if not images:
        return 1
    output = arguments.output or user_path(f"{program_name(arguments.models[0], ())}.html")
    libraries, licences = (
        [Path(path) for path in os.environ.get(name, "").split()] for name in ("PAGE_LIBRARIES", "PAGE_LICENCES")
    )
    write_page(output, data, libraries, licences)
    print(f"page: {output}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("explore", _run, _parse(argv))
