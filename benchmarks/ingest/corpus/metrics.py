"""Application metrics as OTLP: per resource and step 5 gauges, 20 counters and 5 histograms.

Counters and histograms are cumulative and grow as requests come in; gauges wander. An object holds the
exports of some minutes, as a collector's file exporter or S3 exporter writes them.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.ingest.corpus import START_NS, Corpus
from benchmarks.ingest.corpus.logs import resource_attributes
from benchmarks.ingest.corpus.wire import double, fixed64, key_value, message, number, text

STEP_NS = 15_000_000_000
STEPS_PER_OBJECT = 20
BOUNDS = (5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0)
SAMPLES_PER_HISTOGRAM = len(BOUNDS) + 3
"""Buckets with `+Inf`, count and sum, each a series of its own elsewhere."""
_CUMULATIVE = number(2, 2)
_START = fixed64(2, START_NS)


@dataclass(slots=True)
class _Series:
    attributes: bytes
    rate: float
    value: float = 0.0
    total: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))


@dataclass(slots=True)
class _Resource:
    head: bytes
    memory: _Series
    cpu: list[_Series]
    requests: list[_Series]
    durations: list[_Series]


def app_metrics(steps: int, resources: int = 20, seed: int = 11, histograms: bool = True) -> Corpus:
    """`steps` exports, 15 seconds apart, of every resource."""
    rng = random.Random(seed)
    known = [_resource(rng, index) for index in range(resources)]
    objects: list[bytes] = []
    parts: list[bytes] = []
    for step in range(1, steps + 1):
        parts += [_export(rng, each, START_NS + step * STEP_NS, histograms) for each in known]
        if step % STEPS_PER_OBJECT == 0 or step == steps:
            objects.append(b"".join(parts))
            parts = []
    numbers = steps * resources * 25
    distributions = steps * resources * 5 if histograms else 0
    samples = numbers + distributions * SAMPLES_PER_HISTOGRAM
    return Corpus("application metrics", tuple(objects), numbers + distributions, samples)


def _resource(rng: random.Random, index: int) -> _Resource:
    pairs = {**resource_attributes(index), "service.instance.id": f"instance-{index}"}
    head = message(1, b"".join(key_value(key, value) for key, value in pairs.items()))
    routes = [f"/api/v1/route{number}" for number in range(5)]
    return _Resource(
        head,
        _series(rng, {}, 7, value=4e8),
        [_series(rng, {"cpu": f"cpu{number}"}, 7, value=0.3) for number in range(4)],
        [
            _series(rng, {"http.route": route, "http.response.status_code": code}, 7)
            for route in routes
            for code in ("200", "404", "500", "503")
        ],
        [_series(rng, {"http.route": route}, 9) for route in routes],
    )


def _series(rng: random.Random, pairs: dict[str, str], attribute_field: int, value: float = 0.0) -> _Series:
    attributes = b"".join(key_value(key, text_, attribute_field) for key, text_ in pairs.items())
    return _Series(attributes, rng.expovariate(1 / 30) + 1, value)


def _export(rng: random.Random, resource: _Resource, time_ns: int, histograms: bool) -> bytes:
    time = fixed64(3, time_ns)
    metrics = [
        _metric("process.memory.usage", "By", 5, _gauges(rng, [resource.memory], time, whole=True)),
        _metric("system.cpu.utilization", "1", 5, _gauges(rng, resource.cpu, time, whole=False)),
        _metric("http.server.requests", "{request}", 7, _counters(rng, resource.requests, time)),
    ]
    if histograms:
        metrics.append(_metric("http.server.duration", "ms", 9, _histograms(rng, resource.durations, time)))
    scope = message(1, text(1, "app.meter")) + b"".join(metrics)
    return message(1, resource.head + message(2, scope))


def _metric(name: str, unit: str, kind: int, points: Iterator[bytes]) -> bytes:
    extra = {5: b"", 7: _CUMULATIVE + number(3, 1), 9: _CUMULATIVE}[kind]
    return message(2, text(1, name) + text(3, unit) + message(kind, b"".join(points) + extra))


def _gauges(rng: random.Random, all_series: list[_Series], time: bytes, whole: bool) -> Iterator[bytes]:
    for series in all_series:
        if whole:
            series.value += rng.randrange(-4, 5) * 65536
            value = b"\x31" + struct.pack("<q", int(series.value))
        else:
            series.value = min(1.0, max(0.0, series.value + rng.gauss(0, 0.02)))
            value = double(4, round(series.value, 4))
        yield message(1, time + value + series.attributes)


def _counters(rng: random.Random, all_series: list[_Series], time: bytes) -> Iterator[bytes]:
    for series in all_series:
        series.value += int(rng.expovariate(1 / series.rate))
        value = b"\x31" + struct.pack("<q", int(series.value))
        yield message(1, _START + time + value + series.attributes)


def _histograms(rng: random.Random, all_series: list[_Series], time: bytes) -> Iterator[bytes]:
    bounds = message(7, struct.pack(f"<{len(BOUNDS)}d", *BOUNDS))
    for series in all_series:
        for _ in range(int(rng.expovariate(1 / 8))):
            took = rng.lognormvariate(4, 1)
            series.total += took
            series.counts[sum(took > bound for bound in BOUNDS)] += 1
        counts = message(6, struct.pack(f"<{len(series.counts)}Q", *series.counts))
        values = fixed64(4, sum(series.counts)) + double(5, series.total) + counts + bounds
        yield message(1, _START + time + values + series.attributes)
