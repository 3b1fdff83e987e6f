"""Rollup rows and range functions in plain Python, from the definitions, sample by sample.

Written to be read beside the definitions, not to be fast. The columns follow the table of rollup columns, the
functions Prometheus 3; neither shares code with what it judges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from lakerunner_query.windows.rollup_buckets import Columns

STALE_BITS = 0x7FF0000000000002
STALE = float(np.array([STALE_BITS], np.int64).view(np.float64)[0])


def is_stale(value: float) -> bool:
    return bool(np.array([value]).view(np.int64)[0] == STALE_BITS)


@dataclass(frozen=True)
class Point:
    ts: int
    value: float
    delta: bool = False


@dataclass(frozen=True)
class Row:
    """One rollup row; None is null."""

    end: int
    width: int
    count: int
    last_stale: bool
    sum: float | None = None
    sum_c: float | None = None
    min: float | None = None
    max: float | None = None
    first: float | None = None
    first_ts: int | None = None
    last: float | None = None
    last_ts: int | None = None
    prev: float | None = None
    prev_ts: int | None = None
    reset_sum: float | None = None
    resets: int | None = None
    changes: int | None = None
    m2: float | None = None
    kinds: frozenset[bool] = field(default_factory=frozenset)


def kahan(total: float, lost: float, number: float) -> tuple[float, float]:
    after = total + number
    if math.isinf(after):
        return after, 0.0
    if abs(total) >= abs(number):
        return after, lost + ((total - after) + number)
    return after, lost + ((number - after) + total)


def both_nan(a: float, b: float) -> bool:
    return math.isnan(a) and math.isnan(b)


def bucket_end(ts: int, width: int) -> int:
    """The end of the left-open bucket that holds ts."""
    return -((-ts) // width) * width


def row_of(points: Sequence[Point], width: int) -> Row:
    """The row of one bucket; all points lie in it, in order of time."""
    end = bucket_end(points[0].ts, width)
    assert all(end - width < point.ts <= end for point in points)
    stale = is_stale(points[-1].value)
    real = [point for point in points if not is_stale(point.value)]
    if not real:
        return Row(end, width, 0, stale)
    numbers = [point.value for point in real]
    numbered = [number for number in numbers if not math.isnan(number)] or [math.nan]
    total, lost = numbers[0], 0.0
    for number in numbers[1:]:
        total, lost = kahan(total, lost, number)
    mean = m2 = 0.0
    for index, number in enumerate(numbers, 1):
        away = number - mean
        mean += away / index
        m2 += away * (number - mean)
    pairs = list(pairwise(numbers))
    drops = [before for before, after in pairs if after < before]
    return Row(
        end=end, width=width, count=len(real), last_stale=stale,
        sum=total, sum_c=lost, min=min(numbered), max=max(numbered),
        first=numbers[0], first_ts=real[0].ts, last=numbers[-1], last_ts=real[-1].ts,
        prev=numbers[-2] if len(real) > 1 else None, prev_ts=real[-2].ts if len(real) > 1 else None,
        reset_sum=sum(drops), resets=len(drops),
        changes=sum(1 for before, after in pairs if before != after and not both_nan(before, after)),
        m2=m2, kinds=frozenset(point.delta for point in real),
    )  # fmt: skip


def merged(a: Row, b: Row, end: int, width: int) -> Row:
    """A|B in order of time, as the row of a wider bucket."""
    if b.count == 0 or a.count == 0:
        kept = a if b.count == 0 else b
        return replace(kept, end=end, width=width, last_stale=b.last_stale)
    total, lost = kahan(a.sum, a.sum_c, b.sum)
    lost += b.sum_c
    count = a.count + b.count
    away = (b.sum + b.sum_c) / b.count - (a.sum + a.sum_c) / a.count
    drop = b.first < a.last
    change = b.first != a.last and not both_nan(b.first, a.last)
    return Row(
        end=end, width=width, count=count, last_stale=b.last_stale, sum=total, sum_c=lost,
        min=b.min if b.min < a.min or math.isnan(a.min) else a.min,
        max=b.max if b.max > a.max or math.isnan(a.max) else a.max,
        first=a.first, first_ts=a.first_ts, last=b.last, last_ts=b.last_ts,
        prev=b.prev if b.count > 1 else a.last, prev_ts=b.prev_ts if b.count > 1 else a.last_ts,
        reset_sum=a.reset_sum + (a.last if drop else 0.0) + b.reset_sum,
        resets=a.resets + drop + b.resets, changes=a.changes + change + b.changes,
        m2=a.m2 + b.m2 + away * away * (a.count * (b.count / count)), kinds=a.kinds | b.kinds,
    )  # fmt: skip


def rows_of(points: Sequence[Point], width: int) -> list[Row]:
    """Rows of that width straight from points."""
    ends = sorted({bucket_end(point.ts, width) for point in points})
    return [row_of([p for p in points if bucket_end(p.ts, width) == end], width) for end in ends]


def coarser(rows: Sequence[Row], width: int, choose: Sequence[int]) -> list[Row]:
    """Rows of a wider width from finer ones, neighbours merged in an order that `choose` decides."""
    choices = iter(choose)
    found = []
    for end in sorted({bucket_end(row.end, width) for row in rows}):
        group = [replace(row, end=end, width=width) for row in rows if bucket_end(row.end, width) == end]
        while len(group) > 1:
            at = next(choices, 0) % (len(group) - 1)
            group[at : at + 2] = [merged(group[at], group[at + 1], end, width)]
        found.extend(group)
    return found


def columns(series: Sequence[Sequence[Row]]) -> Columns:
    """Rows of many series as arrays, with rubbish where a column is null."""
    rows = [(code, row) for code, of_series in enumerate(series) for row in of_series]

    def whole(name: str) -> np.ndarray:
        return np.array([-77 if (v := getattr(r, name)) is None else v for _, r in rows], np.int64)

    def double(name: str) -> np.ndarray:
        return np.array([-7.5e77 if (v := getattr(r, name)) is None else v for _, r in rows], np.float64)

    def kind(row: Row) -> int:
        return 2 if len(row.kinds) > 1 else int(True in row.kinds)

    return Columns(
        series=np.array([code for code, _ in rows], np.int64),
        end_ms=whole("end"), width_ms=whole("width"), count=whole("count"),
        sum=double("sum"), sum_c=double("sum_c"), min=double("min"), max=double("max"),
        first=double("first"), first_ts=whole("first_ts"), last=double("last"), last_ts=whole("last_ts"),
        last_stale=np.array([row.last_stale for _, row in rows], np.bool_),
        prev=double("prev"), prev_ts=whole("prev_ts"),
        reset_sum=double("reset_sum"), resets=whole("resets"), changes=whole("changes"), m2=double("m2"),
        kind=np.array([kind(row) for _, row in rows], np.int8), has_others=np.zeros(len(rows), np.bool_),
    )  # fmt: skip
