"""Rollup rows inside a wider bucket are merged in time order.

    end       count  first  last  reset_sum           end       count  first  last  reset_sum
    12:00:10      2      1     5          0   (1 m)   12:01:00      3      1     2          5
    12:00:20      1      2     2          0

The drop from 5 to 2 lies on the seam, so only merging can see it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakerunner_assets.rollup import bucket_kernels as place
from lakerunner_assets.rollup.bucket_kernels import REAL, Buckets, Statistics, buckets_of, merge, statistics
from lakerunner_assets.rollup.buckets import Cut, RollupRows, rollup_rows, series_columns
from lakerunner_assets.rollup.ddsketch import build
from lakerunner_assets.rollup.histograms import fold_buckets, nothing, of_rollups
from lakerunner_assets.rollup.samples import columns_of, doubles_of, needs_sketch, spread
from resources.arrays import Int32s, Int64s
from resources.lake import rollup_columns as rollup
from resources.lake.columns import CHQ_TID
from resources.lake.ddsketch import WeightedValues
from resources.lake.few_samples import samples_of

_DOUBLES = {
    rollup.SUM: place.SUM, rollup.SUM_C: place.SUM_C, rollup.MIN: place.MIN, rollup.MAX: place.MAX,
    rollup.FIRST: place.FIRST, rollup.LAST: place.LAST, rollup.PREV: place.PREV,
    rollup.RESET_SUM: place.RESET_SUM, rollup.M2: place.M2,
}  # fmt: skip
_NUMBERS = {
    rollup.COUNT: place.COUNT, rollup.FIRST_TS: place.FIRST_TS, rollup.LAST_TS: place.LAST_TS,
    rollup.PREV_TS: place.PREV_TS, rollup.RESETS: place.RESETS, rollup.CHANGES: place.CHANGES,
    rollup.HIST_COUNT: place.HIST_COUNT,
}  # fmt: skip


class RepeatedBucketError(ValueError):
    """Two rows have one series and bucket: nobody can say which counts."""


def roll_rollups(table: pa.Table, codes: Int32s, cut: Cut) -> RollupRows:
    """Merge a stretch of sorted rollup rows that ends with a bucket."""
    ends = table.column(rollup.TIMESTAMP).chunk(0).to_numpy()
    kinds = np.full(len(codes), REAL, np.uint8)
    buckets = buckets_of(codes, ends, ends, kinds, cut.start_ms, cut.end_ms, cut.width_ms)
    if buckets.repeated >= 0:
        row = table.slice(buckets.repeated, 1).select(["metric_name", CHQ_TID, rollup.TIMESTAMP])
        raise RepeatedBucketError(f"two rows of one series and bucket: {row.to_pylist()[0]}")
    full = rollup.filled(table.select([n for n in table.column_names if n in rollup.STORED]))
    finer = _statistics(full)
    found = statistics(len(buckets.ends_ms))
    merge(finer, buckets, found)
    identity = series_columns(table, buckets)
    histograms = nothing()
    if (finer.numbers[place.HIST_COUNT] > 0).any():
        mixed_before = full.column(rollup.HIST_MIXED).to_numpy(zero_copy_only=False)[buckets.rows]
        mixed = identity.several | np.logical_or.reduceat(mixed_before, buckets.starts[:-1])
        pool, items = of_rollups(full, buckets)
        histograms = fold_buckets(pool, items, found, mixed)
    sketches = _sketches(full.column(rollup.SKETCH).chunk(0), finer, buckets, found)
    return rollup_rows(codes, buckets, identity, found, sketches, histograms)


def _statistics(full: pa.Table) -> Statistics:
    found = statistics(full.num_rows)  # what is not filled here is not merged
    for name, row in _DOUBLES.items():
        found.doubles[row] = doubles_of(full.column(name).chunk(0))
    for name, row in _NUMBERS.items():
        found.numbers[row] = full.column(name).chunk(0).fill_null(0).to_numpy()
    found.numbers[place.LAST_STALE] = full.column(rollup.LAST_STALE).to_numpy(zero_copy_only=False)
    return found


def _sketches(stored: pa.Array, finer: Statistics, buckets: Buckets, found: Statistics) -> pa.Array | None:
    needed = needs_sketch(found)
    if not needed.any():
        return None
    bucket_of_row = np.repeat(np.arange(len(needed)), np.diff(buckets.starts))
    chosen = needed[bucket_of_row]
    rows, groups = buckets.rows[chosen], (np.cumsum(needed) - 1)[bucket_of_row[chosen]]
    has = stored.is_valid().to_numpy(zero_copy_only=False)[rows]
    said = _following(finer, rows[~has], groups[~has])
    sketches = stored.take(pa.array(rows[has]))
    made = build(said.values, said.weights, said.group, sketches, groups[has], int(needed.sum()))
    return spread(made, needed)


def _following(finer: Statistics, rows: Int64s, groups: Int64s) -> WeightedValues:
    """Return the samples of rows that hold all of them."""
    found = samples_of({name: column[rows] for name, column in columns_of(finer).items()})
    return WeightedValues(found.values, found.weights, groups[found.group])
