"""A small lake of real segments in a directory, an index in memory, and query processes over them.

Rows are OTLP logs that went through the real decoder and writer, so that what is asked here is what the
pipeline produces.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import psutil
from litestar.testing import TestClient
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_cli.stack.ports import any_free
from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex
from resources.index.types import BatchKind, BatchPlan, Publication, Segment
from resources.lake.label_text import label_text
from resources.lake.layout import Signal, hourly_segment_key
from resources.lake.timecut import SECOND_NS, hour_start
from resources.proto.loki import PushRequest
from resources.settings import Settings
from tests.support.decoding import decode_object
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.homes import lake_settings

BASE = 1_767_225_600 * SECOND_NS  # 2026-01-01T00:00:00Z
TOKEN = "internal"
LOKI_PUSH = b"\xc2\xa9\x07\x14logproto.PushRequest"
"""Marker that the ingress writes in front of a push."""
WORKER = "lakerunner_query.worker_app"
"""The module that serves a worker."""
Entry = tuple[int, str, dict[str, str]]


@dataclass(frozen=True)
class Line:
    """One log record, `at` in nanoseconds after BASE."""

    at: int
    text: str
    service: str = "web"
    level: int = 9
    attributes: dict[str, object] = field(default_factory=dict)
    resource: dict[str, object] = field(default_factory=dict)
    trace: bytes = b""


class Lake:
    def __init__(self, folder: Path, index: MemoryIndex | PostgresIndex | None = None) -> None:
        self.folder = folder
        self.index = index or MemoryIndex()
        self._objects = 0

    def add_org(self, org: str, key: str, role: str = "read") -> None:
        self.index.create_organisation(org)
        self.index.create_api_key(org, role, key, hashlib.sha256(key.encode()).digest(), None)

    def write(self, org: str, lines: Sequence[Line]) -> Segment:
        """One raw object, one segment, published."""
        return self._store(org, otlp(lines).SerializeToString(), BASE + lines[0].at)

    def push(self, org: str, streams: Sequence[tuple[dict[str, str], Sequence[Entry]]]) -> Segment:
        """The same of a Loki push; entries are (nanoseconds since 1970, line, structured metadata)."""
        request = PushRequest()
        for labels, entries in streams:
            stream = request.streams.add(labels=label_text(labels))
            for at, line, pairs in entries:
                entry = stream.entries.add(line=line)
                entry.timestamp.seconds, entry.timestamp.nanos = divmod(at, SECOND_NS)
                for name, value in pairs.items():
                    entry.structured_metadata.add(name=name, value=value)
        return self._store(org, LOKI_PUSH + request.SerializeToString(), streams[0][1][0][0])

    def _store(self, org: str, raw: bytes, first_ns: int) -> Segment:
        self._objects += 1
        hour = hour_start(first_ns)
        tables = [
            one.table
            for one in decode_object(
                raw, object_id=self._objects, arrival_ns=BASE, max_bytes=1 << 30, slice_bytes=1 << 27
            )
        ]
        segment_id = f"{self._objects:032x}"
        key = hourly_segment_key(org, "default", "logs", hour, segment_id)
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        written = write_log_segment(tables, path, SegmentIdentity(org, "default", "logs", hour, segment_id))
        segment = Segment(
            segment_id=segment_id, key=key, org=org, collector="default", signal=Signal.LOGS, dataset="logs",
            frequency_ms=0, hour_ns=hour, width_ns=3600 * SECOND_NS, min_ns=written.min_ns,
            max_ns=written.max_ns, rows=written.rows, bytes=written.bytes, level=0, origin="",
            format_version=written.format_version, sort_version=written.sort_version, terms=written.terms,
            label_names=written.label_names, metric_names=(), series_offset=written.series_offset,
            series_length=written.series_length, bloom_offset=written.bloom_offset,
            bloom_length=written.bloom_length,
        )  # fmt: skip
        self._publish(segment)
        return segment

    def write_again(self, segment: Segment, times: int) -> None:
        """The same rows as further segments."""
        for number in range(1, times + 1):
            segment_id = f"{number:016x}{segment.segment_id[16:]}"
            key = hourly_segment_key(segment.org, "default", "logs", segment.hour_ns, segment_id)
            os.link(self.folder / segment.key, self.folder / key)
            self._publish(replace(segment, segment_id=segment_id, key=key))

    def _publish(self, segment: Segment) -> None:
        hour = segment.hour_ns
        plan = BatchPlan(BatchKind.REBUILD, segment.org, "default", Signal.LOGS, hour, ())
        self.index.publish(Publication(self.index.create_claimed(plan), (segment,), hours=(hour,)))


def otlp(lines: Sequence[Line]) -> LogsData:
    data = LogsData()
    for line in lines:
        group = data.resource_logs.add()
        _attribute(group.resource, "service.name", line.service)
        for key, value in line.resource.items():
            _attribute(group.resource, key, value)
        scope = group.scope_logs.add()
        scope.scope.name = "shop"
        record = scope.log_records.add(time_unix_nano=BASE + line.at, severity_number=line.level)
        record.body.string_value = line.text
        record.trace_id = line.trace
        for key, value in line.attributes.items():
            _attribute(record, key, value)
    return data


def _attribute(owner: object, key: str, value: object) -> None:
    entry = owner.attributes.add(key=key)  # type: ignore[attr-defined]
    kind = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}[type(value)]
    setattr(entry.value, kind, value)


def free_port() -> int:
    return any_free()


class WorkerProcess:
    """A real query worker: killed with SIGKILL, like the machine would."""

    def __init__(self, settings: Settings, module: str = WORKER) -> None:
        self.url = f"http://127.0.0.1:{settings.worker_port}"
        code = f"from {module} import serve; from resources.settings import Settings; "
        self.process = subprocess.Popen(
            [sys.executable, "-c", code + "serve(Settings.load())"],
            env={**os.environ, **settings.child_environment(), "MALLOC_ARENA_MAX": "2"},
            start_new_session=True,
        )

    def wait_ready(self) -> None:
        wait_for(self._is_ready, f"the readiness of worker {self.url}")

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, f"worker {self.url} ended: its output tells why"
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/readyz", timeout=10).is_success
        return False

    def reader(self) -> int:
        """The pid of its reader process, a child of the process that forks readers."""
        (found,) = wait_for(lambda: self._readers(1), f"the reader process of worker {self.url}")
        return found

    def _readers(self, count: int) -> list[int]:
        """The pids of its reader processes if there are so many; one that ends makes room for the next."""
        with contextlib.suppress(psutil.NoSuchProcess):
            forks = psutil.Process(self.process.pid).children()
            found = [int(reader.pid) for each in forks for reader in each.children()]
            return found if len(found) == count else []
        return []

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@dataclass
class Stack:
    settings: Settings
    workers: list[WorkerProcess]


def worker_settings(folder: Path, lake: Path, port: int, memory_mb: int = 512) -> Settings:
    return Settings(
        data_dir=folder,
        **lake_settings(lake),
        internal_token=TOKEN,
        worker_port=port,
        worker_memory_mb=memory_mb,
        log_level="WARNING",
    )


def start_workers(folder: Path, lake: Path, count: int, module: str = WORKER, **more: Any) -> Iterator[Stack]:
    ports = [free_port() for _ in range(count)]
    workers = [WorkerProcess(replace(worker_settings(folder, lake, port), **more), module) for port in ports]
    try:
        for worker in workers:
            worker.wait_ready()
        urls = ",".join(worker.url for worker in workers)
        settings = Settings(
            data_dir=folder, worker_urls=urls, internal_token=TOKEN, query_timeout_s=PATIENCE_S
        )
        yield Stack(settings, workers)
    finally:
        for worker in workers:
            worker.kill()


class Client:
    """The API in this process, asked the way a client asks."""

    def __init__(self, http: TestClient, key: str) -> None:  # type: ignore[type-arg]
        self.http = http
        self.headers = {"x-cardinalhq-api-key": key}

    def ask(self, q: str, **more: object) -> tuple[list[dict], dict]:  # type: ignore[type-arg]
        """(result rows, done)."""
        body = {"q": q, "s": str(BASE), "e": str(BASE + 3600 * SECOND_NS), "limit": 1000, **more}
        response = self.http.post("/api/v1/logs/query", json=body, headers=self.headers)
        assert response.status_code == 200, response.text
        events = [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith("data: ")]
        errors = [one["data"] for one in events if one["type"] == "error"]
        assert not errors, errors
        assert events[-1]["type"] == "done"
        return [one["data"] for one in events if one["type"] == "result"], events[-1]["data"]

    def lines(self, q: str, **more: object) -> list[str]:
        return [row["message"] for row in self.ask(q, **more)[0]]

    def loki(self, query: str, headers: dict[str, str] | None = None, **more: object) -> httpx.Response:
        params = {"query": query, "start": BASE, "end": BASE + 3600 * SECOND_NS, "limit": 1000, **more}
        sent = self.headers | (headers or {})
        return self.http.get("/loki/api/v1/query_range", params=params, headers=sent)
