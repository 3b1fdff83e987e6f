"""Samples with known values, and what every tier must say about them.

All values are whole numbers, so sums are exact in whatever order they were added. Each object has a few
points of two gauges and two counters; some milliseconds hold two points, of which the later one counts:

    sent      10:00:01.000 +0 ns  5     10:00:01.000 +1 ns  7     10:00:01.050  2
    samples   10:00:01.000  7           10:00:01.050  2
    10s       10:00:10  count 2, sum 9, min 2, max 7, first 7, last 2
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

GAUGE, COUNTER = "level", "requests_total"
SERIES = tuple((metric, label) for metric in (GAUGE, COUNTER) for label in ("a", "b"))
POINTS = 6
STEP_MS = 50
NS_PER_MS = 1_000_000
CUMULATIVE = 2


@dataclass(frozen=True, slots=True)
class Point:
    """One data point. A series is an organisation, a metric and its one label."""

    org: str
    metric: str
    label: str
    at_ns: int
    value: float

    @property
    def ms(self) -> int:
        return self.at_ns // NS_PER_MS


@dataclass(frozen=True, slots=True)
class Bucket:
    """What a rollup says of one series in one bucket."""

    org: str
    metric: str
    label: str
    end_ms: int
    count: int
    total: float
    least: float
    most: float
    first: float
    last: float
    resets: int
    reset_sum: float
    changes: int


@dataclass(slots=True)
class Oracle:
    """Everything sent, and plain arithmetic over it."""

    points: list[Point] = field(default_factory=list)

    def add(self, points: Iterable[Point]) -> None:
        self.points += points

    def rows(self) -> Counter[Point]:
        """As they were sent: nothing is left out at frequency 0."""
        return Counter(self.points)

    def buckets(self, frequency_ms: int, points: Iterable[Point] | None = None) -> set[Bucket]:
        """Left-open and named by their end."""
        newest: dict[tuple[str, str, str, int], Point] = {}
        for point in self.points if points is None else points:
            known = newest.setdefault((point.org, point.metric, point.label, point.ms), point)
            if point.at_ns > known.at_ns:
                newest[point.org, point.metric, point.label, point.ms] = point
        groups: dict[tuple[str, str, str, int], list[Point]] = defaultdict(list)
        for point in newest.values():
            end_ms = -(-point.ms // frequency_ms) * frequency_ms
            groups[point.org, point.metric, point.label, end_ms].append(point)
        return {_bucket(series, mine) for series, mine in groups.items()}


def _bucket(series: tuple[str, str, str, int], points: Sequence[Point]) -> Bucket:
    values = [point.value for point in sorted(points, key=lambda p: p.ms)]
    drops = [before for before, after in pairwise(values) if after < before]
    return Bucket(
        *series,
        count=len(values),
        total=sum(values),
        least=min(values),
        most=max(values),
        first=values[0],
        last=values[-1],
        resets=len(drops),
        reset_sum=sum(drops),
        changes=sum(before != after for before, after in pairwise(values)),
    )


def points(org: str, number: int, at_ns: int) -> list[Point]:
    """The points of an object; the newest is at the millisecond of `at_ns` and one nanosecond."""
    chance = random.Random(number)
    newest_ms = at_ns // NS_PER_MS
    made: list[Point] = []
    for metric, label in SERIES:
        for back in range(POINTS):
            moment = (newest_ms - back * STEP_MS) * NS_PER_MS
            made.append(Point(org, metric, label, moment, float(chance.randrange(1000))))
        if metric == GAUGE:
            made.append(Point(org, metric, label, newest_ms * NS_PER_MS + 1, float(chance.randrange(1000))))
    return made


def samples_object(service: str, points: Sequence[Point]) -> bytes:
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    metrics = group.scope_metrics.add().metrics
    gauge, counter = metrics.add(name=GAUGE).gauge, metrics.add(name=COUNTER).sum
    counter.aggregation_temporality, counter.is_monotonic = CUMULATIVE, True
    for point in points:
        kind = gauge if point.metric == GAUGE else counter
        sent = kind.data_points.add(time_unix_nano=point.at_ns, as_double=point.value)
        sent.attributes.add(key="label").value.string_value = point.label
    return bytes(request.SerializeToString())
