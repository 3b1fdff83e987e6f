"""Prometheus and VictoriaMetrics on loopback, fed by remote write, asked over their common HTTP API."""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import time
import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.ingest.peers.server import PeerError, Server
from benchmarks.promql import remote_write
from benchmarks.promql.samples import Sampled

PROMETHEUS, VICTORIA = "prometheus", "victoria-metrics"
FEATURES = (
    "promql-experimental-functions", "promql-duration-expr", "promql-extended-range-selectors",
    "promql-binop-fill-modifiers", "promql-delayed-name-removal",
)  # fmt: skip
YEARS = "100y"


class HttpApi:
    """The query API of any of them, over one kept connection."""

    def __init__(self, port: int, prefix: str = "/api/v1", headers: dict[str, str] | None = None) -> None:
        self._port, self._prefix, self._headers = port, prefix, headers or {}
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, text: str, start_ms: int, end_ms: int, step_ms: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.raw(text, start_ms, end_ms, step_ms))
        return found

    def raw(self, text: str, start_ms: int, end_ms: int, step_ms: int = 0) -> bytes:
        """The body as it came, errors too."""
        if step_ms:
            values = {"start": start_ms / 1000, "end": end_ms / 1000, "step": step_ms / 1000}
        else:
            values = {"time": end_ms / 1000}
        body = urllib.parse.urlencode({"query": text, **values, "nocache": "1"})
        path = f"{self._prefix}/{'query_range' if step_ms else 'query'}"
        headers = {"Content-Type": "application/x-www-form-urlencoded", **self._headers}
        if self._connection is not None:
            try:
                return self._sent(self._connection, path, body, headers)
            except (OSError, http.client.HTTPException):  # the server closed it while it was idle
                self._connection.close()
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        return self._sent(self._connection, path, body, headers)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @staticmethod
    def _sent(connection: http.client.HTTPConnection, path: str, body: str, headers: dict[str, str]) -> bytes:
        connection.request("POST", path, body, headers)
        return connection.getresponse().read()


class Process(Server):
    @property
    def pid(self) -> int:
        return self._process.pid


class Peer:
    """A server with an empty data folder, which it finds again when it is started again."""

    def __init__(self, name: str, program: Path, folder: Path) -> None:
        self.name = name
        self._arguments = _arguments(name, program, folder)
        self._folder, self._starts = folder, 0
        folder.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        self._starts += 1
        ready = "/-/ready" if self.name == PROMETHEUS else "/health"
        self.server = Process(self.name, self._arguments, self._folder / f"run-{self._starts}", ready)
        self.api = HttpApi(self.server.port)

    def restart(self) -> None:
        """Its own caches are empty then; the page cache of the system is not."""
        self.stop()
        self.start()

    def send(self, series: Iterable[Sampled]) -> None:
        self.server.post("/api/v1/write", remote_write.request(series), remote_write.HEADERS)

    def settle(self) -> None:
        if self.name == VICTORIA:
            self.server.get("/internal/force_flush")

    def resident_bytes(self) -> int:
        return resident_bytes(self.server.pid)

    def cpu_ms(self) -> float:
        return cpu_ms(self.server.pid)

    def stop(self) -> None:
        self.api.close()
        self.server.stop()


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process, pages that several share divided among them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10


def cpu_ms(pid: int) -> float:
    """CPU seconds of all threads of a process, those that ended among them."""
    clock = ctypes.c_int()
    if failure := ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise ProcessLookupError(failure, os.strerror(failure), f"process {pid}")
    return 1000 * time.clock_gettime(clock.value)


def _arguments(name: str, program: Path, folder: Path) -> list[str]:
    data = folder / "data"
    if name == VICTORIA:
        return [
            str(program), f"-storageDataPath={data}", "-httpListenAddr=127.0.0.1:{port}",
            f"-retentionPeriod={YEARS}", "-loggerLevel=ERROR", "-selfScrapeInterval=0s",
            "-search.maxPointsPerTimeseries=100000", "-search.latencyOffset=0s", "-search.disableCache",
            "-search.cacheTimestampOffset=0s",
        ]  # fmt: skip
    if name != PROMETHEUS:
        raise PeerError(f"{name}: expected {PROMETHEUS} or {VICTORIA}")
    config = folder / "prometheus.yml"
    folder.mkdir(parents=True, exist_ok=True)
    config.write_text("global: {scrape_interval: 1h}\n")
    return [
        str(program), f"--config.file={config}", f"--storage.tsdb.path={data}",
        "--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver",
        f"--storage.tsdb.retention.time={YEARS}", "--log.level=error",
        f"--enable-feature={','.join(FEATURES)}",
    ]  # fmt: skip
