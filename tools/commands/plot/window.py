"""A window in the browser that shows inferences as they come: a page, served to this machine alone."""

from __future__ import annotations

import json
import os
import sys
import threading
import webbrowser
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tools.pipeline.page.page import page_html
from tools.quiet.local_pages import LocalServer


def _open(url: str) -> bool:
    """Opens a browser with a window; without a display webbrowser would start one in this terminal."""
    display = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(display) and webbrowser.open(url)


class Window:
    """Opens a window; a context manager, which waits at its end until the window has the last state.

    Args:
        libraries: the scripts that window.js uses.
        port: the page's port; 0: any.

    Raises:
        UserError: the port is taken.

    Attributes:
        url: the page's address.
    """

    def __init__(self, libraries: Sequence[Path] = (), port: int = 0) -> None:
        scripts = [path.read_text(encoding="utf-8") for path in libraries]
        self._page = page_html({"title": "Live"}, scripts, page=Path(__file__).parent / "window")
        self._changed = threading.Condition()
        self._state = b""
        self._number = 0
        self._last = False
        self._delivered = False
        window = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                window._answer(self)

            def log_message(self, *_: object) -> None:
                """Writes nothing: the terminal is the program's."""

        self._server = LocalServer("the window's page", Handler, port)
        self.url = self._server.url

    def __enter__(self) -> Window:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        if _open(self.url):
            print(f"the window is at {self.url}", flush=True)
        else:
            print(
                f"no browser can be opened from here: open {self.url} in one, from another machine through "
                f"`ssh -L {self._server.server_port}:127.0.0.1:{self._server.server_port}`; Ctrl-C ends",
                flush=True,
            )
        return self

    def show(self, state: dict[str, Any], *, last: bool = False) -> None:
        """Shows the results so far.

        Args:
            state: what window.js draws.
            last: whether no other follows.
        """
        with self._changed:
            self._state, self._last = json.dumps(state, allow_nan=False).encode(), last
            self._number += 1
            self._changed.notify_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            with self._changed:
                self._changed.wait_for(lambda: self._delivered or not self._last)
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        asked = self._server.place_of(request)
        if asked is None:
            return
        place = urlsplit(asked)
        if not place.path:
            self._send(request, "text/html; charset=utf-8", self._page.encode(), {})
        elif place.path == "state":
            after = (parse_qs(place.query).get("after") or ["0"])[0]
            with self._changed:
                self._changed.wait_for(lambda: str(self._number) not in ("0", after))
                state, number, last = self._state, self._number, self._last
            self._send(request, "application/json", state, {"X-Number": str(number), "X-Last": str(int(last))})
            with self._changed:
                self._delivered = self._delivered or last
                self._changed.notify_all()
        else:
            request.send_error(HTTPStatus.NOT_FOUND)

    def _send(self, request: BaseHTTPRequestHandler, kind: str, body: bytes, headers: dict[str, str]) -> None:
        request.send_response(HTTPStatus.OK)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Cache-Control", "no-store")
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)
