"""Windows of histograms: the arithmetic of `edges.py` and sums, on every number of a histogram at once.

An answer is a row of numbers: count, sum, zero count, then the buckets of both sides, from the lowest to the
highest number that any histogram of the series has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakerunner_query.windows.edges import ABSENT, IS_DELTA, MIXED, PRESENT, UNSURE, Windows, drawn_out
from lakerunner_query.windows.functions import Doubles, Flags, Function, Int8s, Int64s
from lakerunner_query.windows.histogram_pool import BOUNDS, Pool, falls, same_layout
from resources.kernel import Integer, kernel, scanner

COUNT, SUM, ZEROS, BUCKETS = range(4)
"""Places in an answer; buckets begin at the last."""


class HistogramRuns(NamedTuple):
    """Runs by series and time, as in `edges.py`; `first`, `last` and `total` are places in the pool."""

    offsets: Int64s
    ends: Int64s
    first: Int64s
    last: Int64s
    total: Int64s
    first_ts: Int64s
    last_ts: Int64s
    counts: Int64s
    resets: Int64s
    """Inside of the run."""
    unclear: Flags
    """Not only histograms of one layout."""
    kinds: Int8s


class Shape(NamedTuple):
    """Of the answers of each series."""

    low: Int64s
    """Two rows, positive and negative: the number of the first bucket."""
    size: Int64s
    """How many buckets."""
    offsets: Int64s
    """Where the numbers of the first window begin; the others follow."""


@kernel
def measure(pool: Pool, runs: HistogramRuns, low: Int64s, size: Int64s) -> None:
    """The numbers of buckets that each series has."""
    for series in range(len(runs.offsets) - 1):
        for side in range(2):
            lowest, highest = np.int64(0), np.int64(0)
            for run in range(runs.offsets[series], runs.offsets[series + 1]):
                if runs.unclear[run]:
                    continue
                for place in (runs.first[run], runs.last[run], runs.total[run]):
                    length = pool.length[side, place]
                    if length > 0:
                        begin = pool.low[side, place]
                        lowest = min(lowest, begin) if highest > lowest else begin
                        highest = max(highest, begin + length) if highest > lowest else begin + length
            low[side, series], size[side, series] = lowest, highest - lowest


@kernel
def histogram_windows(
    function: int,
    pool: Pool,
    runs: HistogramRuns,
    windows: Windows,
    shape: Shape,
    values: Doubles,
    states: Int8s,
    layouts: Int64s,
) -> None:
    """Fill numbers and states of all windows, and in `layouts` the place of a histogram with their bounds."""
    longest = 0
    for series in range(len(runs.offsets) - 1):
        longest = max(longest, runs.offsets[series + 1] - runs.offsets[series])
    breaks = np.zeros(longest + 1, np.int64)
    falling = np.zeros(longest + 1, np.bool_)
    for series in range(len(runs.offsets) - 1):
        low = high = begin = runs.offsets[series]
        end = runs.offsets[series + 1]
        width = BUCKETS + shape.size[0, series] + shape.size[1, series]
        _look_at_seams(pool, runs, begin, end, breaks, falling)
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            while high < end and runs.ends[high] <= until:
                high += 1
            while low < high and runs.ends[low] <= until - windows.range:
                low += 1
            if low == high:
                continue
            at = shape.offsets[series] + step * width
            into = values[at : at + width]
            if function == Function.FIRST or function == Function.LAST:  # noqa: PLR1714 - kernels know no sets
                one = low if function == Function.FIRST else high - 1
                states[series, step] = UNSURE
                layouts[series, step] = runs.last[one]
                if not runs.unclear[one]:
                    place = runs.first[one] if function == Function.FIRST else runs.last[one]
                    _add(pool, place, 1.0, shape.low[:, series], shape.size[0, series], into)
                    states[series, step] = PRESENT
                continue
            broken = breaks[high - 1 - begin] > breaks[low - begin] or runs.unclear[low]
            states[series, step] = (
                UNSURE
                if broken
                else _window(
                    function, pool, runs, begin, low, high, until, windows.range, shape.low[:, series],
                    shape.size[0, series], falling, into,
                )
            )  # fmt: skip
            layouts[series, step] = runs.last[high - 1]


@scanner
def _look_at_seams(
    pool: Pool, runs: HistogramRuns, begin: Integer, end: Integer, breaks: Int64s, falling: Flags
) -> None:
    """Up to each run: how often the layout changed, or nobody knows; and whether the seam before it falls."""
    for run in range(begin, end):
        at = run - begin
        breaks[at] = breaks[at - 1] if run > begin else 0
        falling[at] = False
        if run == begin:
            continue
        if (
            runs.unclear[run]
            or runs.unclear[run - 1]
            or not same_layout(pool, runs.last[run - 1], runs.first[run])
        ):
            breaks[at] += 1
        else:
            falling[at] = falls(pool, runs.last[run - 1], runs.first[run])


@scanner
def _window(
    function: int,
    pool: Pool,
    runs: HistogramRuns,
    begin: Integer,
    low: Integer,
    high: Integer,
    until: Integer,
    width: Integer,
    base: Int64s,
    positives: Integer,
    falling: Flags,
    into: Doubles,
) -> int:
    counted, deltas, mixed, resets = 0, 0, 0, 0
    for run in range(low, high):
        counted += runs.counts[run]
        resets += runs.resets[run]
        deltas += runs.kinds[run] == IS_DELTA
        mixed += runs.kinds[run] == MIXED
    is_rate = function == Function.RATE or function == Function.INCREASE  # noqa: PLR1714
    if is_rate and (mixed > 0 or 0 < deltas < high - low):
        return UNSURE
    if deltas > 0 if is_rate else function != Function.DELTA:
        return _summed(function, pool, runs, low, high, width, counted, base, positives, into)
    if counted < 2:
        return ABSENT
    if is_rate and resets > 0:
        return UNSURE
    _grow(pool, runs, begin, low, high, is_rate, base, positives, falling, into)
    factor = drawn_out(
        runs.first_ts[low], runs.last_ts[high - 1], counted, until, width, is_rate,
        pool.counted[runs.first[low]], into[COUNT],
    )  # fmt: skip
    if function == Function.RATE:
        factor /= float(width) / 1000
    for index in range(len(into)):
        into[index] *= factor
    return PRESENT


@scanner
def _summed(
    function: int,
    pool: Pool,
    runs: HistogramRuns,
    low: Integer,
    high: Integer,
    width: Integer,
    counted: Integer,
    base: Int64s,
    positives: Integer,
    into: Doubles,
) -> int:
    """Sums, means, and what grew where all are deltas."""
    for run in range(low, high):
        _add(pool, runs.total[run], 1.0, base, positives, into)
    by = 1.0
    if function == Function.AVG:
        by = float(counted)
    elif function == Function.RATE:
        by = float(width) / 1000
    for index in range(len(into)):
        if np.isinf(into[index]):
            return UNSURE  # sent as such or overflown: the mean is another then
        into[index] /= by
    return PRESENT


@scanner
def _grow(
    pool: Pool,
    runs: HistogramRuns,
    begin: Integer,
    low: Integer,
    high: Integer,
    is_counter: bool,
    base: Int64s,
    positives: Integer,
    falling: Flags,
    into: Doubles,
) -> None:
    """Last less first, and at each reset what was there before; a first that is reset at once is not seen."""
    lost = is_counter and high - low > 1 and runs.counts[low] == 1 and falling[low + 1 - begin]
    _add(pool, runs.last[high - 1], 1.0, base, positives, into)
    if not lost:
        _add(pool, runs.first[low], -1.0, base, positives, into)
    if is_counter:
        for run in range(low + (2 if lost else 1), high):
            if falling[run - begin]:
                _add(pool, runs.last[run - 1], 1.0, base, positives, into)


@scanner
def _add(pool: Pool, place: Integer, sign: float, base: Int64s, positives: Integer, into: Doubles) -> None:
    into[COUNT] += sign * pool.counted[place]
    into[SUM] += sign * pool.sum[place]
    into[ZEROS] += sign * pool.zeros[place]
    for side in range(BOUNDS):
        shift = BUCKETS + side * positives + pool.low[side, place] - base[side]
        for index in range(pool.length[side, place]):
            into[shift + index] += sign * pool.numbers[pool.start[side, place] + index]
