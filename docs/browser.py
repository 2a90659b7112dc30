"""Shows pages in the Chromium on PATH, over its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class Browser:
    """A Chromium without a window; a context manager.

    Attributes:
        errors: what scripts threw, and what the browser refused, since the last open().
        requests: addresses that the page asked for, since the last open(), but for its own.
    """

    def __init__(self) -> None:
        program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if program is None:
            raise FileNotFoundError("there is no Chromium on PATH; install Debian's package chromium")
        reads, self._writes = os.pipe()
        self._reads, writes = os.pipe()
        # It reads commands from descriptor 3 and writes events to 4.
        shell = f'exec "$0" "$@" 3<&{reads} 4>&{writes}'
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")
        self._process = subprocess.Popen(
            ["bash", "-c", shell, program, *options],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self._read, self._count, self._session = b"", 0, ""
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Log", "Network", "Page", "Runtime"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._reads)
        os.close(self._writes)

    def open(self, address: str, width: int = 1440, height: int = 1000) -> None:
        """Opens a page in a window of a size, and waits until it is loaded."""
        self.errors, self.requests = [], []
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        self._call("Page.navigate", url=address)
        while self._event()["method"] != "Page.loadEventFired":
            pass
        self.requests.remove(address.partition("#")[0])

    def run(self, actions: str) -> Any:
        """Returns the result of a function's body, which may await."""
        expression = f"(async () => {{ {actions} }})()"
        answer = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """Writes what the window shows as a PNG."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method: str, **parameters: Any) -> Any:
        self._count += 1
        command = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._writes, json.dumps(command).encode() + b"\0")
        while (answer := self._event()).get("id") != self._count:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _event(self) -> dict[str, Any]:
        """Returns the next event or answer, and keeps what the page did wrong."""
        while b"\0" not in self._read:
            part = os.read(self._reads, 1 << 16)
            if not part:
                raise EOFError("Chromium ended")
            self._read += part
        line, _, self._read = self._read.partition(b"\0")
        event: dict[str, Any] = json.loads(line)
        parameters = event.get("params", {})
        match event.setdefault("method", ""):
            case "Runtime.exceptionThrown":
                self.errors.append(str(parameters["exceptionDetails"]))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.errors.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
        return event
