"""A real Prometheus as judge: our API behind a port, the process beside it, both asked alike."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from litestar import Litestar

from lakerunner_query.app import create_app
from tests.support.patience import PATIENCE_S
from tests.support.query.lake import Lake, Stack, free_port

PROMETHEUS = Path.home() / ".cache" / "lakerunner" / "peers" / "prometheus"


@dataclass(frozen=True)
class Peer:
    """One of the two servers, below whose address `/api/v1` lies."""

    address: str

    def ask(self, kind: str, query: str, times: dict[str, object]) -> Any:
        sent = urllib.parse.urlencode({"query": query, **times})
        return self.get(f"/api/v1/{kind}?{sent}").json()

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(
            self.address + path, headers={"Authorization": "Bearer key-acme"} | headers, timeout=PATIENCE_S
        )


@contextmanager
def served(lake: Lake, stack: Stack) -> Iterator[Peer]:
    """Serve our API from a port of its own."""
    with serving(create_app(stack.settings, lake.index)) as address:
        yield Peer(f"{address}/prometheus")


@contextmanager
def serving(app: Litestar) -> Iterator[str]:
    """Serve an app from a port of its own; yield its address."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


@contextmanager
def running(folder: Path, config: dict[str, object]) -> Iterator[Peer]:
    """Run Prometheus with a configuration, without targets."""
    if not PROMETHEUS.is_file():
        pytest.skip(f"no {PROMETHEUS} here: go build ./cmd/prometheus makes it (see benchmarks/README.md)")
    port = free_port()
    (folder / "prometheus.yml").write_text(json.dumps(config))
    flags = [
        f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=100y",
        "--web.enable-remote-write-receiver",
    ]  # fmt: skip
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([str(PROMETHEUS), *flags], stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{port}/-/ready", process, folder / "log")
        yield Peer(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(log.read_text())
