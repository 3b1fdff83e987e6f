"""A small seeded lake of all three signals and their rollups, for LakeQL: cooked and rolled up without Spark.

Three hours, several segments each. Attributes are missing in some segments and rows, `code` is a number in
some and a text in others, times have digits below the microsecond, logs and spans share traces. A second
organisation has rows of the same shape, all of whose texts hold the word `SECRET`.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

from lakerunner_query.coordinator.lakeql import LakeQL
from lakerunner_query.coordinator.lakeql_jobs import Jobs
from lakerunner_query.plan.lakeql import LakeQLRequest
from resources.duckdb import DuckLimits, DuckSession
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.cooking_lake import HOUR, Lake, lake_in
from tests.support.query.in_process import InProcess, engine_over
from tests.support.rolling_lake import roll

HOURS = 3
START_NS, END_NS = HOUR, HOUR + HOURS * HOUR_NS
"""Window that holds all rows; the last samples lie at its very end."""
SERVICES = ("web", "payments", "checkout", "search")
ROUTES = ("/", "/cart", "/pay", "/it's", "/ünïcode", "")
LEVELS = (0, 5, 9, 13, 17, 21)
WORDS = ("took", "failed", "timeout", "retry", "cache", "Café", "100%", "a_b", "quote's", "naïve")
ROUNDS = 2
"""Segments of each signal and hour, about."""


class SignalsLake:
    """The lake, and what it writes."""

    def __init__(self, folder: Path, *, scale: int = 1) -> None:
        self.lake: Lake = lake_in(folder)
        self.scale = scale
        self.index = self.lake.index
        self.folder = folder / "lake"
        self.index.create_organisation("other")
        for org in ("acme", "other"):
            raw = hashlib.sha256(f"key-{org}".encode()).digest()
            self.index.create_api_key(org, "read", f"key-{org}", raw, None)
        for org in ("acme", "other"):
            self._fill(org)
        hours = [HOUR + n * HOUR_NS for n in range(HOURS)]
        for rollup in ROLLUPS[:-1]:
            roll(self.lake, rollup.frequency_ms, *hours)

    def _fill(self, org: str) -> None:
        for hour in range(HOURS):
            for part in range(ROUNDS):
                rng = random.Random(f"{org}{hour}{part}")
                writer = _Writer(rng, org, HOUR + hour * HOUR_NS, part)
                payloads = (
                    (Signal.LOGS, writer.logs(70 * self.scale)),
                    (Signal.METRICS, writer.metrics()),
                    (Signal.TRACES, writer.spans(14 * self.scale)),
                )
                for signal, message in payloads:
                    name = f"{org}-{signal.value}-{hour}-{part}"
                    data = message.SerializeToString()
                    self.lake.arrive(name, data, HOUR + hour * HOUR_NS, signal=signal, org=org)
                    self.lake.cook(signal)


class _Writer:
    """One raw object of each signal."""

    def __init__(self, rng: random.Random, org: str, hour_ns: int, part: int) -> None:
        self.rng, self.org, self.hour_ns, self.part = rng, org, hour_ns, part
        self.traces = [rng.randbytes(16) for _ in range(12)]

    def text(self, text: str) -> str:
        return text if self.org == "acme" else f"SECRET {text}"

    def moment(self) -> int:
        """A time of the hour: some on whole seconds, some with all their digits."""
        second = self.rng.randrange(3600) * SECOND_NS
        return self.hour_ns + second + self.rng.choice((0, 1, 999, 1_000, self.rng.randrange(SECOND_NS)))

    def logs(self, count: int) -> LogsData:
        data, rng = LogsData(), self.rng
        for number in range(count):
            group = data.resource_logs.add()
            service = rng.choice(SERVICES)
            put(group.resource, "service.name", self.text(service))
            put(group.resource, "host.name", f"host-{rng.randrange(3)}")
            if rng.random() < 0.7:
                put(group.resource, "service.namespace", "shop")
            record = group.scope_logs.add().log_records.add()
            record.time_unix_nano, record.severity_number = self.moment(), rng.choice(LEVELS)
            words = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 5)))
            record.body.string_value = self.text(f"{service} {words} {rng.randrange(50)} ms")
            if rng.random() < 0.6:
                record.trace_id, record.span_id = rng.choice(self.traces), rng.randbytes(8)
            put(record, "http.route", rng.choice(ROUTES), 0.8, rng)
            put(record, "bytes", rng.randrange(-5, 2000), 0.7, rng)
            put(record, "ratio", rng.choice((0.0, 0.5, 1.25, -2.5, 1e10, rng.random())), 0.7, rng)
            put(record, "ok", rng.random() < 0.5, 0.7, rng)
            code = rng.choice((200, 404, 500))
            put(record, "code", str(code) if self.part else code, 0.6, rng)
            put(record, "id", number % 40)
            if self.part == 1:
                put(record, "only.later", rng.choice(("a", "b")), 0.5, rng)
        return data

    def spans(self, traces: int) -> ExportTraceServiceRequest:
        request, rng = ExportTraceServiceRequest(), self.rng
        for number in range(traces):
            trace = self.traces[number] if number < len(self.traces) else rng.randbytes(16)
            ids: list[bytes] = []
            begin = self.moment()
            for depth in range(rng.randrange(1, 6)):
                group = request.resource_spans.add()
                service = SERVICES[depth % 4] if depth else rng.choice(SERVICES)
                put(group.resource, "service.name", self.text(service))
                put(group.resource, "host.name", f"host-{rng.randrange(3)}")
                span = group.scope_spans.add().spans.add()
                span.trace_id, span.span_id = trace, rng.randbytes(8)
                if ids:
                    span.parent_span_id = rng.choice(ids)
                ids.append(span.span_id)
                span.name = self.text(f"{rng.choice(('GET', 'POST'))} {rng.choice(ROUTES)}")
                span.kind = rng.randrange(1, 4)
                span.start_time_unix_nano = begin + depth * 1_000_003
                span.end_time_unix_nano = span.start_time_unix_nano + rng.randrange(1, 5 * SECOND_NS)
                span.status.code = rng.choice((0, 0, 1, 2))
                put(span, "http.status_code", rng.choice((200, 404, 500)), 0.7, rng)
                put(span, "db.system", rng.choice(("pg", "redis")), 0.4, rng)
        return request

    def metrics(self) -> ExportMetricsServiceRequest:
        request, rng = ExportMetricsServiceRequest(), self.rng
        half = 1800 * SECOND_NS
        begin = self.hour_ns + self.part * half
        for place, service in enumerate(SERVICES):
            group = request.resource_metrics.add()
            put(group.resource, "service.name", self.text(service))
            scope = group.scope_metrics.add()
            depth = scope.metrics.add(name="queue_depth", unit="1", description="jobs that wait")
            requests = scope.metrics.add(name="requests", unit="1", description="requests")
            requests.sum.is_monotonic, requests.sum.aggregation_temporality = True, 2
            latency = scope.metrics.add(name="latency", unit="s")
            latency.histogram.aggregation_temporality = 2
            total = (self.hour_ns - HOUR) // SECOND_NS + self.part * 1800 + place
            for at in range(60 - place, 1801, 60):
                moment = begin + at * SECOND_NS
                if rng.random() < 0.9:
                    point = depth.gauge.data_points.add(time_unix_nano=moment)
                    point.as_double = rng.choice((float(rng.randrange(20)), round(rng.random() * 9, 3), -1.5))
                    put(point, "queue", rng.choice(("high", "low")))
                point = requests.sum.data_points.add(time_unix_nano=moment, start_time_unix_nano=HOUR)
                point.as_int = total + at * (place + 1)
                if at % 300 < 60:
                    one = latency.histogram.data_points.add(time_unix_nano=moment, start_time_unix_nano=HOUR)
                    one.explicit_bounds.extend((0.1, 1.0))
                    one.bucket_counts.extend((total + at, at, 1))
                    one.count, one.sum = total + 2 * at + 1, float(at)
        return request


def put(owner: Any, key: str, value: object, share: float = 1.0, rng: random.Random | None = None) -> None:
    """Add an attribute, or leave it out in some rows."""
    if rng is not None and rng.random() > share:
        return
    kinds = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}
    setattr(owner.attributes.add(key=key).value, kinds[type(value)], value)


class Asked:
    """LakeQL over a lake in this process: units and answers are encoded, and nothing runs beside it."""

    def __init__(
        self, lake: SignalsLake, scratch: Path, memory_mb: int = 256, jobs: Jobs | None = None
    ) -> None:
        self.workers = InProcess(lake.folder, scratch)
        limits = DuckLimits(memory_mb, 2, scratch / "coordinator", ())
        self._session = DuckSession(limits)
        self.engine = engine_over(lake.index, self.workers)
        self.lakeql = LakeQL(self.engine, lambda: self._session, 3600, jobs)
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.close()
        self._session.close()

    def request(self, org: str = "acme", **more: Any) -> LakeQLRequest:
        return LakeQLRequest(org, **{"start_ns": START_NS, "end_ns": END_NS, "now_ns": END_NS, **more})

    def table(self, sql: str, **more: Any) -> pa.Table:
        """The whole result; an answer that lacks segments is an error here."""
        return self._runner.run(self._table(sql, self.request(**more)))

    async def _table(self, sql: str, request: LakeQLRequest) -> pa.Table:
        async with await self.lakeql.open(sql, request) as answer:
            batches = [batch async for batch in answer.batches()]
            assert not answer.missing, answer.missing
            self.notices, self.forms = answer.notices, [one.form for one in answer.bound.scans]
            self.statistics = answer.statistics
            return pa.Table.from_batches(batches, answer.schema)

    def explain(self, sql: str, **more: Any) -> str:
        return self._runner.run(self.lakeql.explain(sql, self.request(**more)))


@contextmanager
def asked_over(lake: SignalsLake, scratch: Path) -> Iterator[Asked]:
    asked = Asked(lake, scratch)
    try:
        yield asked
    finally:
        asked.close()
