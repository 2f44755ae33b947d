"""A headless Chromium, spoken to over a pipe by its DevTools protocol: no driver and no network port in between."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW_TO_GET_IT = (
    "These tests open pages in Chromium, and there is none here. Install it (Debian and Ubuntu: apt-get install "
    "chromium), or name it in the variable CHROMIUM."
)
# Becomes the browser, the protocol's two pipes being its file descriptors 3 and 4.
_WITH_PIPES = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
# Starting takes a second or two; a machine that is busy takes longer.
PATIENCE_S = 60.0


def find_chromium() -> str | None:
    """The browser's path: what CHROMIUM names, else the first known name on PATH."""
    named = os.environ.get("CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab with its network off. ``problems`` are its console's errors, exceptions and refused requests so far."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)

    def open(self, path: Path, *, width: int = 1100, height: int = 900, scheme: str = "light") -> None:
        """Loads a file of this computer, and waits until its charts are drawn or have failed to be."""
        self.problems.clear()
        self.requests.clear()
        self._events.clear()
        self.resize(width, height)
        self.prefer(scheme)
        self.send("Page.navigate", url=path.as_uri())
        self._wait_for("Page.loadEventFired")
        self.until("!window.boundby || boundby.drawn")

    def resize(self, width: int, height: int) -> None:
        """Makes the window so large, in CSS pixels."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """Makes the system prefer ``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def run(self, code: str) -> Any:
        """The value of a JavaScript expression, awaited where it is a promise."""
        # As the page itself may: the protocol would let it evaluate text that the page's own policy does not.
        done = self.send(
            "Runtime.evaluate",
            expression=code,
            returnByValue=True,
            awaitPromise=True,
            allowUnsafeEvalBlockedByCSP=False,
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, code: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + PATIENCE_S
        while not self.run(f"Boolean({code})"):
            assert time.monotonic() < end, f"never true: {code}"
            time.sleep(0.02)

    def press(self, key: str, *, times: int = 1) -> None:
        """Presses a key, as a person does."""
        text = {"text": key} if len(key) == 1 else {}
        codes = {"Tab": 9, "Escape": 27, "End": 35, "Home": 36}
        code = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        for _ in range(times):
            self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
            self.send("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def point(self, x: float, y: float) -> None:
        """Moves the mouse to a place in the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path: Path) -> None:
        """Writes a picture (PNG) of the whole page."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        self.resize(int(size["width"]), int(size["height"]))
        shot = self.send("Page.captureScreenshot")
        path.write_bytes(base64.b64decode(shot["data"]))

    def print_to(self, path: Path) -> None:
        """Prints the page (PDF, A4)."""
        done = self.send("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True)
        path.write_bytes(base64.b64decode(done["data"]))

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _wait_for(self, event: str) -> None:
        while not any(one["method"] == event for one in self._events):
            self._next()

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], PATIENCE_S)
            assert ready, "the browser does not answer"
            more = os.read(self._answers, 1 << 16)
            assert more, "the browser has gone"
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._note(message)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        about = event["params"]
        match event["method"]:
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(about["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if about["type"] in ("error", "assert", "warning"):
                self.problems.append(json.dumps(about["args"]))
            case "Log.entryAdded" if about["entry"]["level"] in ("error", "warning"):
                self.problems.append(json.dumps(about["entry"]))
            case "Network.requestWillBeSent" if not about["request"]["url"].startswith("data:"):
                self.requests.append(about["request"]["url"])


def _out_of_the_way(pipe: int) -> int:
    """The same pipe under a number that is neither 3 nor 4."""
    moved = fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(pipe)
    return moved


@contextmanager
def browsing(folder: Path) -> Iterator[Page]:
    """A browser with one tab, its profile in ``folder``; ended and gone afterwards."""
    browser = find_chromium()
    if browser is None:
        raise AssertionError(HOW_TO_GET_IT)
    to_browser, commands = map(_out_of_the_way, os.pipe())
    answers, from_browser = map(_out_of_the_way, os.pipe())
    start = [sys.executable, "-c", _WITH_PIPES, str(to_browser), str(from_browser), browser]
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-extensions",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--hide-scrollbars",
        f"--user-data-dir={folder}",
        "--remote-debugging-pipe",
    ]
    process = subprocess.Popen(
        [*start, *options],
        pass_fds=(to_browser, from_browser),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(commands, answers)
    finally:
        os.close(commands)
        os.close(answers)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
