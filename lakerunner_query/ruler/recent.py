"""Samples that rules of a group made lately answer later rules before the lake does.

    record: a    expr: sum(b)        written into the lake minutes later, by `recorded/metrics`
    alert: C     expr: a > 1         sees `a` of this very evaluation

`ALERTS` and `ALERTS_FOR_STATE` of the group are among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.promql.context import SourceAnswer
from lakerunner_query.rules.evaluation import RecordedSample
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.labels import matches, value_of
from lakerunner_query.vectors.vector import NAME, Labels, Series
from lakerunner_query.windows.functions import STALE_BITS, Function
from lakerunner_query.windows.grid import Grid

STALE = float(np.uint64(STALE_BITS).view(np.float64))
KEEP_MS = 3_600_000
"""Time for which samples are kept: rules look back that far without the lake."""
MOST_SAMPLES = 1_000_000
Interval = tuple[tuple[Matcher, ...], int, int]
"""Matchers, and the interval `(from_ms, to_ms]` of samples."""


@dataclass(slots=True)
class RecentSamples:
    """Samples of one group by series; a marker ends a series."""

    series: dict[Labels, dict[int, float]] = field(default_factory=dict)
    _histograms: set[Labels] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)

    def add(self, samples: Iterable[RecordedSample]) -> None:
        """Take in samples; those of the same time replace each other."""
        for sample in samples:
            if isinstance(sample.value, Histogram):
                self._histograms.add(sample.labels)
            value = sample.value if isinstance(sample.value, float) else STALE
            self.series.setdefault(sample.labels, {})[sample.at_ms] = value
            self._names.add(value_of(sample.labels, NAME))

    def forget(self, before_ms: int) -> None:
        """Drop what is too old, and the oldest of what is too much."""
        for labels, samples in list(self.series.items()):
            for at_ms in [one for one in samples if one <= before_ms]:
                del samples[at_ms]
            if not samples:
                del self.series[labels]
                self._histograms.discard(labels)
        self._names = {value_of(labels, NAME) for labels in self.series}
        total = sum(map(len, self.series.values()))
        while total > MOST_SAMPLES:
            longest = max(self.series.values(), key=len)
            for at_ms in sorted(longest)[: max(1, len(longest) // 2)]:
                del longest[at_ms]
                total -= 1

    def touches(self, matchers: Sequence[Matcher]) -> bool:
        """Tell whether a selector may select series of this group."""
        found = self.select(matchers)
        if any(labels in self._histograms for labels in found):
            name = value_of(found[0], NAME)
            raise EvaluationError(f"{name} is a native histogram that a rule of the same group records")
        return bool(found)

    def select(self, matchers: Sequence[Matcher]) -> list[Labels]:
        """Return the series that match; nearly all selectors name metrics that are not among them."""
        names = {one.value for one in matchers if one.name == NAME and one.op is MatchOp.EQUAL}
        if not names <= self._names:
            return []
        return [labels for labels in self.series if _is_selected(labels, matchers)]


@dataclass(slots=True)
class MixedSource:
    """Recent samples of a group over those of the lake that were fetched before."""

    recent: RecentSamples
    lake: Mapping[Interval, Mapping[Labels, Mapping[int, float]]]

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        """Return samples of both; of the same time those of the group count."""
        found: dict[Labels, dict[int, float]] = {}
        for (selector, first_ms, last_ms), series in self.lake.items():
            if selector == tuple(matchers) and first_ms <= from_ms and to_ms <= last_ms:
                found = {labels: dict(samples) for labels, samples in series.items()}
        for labels in self.recent.select(matchers):
            found.setdefault(labels, {}).update(self.recent.series[labels])
        inside = {
            labels: sorted(one for one in samples.items() if from_ms < one[0] <= to_ms)
            for labels, samples in sorted(found.items())
        }
        return _series({labels: samples for labels, samples in inside.items() if samples})

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        """Leave windows to the evaluation: there are few samples."""
        del function, matchers, grid
        return None


def _series(found: Mapping[Labels, Sequence[tuple[int, float]]]) -> Series:
    offsets = np.cumsum([0, *map(len, found.values())]).astype(np.int64)
    samples = [one for each in found.values() for one in each]
    times = np.array([at_ms for at_ms, _ in samples], np.int64)
    return Series(list(found), offsets, times, np.array([value for _, value in samples], np.float64))


def _is_selected(labels: Labels, matchers: Sequence[Matcher]) -> bool:
    return all(bool(matches(one, [value_of(labels, one.name)])[0]) for one in matchers)
