"""A small lake of traces with the log lines and exemplars that name them, for two organisations.

Trace 1 is a checkout that fails in its database: spans from three objects, one of them sent twice, one whose
parent never arrived, one whose clock is behind. Trace 2 is short and whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from litestar.testing import TestClient
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

from lakerunner_query.app import create_app
from resources.lake.layout import Signal
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.query.lake import start_workers
from tests.support.query.real_prometheus import serving
from tests.support.query.signals_lake import put

ORGS = ("acme", "other")
MS = 1_000_000
BEGIN, END = HOUR // SECOND, HOUR // SECOND + 3600
"""Bounds of the hour, in seconds."""
CHECKOUT, BROWSE = f"{1:032x}", f"{2:032x}"


@dataclass(frozen=True)
class Sent:
    """A span that is sent; times in milliseconds after the hour, ids of one byte."""

    trace: int
    span: int
    parent: int
    service: str
    name: str
    start_ms: int
    width_ms: int
    is_error: bool = False
    kind: int = 2


SPANS = (
    (
        Sent(1, 1, 0, "web", "POST /checkout", 1_000, 1_000, is_error=True),
        Sent(1, 2, 1, "web", "render", 1_010, 40, kind=1),
        Sent(1, 3, 1, "payments", "charge", 1_100, 800, is_error=True),
        Sent(2, 1, 0, "web", "GET /", 61_000, 50),
        Sent(2, 2, 1, "cart", "cart.get", 61_010, 20),
    ),
    (
        Sent(1, 4, 3, "db", "INSERT", 1_150, 600, is_error=True, kind=3),
        Sent(1, 5, 3, "mail", "send", 1_095, 30),
        Sent(1, 6, 200, "audit", "write", 1_900, 50),
    ),
    (Sent(1, 4, 3, "db", "INSERT", 1_150, 600, is_error=True, kind=3),),
)
"""Spans by object: late ones, an orphan, a clock that is behind, and one that was sent before."""
LINES = (
    (1, 1, "web", "checkout began", 1_001),
    (1, 4, "db", "duplicate key value violates unique constraint", 1_700),
    (1, 99, "db", "a line of a span that is not stored", 1_701),
    (2, 1, "web", "front page", 61_001),
)
"""Log lines: trace, span, service, text, milliseconds after the hour."""


def trace_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def span_id(number: int) -> bytes:
    return number.to_bytes(8, "big")


def spans_of(spans: tuple[Sent, ...], org: str) -> bytes:
    request = ExportTraceServiceRequest()
    for one in spans:
        group = request.resource_spans.add()
        put(group.resource, "service.name", one.service)
        scope = group.scope_spans.add()
        scope.scope.name = "shop"
        span = scope.spans.add(name=one.name, kind=one.kind)  # type: ignore[arg-type]
        span.trace_id, span.span_id = trace_id(one.trace), span_id(one.span)
        span.parent_span_id = span_id(one.parent) if one.parent else b""
        span.start_time_unix_nano = HOUR + one.start_ms * MS
        span.end_time_unix_nano = span.start_time_unix_nano + one.width_ms * MS
        span.status.code = 2 if one.is_error else 0
        span.status.message = "it failed" if one.is_error else ""
        put(span, "owner", org)
        put(span, "width", one.width_ms)
        if one.is_error:
            event = span.events.add(name="exception", time_unix_nano=span.start_time_unix_nano + MS)
            put(event, "exception.message", "duplicate key")
    return request.SerializeToString()


def lines_of(org: str) -> bytes:
    data = LogsData()
    for trace, span, service, text, at_ms in LINES:
        group = data.resource_logs.add()
        put(group.resource, "service.name", service)
        record = group.scope_logs.add().log_records.add(time_unix_nano=HOUR + at_ms * MS, severity_number=9)
        record.body.string_value = f"{org}: {text}"
        record.trace_id, record.span_id = trace_id(trace), span_id(span)
    return data.SerializeToString()


def exemplars_of(org: str) -> bytes:
    """A histogram with an exemplar that names its trace in OTLP's field, and one that does by a label."""
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add()
    put(group.resource, "service.name", "web")
    metric = group.scope_metrics.add().metrics.add(name="http.server.duration", unit="s")
    metric.histogram.aggregation_temporality = 2
    for number in range(3):
        point = metric.histogram.data_points.add(time_unix_nano=HOUR + number * 60 * SECOND)
        point.start_time_unix_nano = HOUR
        point.explicit_bounds.extend((0.1, 1.0))
        point.bucket_counts.extend((number, number, 1))
        point.count, point.sum = 2 * number + 1, float(number)
        put(point, "org", org)
        if number == 1:
            one = point.exemplars.add(time_unix_nano=HOUR + 2_000 * MS, as_double=1.0)
            one.trace_id, one.span_id = trace_id(1), span_id(1)
            two = point.exemplars.add(time_unix_nano=HOUR + 61_050 * MS, as_double=0.05)
            put_exemplar(two, "trace_id", BROWSE)
    return request.SerializeToString()


def put_exemplar(owner: object, key: str, text: str) -> None:
    owner.filtered_attributes.add(key=key).value.string_value = text  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Shop:
    """The API over the lake, for one organisation."""

    http: TestClient  # type: ignore[type-arg]
    lake: Lake
    org: str = "acme"

    @property
    def headers(self) -> dict[str, str]:
        return {"x-cardinalhq-api-key": f"key-{self.org}"}


def write_shop(folder: Path) -> Lake:
    lake = lake_in(folder)
    lake.index.create_organisation("other")
    for org in ORGS:
        raw = hashlib.sha256(f"key-{org}".encode()).digest()
        lake.index.create_api_key(org, "read", f"key-{org}", raw, None)
        for number, spans in enumerate(SPANS):
            lake.arrive(f"{org}-{number}", spans_of(spans, org), HOUR, signal=Signal.TRACES, org=org)
            lake.cook(Signal.TRACES)
        for signal, data in ((Signal.LOGS, lines_of(org)), (Signal.METRICS, exemplars_of(org))):
            lake.arrive(f"{org}-{signal.value}", data, HOUR, signal=signal, org=org)
            lake.cook(signal)
    return lake


@contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    lake = write_shop(folder)
    data = folder / "data"
    data.mkdir()
    for stack in start_workers(data, folder / "lake", 2):
        with TestClient(create_app(stack.settings, lake.index)) as http:
            yield Shop(http, lake)


@contextmanager
def served_shop(folder: Path) -> Iterator[str]:
    """Serve the shop from a port of its own; yield the address."""
    lake = write_shop(folder)
    data = folder / "data"
    data.mkdir()
    for stack in start_workers(data, folder / "lake", 1):
        with serving(create_app(stack.settings, lake.index)) as address:
            yield address
