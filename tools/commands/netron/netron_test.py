import json
import threading
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tools.artifacts.program.program import operator_name, read
from tools.commands.netron.netron import server
from tools.quiet.console import UserError
from tools.quiet.testing import given_file

_PROGRAM = given_file("PROGRAM", ".pte")


def test_a_program_is_served_with_netrons_page(tmp_path: Path) -> None:
    name = 'a"><script>alert(1)<script>.pte'
    file = tmp_path / name
    file.write_bytes(_PROGRAM.read_bytes())
    with server(file) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        with urlopen(made.url) as answer:
            page = answer.read().decode()
            assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert "<script>alert" not in page and f'content="data/{quote(name)}"' in page
        with urlopen(f"{made.url}data/{quote(name)}") as answer:
            assert answer.read() == _PROGRAM.read_bytes()
        with urlopen(f"{made.url}executorch.js") as answer:
            assert b"ModelFactory" in answer.read()
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{made.url}data/%00")
        # It shows nothing of a program with an operator that it doesn't know.
        with urlopen(f"{made.url}pytorch-metadata.json") as answer:
            names = {entry["name"].partition("(")[0] for entry in json.load(answer)}
        called = {operator_name(each.name, each.overload) for each in read(_PROGRAM).execution_plan[0].operators}
        assert called <= names and any(name.startswith("torch_fusion::") for name in called)


def test_a_file_that_is_not_there_is_said_with_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none.pte: No such file or directory; build its target first"):
        server(tmp_path / "none.pte")
