"""A real browser without a window, asked by its debugging protocol over two pipes."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
# The browser reads commands from descriptor 3 and answers on 4.
_START = (
    "import os, sys; r, w = map(int, sys.argv[1:3]); os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def find() -> str:
    """The path of a browser; empty: there is none."""
    found = next((path for path in map(shutil.which, NAMES) if path), "")
    return found or (str(MAC) if MAC.exists() else "")


class Browser:
    """One browser with one page. Use as a context manager."""

    def __init__(self, program: str, *, limit_s: float = 60.0) -> None:
        self._program = program
        self._until = time.monotonic() + limit_s
        self._number = 0
        self._unread = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        high = [fcntl.fcntl(one, fcntl.F_DUPFD, 10) for one in (theirs_in, theirs_out)]
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", _START, *map(str, high), self._program),
                    *(
                        "--headless=new",
                        "--no-sandbox",
                        "--disable-gpu",
                        "--disable-dev-shm-usage",
                        "--hide-scrollbars",
                    ),
                    *(
                        "--no-first-run",
                        "--remote-debugging-pipe",
                        f"--user-data-dir={self._profile.name}",
                        "about:blank",
                    ),
                ],
                pass_fds=high,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        finally:
            for one in (*high, theirs_in, theirs_out):
                os.close(one)
        self._session = ""
        try:
            target = self.ask("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.ask(f"{domain}.enable")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # a session of our own, not yet waited for
            self._process.wait()
        self._profile.cleanup()

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """The answer to one command."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._in], [], [], max(0.0, self._until - time.monotonic()))
            assert ready, "the browser does not answer"
            read = os.read(self._in, 1 << 20)
            assert read, "the browser is gone"
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\0")
        return dict(json.loads(line))

    def open(self, file: Path) -> float:
        """Opens a page; returns how many seconds that took until it was loaded and laid out."""
        began = time.monotonic()
        self.ask("Page.navigate", url=file.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        self.tell("document.body.offsetHeight")
        return time.monotonic() - began

    def tell(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screen(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the screen, and whether the reader likes it dark."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def press(self, key: str, code: int) -> None:
        """One key, pressed and released."""
        for kind in ("rawKeyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def keep(self, file: Path) -> None:
        """A screenshot of the whole page."""
        file.parent.mkdir(exist_ok=True)
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        """What the browser found wrong with the page: breaches of its policy, errors, and all that it asked for."""
        told = []
        for event in self.events:
            match event.get("method"):
                case "Log.entryAdded":
                    told.append(str(event["params"]["entry"]["text"]))
                case "Runtime.exceptionThrown" | "Runtime.consoleAPICalled":
                    told.append(str(event["params"]))
                case "Network.requestWillBeSent":
                    url = str(event["params"]["request"]["url"])
                    if not url.startswith("file:") or not url.endswith(".html"):
                        told.append(f"asked for {url}")
        return told
