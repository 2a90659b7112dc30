"""Serves the documents as a site, to this machine alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tools.quiet.console import UserError
from tools.quiet.local_pages import LocalServer, serve_folder, show
from tools.quiet.tool import option_parser, run_tool


def server(folder: Path, port: int = 0) -> LocalServer:
    """Returns a server of the site in a folder.

    Raises:
        UserError: there is no site in the folder, or the port is taken.
    """
    if not (folder / "index.html").is_file():
        raise UserError(f"{folder} has no index.html: build //docs/site:pages, and name that")
    return serve_folder("the site", folder, port)


def _run(arguments: argparse.Namespace) -> None:
    show("the documents", server(arguments.folder, arguments.port))


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("serve", __doc__)
    parser.add_argument("--port", type=int, default=0, help="the port of 127.0.0.1; any by default")
    parser.add_argument("folder", type=Path, help="the site: a folder with index.html")
    return run_tool("serve", _run, parser.parse_args(argv))
