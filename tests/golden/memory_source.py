"""A source over the series that scripts load, with what Prometheus' store says of counter resets.

    up 1+1x3, step 1 m   ->   four samples at 0, 60000, 120000, 180000 ms

The store keeps counters in chunks without resets: the first histogram of a chunk has no known hint, all
others follow no reset. A chunk ends where a count goes down, the layout changes, a float or a stale marker
comes, or the histogram says so itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lakerunner_query.gotext.regexp import full_matches
from lakerunner_query.histogram.growth import detect_reset
from lakerunner_query.histogram.model import Hint, Histogram
from lakerunner_query.promql.context import SourceAnswer
from lakerunner_query.promql.series_notation import Value
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import Labels, Series
from lakerunner_query.windows.functions import STALE_BITS, Function
from lakerunner_query.windows.grid import Grid
from tests.golden.custom_buckets import with_custom_buckets
from tests.golden.promqltest_script import Load

STALE = float(np.uint64(STALE_BITS).view(np.float64))


@dataclass(frozen=True, slots=True)
class Sample:
    time_ms: int
    number: float
    histogram: Histogram | None = None
    start_ms: int = 0


class OutOfOrderError(ValueError):
    """A series was loaded again for a time that it already has."""


@dataclass(slots=True)
class MemorySource:
    series: dict[Labels, list[Sample]] = field(default_factory=dict)

    def clear(self) -> None:
        self.series.clear()

    def load(self, load: Load) -> None:
        for one in load.series:
            starts = load.starts.get(one.labels)
            offsets = starts.offsets_ms if starts else ()
            self._append(one.labels, _samples(one.values, load, offsets))
        if load.with_custom_buckets:
            classic = [
                (
                    one.labels,
                    [(i * load.step_ms, v.number) for i, v in enumerate(one.values) if v.number is not None],
                )
                for one in load.series
            ]
            for labels, histograms in with_custom_buckets(classic).items():
                self._append(labels, [Sample(time_ms, 0.0, histogram) for time_ms, histogram in histograms])

    def _append(self, labels: Labels, samples: list[Sample]) -> None:
        known = self.series.setdefault(labels, [])
        if known and samples and samples[0].time_ms <= known[-1].time_ms:
            raise OutOfOrderError(f"{labels}: {samples[0].time_ms} ms is not after {known[-1].time_ms} ms")
        known += samples

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        labels: list[Labels] = []
        offsets, picked = [0], []
        for one in sorted(self.series):
            if not all(matches(matcher, dict(one).get(matcher.name, "")) for matcher in matchers):
                continue
            inside = [sample for sample in hinted(self.series[one]) if from_ms < sample.time_ms <= to_ms]
            if inside:
                labels.append(one)
                picked += inside
                offsets.append(len(picked))
        return _series(labels, offsets, picked)

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        return None


def _samples(values: Sequence[Value], load: Load, offsets: tuple[int | None, ...]) -> list[Sample]:
    found = []
    for i, value in enumerate(values):
        if value.is_nothing:
            continue
        time_ms = i * load.step_ms
        if offsets:
            offset = offsets[i]
        else:
            offset = load.default_starts[i % len(load.default_starts)] if load.default_starts else None
        number = STALE if value.is_stale else value.number or 0.0
        start_ms = 0 if offset is None else time_ms + offset
        found.append(Sample(time_ms, number, value.histogram, start_ms))
    return found


def hinted(samples: Sequence[Sample]) -> list[Sample]:
    """With the hints that reading them back from chunks gives."""
    found: list[Sample] = []
    previous: Histogram | None = None
    for sample in samples:
        if sample.histogram is None:
            found.append(sample)
            previous = None
            continue
        is_gauge = sample.histogram.hint == Hint.GAUGE
        bare = sample.histogram.with_hint(Hint.UNKNOWN)
        goes_on = (
            previous is not None
            and sample.histogram.hint != Hint.RESET
            and not is_gauge
            and _same_layout(bare, previous)
            and not detect_reset(bare, previous)
        )
        hint = Hint.GAUGE if is_gauge else Hint.NO_RESET if goes_on else Hint.UNKNOWN
        found.append(Sample(sample.time_ms, sample.number, sample.histogram.with_hint(hint), sample.start_ms))
        previous = None if is_gauge else bare
    return found


def _same_layout(one: Histogram, other: Histogram) -> bool:
    return (one.schema, one.zero_threshold, one.bounds) == (other.schema, other.zero_threshold, other.bounds)


def matches(matcher: Matcher, value: str) -> bool:
    if matcher.op.is_regex:
        found = full_matches(matcher.value, [value])[0]
        return found != (matcher.op == MatchOp.NOT_REGEX)
    return (value == matcher.value) != (matcher.op == MatchOp.NOT_EQUAL)


def _series(labels: list[Labels], offsets: list[int], picked: list[Sample]) -> Series:
    histograms = None
    if any(sample.histogram is not None for sample in picked):
        histograms = np.empty(len(picked), np.object_)
        histograms[:] = [sample.histogram for sample in picked]
    return Series(
        labels,
        np.array(offsets, np.int64),
        np.array([sample.time_ms for sample in picked], np.int64),
        np.array([sample.number for sample in picked], np.float64),
        histograms,
        start_ms=np.array([sample.start_ms for sample in picked], np.int64),
    )
