"""Histograms of a bucket are reduced to first, last, sum and resets.

    count per le   0.1  0.5  +Inf            first      last       sum        resets
    12:00:02         1    2     2            [1, 2, 2]  [0, 1, 1]  [3, 6, 7]       1
    12:00:05         2    3     4
    12:00:09         0    1     1

Where a sum cannot say it (layouts change, floats or summaries are in between, the sender says otherwise of a
reset than the counts), the bucket is `mixed` and readers go to the samples.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.rollup import bucket_kernels as place
from lakerunner_assets.rollup.bucket_kernels import HISTOGRAM, Buckets, Statistics
from lakerunner_assets.rollup.histogram_kernels import (
    BOUNDS,
    COUNTS,
    EXPLICIT,
    LISTS,
    NEGATIVE,
    POSITIVE,
    UNSAID,
    HistogramFold,
    Histograms,
    Items,
    add,
    fold,
)
from resources.arrays import Bytes, Int64s
from resources.lake import rollup_columns as rollup
from resources.lake.columns import CHQ_HIST_RESET_HINT
from resources.lake.sample_histograms import histogram_struct, histograms_of_samples

CUSTOM_SCHEMA = -53
_DOUBLES = pa.list_(pa.float64())
_HINT = CHQ_HIST_RESET_HINT
_LISTS = {
    "bounds": BOUNDS, "counts": COUNTS, "positive_counts": POSITIVE, "negative_counts": NEGATIVE,
}  # fmt: skip


def nothing() -> dict[str, pa.Array]:
    """Return the columns of buckets without histograms: none."""
    return {}


def of_samples(table: pa.Table, buckets: Buckets, kinds: Bytes) -> tuple[pa.StructArray, Items]:
    """Take every histogram that counts, each as an item of its own."""
    chosen = kinds[buckets.rows] == HISTOGRAM
    rows = buckets.rows[chosen]
    each = np.arange(len(rows))
    ends = np.concatenate(([0], np.cumsum(chosen)))[buckets.starts]
    resets = np.zeros(len(rows), np.int64)
    return histograms_of_samples(table, pa.array(rows)), Items(
        each, each, each, resets, _hints(table, rows), ends
    )


def of_rollups(full: pa.Table, buckets: Buckets) -> tuple[pa.StructArray, Items]:
    """Take first, last and sum of each finer row that has a histogram."""
    last = full.column(rollup.HIST_LAST).chunk(0)
    chosen = last.is_valid().to_numpy(zero_copy_only=False)[buckets.rows]
    rows = buckets.rows[chosen]
    parts = [full.column(name).chunk(0).take(pa.array(rows)) for name in _PARTS]
    resets = full.column(rollup.HIST_RESETS).to_numpy()[rows]
    first, last_, total = (np.arange(len(rows)) + len(rows) * part for part in range(3))
    ends = np.concatenate(([0], np.cumsum(chosen)))[buckets.starts]
    unsaid = np.full(len(rows), UNSAID, np.uint8)  # of samples; buckets of contradictions are mixed
    return pa.concat_arrays(parts), Items(first, last_, total, resets, unsaid, ends)


_PARTS = (rollup.HIST_FIRST, rollup.HIST_LAST, rollup.HIST_SUM)


def fold_buckets(
    pool: pa.StructArray, items: Items, found: Statistics, mixed: npt.NDArray[np.bool_]
) -> dict[str, pa.Array]:
    """Compute the columns of all buckets; `mixed` has those known before."""
    count = found.numbers[place.HIST_COUNT]
    mixed = (mixed | (found.numbers[place.COUNT] > 0)) & (count > 0)
    buckets = len(count)
    seen = HistogramFold(
        np.zeros(buckets, np.int64),
        np.zeros(buckets, np.uint8),
        np.zeros((2, buckets), np.int64),
        np.zeros((LISTS, buckets), np.int64),
    )
    views = _views(pool)
    fold(views, items, mixed.astype(np.uint8), seen)
    mixed = seen.mixed != 0
    sizes = np.diff(items.starts)
    added = np.flatnonzero((sizes > 1) & ~mixed)
    sums = _sums(views, items, added, seen)
    place_of_sum = np.zeros(buckets, np.int64)
    once = (sizes == 1) & ~mixed
    place_of_sum[once] = items.total[items.starts[:-1][once]]
    place_of_sum[added] = len(pool) + np.arange(len(added))
    has, several = sizes > 0, count > 1
    first, last = np.zeros(buckets, np.int64), np.zeros(buckets, np.int64)
    first[has], last[has] = items.first[items.starts[:-1][has]], items.last[items.starts[1:][has] - 1]
    return {
        rollup.HIST_COUNT: pa.array(count, mask=count == 0),
        rollup.HIST_FIRST: pool.take(pa.array(first, mask=~(has & several))),
        rollup.HIST_LAST: pool.take(pa.array(last, mask=~has)),
        rollup.HIST_SUM: pa.concat_arrays([pool, sums]).take(
            pa.array(place_of_sum, mask=~(has & several & ~mixed))
        ),
        rollup.HIST_RESETS: pa.array(seen.resets, mask=seen.resets == 0),
        rollup.HIST_MIXED: pa.array(mixed, mask=~mixed),
    }


def _views(pool: pa.StructArray) -> Histograms:
    def numbers(name: str, kind: type[np.generic] = np.float64, default: float = 0) -> npt.NDArray:  # type: ignore[type-arg]
        found = pool.field(name).fill_null(default).to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(found.astype(kind))

    start, length = np.zeros((LISTS, len(pool)), np.int64), np.zeros((LISTS, len(pool)), np.int64)
    values: list[npt.NDArray[np.float64]] = []
    before = 0
    for name, which in _LISTS.items():
        column = pool.field(name)
        offsets = column.offsets.to_numpy().astype(np.int64)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        start[which] = offsets[:-1] + before
        length[which] = np.diff(offsets) * valid
        values.append(column.values.to_numpy(zero_copy_only=False))
        before += len(values[-1])
    return Histograms(
        numbers("schema", np.int32, EXPLICIT),
        numbers("zero_threshold"),
        numbers("zero_count"),
        numbers("count"),
        numbers("sum"),
        pool.field("sum").is_valid().to_numpy(zero_copy_only=False).astype(np.uint8),
        np.stack([numbers("positive_offset", np.int64), numbers("negative_offset", np.int64)]),
        start,
        length,
        np.concatenate(values),
    )


def _sums(views: Histograms, items: Items, wanted: Int64s, seen: HistogramFold) -> pa.StructArray:
    count = len(wanted)
    length = np.ascontiguousarray(seen.length[:, wanted])
    ends = np.cumsum(length.ravel())
    start = (ends - length.ravel()).reshape(length.shape)
    schema = np.zeros(count, np.int32)
    sums = Histograms(
        schema, np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count),
        np.zeros(count, np.uint8), np.zeros((2, 0), np.int64), start, length,
        np.zeros(int(ends[-1]) if count else 0),
    )  # fmt: skip
    add(views, items, wanted, seen, sums)
    explicit = schema == EXPLICIT
    bounded = explicit | (schema == CUSTOM_SCHEMA)
    positive, negative = length[POSITIVE] > 0, length[NEGATIVE] > 0
    offset = seen.offset[:, wanted].astype(np.int32)
    columns = {
        "schema": pa.array(schema, mask=explicit),
        "bounds": _lists(sums, BOUNDS, bounded),
        "counts": _lists(sums, COUNTS, explicit),
        "zero_threshold": pa.array(sums.threshold, mask=explicit, from_pandas=False),
        "zero_count": pa.array(sums.zeros, mask=explicit, from_pandas=False),
        "positive_offset": pa.array(offset[0], mask=~positive),
        "positive_counts": _lists(sums, POSITIVE, positive),
        "negative_offset": pa.array(offset[1], mask=~negative),
        "negative_counts": _lists(sums, NEGATIVE, negative),
        "count": pa.array(sums.counted, from_pandas=False),
        "sum": pa.array(sums.total, mask=sums.has_total == 0, from_pandas=False),
    }
    return histogram_struct(columns)


def _lists(found: Histograms, which: int, present: npt.NDArray[np.bool_]) -> pa.ListArray:
    if not len(present):
        return pa.array([], _DOUBLES)
    lengths = found.length[which]
    begin = found.start[which, 0]
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    values = pa.array(found.numbers[begin : begin + offsets[-1]], from_pandas=False)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=np.append(~present, False)), values)


def _hints(table: pa.Table, rows: Int64s) -> Bytes:
    if _HINT not in table.column_names:
        return np.full(len(rows), UNSAID, np.uint8)
    sent: Bytes = table.column(_HINT).chunk(0).fill_null(UNSAID).to_numpy()[rows].astype(np.uint8)
    return sent
