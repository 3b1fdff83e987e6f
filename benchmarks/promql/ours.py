"""Our side as it runs: an API process and workers, over a real index and a lake on local disk."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from benchmarks.ingest.peers.server import PeerError, free_ports
from benchmarks.promql.lake import ORGS
from benchmarks.promql.peers import HttpApi, cpu_ms, proportional_bytes, resident_bytes
from resources.settings import Settings

SHOWN = "Lakerunner"
READY_S, ADVANCE_S = 60.0, 1.0
"""Seconds in which a process that is not ready yet uses so much CPU time, or is given up."""
_SERVE = "from {module} import serve; from resources.settings import Settings; serve(Settings.load())"
API, WORKER = "lakerunner_query.app", "lakerunner_query.worker_app"


@dataclass(slots=True)
class Ours:
    """Started again as often as wanted; the local cache of segments stays, as the page cache does."""

    folder: Path
    lake: Path
    dsn: str
    workers: int = 2
    memory_mb: int = 2048
    answers_mb: int = 0
    name: str = SHOWN
    store: dict[str, Any] = field(default_factory=dict)
    """Settings of an object store, `lake_url` among them, that has the lake instead of the folder."""
    port: int = 0
    apis: dict[str, HttpApi] = field(default_factory=dict)
    """By organisation."""
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _of_workers: list[Settings] = field(default_factory=list)

    def start(self, late: int = 0) -> None:
        """Start all processes but the last `late` workers, which the API knows nevertheless."""
        port, *worker_ports = free_ports(1 + self.workers)
        self.port = port
        base = Settings(
            data_dir=self.folder, lake_url=self.lake.as_uri(), internal_token="internal", index_dsn=self.dsn,  # noqa: S106
            worker_memory_mb=self.memory_mb, worker_answers_mb=self.answers_mb,
            log_level="WARNING", query_port=port,
            worker_urls=",".join(f"http://127.0.0.1:{each}" for each in worker_ports),
        )  # fmt: skip
        base = replace(base, **self.store)
        self._of_workers = [
            replace(base, worker_port=each, data_dir=self.folder / f"worker-{number}")
            for number, each in enumerate(worker_ports)
        ]
        first = self.workers - late
        self._processes = [_process(WORKER, each) for each in self._of_workers[:first]]
        self._processes.append(_process(API, base))
        for each, process in zip((*worker_ports[:first], port), self._processes, strict=True):
            _wait_ready(f"http://127.0.0.1:{each}/readyz", process)
        self.apis = {org: HttpApi(port, "/prometheus/api/v1", {"Api-Key": org}) for org in ORGS}

    def start_worker(self, number: int) -> subprocess.Popen[bytes]:
        """Start a worker that comes late, or again."""
        process = _process(WORKER, self._of_workers[number])
        self._processes.append(process)
        return process

    def url(self, number: int) -> str:
        return f"http://127.0.0.1:{self._of_workers[number].worker_port}"

    def worker(self, number: int) -> subprocess.Popen[bytes]:
        """The process of a worker that was there from the start."""
        return self._processes[number]

    def stop(self) -> None:
        for api in self.apis.values():
            api.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def restart(self) -> None:
        self.stop()
        self.start()

    def cpu_ms(self) -> float:
        return sum(cpu_ms(pid) for pid in self._pids())

    def resident_bytes(self) -> int:
        return sum(resident_bytes(pid) for pid in self._pids())

    def proportional_bytes(self) -> int:
        """Count what the processes share once: a reader is a fork, and most of its pages are its parent's."""
        return sum(proportional_bytes(pid) for pid in self._pids())

    def _pids(self) -> list[int]:
        """All processes: a worker has a reader process, too."""
        return [
            each.pid
            for process in self._processes
            if process.poll() is None
            for each in (psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True))
        ]


def _process(module: str, settings: Settings) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _SERVE.format(module=module)],
        env={**os.environ, **settings.child_environment(), "MALLOC_ARENA_MAX": "2"},
        start_new_session=True,
    )


def _wait_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait while the process lives and computes: it may compile kernels, and share its processors."""
    used, since = 0.0, time.monotonic()
    while time.monotonic() - since < READY_S:
        if process.poll() is not None:
            raise PeerError(f"{url}: its process ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
        now = _used_s(process.pid)
        if now > used + ADVANCE_S:
            used, since = now, time.monotonic()
    raise PeerError(f"{url} did not become ready, and did nothing for {READY_S:g} s")


def _used_s(pid: int) -> float:
    """Return the CPU seconds of a process and those below it; one may end meanwhile."""
    found = psutil.Process(pid)
    seconds = 0.0
    for each in (found, *found.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            seconds += times.user + times.system
    return seconds
