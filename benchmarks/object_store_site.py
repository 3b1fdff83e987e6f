"""The site of `benchmarks.object_store`: an S3 server, the proxy before it, lakes in it, and who reads them.

    ours, Loki ──► proxy (20 ms, 100 MB/s per connection) ──► versitygw over a folder, or moto

Everything is removed at the end. The proxy is a process of its own; what it counted is read over HTTP.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.ingest.peers import binary
from benchmarks.ingest.peers.loki import CONFIG
from benchmarks.ingest.peers.server import Server
from benchmarks.logql.corpus import Part
from benchmarks.logql.peers import LOAD_S, push_request
from benchmarks.promql.ours import Ours
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.s3_server import BUCKET, moto, versitygw
from tests.support.slow_store import Counts

DELAY_MS, MEGABYTES = 20, 100
LOKI_BUCKET = "loki"


class ProxyProcess:
    """`tests.support.slow_store` in a process of its own."""

    def __init__(self, upstream: str) -> None:
        command = [sys.executable, "-m", "tests.support.slow_store", upstream]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self.behave(DELAY_MS, MEGABYTES)

    def behave(self, delay_ms: float, megabytes: float, failing: float = 0.0) -> None:
        changes = {"delay_ms": delay_ms, "bytes_per_s": megabytes * 1e6, "failing": failing}
        self._call("PUT", "conditions", json.dumps(changes).encode())

    def take_counts(self) -> Counts:
        """Return what was counted since the last time."""
        return Counts.of_json(self._call("DELETE", "counts"))

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _call(self, method: str, name: str, body: bytes | None = None) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url}/_proxy/{name}", data=body, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


@dataclass
class Site:
    folder: Path
    server: Settings
    proxy: ProxyProcess
    kind: str
    _lakes: dict[Path, str] = field(default_factory=dict)

    def lake(self, name: str) -> Path:
        """Return the folder in which to write a lake; `publish` brings it into the bucket."""
        folder = self.folder / "s3" / BUCKET / name if self.kind == "versitygw" else self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def publish(self, lake: Path) -> dict[str, Any]:
        """Return the settings with which workers find the lake."""
        if self.kind != "versitygw":
            store = open_store(f"s3://{BUCKET}/{lake.name}", self.server)
            for path in lake.rglob("*.parquet"):
                store.put(path.relative_to(lake).as_posix(), path)
        keys = {"s3_access_key_id": "test", "s3_secret_access_key": "test"}
        return {"lake_url": f"s3://{BUCKET}/{lake.name}", "s3_endpoint": self.proxy.url, **keys}


@contextmanager
def site(folder: Path, programs: Path) -> Iterator[Site]:
    program = binary(programs, "versitygw")
    kind = "versitygw" if program else "moto"
    (folder / "s3" / LOKI_BUCKET).mkdir(parents=True)
    with versitygw(program, folder / "s3") if program else moto() as server:
        proxy = ProxyProcess(server.s3_endpoint)
        try:
            yield Site(folder, server, proxy, kind)
        finally:
            proxy.stop()


class Cold:
    """Our processes, started again with nothing on the workers' disks."""

    def __init__(self, ours: Ours) -> None:
        self.ours = ours

    def restart(self) -> None:
        self.ours.stop()
        for cache in self.ours.folder.glob("worker-*/query-worker"):
            shutil.rmtree(cache)
        self.ours.start()


class LokiOnS3:
    """Loki whose chunks and index lie behind the proxy; started again, its own folder is empty."""

    def __init__(self, program: Path, folder: Path, proxy: ProxyProcess) -> None:
        self._program, self._folder, self._proxy, self._starts = program, folder, proxy, 0
        self.server: Server
        proxy.behave(0, 0)
        self._start()

    def send(self, part: Part) -> None:
        self.server.post("/loki/api/v1/push", push_request(part), {"Content-Type": "application/json"})

    def settle(self) -> None:
        """Flush chunks; its index is uploaded when it stops."""
        self.server.post("/flush", b"", {})
        self.server.wait(self._flushed, LOAD_S, "its chunks are flushed")
        self.stop()
        self._proxy.behave(DELAY_MS, MEGABYTES)

    def restart(self) -> None:
        self.stop()
        self._start()
        time.sleep(1)

    def stop(self) -> None:
        self.server.stop()

    def _start(self) -> None:
        self._starts += 1
        folder = self._folder / f"run-{self._starts}"
        folder.mkdir(parents=True)
        address = urllib.parse.urlsplit(self._proxy.url).netloc
        store = (
            f"storage: {{s3: {{endpoint: '{address}', bucketnames: {LOKI_BUCKET}, access_key_id: test, "
            "secret_access_key: test, insecure: true, s3forcepathstyle: true, region: us-east-1}}"
        )
        text = CONFIG.format(port="${PORT}", spare="${SPARE}", folder=folder)
        lines = [
            store.join(("  ", "")) if line.startswith("  storage:") else line for line in text.split("\n")
        ]
        config = folder / "loki.yaml"
        config.write_text("\n".join(lines).replace("object_store: filesystem", "object_store: s3"))
        program = f"{self._program} -config.file={config} -config.expand-env=true"
        shell = f"PORT={{port}} SPARE={{spare}} exec {program}"
        self.server = Server("loki", ["/bin/sh", "-c", shell], folder, "/ready")

    def _flushed(self) -> bool:
        created = self.server.metric("loki_ingester_chunks_created_total")
        return created > 0 and self.server.metric("loki_ingester_chunks_flushed_total") >= created


def get(port: int, path: str, values: Mapping[str, object], headers: Mapping[str, str]) -> bytes:
    """Ask over a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("GET", f"{path}?{urllib.parse.urlencode(dict(values))}", headers=dict(headers))
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{path} {values}: {answer.status} {body[:300]!r}")
    return body


@dataclass(frozen=True, slots=True)
class Streamed:
    """Times of a streamed answer in seconds after it was asked, and its size."""

    first: float
    """First datapoint or row."""
    whole: float
    bytes: int
    status: str


def stream(port: int, path: str, body: Mapping[str, object], headers: Mapping[str, str]) -> Streamed:
    """Ask for server-sent events and look at the clock."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        began = time.perf_counter()
        sent = {"Content-Type": "application/json", **headers}
        connection.request("POST", path, json.dumps(dict(body)), sent)
        answer, first, size, last = connection.getresponse(), 0.0, 0, b""
        while line := answer.readline():
            size += len(line)
            if not first and line.startswith(b'data: {"type":"result"'):
                first = time.perf_counter() - began
            if line.startswith(b"data: "):
                last = line
        whole = time.perf_counter() - began
    finally:
        connection.close()
    done = json.loads(last[6:])
    return Streamed(first or whole, whole, size, str(done["data"].get("status", done["data"])))
