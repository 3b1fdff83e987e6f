"""Range functions over samples compute what Prometheus 3 does.

    rate of a counter over (0 s, 60 s], samples 10, 20, 5 at 15, 30, 45 s:

    growth (5 - 10) + 20 for the reset = 15 over 30 s; one sample each 15 s, so both edges are
    within 1.1 x 15 s: extrapolated by 15 s each side, 15 x 60/30 = 30, by 60 s = 0.5 a second

Delta temporality is a property of samples: their `increase` is the sum of what is in the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lakerunner_query.windows.edge_kernels import Runs, edges, fill_offsets
from lakerunner_query.windows.extremes_kernels import ALL, extremes, growth, newest
from lakerunner_query.windows.functions import (
    ABSENT,
    BY_EXTREME,
    BY_GROWTH,
    BY_SELECTOR,
    BY_SUM,
    IS_SUM,
    PRESENT,
    STALE_BITS,
    UNSURE,
    Function,
)
from lakerunner_query.windows.grid import Grid, MixedTemporalityError, WindowValues
from lakerunner_query.windows.sums_kernels import sums
from resources.arrays import Doubles, Flags, Int8s, Int64s

NO_INTEGERS, NO_DOUBLES, NO_KINDS = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int8)


def offsets_of(series: npt.NDArray[np.integer], times: Int64s, count: int) -> Int64s:
    """Return the first row of each series, and the end: series s has the rows `[offsets[s], offsets[s + 1])`.

    Raise ValueError for rows out of the order that all window kernels rely on.

    >>> offsets_of(np.array([0, 0, 2]), np.array([5, 6, 1]), 3).tolist()
    [0, 2, 2, 3]
    """
    offsets = np.zeros(count + 1, np.int64)
    fault = fill_offsets(series, times, offsets)
    if fault >= 0:
        raise ValueError(
            f"row {fault} of {len(series)}: series {series[fault]} at {times[fault]} ms; expected series in "
            f"[0, {count}), none before the one above it, and times that grow within a series"
        )
    return offsets


@dataclass(frozen=True)
class Samples:
    """Samples by series and time, one per series and millisecond, with stale markers."""

    offsets: Int64s
    """First sample of each series, and the end: series s has `[offsets[s], offsets[s + 1])`."""
    time_ms: Int64s
    value: Doubles
    is_delta: Flags | None = None
    """Delta temporality by sample; None: all are cumulative."""
    are_real: bool = False
    """No stale markers are among them: nobody needs to look."""

    @classmethod
    def of_codes(
        cls,
        series: npt.NDArray[np.integer],
        time_ms: Int64s,
        value: Doubles,
        count: int,
        is_delta: Flags | None = None,
    ) -> Samples:
        """Build from rows that carry the number of their series; ValueError for rows out of order."""
        return cls(offsets_of(series, time_ms, count), time_ms, value, is_delta)

    @property
    def count(self) -> int:
        """Number of series, those without samples too."""
        return len(self.offsets) - 1

    @cached_property
    def series(self) -> Int64s:
        """Series number by sample."""
        return np.repeat(np.arange(self.count), np.diff(self.offsets))

    @cached_property
    def is_stale(self) -> Flags:
        found: Flags = self.value.view(np.int64) == STALE_BITS
        return found

    @cached_property
    def real(self) -> Samples:
        """Samples without stale markers, which range functions do not see."""
        if self.are_real or not self.is_stale.any():
            return self
        keep = ~self.is_stale
        before = np.concatenate(([0], np.cumsum(keep)))
        is_delta = None if self.is_delta is None else self.is_delta[keep]
        return Samples(before[self.offsets], self.time_ms[keep], self.value[keep], is_delta, are_real=True)

    @property
    def runs(self) -> Runs:
        """Runs of one sample each."""
        return Runs(
            self.offsets,
            self.time_ms,
            self.value,
            self.value,
            self.time_ms,
            self.time_ms,
            NO_KINDS if self.is_delta is None else self.is_delta.astype(np.int8),
            NO_INTEGERS,
            NO_DOUBLES,
            NO_INTEGERS,
            NO_DOUBLES,
            NO_INTEGERS,
            NO_INTEGERS,
        )


def over_samples(function: Function, samples: Samples, grid: Grid) -> WindowValues:
    """Evaluate the function over every window of every series."""
    values = np.full((samples.count, grid.steps), np.nan)
    states = np.zeros((samples.count, grid.steps), np.int8)
    windows = grid.windows
    if function in BY_SELECTOR:
        answers = samples.value if function == Function.INSTANT else samples.time_ms / 1000
        usable = ALL if samples.are_real else ~samples.is_stale
        newest(samples.offsets, samples.time_ms, answers, samples.time_ms, usable, windows, values, states)
    elif function in BY_EXTREME:
        real = samples.real
        extremes(int(function), real.offsets, real.time_ms, real.value, windows, values, states)
    elif function in BY_SUM:
        real = samples.real
        sums(int(function), real.offsets, real.time_ms, real.value, windows, values, states)
    elif function in BY_GROWTH and samples.is_delta is None:
        real = samples.real
        growth(int(function), real.offsets, real.time_ms, real.value, windows, values, states)
    else:
        edges(int(function), samples.real.runs, windows, values, states)
        _refuse_mixed(function, states, grid)
        if (states == IS_SUM).any():
            fill_delta_sums(function, over_samples(Function.SUM, samples, grid).values, grid, values, states)
    return WindowValues(values, states != ABSENT)


def fill_delta_sums(function: Function, totals: Doubles, grid: Grid, values: Doubles, states: Int8s) -> None:
    """Fill the growth of windows of deltas, which is their sum: nothing is extrapolated to the edges."""
    deltas = states == IS_SUM
    by = grid.range_ms / 1000 if function == Function.RATE else 1.0
    with np.errstate(over="ignore"):  # what is too large is infinite, as everywhere in PromQL
        values[deltas] = totals[deltas] / by
    states[deltas] = PRESENT


def _refuse_mixed(function: Function, states: Int8s, grid: Grid) -> None:
    found = np.argwhere(states == UNSURE)
    if len(found):
        series, step = found[0].tolist()
        raise MixedTemporalityError(series, grid.first_end_ms + step * grid.step_ms, function)
