"""Serves the documents as a site, to this machine alone."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tools.quiet.console import UserError
from tools.quiet.tool import run_tool


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Writes nothing: who reads documents has no use for the requests."""


def server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Returns a server of the files in a folder.

    Args:
        folder: the site.
        port: the server's port; 0: any.

    Raises:
        UserError: there is no site in the folder, or the port is taken.
    """
    if not (folder / "index.html").is_file():
        raise UserError(f"{folder} has no index.html: build //docs/site:pages, and name that")
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), functools.partial(_Handler, directory=str(folder)))
    except OSError as error:
        raise UserError(f"the site cannot be served on port {port}: {error.strerror}") from error


def _run(arguments: argparse.Namespace) -> None:
    with server(arguments.folder, arguments.port) as made:
        print(f"the documents are at http://127.0.0.1:{made.server_port}/; Ctrl-C ends", flush=True)
        made.serve_forever()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="serve", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="the port of 127.0.0.1; any by default")
    parser.add_argument("folder", type=Path, help="the site: a folder with index.html")
    return run_tool("serve", _run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
