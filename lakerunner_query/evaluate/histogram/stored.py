"""Histograms out of the lake's columns.

explicit bounds [1, 5], counts [2, 3, 1]   ->   schema -53, buckets [2, 3, 1]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakerunner_query.evaluate.histogram.layout import reduced
from lakerunner_query.evaluate.histogram.model import (
    CUSTOM,
    HIGHEST,
    LOWEST,
    NO_BUCKETS,
    Buckets,
    Histogram,
    buckets_at,
)

EXPONENTIAL_SHIFT = 1
"""The lake numbers exponential buckets as OTLP does, by the bound where they begin."""


class StoredHistogramError(ValueError):
    """A row's histogram cannot be one."""


def of_struct(array: pa.StructArray) -> list[Histogram | None]:
    """From an array of the type `resources.lake.rollup_columns.HIST`; null stays None.

    Nothing is known of resets: hints are unknown. A sum that was not sent is NaN.
    """
    return [None if row is None else _histogram(row, place) for place, row in enumerate(array.to_pylist())]


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
