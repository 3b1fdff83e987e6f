"""A headless browser for tests of the Explore page, spoken to over its debugging protocol.

It is Chromium from PATH, or the program `chromium` in `~/.cache/lakerunner/peers/chromium`. Screenshots go to
the folder that `EXPLORE_SCREENSHOTS` names.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.patience import PATIENCE_S

PEER = Path.home() / ".cache" / "lakerunner" / "peers" / "chromium" / "chromium"
NAMES = (
    "chromium-headless-shell",
    "headless_shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "chrome",
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    "--no-first-run",
)
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, " ": 32, "End": 35, "Home": 36}
WAIT_S = PATIENCE_S


def browser_path() -> str | None:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    return found or (str(PEER) if PEER.exists() else None)


class PageError(AssertionError):
    """A script of the page failed."""


class Page:
    """One tab; `errors` are exceptions and console errors of the page."""

    def __init__(self, socket: ClientConnection, downloads: Path) -> None:
        self._socket = socket
        self._last = 0
        self.errors: list[str] = []
        self.downloads = downloads
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)  # beside other browsers none has it
        self.size(1440, 900)
        self.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": parameters}))
        while True:
            said = json.loads(self._socket.recv(timeout=WAIT_S))
            if said.get("id") == self._last:
                if "error" in said:
                    raise PageError(f"{method}: {said['error']}")
                found: dict[str, Any] = said["result"]
                return found
            self._hear(said)

    def _hear(self, said: dict[str, Any]) -> None:
        if said["method"] == "Runtime.exceptionThrown":
            details = said["params"]["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif said["method"] == "Log.entryAdded" and said["params"]["entry"]["level"] == "error":
            entry = said["params"]["entry"]
            self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    def size(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def colours(self, scheme: str) -> None:
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression; promises are waited for."""
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise PageError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = WAIT_S) -> Any:
        """The value of an expression once it is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(PageError):
                if found := self.run(script):
                    return found
            time.sleep(0.03)
        raise AssertionError(
            f"never true: {script}; {self.run('document.body.innerText')[:2000]}; {self.errors}"
        )

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def texts(self, selector: str) -> list[str]:
        """Texts of all that is found and in sight."""
        seen = (
            f"[...document.querySelectorAll({json.dumps(selector)})].filter((one) => one.checkVisibility())"
        )
        found: list[str] = self.run(f"{seen}.map((one) => one.innerText)")
        return found

    def click(self, selector: str) -> None:
        """A real click in the middle of what is found."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{found}.scrollIntoView({{ block: 'center' }})")
        middle = "(({ x, y, width, height }) => [x + width / 2, y + height / 2])"
        box = self.run(f"{middle}({found}.getBoundingClientRect())")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def press(self, key: str, *, ctrl: bool = False) -> None:
        text = {"text": "\r"} if key == "Enter" and not ctrl else {}
        code = {"code": "Space" if key == " " else key, "windowsVirtualKeyCode": KEYS[key]}
        for kind, more in (("keyDown", text), ("keyUp", {})):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, modifiers=2 if ctrl else 0, **code, **more
            )

    def picture(self, name: str) -> None:
        """Keep a screenshot where somebody wants one."""
        if folder := os.environ.get("EXPLORE_SCREENSHOTS"):
            found = self.send("Page.captureScreenshot", format="png")
            (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(found["data"]))


@contextmanager
def open_page(folder: Path) -> Iterator[Page]:
    """A tab of a browser with a profile of its own."""
    path = browser_path()
    assert path is not None
    command = [path, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            port = folder / "profile" / "DevToolsActivePort"
            end = time.monotonic() + WAIT_S
            while not (port.exists() and port.read_text().count("\n")) and time.monotonic() < end:
                time.sleep(0.05)
            number, place = port.read_text().splitlines()[:2]
            with connect(f"ws://127.0.0.1:{number}{place}", max_size=1 << 28) as whole:
                whole.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
                targets = json.loads(whole.recv())["result"]["targetInfos"]
            tab = next(one["targetId"] for one in targets if one["type"] == "page")
            downloads = folder / "downloads"
            downloads.mkdir()
            with (
                contextlib.suppress(ConnectionClosed),
                connect(f"ws://127.0.0.1:{number}/devtools/page/{tab}", max_size=1 << 28) as socket,
            ):
                yield Page(socket, downloads)
        finally:
            process.kill()
