"""Samples in memory are a source for PromQL, as Prometheus' store would hold them.

    source.append((("__name__", "up"), ("job", "a")), 60_000, 1.0)
    source.select([up], 0, 60_000)      one series, one sample

The store keeps counters in chunks without resets: the first histogram of a chunk has no known hint, all
others follow no reset. A chunk ends where a count goes down, the layout changes, a float or a stale marker
comes, or the histogram says so itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import pack

import numpy as np

from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.gotext.regexp import full_matches
from lakerunner_query.histogram.growth import detect_reset
from lakerunner_query.histogram.model import Hint, Histogram
from lakerunner_query.promql.context import SourceAnswer
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import NAME, Labels, Objects, Series
from lakerunner_query.windows.functions import STALE_BITS, Function
from lakerunner_query.windows.grid import Grid

STALE = float(np.uint64(STALE_BITS).view(np.float64))


@dataclass(slots=True)
class _StoredSeries:
    """The samples of one series, times ascending."""

    labels: dict[str, str]
    times_ms: list[int] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    histograms: dict[int, Histogram] = field(default_factory=dict)
    """Histograms by position."""
    last: Histogram | None = None
    """Last histogram without its hint; None where a chunk must begin."""

    def append(self, at_ms: int, value: float | Histogram | None) -> str:
        """Add a sample, a stale marker for None; one that is not later than the last is left out."""
        if self.times_ms and at_ms <= self.times_ms[-1]:
            return self._refusal(at_ms, value)
        if isinstance(value, Histogram):
            if refusal := _negative(value):
                return refusal
            self.histograms[len(self.times_ms)] = self._with_hint(value)
        else:
            self.last = None
        self.times_ms.append(at_ms)
        self.numbers.append(STALE if value is None else 0.0 if isinstance(value, Histogram) else value)
        return ""

    def _refusal(self, at_ms: int, value: float | Histogram | None) -> str:
        """Tell why a sample is left out; the very same sample as the last needs no reason."""
        if at_ms < self.times_ms[-1]:
            return "out of order sample"
        known = self.histograms.get(len(self.times_ms) - 1)
        if isinstance(value, Histogram):
            is_same = known is not None and known.with_hint(value.hint) == value
            return "" if is_same else "duplicate sample for timestamp"
        number = STALE if value is None else value
        if known is None and pack("d", self.numbers[-1]) == pack("d", number):
            return ""
        shown = "is a histogram" if known is not None else format_float(self.numbers[-1])
        return (
            f"duplicate sample for timestamp {at_ms}; overrides not allowed: existing {shown}, "
            f"new value {format_float(number)}"
        )

    def _with_hint(self, histogram: Histogram) -> Histogram:
        if histogram.hint == Hint.GAUGE:
            self.last = None
            return histogram
        bare, before = histogram.with_hint(Hint.UNKNOWN), self.last
        self.last = bare
        goes_on = (
            before is not None
            and histogram.hint != Hint.RESET
            and _layout(bare) == _layout(before)
            and not detect_reset(bare, before)
        )
        return bare.with_hint(Hint.NO_RESET) if goes_on else bare


def _negative(histogram: Histogram) -> str:
    """Tell which count is below zero, as differences of histograms have them; stores refuse those."""
    if histogram.count < 0:
        return (
            f"observation count is {format_float(histogram.count)}: histogram's observation count is negative"
        )
    sides = (histogram.positive.count, histogram.negative.count, np.array([histogram.zero_count]))
    least = min((float(counts.min()) for counts in sides if counts.size), default=0.0)
    if least < 0:
        return (
            f"a bucket has observation count of {format_float(least)}: "
            "histogram has a bucket whose observation count is negative"
        )
    return ""


def _layout(histogram: Histogram) -> tuple[object, ...]:
    return histogram.schema, histogram.zero_threshold, histogram.bounds


@dataclass(slots=True)
class MemorySource:
    """All series of a store, found by their metric names."""

    series: dict[Labels, _StoredSeries] = field(default_factory=dict)
    _by_name: dict[str, list[Labels]] = field(default_factory=dict)
    _found: dict[tuple[Matcher, ...], list[Labels]] = field(default_factory=dict)
    """Series by matchers; forgotten when there is a new one."""

    def append(self, labels: Labels, at_ms: int, value: float | Histogram | None) -> str:
        """Add a sample, a stale marker for None; return Prometheus' reason if it cannot be stored."""
        known = self.series.get(labels)
        if known is None:
            known = self.series[labels] = _StoredSeries(dict(labels))
            self._by_name.setdefault(known.labels.get(NAME, ""), []).append(labels)
            self._found.clear()
        return known.append(at_ms, value)

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        labels: list[Labels] = []
        offsets = [0]
        times: list[int] = []
        numbers: list[float] = []
        histograms: dict[int, Histogram] = {}
        for one in self._matching(tuple(matchers)):
            stored = self.series[one]
            first, end = bisect_right(stored.times_ms, from_ms), bisect_right(stored.times_ms, to_ms)
            if first == end:
                continue
            for place in range(first, end) if stored.histograms else ():
                if place in stored.histograms:
                    histograms[len(times) + place - first] = stored.histograms[place]
            labels.append(one)
            times += stored.times_ms[first:end]
            numbers += stored.numbers[first:end]
            offsets.append(len(times))
        return Series(
            labels,
            np.array(offsets, np.int64),
            np.array(times, np.int64),
            np.array(numbers, np.float64),
            _cells(histograms, len(times)),
        )

    def over_windows(
        self,
        function: Function,  # noqa: ARG002 (functions are computed over the samples)
        matchers: Sequence[Matcher],  # noqa: ARG002
        grid: Grid,  # noqa: ARG002
    ) -> SourceAnswer | None:
        return None

    def _matching(self, matchers: tuple[Matcher, ...]) -> list[Labels]:
        """Return the series that match, in the order of their labels."""
        found = self._found.get(matchers)
        if found is None:
            name = next((one for one in matchers if one.name == NAME and one.op == MatchOp.EQUAL), None)
            known = list(self.series) if name is None else self._by_name.get(name.value, [])
            found = sorted(known)
            for matcher in matchers:
                found = _keep(matcher, found, self.series)
            self._found[matchers] = found
        return found


def _keep(matcher: Matcher, candidates: list[Labels], series: dict[Labels, _StoredSeries]) -> list[Labels]:
    if not candidates:
        return candidates
    values = [series[labels].labels.get(matcher.name, "") for labels in candidates]
    if matcher.op.is_regex:
        hits = full_matches(matcher.value, values)
        wanted = matcher.op != MatchOp.NOT_REGEX
    else:
        hits = [value == matcher.value for value in values]
        wanted = matcher.op != MatchOp.NOT_EQUAL
    return [labels for labels, hit in zip(candidates, hits, strict=True) if hit == wanted]


def _cells(histograms: dict[int, Histogram], count: int) -> Objects | None:
    if not histograms:
        return None
    cells = np.empty(count, np.object_)
    for place, histogram in histograms.items():
        cells[place] = histogram
    return cells
