"""Histograms out of the lake's columns.

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

from lakerunner_query.evaluate.histogram.layout import reduced
from lakerunner_query.evaluate.histogram.model import (
    CUSTOM,
    HIGHEST,
    LOWEST,
    NO_BUCKETS,
    Buckets,
    Hint,
    Histogram,
    buckets_at,
)

EXPONENTIAL_SHIFT = 1
"""The lake numbers exponential buckets as OTLP does, by the bound where they begin."""


class StoredHistogramError(ValueError):
    """A row's histogram cannot be one."""


def of_struct(array: pa.StructArray, hints: Sequence[Hint] | None = None) -> list[Histogram | None]:
    """From an array of the type `resources.lake.rollup_columns.HIST`; null stays None.

    Nothing is known of resets but what `hints` say, by row. A sum that was not sent is NaN.
    """
    schema = array.field("schema").fill_null(CUSTOM).to_numpy(zero_copy_only=False)
    usual = array.is_valid().to_numpy(zero_copy_only=False) & (schema >= LOWEST) & (schema <= HIGHEST)
    found: list[Histogram | None] = [None] * len(array)
    places = np.flatnonzero(usual).tolist()
    known = repeat(Hint.UNKNOWN, len(places)) if hints is None else [hints[place] for place in places]
    for place, histogram in zip(places, _exponential(array, usual, known), strict=True):
        found[place] = histogram
    for place in np.flatnonzero(~usual).tolist():
        row = array[place].as_py()
        one = None if row is None else _histogram(row, place)
        found[place] = one if one is None or hints is None else one.with_hint(hints[place])
    return found


def _exponential(
    array: pa.StructArray, usual: npt.NDArray[np.bool_], hints: Iterable[Hint]
) -> Iterator[Histogram]:
    """Those of a schema that needs no reduction, cut from flat arrays: there may be very many."""
    chosen = array.filter(pa.array(usual))

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
    """The buckets that count something, of every row."""
    lists = array.field(f"{side}_counts")
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = lists.flatten().to_numpy(zero_copy_only=False)
    first = array.field(f"{side}_offset").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(sizes)
    index = np.arange(len(counts)) + np.repeat(first + EXPONENTIAL_SHIFT - (ends - sizes), sizes)
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
        return Histogram(CUSTOM, count, total, positive=_populated(buckets_at(first, counts)), bounds=bounds)
    if schema < LOWEST:
        raise StoredHistogramError(f"row {place}: schema {schema}, expected one from {LOWEST}")
    target = min(schema, HIGHEST)
    sides = [
        reduced(_side(row, side), schema, target) if schema != target else _side(row, side)
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
    return _populated(buckets_at(first, counts))


def _populated(buckets: Buckets) -> Buckets:
    """The lake stores sides dense; buckets that count nothing are filling."""
    found = buckets.populated()
    return found if found.size else NO_BUCKETS
