"""A window with a changing picture: a page in the browser, served to this machine alone.

The picture is shown as an image, in which a browser runs nothing.
"""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from tools.quiet.local_pages import LocalServer

# Asks for the next picture until the last one is there, and says so if the program is gone before.
_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<title>Plot</title>
<link rel="icon" href="data:,">
<style>body { margin: 0; display: grid; place-items: center; min-height: 100vh; background: #f6f7f9 }
img { max-width: 96vw; height: 94vh; object-fit: contain; border-radius: 10px; background: white }
@media (width <= 700px) { body { place-items: start } img { max-width: none; width: 44rem; height: auto } }
@media (prefers-color-scheme: dark) { body { background: #101317 } }</style>
<img id="plot" alt="">
<script>
(async () => {
  for (let number = 0, last = false; !last;) {
    try {
      const answer = await fetch(`picture?after=${number}`);
      const plot = document.getElementById("plot");
      URL.revokeObjectURL(plot.src);
      plot.src = URL.createObjectURL(await answer.blob());
      number = answer.headers.get("X-Number");
      last = answer.headers.get("X-Last") === "1";
    } catch {
      document.title += " (ended)";
      return;
    }
  }
})();
</script>
"""


def _open(url: str) -> bool:
    """Opens a browser with a window; without a display webbrowser would start one in this terminal."""
    display = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(display) and webbrowser.open(url)


class Window:
    """Opens a window; a context manager, which waits at its end until the window has the last picture.

    Args:
        port: the page's port; 0: any.

    Raises:
        UserError: the port is taken.

    Attributes:
        url: the page's address.
    """

    def __init__(self, port: int = 0) -> None:
        self._changed = threading.Condition()
        self._picture = b""
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
            print(f"the plot is at {self.url}", flush=True)
        else:
            print(
                f"no browser can be opened from here: open {self.url} in one, from another machine through "
                f"`ssh -L {self._server.server_port}:127.0.0.1:{self._server.server_port}`; Ctrl-C ends",
                flush=True,
            )
        return self

    def show(self, svg: bytes, *, last: bool = False) -> None:
        """Shows a picture.

        Args:
            svg: the picture.
            last: whether no other follows.
        """
        with self._changed:
            self._picture, self._last = svg, last
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
            self._send(request, "text/html; charset=utf-8", _PAGE.encode(), {})
        elif place.path == "picture":
            after = int((parse_qs(place.query).get("after") or ["0"])[0])
            with self._changed:
                self._changed.wait_for(lambda: self._number > after)
                picture, number, last = self._picture, self._number, self._last
            self._send(request, "image/svg+xml", picture, {"X-Number": str(number), "X-Last": str(int(last))})
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
