"""Arguments and results of range functions: samples, the windows over them, and series with histograms.

Series of floats alone, which are all that most queries meet, go to kernels as they are. A series with
histograms is computed on its own (`MixedSeries`), beside the kernels that see its floats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt

from lakerunner_query.histogram.batch_windows import Dense, dense_of
from lakerunner_query.promql.context import Context, SelectorWindow
from lakerunner_query.promql.functions.messages import ArgumentAnnotations, name_of
from lakerunner_query.promql.lang.ast import NOWHERE, Call, Matrix, Reach, Subquery
from lakerunner_query.promql.selectors import check_size, strip_parens
from lakerunner_query.vectors.labels import SharedLabels
from lakerunner_query.vectors.rows import drop_empty_rows
from lakerunner_query.vectors.vector import Labels, Objects, Series, Vector
from lakerunner_query.windows.functions import Function, Windows
from lakerunner_query.windows.grid import WindowValues
from lakerunner_query.windows.samples import Samples, over_samples
from resources.arrays import Doubles, Flags, Int64s


def without_names(
    labels: list[Labels], values: Doubles, present: Flags, histograms: Objects | None = None
) -> Vector:
    """Build a vector whose metric names are dropped when all steps are together."""
    return drop_empty_rows(Vector(labels, values, present, histograms, np.ones(len(labels), np.bool_)))


def histogram_flags(objects: Objects) -> Flags:
    found: Flags = objects.astype(np.bool_)  # only None is false
    return found


def single_series(values: Doubles) -> Vector:
    """Build a vector of one series without labels."""
    return Vector([()], values.reshape(1, -1).astype(np.float64), np.ones((1, len(values)), np.bool_))


def source_vector(
    context: Context, call: Call, function: Function, *, keeps_name: bool = False
) -> Vector | None:
    """Ask the source to compute the windows from rollups; None if samples have to be read."""
    argument = strip_parens(call.arguments[0])
    if not isinstance(argument, Matrix) or context.options.start_timestamps:
        return None
    window = context.window(argument)
    if window.reach != Reach.PLAIN:
        return None
    found = context.source.over_windows(function, argument.selector.matchers, window.grid)
    if found is None:
        return None
    drop_name = None if keeps_name else np.ones(len(found.labels), np.bool_)
    vector = drop_empty_rows(
        Vector(found.labels, found.windows.values, found.windows.present, None, drop_name)
    )
    return context.spread(vector) if window.is_fixed else vector


def vector_of(context: Context, call: Call, index: int = 0) -> Vector:
    return context.vector(call.arguments[index])


def scalar_of(context: Context, call: Call, index: int) -> Doubles:
    """Return a scalar argument by step."""
    return context.scalar(call.arguments[index]).values


def texts_of(context: Context, call: Call, begin: int) -> tuple[str, ...]:
    return tuple(context.text(argument) for argument in call.arguments[begin:])


def notes_at(context: Context, call: Call, index: int) -> ArgumentAnnotations:
    """Place annotations at an argument; those of a subquery stand at (1:1), as in Prometheus."""
    argument = strip_parens(call.arguments[index])
    return ArgumentAnnotations(
        context.annotations, NOWHERE if isinstance(argument, Subquery) else argument.span
    )


Rows = npt.NDArray[np.intp]
DENSE = "dense"


@dataclass(frozen=True)
class MixedSeries:
    """The samples of one series that holds histograms, with the bounds of each window."""

    row: int
    name: str
    times: Int64s
    values: Doubles
    histograms: Objects
    starts: Int64s
    """Start times by sample; zeros if the query ignores them."""
    is_delta: Flags
    low: Int64s
    """First sample of the window, by step."""
    high: Int64s
    cache: dict[str, object] | None = None
    """Results that earlier queries derived from the same samples."""

    @cached_property
    def is_histogram(self) -> Flags:
        return histogram_flags(self.histograms)

    @cached_property
    def dense(self) -> Dense | None:
        """Matrix of the buckets, if all samples are histograms of one layout."""
        if self.cache is None:
            return self._dense()
        if DENSE not in self.cache:
            self.cache[DENSE] = self._dense()
        return cast("Dense | None", self.cache[DENSE])

    def _dense(self) -> Dense | None:
        return dense_of(self.histograms) if bool(self.is_histogram.all()) else None

    @cached_property
    def has_floats(self) -> Flags:
        return self._count(~self.is_histogram) > 0

    @cached_property
    def has_histograms(self) -> Flags:
        return self._count(self.is_histogram) > 0

    def window_slice(self, step: int) -> slice:
        return slice(int(self.low[step]), int(self.high[step]))

    def count_events(self, events: Flags) -> Doubles:
        """Count the flagged samples of each window, without its first sample."""
        sums = np.concatenate(([0], np.cumsum(events)))
        first = np.minimum(self.low + 1, self.high)
        return (sums[self.high] - sums[first]).astype(np.float64)

    def anchor(self, windows: Windows) -> MixedSeries:
        """Begin each window at the newest sample up to its edge; empty without a later sample."""
        since = windows.first_end + windows.step * np.arange(windows.steps) - windows.range
        after = np.searchsorted(self.times, since, "right").astype(np.int64)
        low = np.where(after < self.high, np.maximum(after - 1, self.low), self.high)
        return replace(self, low=low)

    def _count(self, marked: Flags) -> Int64s:
        sums = np.concatenate(([0], np.cumsum(marked))).astype(np.int64)
        return sums[self.high] - sums[self.low]


@dataclass(frozen=True)
class RangeVector:
    context: Context
    window: SelectorWindow
    series: Series
    """Samples without stale markers."""
    notes: ArgumentAnnotations

    @property
    def windows(self) -> Windows:
        return self.window.grid.windows

    @property
    def windows_by_step(self) -> Windows:
        """Windows for every step, repeated if fixed, for functions that depend on the step."""
        windows = self.windows
        if not self.window.is_fixed:
            return windows
        return Windows(windows.first_end, 0, self.context.steps.count, windows.range)

    @cached_property
    def is_histogram(self) -> Flags | None:
        """Flags by sample; None if there are no histograms."""
        if self.series.histograms is None:
            return None
        found = histogram_flags(self.series.histograms)
        return found if found.any() else None

    @cached_property
    def codes(self) -> Rows:
        counts = np.diff(self.series.offsets)
        return np.repeat(np.arange(self.series.count), counts)

    @cached_property
    def floats(self) -> Samples:
        """Samples that are floats."""
        series = self.series
        if self.is_histogram is None:
            return Samples(series.offsets, series.time_ms, series.value, series.is_delta, are_real=True)
        keep = ~self.is_histogram
        before = np.concatenate(([0], np.cumsum(keep)))
        is_delta = None if series.is_delta is None else series.is_delta[keep]
        return Samples(
            before[series.offsets], series.time_ms[keep], series.value[keep], is_delta, are_real=True
        )

    @cached_property
    def float_starts(self) -> Int64s:
        """Start times by float."""
        starts = self._starts
        return starts if self.is_histogram is None else starts[~self.is_histogram]

    @property
    def uses_start_times(self) -> bool:
        return self.context.options.start_timestamps and self.series.start_ms is not None

    @cached_property
    def _starts(self) -> Int64s:
        if self.series.start_ms is None or not self.uses_start_times:
            return np.zeros(len(self.series.time_ms), np.int64)
        return self.series.start_ms

    def _are_deltas(self, begin: int, end: int) -> Flags:
        if self.series.is_delta is None:
            return np.zeros(end - begin, np.bool_)
        return self.series.is_delta[begin:end]

    def over_all_samples(self, function: Function, answers: Doubles) -> WindowValues:
        """Compute a function of positions, not of values, over floats and histograms."""
        samples = Samples(self.series.offsets, self.series.time_ms, answers)
        return over_samples(function, samples, self.window.grid)

    def name(self, row: int) -> str:
        return name_of(self.series.labels[row])

    def mixed_series(self) -> Iterator[MixedSeries]:
        """Iterate over the series that hold histograms."""
        if self.is_histogram is None or self.series.histograms is None:
            return
        ends = self.windows.first_end + self.windows.step * np.arange(self.windows.steps)
        for row in np.unique(self.codes[self.is_histogram]).tolist():
            begin, end = self.series.offsets[row : row + 2].tolist()
            times = self.series.time_ms[begin:end]
            low, high = self._places(times, ends)
            yield MixedSeries(
                row,
                self.name(row),
                times,
                self.series.value[begin:end],
                self.series.histograms[begin:end],
                self._starts[begin:end],
                self._are_deltas(begin, end),
                low,
                high,
                self._cache_of(row),
            )

    def _cache_of(self, row: int) -> dict[str, object] | None:
        labels = self.series.labels
        if not isinstance(labels, SharedLabels):
            return None
        return labels.by_row.setdefault((row, self.context.hints), {})

    def _places(self, times: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
        """Return the bounds of each window in the samples, including what it needs beyond its edges."""
        since = ends - self.windows.range
        if self.window.reach != Reach.PLAIN:
            since = since - self.context.options.lookback_ms
        if self.window.reach == Reach.SMOOTHED:
            ends = ends + self.context.options.lookback_ms
        return (
            np.searchsorted(times, since, "right").astype(np.int64),
            np.searchsorted(times, ends, "right").astype(np.int64),
        )

    def to_vector(
        self,
        values: Doubles,
        present: Flags,
        histograms: Objects | None = None,
        *,
        keeps_name: bool = False,
    ) -> Vector:
        """Build a vector of one row per series, without the series that are empty."""
        drop_name = self.series.drop_name if keeps_name else np.ones(self.series.count, np.bool_)
        if histograms is not None and not (histogram_flags(histograms) & present).any():
            histograms = None
        vector = drop_empty_rows(Vector(self.series.labels, values, present, histograms, drop_name))
        is_by_step = values.shape[1] == self.context.steps.count
        return self.context.spread(vector) if self.window.is_fixed and not is_by_step else vector


def range_vector(context: Context, call: Call, index: int = 0) -> RangeVector:
    """Evaluate the range vector of a call; annotations are placed at its first argument."""
    argument = strip_parens(call.arguments[index])
    window, samples = context.window(argument), context.samples(argument)
    check_size(context, samples.count * window.grid.steps)
    return RangeVector(context, window, samples, notes_at(context, call, 0))
