"""Random data for random queries: two hours and a half of everything that series can hold.

Counters with resets, gauges with ties and odd numbers, gaps, stale markers, series that come late or end
early, classic histograms, native ones with exponential and own bounds, floats and histograms in one series,
info metrics. No sample lies on a whole second, so none lies on the edge of a window.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.promql.samples import STALE, Sampled, labels_of
from lakerunner_query.histogram.model import CUSTOM, Hint, Histogram, buckets_at, compact
from lakerunner_query.vectors.vector import Labels
from resources.arrays import Doubles, Int64s

BASE_MS = 1_767_225_600_000
SPAN_MS = 9_000_000
INTERVAL_MS = 15_000
JOBS, INSTANCES = ("api", "db", "web"), ("a:1", "b:1")
LES = ("0.1", "0.5", "1", "2.5", "+Inf")
FLOATS = (
    "requests_total", "errors_total", "temp", "level", "up", "odd", "lat_bucket", "lat_sum", "lat_count",
    "target_info", "build_info",
)  # fmt: skip
HISTOGRAMS = ("size", "ghist", "nhcb", "mixed")
ODD = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e300, -1e300, 1e-300, 0.5, -3.0, 2.0, 1e16])


@dataclass(frozen=True, slots=True)
class Data:
    series: tuple[Sampled, ...]

    def largest(self) -> dict[str, float]:
        """By name the greatest finite number, signs aside."""
        found: dict[str, float] = {}
        for one in self.series:
            finite = np.abs(one.value[np.isfinite(one.value)])
            sums = [h.sum for h in one.histograms or () if h is not None and np.isfinite(h.sum)]
            counts = [h.count for h in one.histograms or () if h is not None]
            numbers = [finite.max(initial=0.0), *map(abs, sums), *counts]
            found[one.name] = max(found.get(one.name, 0.0), *numbers)
        return found


def random_data(seed: int) -> Data:
    rng = np.random.default_rng([seed, 1])
    return Data(tuple(one for one in _all(rng) if len(one.time_ms)))


def _all(rng: np.random.Generator) -> Iterator[Sampled]:
    for job, instance in itertools.product(JOBS, INSTANCES):
        for code in ("200", "404", "500"):
            if rng.random() < 0.8:
                yield _floats(
                    rng, labels_of("requests_total", job=job, instance=instance, code=code), _counter
                )
        yield _floats(rng, labels_of("errors_total", job=job, instance=instance), _counter)
        zone = str(rng.choice(["eu", "us"]))
        yield _floats(rng, labels_of("temp", job=job, instance=instance, zone=zone), _walk)
        yield _floats(rng, labels_of("up", job=job, instance=instance), _flag)
        yield from _infos(rng, job, instance)
        yield _native(rng, labels_of("size", job=job, instance=instance), _exponential(rng), False)
    for job in JOBS:
        yield _floats(rng, labels_of("level", job=job), _small)
        yield _floats(rng, labels_of("odd", job=job, weiß="ü"), _odd)
        yield from _classic(rng, job)
        yield _native(rng, labels_of("ghist", job=job), _exponential(rng), False, gauge=True)
        yield _native(rng, labels_of("nhcb", job=job), _custom(rng), False)
        yield _native(rng, labels_of("mixed", job=job), _exponential(rng), True)


def _times(rng: np.random.Generator, interval_ms: int = INTERVAL_MS) -> Int64s:
    """Scrapes with jitter, ends and gaps."""
    count = SPAN_MS // interval_ms
    times = BASE_MS + np.arange(count) * interval_ms + int(rng.integers(0, 15)) * 1000
    times = times + int(rng.integers(20, 900)) + rng.integers(0, 60, count)
    keep = np.ones(count, np.bool_)
    if rng.random() < 0.25:
        keep[: int(rng.integers(1, count // 2))] = False
    if rng.random() < 0.25:
        keep[int(rng.integers(count // 2, count)) :] = False
    for _ in range(int(rng.integers(0, 4))):
        begin = int(rng.integers(0, count))
        keep[begin : begin + int(rng.choice([1, 2, 10, 25, 60]))] = False
    if rng.random() < 0.2:
        keep &= rng.random(count) < 0.5
    return times[keep]


def _staled(rng: np.random.Generator, times: Int64s, value: Doubles) -> Doubles:
    """Stale markers: before gaps, and anywhere."""
    before = np.flatnonzero(np.diff(times) > 2 * INTERVAL_MS)
    value[before[rng.random(len(before)) < 0.5]] = STALE
    if rng.random() < 0.3 and len(times):
        value[rng.integers(0, len(times), 3)] = STALE
    if rng.random() < 0.2 and len(times):
        value[-1] = STALE
    return value


def _floats(
    rng: np.random.Generator, labels: Labels, make: Callable[[np.random.Generator, int], Doubles]
) -> Sampled:
    times = _times(rng)
    return Sampled(labels, times, _staled(rng, times, make(rng, len(times))))


def _counter(rng: np.random.Generator, count: int) -> Doubles:
    steps = rng.poisson(float(rng.choice([0.1, 3, 200])), count).astype(np.float64)
    if rng.random() < 0.3:
        steps *= 0.1
    value = np.cumsum(steps) + float(rng.choice([0, 7, 1e6]))
    for begin in rng.integers(0, max(count, 1), int(rng.integers(0, 5))) if count else ():
        value[begin:] -= value[begin] - float(rng.choice([0, 0, 2]))
    return value


def _walk(rng: np.random.Generator, count: int) -> Doubles:
    return np.asarray(np.round(np.cumsum(rng.normal(0, 2, count)) + rng.normal(0, 20), 2))


def _flag(rng: np.random.Generator, count: int) -> Doubles:
    return (rng.random(count) < 0.9).astype(np.float64)


def _small(rng: np.random.Generator, count: int) -> Doubles:
    return rng.integers(-2, 4, count).astype(np.float64)


def _odd(rng: np.random.Generator, count: int) -> Doubles:
    return rng.choice(ODD, count)


def _infos(rng: np.random.Generator, job: str, instance: str) -> Iterator[Sampled]:
    version = str(rng.choice(["1.0", "1.1", "2.0"]))
    for name in ("target_info", "build_info"):
        labels = labels_of(
            name, job=job, instance=instance, version=version, region=str(rng.choice(["x", "y"]))
        )
        times = _times(rng)
        yield Sampled(labels, times, _staled(rng, times, np.ones(len(times))))


def _classic(rng: np.random.Generator, job: str) -> Iterator[Sampled]:
    times = _times(rng)
    each = np.cumsum(rng.poisson(rng.random(len(LES)) * 4, (len(times), len(LES))), axis=0).astype(np.float64)
    for begin in rng.integers(0, max(len(times), 1), int(rng.integers(0, 3))) if len(times) else ():
        each[begin:] -= each[begin]
    below = np.cumsum(each, axis=1)
    for place, le in enumerate(LES):
        yield Sampled(labels_of("lat_bucket", job=job, le=le), times, below[:, place].copy())
    yield Sampled(labels_of("lat_count", job=job), times, below[:, -1].copy())
    yield Sampled(labels_of("lat_sum", job=job), times, np.round(below[:, -1] * 0.37, 3))


@dataclass(slots=True)
class _Layout:
    schema: int
    first: int
    size: int
    has_negative: bool = False
    bounds: tuple[float, ...] = ()


def _exponential(rng: np.random.Generator) -> Callable[[], _Layout]:
    return lambda: _Layout(
        int(rng.integers(-1, 4)), int(rng.integers(-3, 3)), int(rng.integers(1, 7)), bool(rng.random() < 0.3)
    )


def _custom(rng: np.random.Generator) -> Callable[[], _Layout]:
    def chosen() -> _Layout:
        bounds = ((0.1, 0.5, 1.0, 2.5), (0.1, 1.0, 5.0), (1.0, 2.0))[int(rng.integers(0, 3))]
        return _Layout(CUSTOM, 0, len(bounds) + 1, bounds=bounds)

    return chosen


def _native(
    rng: np.random.Generator, labels: Labels, choose: Callable[[], _Layout], mixed: bool, gauge: bool = False
) -> Sampled:
    times = _times(rng, 3 * INTERVAL_MS)
    found: list[Histogram | None] = []
    value = np.zeros(len(times))
    layout = choose()
    counts = np.zeros((2, 16))
    zero = 0.0
    for place in range(len(times)):
        if rng.random() < 0.01:
            layout, counts, zero = choose(), np.zeros((2, 16)), 0.0
        if rng.random() < 0.01:
            counts, zero = np.zeros((2, 16)), 0.0
        counts += rng.poisson(0.7, counts.shape)
        zero += float(rng.poisson(0.3))
        if mixed and rng.random() < 0.15:
            value[place] = float(rng.integers(0, 50))
            found.append(None)
        else:
            scale = float(rng.random()) if gauge else 1.0
            found.append(compact(_one(layout, counts * scale, zero * scale, gauge)))  # as OTLP's are read
    if found and rng.random() < 0.3:
        place = int(rng.integers(0, len(found)))
        found[place], value[place] = None, STALE
    return Sampled(labels, times, value, tuple(found))


def _one(layout: _Layout, counts: Doubles, zero: float, gauge: bool) -> Histogram:
    hint = Hint.GAUGE if gauge else Hint.UNKNOWN
    positive = buckets_at(layout.first, counts[0, : layout.size])
    if layout.schema == CUSTOM:
        total = float(positive.count.sum())
        return Histogram(
            CUSTOM, total, round(total * 0.7, 3), positive=positive, bounds=layout.bounds, hint=hint
        )
    negative = buckets_at(layout.first, counts[1, : layout.size] if layout.has_negative else [])
    total = float(positive.count.sum() + negative.count.sum() + zero)
    total_sum = round(float(positive.count.sum() - negative.count.sum()) * 1.3, 3)
    return Histogram(layout.schema, total, total_sum, 0.001, zero, positive, negative, hint=hint)
