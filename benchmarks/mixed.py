"""Objects of all three signals with a known number of rows, and poisoned ones with a known fault."""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from resources.lake.layout import Signal

POISONS = ("truncated", "garbage", "broken gzip", "empty", "missing")


@dataclass(frozen=True, slots=True)
class Made:
    """An object as it will be put; `data` is None for one that is announced and never there."""

    number: int
    signal: Signal
    rows: int
    poison: str
    data: bytes | None

    @property
    def name(self) -> str:
        return f"{self.number:05}-{self.poison.replace(' ', '-') or 'good'}.binpb"


def make(number: int, chance: random.Random, poisoned: bool, now_ns: int | None = None) -> Made:
    """Signals take turns; the number of rows differs from object to object."""
    signal = tuple(Signal)[number % 3]
    rows = chance.randrange(5, 60)
    good = BUILD[signal](number, rows, now_ns or time.time_ns())
    poison = POISONS[number // 10 % len(POISONS)] if poisoned else ""
    return Made(number, signal, rows, poison, _spoilt(good, poison, chance))


def _spoilt(good: bytes, poison: str, chance: random.Random) -> bytes | None:
    if poison == "truncated":
        return good[: len(good) * 2 // 3]
    if poison == "garbage":
        return b"\n" + chance.randbytes(500)
    if poison == "broken gzip":
        return gzip.compress(good)[:-12]
    if poison == "empty":
        return b""
    return None if poison == "missing" else good


def _logs(number: int, rows: int, now_ns: int) -> bytes:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.add(key="service.name").value.string_value = f"service-{number % 7}"
    records = group.scope_logs.add().log_records
    for row in range(rows):
        record = records.add(time_unix_nano=now_ns - row, severity_text="INFO")
        record.body.string_value = f"row {row} of object {number}"
    return bytes(request.SerializeToString())


def _metrics(number: int, rows: int, now_ns: int) -> bytes:
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add()
    group.resource.attributes.add(key="service.name").value.string_value = f"service-{number % 7}"
    metric = group.scope_metrics.add().metrics.add(name="requests")
    metric.sum.aggregation_temporality, metric.sum.is_monotonic = 2, True
    for row in range(rows):
        point = metric.sum.data_points.add(time_unix_nano=now_ns - row * 10**6, as_int=row)
        point.attributes.add(key="object").value.int_value = number
    return bytes(request.SerializeToString())


def _traces(number: int, rows: int, now_ns: int) -> bytes:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = f"service-{number % 7}"
    spans = group.scope_spans.add().spans
    for row in range(rows):
        spans.add(
            trace_id=(number + 1).to_bytes(16, "big"),
            span_id=(row + 1).to_bytes(8, "big"),
            name="work",
            start_time_unix_nano=now_ns - row,
            end_time_unix_nano=now_ns,
        )
    return bytes(request.SerializeToString())


BUILD: dict[Signal, Callable[[int, int, int], bytes]] = {
    Signal.LOGS: _logs,
    Signal.METRICS: _metrics,
    Signal.TRACES: _traces,
}
