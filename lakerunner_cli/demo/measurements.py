"""The shop's metrics: requests by level, durations, memory; cumulative, as most SDKs send them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Exemplar,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from lakerunner_cli.demo.calls import took_ns
from lakerunner_cli.demo.otlp import attribute, compress, resource_of
from lakerunner_cli.demo.shop import SECOND_NS, SERVICES, Line

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


@dataclass(slots=True)
class Totals:
    """All counts since `start_ns`."""

    start_ns: int
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    buckets: Counter[tuple[str, int]] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, Line] = field(default_factory=dict)
    """The slowest request of each service since the last export, of which an exemplar tells."""

    def observe(self, lines: Iterable[Line]) -> None:
        for line in lines:
            took = took_ns(line) / SECOND_NS
            self.requests[line.service, line.severity] += 1
            self.buckets[line.service, bisect_left(BOUNDS, took)] += 1
            self.seconds[line.service] += took  # type: ignore[assignment]
            slowest = self.slowest.get(line.service)
            if slowest is None or took_ns(slowest) < took_ns(line):
                self.slowest[line.service] = line

    def pack(self, now_ns: int) -> bytes:
        """Pack one export request with a resource per service."""
        groups = [
            ResourceMetrics(
                resource=resource_of(service),
                scope_metrics=[ScopeMetrics(metrics=self._metrics(service, now_ns))],
            )
            for service in SERVICES
        ]
        self.slowest.clear()
        return compress(ExportMetricsServiceRequest(resource_metrics=groups).SerializeToString())

    def _metrics(self, service: str, now_ns: int) -> list[Metric]:
        requests = [
            NumberDataPoint(
                start_time_unix_nano=self.start_ns,
                time_unix_nano=now_ns,
                as_int=count,
                attributes=[attribute("level", level)],
            )
            for (name, level), count in sorted(self.requests.items())
            if name == service
        ]
        counts = [self.buckets[service, index] for index in range(len(BOUNDS) + 1)]
        took = HistogramDataPoint(
            start_time_unix_nano=self.start_ns,
            time_unix_nano=now_ns,
            count=sum(counts),
            sum=self.seconds[service],
            bucket_counts=counts,
            explicit_bounds=BOUNDS,
            exemplars=[_exemplar(self.slowest[service])] if service in self.slowest else [],
        )
        memory = 80e6 + 1e6 * len(service) + sum(counts) % 997 * 1e4
        return [
            Metric(
                name="shop.requests",
                description="Requests handled.",
                sum=Sum(data_points=requests, aggregation_temporality=CUMULATIVE, is_monotonic=True),
            ),
            Metric(
                name="shop.request.duration",
                unit="s",
                histogram=Histogram(data_points=[took], aggregation_temporality=CUMULATIVE),
            ),
            Metric(
                name="process.memory.usage",
                unit="By",
                gauge=Gauge(data_points=[NumberDataPoint(time_unix_nano=now_ns, as_double=memory)]),
            ),
        ]


def _exemplar(line: Line) -> Exemplar:
    return Exemplar(
        time_unix_nano=line.time_ns,
        as_double=took_ns(line) / SECOND_NS,
        trace_id=line.trace_id,
        span_id=line.span_id,
    )
