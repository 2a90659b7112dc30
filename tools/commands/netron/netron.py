"""Shows a model file in Netron: a .pte, .pt2, .onnx, .tflite or another one that it knows.

Netron's own server would put the file's name into its page as markup; its page asks for consent to report its use
elsewhere, and half a year after its release shows nothing any more. Here the name is text, and the page may ask this
machine alone, whatever its age.
"""

import argparse
import html
import importlib.util
import json
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tools.artifacts.program.program import operator_name, read
from tools.artifacts.program.program_schema import KernelCall
from tools.quiet.console import UserError, system_error, user_path
from tools.quiet.local_pages import LocalServer, serve_folder, show
from tools.quiet.tool import option_parser, run_tool

_OPERATORS = "pytorch-metadata.json"


def _operators(known: str, file: Path) -> bytes:
    """Returns Netron's list of operators with those of a program that it doesn't know, or it would show nothing."""
    entries = json.loads(known)
    names = {entry["name"].partition("(")[0] for entry in entries}
    for plan in read(file).execution_plan or []:
        for chain in plan.chains:
            for instruction in chain.instructions:
                call = instruction.instr_args
                if not isinstance(call, KernelCall):
                    continue
                operator = plan.operators[call.op_index]
                name = operator_name(operator.name, operator.overload)
                if name not in names:
                    names.add(name)
                    # The last but one is where the result goes, and the last one is the result.
                    arguments = "".join(f"Tensor x{index}, " for index in range(len(call.args) - 2))
                    entries.append({"name": f"{name}({arguments}*, Tensor(a!) out) -> Tensor(a!)"})
    return json.dumps(entries).encode()


def server(file: Path, port: int = 0) -> LocalServer:
    """Returns a server of Netron's page with a file.

    Raises:
        UserError: the file can't be read, or the port is taken.
    """
    found = importlib.util.find_spec("netron")
    assert found is not None and found.origin is not None
    folder = Path(found.origin).parent
    try:
        model = file.read_bytes()
    except OSError as error:
        advice = "build its target first, or pass a file that is there"
        raise UserError(system_error(error, file, advice)) from error
    # The page takes the format from the name's end; of this version it doesn't tell anybody that it is used.
    tags = {"type": "Python", "file": f"data/{quote(file.name)}", "identifier": file.name, "version": "0.0.0"}
    text = "\n".join(f'<meta name="{name}" content="{html.escape(value)}">' for name, value in tags.items())
    page = (folder / "index.html").read_text(encoding="utf-8")
    page = re.sub('<meta name="version" content=".*">', lambda _: text, page)
    page = re.sub('<meta name="date" content=".*">', "", page)
    made = {"": page.encode(), f"data/{file.name}": model}
    if file.suffix == ".pte":
        made[_OPERATORS] = _operators((folder / _OPERATORS).read_text(encoding="utf-8"), file)
    return serve_folder("Netron", folder, port, made, "consent=asked")


def _run(arguments: argparse.Namespace) -> None:
    show(f"{arguments.file.name} in Netron", server(arguments.file, arguments.port))


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("netron", __doc__)
    parser.add_argument("--port", type=int, default=0, help="the port of 127.0.0.1; any by default")
    parser.add_argument("file", type=user_path, help="the model file")
    return run_tool("netron", _run, parser.parse_args(argv))
