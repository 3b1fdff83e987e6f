"""A sampler in a process that kills itself at a numbered point, and a sink that counts what arrives."""

from __future__ import annotations

import functools
import gzip
import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PRELOADED = ["tests.support.sampler_child", "lakerunner_sampling.app", "pandas"]
CONFIG = """
storage:
  iceberg:
    catalog_type: sql
    warehouse: "file://{folder}/warehouse"
    table_name: spans
    properties: {{uri: "sqlite:///{folder}/catalog.db"}}
app:
  name: "{name}"
  organization: acme
  inactivity_timeout_secs: 10
  max_trace_duration_secs: 600
  memory_mb: 64
  threads: 1
  scratch: "{folder}/scratch"
redis: {{url: "{redis}", trace_ttl_secs: 3600}}
export: [{exports}]
policies:
  - {{name: errors, type: status_code, status_code: {{status_codes: [ERROR]}}}}
  - {{name: slow, type: latency, latency: {{threshold_ms: 5000}}}}
  - {{name: some, type: probabilistic, probabilistic: {{sampling_percentage: 30}}}}
  - {{name: few, type: rate_limiting, rate_limiting: {{spans_per_second: 1}}}}
"""


@dataclass(frozen=True)
class Child:
    """Orders for one process."""

    dsn: str
    folder: Path
    config: Path
    until: int
    """Commit at which the process ends once everything is exported."""
    kill_at: int = 0
    """Number of the point at which it kills itself; 0: never."""


def run_child(child: Child) -> None:
    """Run a sampler until everything is decided and sent, or it is killed."""
    from lakerunner_sampling.app import opened
    from lakerunner_sampling.config import read_config_file
    from resources.settings import Settings

    if child.kill_at:
        arm(child.kill_at)
    settings = Settings(data_dir=child.folder, index_dsn=child.dsn, sampler_lease_s=2.0, sampler_poll_s=0.05)
    with opened(settings, read_config_file(child.config, {})) as parts:
        parts.start()
        while not is_done(parts, child.until):
            time.sleep(0.02)
        parts.close()


def is_done(parts: Any, until: int) -> bool:
    mine = [one for one in parts.index.waiting_batches("acme") if one.sampler == parts.options.name]
    return parts.sampler.progress.sequence >= until and not any(one.batches for one in mine)


def arm(kill_at: int) -> None:
    """Kill the process at the point with this number: before and after whatever others can see."""
    from lakerunner_sampling.aggregate import TraceState
    from lakerunner_sampling.dedup import Deduplicator
    from lakerunner_sampling.export.otlp import OtlpHttpSender
    from resources.index.postgres import PostgresIndex

    points = itertools.count(1)

    def point() -> None:
        if next(points) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)

    def around(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(*args: Any, **named: Any) -> Any:
            point()
            found = method(*args, **named)
            point()
            return found

        return called

    for owner, names in (
        (PostgresIndex, ("write_step", "finish_batch")), (Deduplicator, ("claim",)),
        (OtlpHttpSender, ("send",)), (TraceState, ("evict",)),
    ):  # fmt: skip
        for name in names:
            setattr(owner, name, around(getattr(owner, name)))


@dataclass
class Sink:
    """An OTLP receiver that remembers how often each span came."""

    spans: dict[str, Counter[tuple[bytes, bytes]]] = field(default_factory=dict)
    """Spans by path."""
    failing: list[int] = field(default_factory=list)
    """Statuses of the next answers."""
    port: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def take(self, path: str, body: bytes) -> int:
        with self._lock:
            if self.failing:
                return self.failing.pop(0)
            found = ExportTraceServiceRequest.FromString(gzip.decompress(body))
            counter = self.spans.setdefault(path.strip("/"), Counter())
            for group in found.resource_spans:
                for scope in group.scope_spans:
                    counter.update((span.trace_id, span.span_id) for span in scope.spans)
            return 200


@contextmanager
def running_sink() -> Iterator[Sink]:
    sink = Sink()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(sink.take(self.path, body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sink.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        server.shutdown()
        server.server_close()


def decisions_of(dsn: str, name: str) -> pa.Table:
    """Return all that a sampler decided, by trace."""
    import psycopg

    query = """
        SELECT d.trace_id, d.is_kept, r.policy, d.spans, d.probability, d.first_sequence, d.sequence,
            d.revision
        FROM lakerunner.sampling_decision d JOIN lakerunner.sampling_reason r USING (reason_id)
        JOIN lakerunner.sampler s ON s.sampler_id = d.sampler_id WHERE s.name = %s ORDER BY d.trace_id
    """
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(query, [name]).fetchall()
    names = ("trace_id", "is_kept", "policy", "spans", "probability", "first", "sequence", "revision")
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
