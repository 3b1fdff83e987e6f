"""Histograms are read from the lake's columns.

explicit bounds [1, 5], counts [2, 3, 1]   ->   schema -53, buckets [2, 3, 1]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.histogram.arithmetic import reduce_buckets
from lakerunner_query.histogram.batch import BUCKETS, EMPTIEST, FEW, WIDEST, Sheet, drop_unlisted
from lakerunner_query.histogram.model import (
    CUSTOM,
    HIGHEST,
    LOWEST,
    NO_BUCKETS,
    Buckets,
    Hint,
    Histogram,
    buckets_at,
)
from resources.arrays import Doubles, Int64s

EXPONENTIAL_SHIFT = 1
"""The lake numbers exponential buckets as OTLP does, by their lower bound."""


class StoredHistogramError(ValueError):
    """A row's histogram cannot be one."""


def of_struct(array: pa.StructArray, hints: Sequence[Hint] | None = None) -> list[Histogram | None]:
    """Read an array of the type `resources.lake.columns.HIST`; null stays None.

    `hints` by row tell of resets. A sum that was not sent is NaN.
    """
    schema = array.field("schema").fill_null(CUSTOM).to_numpy(zero_copy_only=False)
    usual = array.is_valid().to_numpy(zero_copy_only=False) & (schema >= LOWEST) & (schema <= HIGHEST)
    found: list[Histogram | None] = [None] * len(array)
    places = np.flatnonzero(usual).tolist()
    known = [Hint.UNKNOWN] * len(places) if hints is None else [hints[place] for place in places]
    for place, histogram in zip(places, _usual(array, usual, known), strict=True):
        found[place] = histogram
    for place in np.flatnonzero(~usual).tolist():
        row = array[place].as_py()
        one = None if row is None else _histogram(row, place)
        found[place] = one if one is None or hints is None else one.with_hint(hints[place])
    return found


def _usual(array: pa.StructArray, usual: npt.NDArray[np.bool_], hints: Sequence[Hint]) -> list[Histogram]:
    """Read rows of a schema that needs no reduction: there may be very many."""
    chosen = array if bool(usual.all()) else array.filter(pa.array(usual))
    sheet = _sheet(chosen) if len(chosen) >= FEW else None
    return list(_exponential(chosen, hints)) if sheet is None else sheet.histograms(hints).tolist()


def sheet_of_struct(array: pa.StructArray) -> Sheet | None:
    """Read such an array as a sheet; None where `of_struct` has to look at single rows."""
    schema = array.field("schema").fill_null(CUSTOM).to_numpy(zero_copy_only=False)
    if len(array) < FEW or array.null_count or not ((schema >= LOWEST) & (schema <= HIGHEST)).all():
        return None
    return _sheet(array)


def _sheet(array: pa.StructArray) -> Sheet | None:
    """Return None if layouts differ, or most of the sheet would be empty."""
    schemas = array.field("schema").to_numpy(zero_copy_only=False)
    thresholds = _numbers(array, "zero_threshold", 0.0)
    if (schemas != schemas[0]).any() or (thresholds.view(np.int64) != thresholds[:1].view(np.int64)).any():
        return None
    positive, negative = _dense(array, "positive"), _dense(array, "negative")
    if positive is None or negative is None or np.isnan(thresholds[0]):
        return None
    totals = [
        _numbers(array, name, missing)
        for name, missing in (("count", 0.0), ("sum", np.nan), ("zero_count", 0.0))
    ]
    model = Histogram(int(schemas[0]), zero_threshold=float(thresholds[0]))
    numbers = np.concatenate((np.stack(totals, axis=1), positive[1], negative[1]), axis=1)
    return drop_unlisted(Sheet(model, positive[0], negative[0], numbers, numbers[:, BUCKETS:] != 0))


def _numbers(array: pa.StructArray, name: str, missing: float) -> Doubles:
    column = array.field(name)
    known = column.fill_null(missing) if column.null_count else column
    return np.ascontiguousarray(known.to_numpy(zero_copy_only=False))


def _dense(array: pa.StructArray, side: str) -> tuple[Int64s, Doubles] | None:
    """Return places, and a row of counts for each histogram, zero where nothing is counted."""
    sizes, first, counts = _flat(array, side)
    filled = sizes > 0
    if not filled.any():
        return NO_BUCKETS.index, np.zeros((len(sizes), 0))
    low, high = int(first[filled].min()), int((first + sizes)[filled].max())
    if len(sizes) * (high - low) > EMPTIEST * len(counts) + WIDEST:
        return None
    places = np.arange(low, high, dtype=np.int64)
    if (sizes == high - low).all():
        return places, counts.reshape(len(sizes), high - low)
    matrix = np.zeros((len(sizes), high - low))
    begins = np.cumsum(sizes) - sizes
    at = np.arange(len(counts)) + np.repeat(first - low - begins, sizes)
    matrix[np.repeat(np.arange(len(sizes)), sizes), at] = counts
    return places, matrix


def _flat(array: pa.StructArray, side: str) -> tuple[Int64s, Int64s, Doubles]:
    """Return the number of buckets and the first one by histogram, and the counts of all."""
    lists = array.field(f"{side}_counts")
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    first = array.field(f"{side}_offset").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes, first + EXPONENTIAL_SHIFT, lists.flatten().to_numpy(zero_copy_only=False)


def _exponential(chosen: pa.StructArray, hints: Iterable[Hint]) -> Iterator[Histogram]:
    """Yield histograms cut from flat arrays."""

    def numbers(name: str, missing: float) -> list[float]:
        found: list[float] = chosen.field(name).fill_null(missing).to_pylist()
        return found

    columns = (
        chosen.field("schema").to_pylist(), numbers("count", 0.0), numbers("sum", np.nan),
        numbers("zero_threshold", 0.0), numbers("zero_count", 0.0),
        _sides(chosen, "positive"), _sides(chosen, "negative"), repeat(()), hints,
    )  # fmt: skip
    for row in zip(*columns, strict=False):  # no bounds, without end
        yield Histogram(*row)


def _sides(array: pa.StructArray, side: str) -> list[Buckets]:
    """Return the buckets that count something, of every row."""
    sizes, first, counts = _flat(array, side)
    ends = np.cumsum(sizes)
    index = np.arange(len(counts)) + np.repeat(first - (ends - sizes), sizes)
    keep = counts != 0
    before = np.concatenate(([0], np.cumsum(keep)))[np.concatenate(([0], ends))].tolist()
    index, counts = index[keep], counts[keep]
    return [
        Buckets(index[begin:end], counts[begin:end]) if end > begin else NO_BUCKETS
        for begin, end in pairwise(before)
    ]


def _histogram(row: dict[str, Any], place: int) -> Histogram:
    count = row["count"] or 0.0
    total = np.nan if row["sum"] is None else row["sum"]
    schema = row["schema"]
    if schema is None or schema == CUSTOM:
        bounds = tuple(row["bounds"] or ())
        counts, first = _custom_counts(row, schema is None)
        if first < 0 or first + len(counts) > len(bounds) + 1:
            raise StoredHistogramError(
                f"row {place}: {len(counts)} counts from {first}, expected at most {len(bounds) + 1}"
            )
        return Histogram(CUSTOM, count, total, positive=_drop_empty(buckets_at(first, counts)), bounds=bounds)
    if schema < LOWEST:
        raise StoredHistogramError(f"row {place}: schema {schema}, expected one from {LOWEST}")
    target = min(schema, HIGHEST)
    sides = [
        reduce_buckets(_side(row, side), schema, target) if schema != target else _side(row, side)
        for side in ("positive", "negative")
    ]
    return Histogram(
        target, count, total, row["zero_threshold"] or 0.0, row["zero_count"] or 0.0, sides[0], sides[1]
    )


def _custom_counts(row: dict[str, Any], is_explicit: bool) -> tuple[list[float], int]:
    if is_explicit:
        return row["counts"] or [], 0
    return row["positive_counts"] or [], row["positive_offset"] or 0


def _side(row: dict[str, Any], side: str) -> Buckets:
    counts = row[f"{side}_counts"] or []
    first = (row[f"{side}_offset"] or 0) + EXPONENTIAL_SHIFT
    return _drop_empty(buckets_at(first, counts))


def _drop_empty(buckets: Buckets) -> Buckets:
    """Drop buckets that count nothing: the lake stores sides dense."""
    found = buckets.populated()
    return found if found.size else NO_BUCKETS
