"""One peer as a process of ours: started, asked over HTTP, its CPU time and bytes on disk read, stopped."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
READY_S = 60.0
SETTLE_S = 180.0
MERGE_STARTS_S = 1.0
"""After asking for a merge; only from then on do its counters tell when it is over."""


class PeerError(RuntimeError):
    """A peer refused, died or lost rows: there is nothing to compare with."""


class Server:
    """A running peer. `port` is a free one, given to `arguments` as `{port}`."""

    def __init__(self, name: str, arguments: Sequence[str], folder: Path, ready_path: str) -> None:
        self.name = name
        self.folder = folder
        self.port, spare, more = free_ports(3)
        folder.mkdir(parents=True, exist_ok=True)
        self._log = (folder / "log.txt").open("wb")
        given = {"port": self.port, "spare": spare, "more": more}
        self._process = subprocess.Popen(
            [argument.format(**given) for argument in arguments],
            stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder,
        )  # fmt: skip
        self.wait(lambda: self._answers(ready_path), READY_S, "it is ready")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it as its operators would, so that it writes what it holds."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        return self._open(urllib.request.Request(self._url(path), data=body, headers=dict(headers)))

    def get(self, path: str) -> bytes:
        return self._open(urllib.request.Request(self._url(path)))

    def metric(self, name: str) -> float:
        """The sum of a metric of the peer's own over all its label sets."""
        lines = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)", self.get("/metrics").decode(), re.MULTILINE)
        return sum(map(float, lines))

    def cpu_seconds(self) -> float:
        """User and system time of the process, all threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def peak_bytes(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) * 1024 if found else 0

    def wait(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = (self.folder / "log.txt").read_text(errors="replace")[-600:]
                raise PeerError(f"{self.name}: waited {seconds:.0f} s until {what}; its log ends: {tail}")
            time.sleep(0.1)

    def _answers(self, path: str) -> bool:
        try:
            self.get(path)
        except (PeerError, OSError):
            return False
        return True

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def _open(self, request: urllib.request.Request) -> bytes:
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as error:
            said = error.read()[:300].decode(errors="replace")
            raise PeerError(f"{self.name}: {error.code} for {request.full_url}: {said}") from error


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
