"""What is measured on: counters of many hosts, a histogram of each kind; seeded, made hour by hour.

Samples come every 15 s, each series at a moment of its own within it and never on a whole second, so that
window edges never meet samples and all sides see the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.promql.samples import Sampled, labels_of
from lakerunner_query.histogram.model import Histogram, buckets_at
from lakerunner_query.vectors.vector import Labels
from resources.arrays import Doubles, Int64s

HOUR_MS, DAY_MS, INTERVAL_MS = 3_600_000, 86_400_000, 15_000
END_MS = 1_767_225_600_000
"""The last moment of the data: 2026-01-01T00:00:00Z."""
STEPS = HOUR_MS // INTERVAL_MS
LES = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf")
JOBS = 20
NATIVE_BUCKETS = 24


@dataclass(frozen=True, slots=True)
class Scale:
    """How many series, and for how long."""

    hosts: int
    hours: int
    classic_hosts: int
    native_hosts: int
    many: int
    """Series of a further counter, in the last `many_hours` only."""
    many_hours: int

    @property
    def start_ms(self) -> int:
        return END_MS - self.hours * HOUR_MS


@dataclass(frozen=True, slots=True)
class Floats:
    """Counters with the same scrape times but for their lateness: (series, steps)."""

    labels: tuple[Labels, ...]
    time_ms: Int64s
    value: Doubles

    def sampled(self) -> Iterator[Sampled]:
        for row, labels in enumerate(self.labels):
            yield Sampled(labels, self.time_ms[row], self.value[row])


@dataclass(frozen=True, slots=True)
class Hour:
    """`(start_ms, start_ms + 1 h]`."""

    start_ms: int
    floats: tuple[Floats, ...]
    native: tuple[Sampled, ...]
    many: tuple[Floats, ...]

    def series(self) -> Iterator[Sampled]:
        for one in (*self.floats, *self.many):
            yield from one.sampled()
        yield from self.native


class Corpus:
    """Iterated from the first hour on; the counters go on from hour to hour."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self._requests = _Counters([_host("http_requests_total", n) for n in range(scale.hosts)], 30.0, 1)
        self._errors = _Counters([_host("http_errors_total", n) for n in range(scale.hosts // 4)], 1.0, 2)
        self._classic = _Classic(scale.classic_hosts, 3)
        self._native = _Native(scale.native_hosts, 4)
        self._many = _Counters([_host("rpc_requests_total", n) for n in range(scale.many)], 30.0, 5)

    def hours(self) -> Iterator[Hour]:
        for number in range(self.scale.hours):
            start = self.scale.start_ms + number * HOUR_MS
            floats = [self._requests.hour(start), self._errors.hour(start)]
            native: tuple[Sampled, ...] = ()
            if END_MS - start <= DAY_MS:
                floats.append(self._classic.hour(start))
                native = self._native.hour(start)
            wants_many = self.scale.many and END_MS - start <= self.scale.many_hours * HOUR_MS
            many = (self._many.hour(start),) if wants_many else ()
            yield Hour(start, tuple(floats), native, many)


class _Counters:
    def __init__(self, labels: list[Labels], rate: float, seed: int) -> None:
        self._labels, self._rate = tuple(labels), rate
        self._rng = np.random.default_rng(seed)
        self._late = self._rng.integers(1, INTERVAL_MS // 1000, len(labels)) * 1000 - 500
        self._at = self._rng.integers(0, 10**7, len(labels)).astype(np.float64)

    def hour(self, start_ms: int) -> Floats:
        grown = self._rng.poisson(self._rate, (len(self._labels), STEPS)).astype(np.float64)
        value = np.cumsum(grown, axis=1) + self._at[:, None]
        for row in np.flatnonzero(self._rng.random(len(self._labels)) < 0.005):  # restarts
            begin = int(self._rng.integers(1, STEPS))
            value[row, begin:] -= value[row, begin]
        self._at = value[:, -1].copy()
        return Floats(self._labels, _times(start_ms, self._late), value)


class _Classic:
    def __init__(self, hosts: int, seed: int) -> None:
        self._labels = tuple(
            labels_of("latency_seconds_bucket", job=f"job-{n % JOBS}", instance=f"host-{n}", le=le)
            for n in range(hosts)
            for le in LES
        )
        self._rng = np.random.default_rng(seed)
        self._late = np.repeat(self._rng.integers(1, INTERVAL_MS // 1000, hosts) * 1000 - 500, len(LES))
        self._at = np.zeros((hosts, len(LES)))

    def hour(self, start_ms: int) -> Floats:
        hosts = len(self._at)
        grown = self._rng.poisson(3.0, (hosts, len(LES), STEPS)).astype(np.float64)
        each = np.cumsum(grown, axis=2) + self._at[:, :, None]
        self._at = each[:, :, -1].copy()
        below = np.cumsum(each, axis=1).reshape(hosts * len(LES), STEPS)
        return Floats(self._labels, _times(start_ms, self._late), below)


class _Native:
    def __init__(self, hosts: int, seed: int) -> None:
        self._labels = [
            labels_of("latency_native", job=f"job-{n % JOBS}", instance=f"host-{n}") for n in range(hosts)
        ]
        self._rng = np.random.default_rng(seed)
        self._late = self._rng.integers(1, INTERVAL_MS // 1000, hosts) * 1000 - 500
        self._at = np.ones((hosts, NATIVE_BUCKETS))

    def hour(self, start_ms: int) -> tuple[Sampled, ...]:
        times = _times(start_ms, self._late)
        found = []
        for row, labels in enumerate(self._labels):
            counts = np.cumsum(self._rng.poisson(1.5, (STEPS, NATIVE_BUCKETS)), axis=0) + self._at[row]
            self._at[row] = counts[-1]
            totals = counts.sum(axis=1)
            histograms = tuple(
                Histogram(2, float(total), float(total) * 0.25, 1e-6, 0.0, buckets_at(-18, counts[step]))
                for step, total in enumerate(totals.tolist())
            )
            found.append(Sampled(labels, times[row], np.zeros(STEPS), histograms))
        return tuple(found)


def _host(name: str, number: int) -> Labels:
    return labels_of(
        name, job=f"job-{number % JOBS}", instance=f"host-{number}", path=f"/p{number % 7}", region="eu"
    )


def _times(start_ms: int, late: Int64s) -> Int64s:
    found: Int64s = start_ms + np.arange(STEPS) * INTERVAL_MS + late[:, None]
    return found
