"""Histograms as flat arrays: the buckets of all of them end to end, and where those of each begin.

Explicit buckets are the positive ones here, from number 0; exponential ones have numbers of any sign.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lakerunner_query.windows.functions import Doubles, Int64s
from resources.kernel import Integer, scanner

EXPLICIT = -(1 << 31)
"""Schema of explicit buckets."""
POSITIVE, NEGATIVE, BOUNDS = range(3)


class Pool(NamedTuple):
    """One entry per histogram; those of no histogram hold zeros."""

    schema: Int64s
    threshold: Doubles
    counted: Doubles
    sum: Doubles
    """NaN where none was sent."""
    zeros: Doubles
    low: Int64s
    """Two rows, positive and negative: the number of the first bucket."""
    start: Int64s
    """Three rows: where buckets of either side and the bounds begin in `numbers`."""
    length: Int64s
    numbers: Doubles


def pool_of(histograms: pa.StructArray) -> Pool:
    """From an array of the type `resources.lake.rollup_columns.HIST`."""
    schema = _numbers(histograms, "schema", EXPLICIT).astype(np.int64)
    lists = ("positive_counts", "negative_counts", "bounds", "counts")
    starts, lengths, numbers, before = [], [], [], 0
    for name in lists:
        column = histograms.field(name)
        offsets = column.offsets.to_numpy().astype(np.int64)
        starts.append(offsets[:-1] + before)
        lengths.append(np.diff(offsets) * column.is_valid().to_numpy(zero_copy_only=False))
        numbers.append(column.values.to_numpy(zero_copy_only=False).astype(np.float64))
        before += len(numbers[-1])
    explicit = schema == EXPLICIT
    low = np.stack(
        [_numbers(histograms, f"{side}_offset").astype(np.int64) for side in ("positive", "negative")]
    )
    low[:, explicit] = 0
    return Pool(
        schema,
        _numbers(histograms, "zero_threshold"),
        _numbers(histograms, "count"),
        _numbers(histograms, "sum", np.nan),
        _numbers(histograms, "zero_count"),
        low,
        np.stack([np.where(explicit, starts[3], starts[0]), starts[1], starts[2]]),
        np.stack([np.where(explicit, lengths[3], lengths[0]), lengths[1], lengths[2]]),
        np.concatenate(numbers),
    )


def _numbers(histograms: pa.StructArray, name: str, default: float = 0.0) -> Doubles:
    found: Doubles = (
        histograms.field(name).cast(pa.float64()).fill_null(default).to_numpy(zero_copy_only=False)
    )
    return np.ascontiguousarray(found)


@scanner
def same_layout(pool: Pool, a: Integer, b: Integer) -> bool:
    """Whether buckets of one number are the same bucket in both."""
    if pool.schema[a] != pool.schema[b] or pool.threshold[a] != pool.threshold[b]:
        return False
    if pool.length[BOUNDS, a] != pool.length[BOUNDS, b]:
        return False
    if pool.schema[a] == EXPLICIT and pool.length[POSITIVE, a] != pool.length[POSITIVE, b]:
        return False
    for index in range(pool.length[BOUNDS, a]):
        if pool.numbers[pool.start[BOUNDS, a] + index] != pool.numbers[pool.start[BOUNDS, b] + index]:
            return False
    return True


@scanner
def falls(pool: Pool, a: Integer, b: Integer) -> bool:
    """Whether a count of `b` is below that of `a`, which is before it and of the same layout."""
    if pool.counted[b] < pool.counted[a] or pool.zeros[b] < pool.zeros[a]:
        return True
    for side in range(2):
        shift = pool.low[side, a] - pool.low[side, b]
        for index in range(pool.length[side, a]):
            there = index + shift
            later = 0.0
            if 0 <= there < pool.length[side, b]:
                later = pool.numbers[pool.start[side, b] + there]
            if later < pool.numbers[pool.start[side, a] + index]:
                return True
    return False
