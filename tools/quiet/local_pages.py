"""Pages that are served to this machine alone.

The address has a token, so that another user of the machine finds nothing. Requests for another host's name, which a
foreign page can point at this machine (DNS rebinding), are refused, and so are those that a foreign page makes.
"""

import secrets
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from .console import UserError


class LocalServer(ThreadingHTTPServer):
    """Serves pages at an address of this machine.

    Args:
        what: what is served, for messages.
        handler: answers requests; it calls place_of() first.
        port: the pages' port; 0: any.

    Raises:
        UserError: the port is taken.

    Attributes:
        url: the address of the first page.
    """

    daemon_threads = True

    def __init__(self, what: str, handler: Callable[..., BaseHTTPRequestHandler], port: int = 0) -> None:
        try:
            super().__init__(("127.0.0.1", port), handler)
        except OSError as error:
            raise UserError(f"{what} cannot be served on port {port}: {error.strerror}") from error
        self._host = f"127.0.0.1:{self.server_port}"
        self._root = f"/{secrets.token_urlsafe(16)}/"
        self.url = f"http://{self._host}{self._root}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says what went wrong, unless a browser has merely gone away."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def place_of(self, request: BaseHTTPRequestHandler) -> str | None:
        """Returns what a request asks for, behind the token; None if it was refused."""
        hosts = (self._host, self._host.replace("127.0.0.1", "localhost"))
        origin = request.headers.get("Origin")
        if request.headers.get("Host") not in hosts or (origin and origin.removeprefix("http://") not in hosts):
            request.send_error(HTTPStatus.FORBIDDEN)
        elif not request.path.startswith(self._root) or "\0" in unquote(request.path):
            request.send_error(HTTPStatus.NOT_FOUND)
        else:
            return request.path.removeprefix(self._root)
        return None


def serve_folder(
    what: str, folder: Path, port: int = 0, made: Mapping[str, bytes] | None = None, cookie: str = ""
) -> LocalServer:
    """Returns a server of a folder's files.

    Args:
        what: what is served, for messages.
        folder: the files.
        port: the pages' port; 0: any.
        made: contents of paths that are not those of a file, or are others'; "" is the first page.
        cookie: what pages find among their cookies.
    """

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def do_GET(self) -> None:
            place = server.place_of(self)
            body = None if place is None else (made or {}).get(unquote(place.partition("?")[0]))
            if body is not None:
                self.send_response(HTTPStatus.OK)
                kind = "application/octet-stream" if place else "text/html; charset=utf-8"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            elif place is not None:
                self.path = f"/{place}"
                super().do_GET()

        def do_HEAD(self) -> None:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

        def end_headers(self) -> None:
            # The pages ask for nothing but what is served here.
            own = "default-src 'self' 'unsafe-inline' data: blob:"
            self.send_header("Content-Security-Policy", own)
            if cookie:
                self.send_header("Set-Cookie", f"{cookie}; SameSite=Strict")
            super().end_headers()

        def log_message(self, *_: object) -> None:
            """Writes nothing: who looks at pages has no use for the requests."""

    server = LocalServer(what, Handler, port)
    return server


def show(what: str, server: LocalServer) -> None:
    """Says where pages are, and serves them until Ctrl-C."""
    with server:
        print(f"{what}: {server.url} (Ctrl-C ends)", flush=True)
        server.serve_forever()
