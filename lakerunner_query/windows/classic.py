"""The float rows of the classic series that histograms with explicit buckets stand for, and their functions.

    bounds [0.1, 0.5]         le     first  last
    first  [1, 0, 1]          0.1        1     2
    last   [2, 3, 1]          0.5        1     5
                              +Inf       2     6

Each series is a counter of its own: it is drawn out to its own zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.windows.buckets import Buckets, Columns, Merged, over_buckets, together
from lakerunner_query.windows.edges import CUMULATIVE
from lakerunner_query.windows.functions import Doubles, Flags, Function, Grid, Int64s
from lakerunner_query.windows.histogram_pool import BOUNDS, EXPLICIT, POSITIVE, Pool
from lakerunner_query.windows.histograms import HistogramRows

CLASSIC = frozenset(
    {
        Function.INSTANT, Function.TIMESTAMP, Function.FIRST, Function.LAST, Function.COUNT, Function.PRESENT,
        Function.RATE, Function.INCREASE, Function.DELTA,
    }
)  # fmt: skip
"""What classic series answer from rollups: what is between first and last is not kept for each bucket."""


@dataclass(frozen=True, slots=True)
class Classic:
    """Classic series of explicit histograms: which they are, and their answers."""

    series: Int64s
    """The code of the histogram each belongs to."""
    le: Doubles
    """The upper bound; of `_count` and `_sum` NaN."""
    found: Merged
    needs_samples: Flags
    """By histogram and window: also series that are not even listed may have something there."""


def over_classic_buckets(function: Function, rows: HistogramRows, grid: Grid) -> Classic:
    """The `_bucket` series."""
    pool, runs = rows.pool, rows.runs()
    explicit = np.flatnonzero((pool.schema[runs.last] == EXPLICIT) & ~runs.unclear)
    first, last, total = (place[explicit] for place in (runs.first, runs.last, runs.total))
    sizes = pool.length[POSITIVE, last]
    of_row = np.repeat(explicit, sizes)
    keys = np.zeros(len(of_row), [("series", np.int64), ("le", np.float64)])
    keys["series"] = np.repeat(_series_of_runs(rows)[explicit], sizes)
    keys["le"] = _bounds(pool, last, sizes)
    known, codes = np.unique(keys, return_inverse=True)
    cumulated = [_cumulated(pool, place, sizes) for place in (first, last, total)]
    columns = _columns(rows, of_row, codes.ravel(), cumulated[0], cumulated[1], cumulated[2])
    return _answer(function, rows, grid, known["series"], known["le"], columns)


def over_classic_counts(function: Function, rows: HistogramRows, grid: Grid) -> Classic:
    """The `_count` series."""
    return _over_numbers(function, rows, grid, rows.pool.counted)


def over_classic_sums(function: Function, rows: HistogramRows, grid: Grid) -> Classic:
    """The `_sum` series; values below zero let it fall, which is a reset like others."""
    return _over_numbers(function, rows, grid, rows.pool.sum)


def _over_numbers(function: Function, rows: HistogramRows, grid: Grid, numbers: Doubles) -> Classic:
    runs = rows.runs()
    sent = ~np.isnan(numbers[runs.last])
    explicit = np.flatnonzero((rows.pool.schema[runs.last] == EXPLICIT) & ~runs.unclear & sent)
    first, last, total = (place[explicit] for place in (runs.first, runs.last, runs.total))
    series, codes = np.unique(_series_of_runs(rows)[explicit], return_inverse=True)
    columns = _columns(rows, explicit, codes, numbers[first], numbers[last], numbers[total])
    return _answer(function, rows, grid, series, np.full(len(series), np.nan), columns)


def _series_of_runs(rows: HistogramRows) -> Int64s:
    runs = rows.runs()
    found: Int64s = np.repeat(np.arange(rows.count), np.diff(runs.offsets))
    return found


def _flat(start: Int64s, sizes: Int64s) -> Int64s:
    """`start[i], start[i] + 1, …` of every i, end to end."""
    ends = np.cumsum(sizes)
    found: Int64s = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(start - (ends - sizes), sizes)
    return found


def _bounds(pool: Pool, places: Int64s, sizes: Int64s) -> Doubles:
    """The upper bound of each bucket; the last one has none."""
    at = _flat(pool.start[BOUNDS, places], sizes)
    is_last = np.zeros(len(at), np.bool_)
    is_last[np.cumsum(sizes)[sizes > 0] - 1] = True
    found = np.full(len(at), np.inf)
    found[~is_last] = pool.numbers[at[~is_last]]
    return found


def _cumulated(pool: Pool, places: Int64s, sizes: Int64s) -> Doubles:
    """Counts of all buckets up to each; whole numbers, so that no digit is lost below 2^53."""
    counts = pool.numbers[_flat(pool.start[POSITIVE, places], sizes)]
    running = np.concatenate(([0.0], np.cumsum(counts)))
    ends = np.cumsum(sizes)
    found: Doubles = running[1:] - np.repeat(running[ends - sizes], sizes)
    return found


def _columns(
    rows: HistogramRows,
    of_row: Int64s,
    codes: Int64s,
    first: Doubles,
    last: Doubles,
    total: Doubles,
) -> Columns:
    """Float rows: run `of_row[i]` gives row i, of the series `codes[i]`."""
    runs = rows.runs()
    keep = np.flatnonzero((rows.counts > 0) | rows.unclear)
    size = len(of_row)
    # between two samples a fall is seen; among more something fell, and nobody knows what and from where
    hidden = (runs.resets[of_row] > 0) & (runs.counts[of_row] > 2)
    fallen = np.where((last < first) & (runs.counts[of_row] == 2), first, 0.0)
    single = runs.counts[of_row] == 1
    found = Columns(
        series=codes,
        end_ms=runs.ends[of_row],
        width_ms=rows.width_ms[keep][of_row],
        count=runs.counts[of_row],
        sum=total,
        sum_c=np.zeros(size),
        min=np.where(single, last, np.nan),
        max=np.where(single, last, np.nan),
        first=first,
        first_ts=runs.first_ts[of_row],
        last=last,
        last_ts=runs.last_ts[of_row],
        last_stale=rows.last_stale[keep][of_row],
        prev=np.zeros(size),
        prev_ts=np.zeros(size, np.int64),
        reset_sum=np.where(hidden, np.nan, fallen),
        resets=np.zeros(size, np.int64),
        changes=np.zeros(size, np.int64),
        m2=np.full(size, np.nan),
        kind=runs.kinds[of_row],
        has_others=np.zeros(size, np.bool_),
    )
    return found.take(np.lexsort((found.end_ms, found.series)))


def _answer(
    function: Function, rows: HistogramRows, grid: Grid, series: Int64s, le: Doubles, columns: Columns
) -> Classic:
    if function not in CLASSIC:
        raise ValueError(f"{function.name.lower()} of classic histogram series is not kept in rollups")
    unclear = _unclear_windows(rows, grid)
    columns = _with_others(rows, series, columns)
    found = over_buckets(function, Buckets(columns, len(series)), grid)
    needs = found.needs_samples | unclear[series]
    return Classic(series, le, Merged(found.values, found.present & ~needs, needs), unclear)


def _unclear_windows(rows: HistogramRows, grid: Grid) -> Flags:
    """Windows of histograms that hold a row of which nobody knows what is in it."""
    runs = rows.runs()
    at = np.flatnonzero(runs.unclear)
    size = len(at)
    numbers = np.zeros(size)
    columns = _columns(rows, at, _series_of_runs(rows)[at], numbers, numbers, numbers)
    counted = replace(columns, count=np.ones(size, np.int64), kind=np.full(size, CUMULATIVE, np.int8))
    return over_buckets(Function.PRESENT, Buckets(counted, rows.count), grid).present


def _with_others(rows: HistogramRows, series: Int64s, columns: Columns) -> Columns:
    """Rows for series that have nothing in a bucket where their histogram has something.

    A stale marker at its end is theirs too. Else bounds changed: a stale marker may be hidden before them.
    """
    there = np.zeros(len(columns.series), [("series", np.int64), ("end", np.int64)])
    there["series"], there["end"] = columns.series, columns.end_ms
    runs = rows.runs()
    is_explicit = np.zeros(len(rows.end_ms), np.bool_)
    is_explicit[(rows.counts > 0) | rows.unclear] = (rows.pool.schema[runs.last] == EXPLICIT) & ~runs.unclear
    at = np.flatnonzero(is_explicit | rows.last_stale)
    begin = np.searchsorted(series, rows.series[at], "left")
    sizes = np.searchsorted(series, rows.series[at], "right") - begin
    other = np.zeros(int(sizes.sum()), there.dtype)
    other["series"], other["end"] = _flat(begin, sizes), np.repeat(rows.end_ms[at], sizes)
    missing = ~np.isin(other, there)
    of_row = np.repeat(at, sizes)[missing]
    none, zeros, stale = np.zeros(len(of_row), np.int64), np.zeros(len(of_row)), rows.last_stale[of_row]
    added = Columns(
        series=other["series"][missing], end_ms=other["end"][missing], width_ms=rows.width_ms[of_row],
        count=none, sum=zeros, sum_c=zeros, min=zeros, max=zeros, first=zeros, first_ts=none, last=zeros,
        last_ts=none, last_stale=stale, prev=zeros, prev_ts=none, reset_sum=zeros, resets=none, changes=none,
        m2=zeros, kind=np.zeros(len(of_row), np.int8), has_others=~stale,
    )  # fmt: skip
    return together([columns, added]) if len(of_row) else columns
