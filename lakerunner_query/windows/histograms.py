"""Functions of histograms, from samples and from rollup rows.

    increase over (0, 60 s], explicit bounds 0.1 and 0.5:

    0:15 [1, 2, 2], 0:45 [3, 6, 7]  ->  [2, 4, 5] over 30 s, drawn out to the edges as far as zero allows

Rows of a histogram with explicit buckets also stand for the classic series `_bucket{le}`, `_count` and
`_sum`: `classic.py` makes float rows of them. Where layouts change, `needs_samples` is true from samples as
well: then only the full arithmetic of native histograms answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_query.windows.edges import ABSENT, PRESENT, UNSURE
from lakerunner_query.windows.functions import Doubles, Flags, Function, Grid, Int8s, Int64s
from lakerunner_query.windows.histogram_kernels import (
    BUCKETS,
    COUNT,
    SUM,
    ZEROS,
    HistogramRuns,
    Shape,
    histogram_windows,
    measure,
)
from lakerunner_query.windows.histogram_pool import Pool, pool_of
from lakerunner_query.windows.newest import newest
from lakerunner_query.windows.offsets import offsets_of
from lakerunner_query.windows.samples import windows_of

OF_HISTOGRAMS = frozenset(
    {
        Function.INSTANT, Function.FIRST, Function.LAST, Function.SUM, Function.AVG, Function.RATE,
        Function.INCREASE, Function.DELTA,
    }
)  # fmt: skip
"""The functions that give a histogram."""


@dataclass(frozen=True)
class HistogramRows:
    """Rows by series and time: rollup rows, or samples with `first`, `last` and `total` the same."""

    series: npt.NDArray[np.integer]
    end_ms: Int64s
    width_ms: Int64s
    first: pa.StructArray
    last: pa.StructArray
    total: pa.StructArray
    first_ts: Int64s
    last_ts: Int64s
    last_stale: Flags
    counts: Int64s
    """Histograms in the row."""
    resets: Int64s
    unclear: Flags
    """Mixed, or floats beside them."""
    kind: Int8s
    count: int
    """How many series there are."""

    @property
    def _are_samples(self) -> bool:
        return self.first is self.last and self.total is self.last

    @cached_property
    def pool(self) -> Pool:
        if self._are_samples:
            return pool_of(pa.concat_arrays([self.last]))
        return pool_of(pa.concat_arrays([self.first, self.last, self.total]))

    def runs(self) -> HistogramRuns:
        keep = np.flatnonzero((self.counts > 0) | self.unclear)
        parts = 0 if self._are_samples else len(self.last)
        return HistogramRuns(
            offsets_of(self.series[keep], self.end_ms[keep], self.count),
            self.end_ms[keep],
            keep,
            keep + parts,
            keep + 2 * parts,
            self.first_ts[keep],
            self.last_ts[keep],
            self.counts[keep],
            self.resets[keep],
            self.unclear[keep],
            self.kind[keep],
        )


@dataclass(frozen=True, slots=True)
class Numbers:
    """One histogram of an answer; `layout` is a place in the pool that has its schema and bounds."""

    count: float
    sum: float
    zeros: float
    positive_low: int
    positive: Doubles
    negative_low: int
    negative: Doubles
    layout: int


@dataclass(frozen=True, slots=True)
class HistogramValues:
    """Histograms by series and window."""

    present: Flags
    needs_samples: Flags
    numbers: Doubles
    """Of all series, windows and buckets end to end."""
    shape: Shape
    layouts: Int64s

    def at(self, series: int, step: int) -> Numbers:
        """The histogram of one window."""
        positives, negatives = self.shape.size[:, series].tolist()
        begin = int(self.shape.offsets[series]) + step * (BUCKETS + positives + negatives)
        found = self.numbers[begin : begin + BUCKETS + positives + negatives]
        return Numbers(
            float(found[COUNT]),
            float(found[SUM]),
            float(found[ZEROS]),
            int(self.shape.low[0, series]),
            found[BUCKETS : BUCKETS + positives],
            int(self.shape.low[1, series]),
            found[BUCKETS + positives :],
            int(self.layouts[series, step]),
        )


def over_histograms(function: Function, rows: HistogramRows, grid: Grid) -> HistogramValues:
    """The function over every window of every series; windows must be unions of the rows' buckets."""
    if function not in OF_HISTOGRAMS:
        raise ValueError(
            f"{function.name.lower()} of histograms gives none: ask for counts and times instead"
        )
    is_selector = function == Function.INSTANT
    for width in np.unique(rows.width_ms).tolist():
        if not grid.is_cut_by(width, look_back=is_selector):
            raise ValueError(f"histograms in buckets of {width} ms: {grid} cuts through them")
    runs = rows.runs()
    low, size = np.zeros((2, rows.count), np.int64), np.zeros((2, rows.count), np.int64)
    measure(rows.pool, runs, low, size)
    ends = np.cumsum((BUCKETS + size.sum(axis=0)) * grid.steps)
    shape = Shape(low, size, np.concatenate(([0], ends)).astype(np.int64))
    numbers = np.zeros(int(shape.offsets[-1]))
    states = np.zeros((rows.count, grid.steps), np.int8)
    layouts = np.full((rows.count, grid.steps), -1)
    asked = Function.LAST if is_selector else function
    histogram_windows(int(asked), rows.pool, runs, windows_of(grid), shape, numbers, states, layouts)
    if is_selector:
        states[~_selected(rows, grid)] = ABSENT
    return HistogramValues(states == PRESENT, states == UNSURE, numbers, shape, layouts)


def _selected(rows: HistogramRows, grid: Grid) -> Flags:
    """Where the newest sample of the look-back is no stale marker."""
    values = np.zeros((rows.count, grid.steps))
    states = np.zeros((rows.count, grid.steps), np.int8)
    usable = ((rows.counts > 0) | rows.unclear) & ~rows.last_stale
    offsets = offsets_of(rows.series, rows.end_ms, rows.count)
    newest(
        offsets,
        rows.end_ms,
        np.zeros(len(rows.end_ms)),
        rows.last_ts,
        usable,
        windows_of(grid),
        values,
        states,
    )
    found: Flags = states == PRESENT
    return found
