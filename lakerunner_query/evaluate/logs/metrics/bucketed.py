"""Windows out of buckets of lines: for counts and bytes by labels that the source knows without their lines.

range 5m, step 2m:   buckets of 1m, from where the first window begins
                     each window is five of them, the next begins two later
"""

from __future__ import annotations

import math

import numpy as np

from lakerunner_query.evaluate.logs.metrics.context import Context
from lakerunner_query.evaluate.logs.metrics.counting import Counted
from lakerunner_query.evaluate.logs.metrics.series import Naming
from lakerunner_query.evaluate.logs.metrics.times import Grid
from lakerunner_query.lang.logql.ast import LogRange
from lakerunner_query.vectors.vector import Labels
from resources.arrays import Int64s

MAX_BUCKETS = 50_000
"""Finer ones cost more than they save."""


def from_buckets(
    context: Context, wanted: LogRange, grid: Grid, naming: Naming, *, with_bytes: bool
) -> tuple[list[Labels], Counted] | None:
    """None where rows have to be looked at."""
    if wanted.unwrap is not None or naming.is_without:
        return None
    width = width_of(grid)
    count = (grid.to_ns - grid.from_ns) // width
    if count > MAX_BUCKETS:
        return None
    by = tuple(sorted(naming.names))
    buckets = context.source.buckets(wanted.query, by, grid.from_ns, width, count, with_bytes=with_bytes)
    if buckets is None:
        return None
    context.check_series(len(buckets.labels))
    lines, sizes = (over_windows(each, grid, width) for each in (buckets.counts, buckets.bytes))
    return buckets.labels, Counted(lines, sizes)


def width_of(grid: Grid) -> int:
    """The widest buckets of which every window is a whole number."""
    return grid.range_ns if grid.steps == 1 else math.gcd(grid.range_ns, grid.step_ns)


def over_windows(counts: Int64s, grid: Grid, width: int) -> Int64s:
    """Of (series, buckets) the sums by (series, windows)."""
    until = np.zeros((len(counts), counts.shape[1] + 1), np.int64)
    np.cumsum(counts, axis=1, out=until[:, 1:])
    first = np.arange(grid.steps, dtype=np.int64) * (grid.step_ns // width if grid.steps > 1 else 0)
    sums: Int64s = until[:, first + grid.range_ns // width] - until[:, first]
    return sums
