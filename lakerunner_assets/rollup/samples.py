"""Sorted samples become rollup rows in one pass.

    timestamp  value                end       count  last  prev  sum   (10 s)
    12:00:02       1                12:00:10      2     5     1    6
    12:00:10       5                12:00:20      1     2  null    2
    12:00:11       2

Every numeric column comes out of one pass; what belongs to the series is taken from the newest row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakerunner_assets.rollup.bucket_kernels import (
    CHANGES,
    FIRST,
    HISTOGRAM,
    LAST,
    NOTHING,
    PREV,
    REAL,
    STALE,
    STALE_BITS,
    SUM,
    SUM_C,
    SUMMARIES,
    SUMMARY,
    Buckets,
    Statistics,
    buckets_of,
    statistics,
    summarise,
)
from lakerunner_assets.rollup.bucket_kernels import COUNT as COUNTS
from lakerunner_assets.rollup.buckets import Cut, RollupRows, rollup_rows, series_columns
from lakerunner_assets.rollup.ddsketch import build
from lakerunner_assets.rollup.histograms import fold_buckets, nothing, of_samples
from resources.arrays import Bytes, Doubles, Int32s, Int64s
from resources.lake import rollup_columns as rollup
from resources.lake.columns import (
    CHQ_HIST_BOUNDS,
    CHQ_HIST_COUNT,
    CHQ_HIST_COUNT_FLOAT,
    CHQ_HIST_COUNTS,
    CHQ_HIST_SCHEMA,
    CHQ_METRIC_TYPE,
    CHQ_SUMMARY_QUANTILES,
    CHQ_TSNS,
    CHQ_VALUE,
)
from resources.lake.few_samples import hold_all_samples
from resources.lake.rollup_columns import TIMESTAMP

_HISTOGRAMS = (
    CHQ_HIST_COUNT, CHQ_HIST_COUNT_FLOAT, CHQ_HIST_SCHEMA, CHQ_HIST_BOUNDS, CHQ_HIST_COUNTS,
)  # fmt: skip
"""Columns that make a row a histogram, unless it is a stale marker or a summary."""
_SUMMARY = "summary"


def roll_samples(table: pa.Table, codes: Int32s, cut: Cut) -> RollupRows:
    """Roll up a stretch of sorted samples that ends with a bucket.

    `codes` are the series of the rows.
    """
    kinds, values = sample_kinds(table)
    times_ms = table.column(TIMESTAMP).chunk(0).to_numpy()
    buckets = buckets_of(
        codes, times_ms, _nanoseconds(table, times_ms), kinds, cut.start_ms, cut.end_ms, cut.width_ms
    )
    found = statistics(len(buckets.ends_ms))
    summarise(values, times_ms, kinds, buckets, found)
    identity = series_columns(table, buckets)
    histograms = nothing()
    if (kinds >= HISTOGRAM).any():
        pool, items = of_samples(table, buckets, kinds)
        mixed = (found.numbers[SUMMARIES] > 0) | identity.several
        histograms = fold_buckets(pool, items, found, mixed)
    sketches = _sketches(values, kinds, buckets, needs_sketch(found))
    return rollup_rows(codes, buckets, identity, found, sketches, histograms)


def sample_kinds(table: pa.Table) -> tuple[Bytes, Doubles]:
    """Return the kind of each row, and its value where it has one."""
    rows = table.num_rows
    kinds = np.full(rows, NOTHING, np.uint8)
    for name in _HISTOGRAMS:
        if name in table.column_names and table.column(name).null_count < rows:
            kinds[table.column(name).chunk(0).is_valid().to_numpy(zero_copy_only=False)] = HISTOGRAM
    if (kinds == HISTOGRAM).any() or CHQ_SUMMARY_QUANTILES in table.column_names:
        kinds[_summaries(table) & (kinds == HISTOGRAM)] = SUMMARY
    if CHQ_VALUE not in table.column_names:
        return kinds, np.zeros(rows)
    column = table.column(CHQ_VALUE).chunk(0)
    values = doubles_of(column)
    present = (
        column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else np.ones(rows, np.bool_)
    )
    kinds[present] = REAL
    kinds[present & (values.view(np.uint64) == STALE_BITS)] = STALE
    return kinds, values


def needs_sketch(found: Statistics) -> np.ndarray:
    """Flag buckets whose samples do not follow from the row."""
    return np.logical_not(hold_all_samples(columns_of(found)))


def columns_of(found: Statistics) -> dict[str, np.ndarray]:
    """Return the statistics that few samples follow from."""
    columns: dict[str, np.ndarray] = {name: found.doubles[row] for name, row in _SAYING.items()}
    return columns | {rollup.COUNT: found.numbers[COUNTS], rollup.CHANGES: found.numbers[CHANGES]}


_SAYING = {
    rollup.FIRST: FIRST, rollup.PREV: PREV, rollup.LAST: LAST, rollup.SUM: SUM, rollup.SUM_C: SUM_C,
}  # fmt: skip


def doubles_of(column: pa.Array) -> Doubles:
    """View the bits of a column; nulls hold anything."""
    raw = np.frombuffer(column.buffers()[1], np.float64)
    return raw[column.offset : column.offset + len(column)]


def _summaries(table: pa.Table) -> np.ndarray:
    names: np.ndarray = (
        pa.compute.equal(table.column(CHQ_METRIC_TYPE).chunk(0).cast(pa.string()), _SUMMARY)
        .fill_null(False)
        .to_numpy(zero_copy_only=False)
    )
    return names


def _nanoseconds(table: pa.Table, times_ms: Int64s) -> Int64s:
    """Return numbers that order rows of one millisecond as their nanoseconds do."""
    if CHQ_TSNS not in table.column_names:
        return times_ms
    column = table.column(CHQ_TSNS).chunk(0)
    sent = column.is_valid().to_numpy(zero_copy_only=False)
    exact: Int64s = np.where(sent, column.fill_null(0).to_numpy(), times_ms * 1_000_000)
    return exact


def _sketches(values: Doubles, kinds: Bytes, buckets: Buckets, needed: np.ndarray) -> pa.Array | None:
    if not needed.any():
        return None
    bucket_of_row = np.repeat(np.arange(len(needed)), np.diff(buckets.starts))
    chosen = needed[bucket_of_row] & (kinds[buckets.rows] == REAL)
    group = (np.cumsum(needed) - 1)[bucket_of_row[chosen]]
    count = len(group)
    nothing_given = pa.array([], pa.binary()), np.zeros(0, np.int64)
    made = build(values[buckets.rows[chosen]], np.ones(count), group, *nothing_given, int(needed.sum()))
    return spread(made, needed)


def spread(made: pa.Array, needed: np.ndarray) -> pa.Array:
    """Place the sketches of the buckets that need one among all buckets."""
    return made.take(pa.array(np.cumsum(needed) - 1, mask=~needed))
