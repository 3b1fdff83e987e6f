"""A shop's hour in a small lake: logs, samples and spans of four services, with one bad stretch in it.

From minute 20 to 26 `checkout` is slow: its latency and its errors rise, and the spans say where.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

from resources.lake.layout import Signal
from resources.lake.timecut import SECOND_NS
from tests.support.cooking_lake import HOUR, Lake, lake_in
from tests.support.query.signals_lake import put

SERVICES = ("cart", "checkout", "frontend", "payment")
ROUTES = ("/cart", "/checkout", "/product/{id}", "/pay")
BAD = range(20, 26)
MINUTES = 60
WORDS = {17: "payment gateway did not answer in time", 13: "slow answer", 9: "request served"}


def shop_lake(folder: Path, a_minute: int = 20) -> Lake:
    """Requests of an hour, `a_minute` in each; every one has a line and a span of the same trace."""
    lake = lake_in(folder)
    lake.index.create_api_key("acme", "read", "key-acme", hashlib.sha256(b"key-acme").digest(), None)
    messages = (
        (Signal.LOGS, _logs(a_minute)),
        (Signal.METRICS, _metrics()),
        (Signal.TRACES, _spans(a_minute)),
    )
    for signal, message in messages:
        lake.arrive(f"shop-{signal.value}", message.SerializeToString(), HOUR, signal=signal, org="acme")
        lake.cook(signal)
    return lake


def _requests(a_minute: int) -> list[tuple[int, int, int, bool]]:
    """Return number, time, milliseconds it took, and whether it failed."""
    found = []
    for number in range(MINUTES * a_minute):
        is_bad = number % 4 == 1 and number // a_minute in BAD
        took = 2_400 + number % 900 if is_bad else 20 + number * 7 % 180
        found.append((number, HOUR + number * 60 * SECOND_NS // a_minute, took, is_bad or number % 41 == 0))
    return found


def _trace(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()[:16]


def _logs(a_minute: int) -> LogsData:
    data = LogsData()
    for number, at, took, failed in _requests(a_minute):
        group = data.resource_logs.add()
        put(group.resource, "service.name", SERVICES[number % 4])
        put(group.resource, "k8s.pod.name", f"{SERVICES[number % 4]}-{number % 3}")
        level = 17 if failed else 13 if number % 13 == 0 else 9
        record = group.scope_logs.add().log_records.add(time_unix_nano=at, severity_number=level)
        record.body.string_value = f"{WORDS[level]}: {ROUTES[number % 4]} took {took} ms"
        record.trace_id = _trace(number)
        put(record, "http.route", ROUTES[number % 4])
        put(record, "http.status", 504 if failed else 200)
    return data


def _spans(a_minute: int) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    for number, at, took, failed in _requests(a_minute):
        group = request.resource_spans.add()
        put(group.resource, "service.name", SERVICES[number % 4])
        span = group.scope_spans.add().spans.add(trace_id=_trace(number), span_id=_trace(number)[:8], kind=2)
        span.name, span.status.code = f"POST {ROUTES[number % 4]}", 2 if failed else 1
        span.start_time_unix_nano, span.end_time_unix_nano = at, at + took * 1_000_000
    return request


def _metrics() -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    for place, service in enumerate(SERVICES):
        group = request.resource_metrics.add()
        put(group.resource, "service.name", service)
        scope = group.scope_metrics.add()
        hits = scope.metrics.add(name="http_requests", unit="1", description="requests that were served")
        hits.sum.is_monotonic, hits.sum.aggregation_temporality = True, 2
        latency = scope.metrics.add(name="request_seconds", unit="s", description="mean of a request's time")
        total = 0.0
        for step in range(MINUTES * 4):
            at = HOUR + step * 15 * SECOND_NS
            total += 20 + 8 * place + 6 * math.sin(step / 9 + place)
            hits.sum.data_points.add(time_unix_nano=at, start_time_unix_nano=HOUR, as_double=total)
            is_bad = place == 1 and step // 4 in BAD
            mean = 2.6 if is_bad else 0.2 + 0.05 * place + 0.04 * math.sin(step / 5)
            latency.gauge.data_points.add(time_unix_nano=at, as_double=round(mean, 4))
    return request
