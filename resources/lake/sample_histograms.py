"""Histogram columns of metric samples become one array of histograms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from resources.lake.columns import (
    CHQ_HIST_BOUNDS,
    CHQ_HIST_COUNT,
    CHQ_HIST_COUNT_FLOAT,
    CHQ_HIST_COUNTS,
    CHQ_HIST_NEGATIVE_COUNTS,
    CHQ_HIST_NEGATIVE_COUNTS_FLOAT,
    CHQ_HIST_NEGATIVE_OFFSET,
    CHQ_HIST_POSITIVE_COUNTS,
    CHQ_HIST_POSITIVE_COUNTS_FLOAT,
    CHQ_HIST_POSITIVE_OFFSET,
    CHQ_HIST_SCHEMA,
    CHQ_HIST_SUM,
    CHQ_HIST_ZERO_COUNT,
    CHQ_HIST_ZERO_COUNT_FLOAT,
    CHQ_HIST_ZERO_THRESHOLD,
)
from resources.lake.rollup_columns import HIST

HISTOGRAM_COLUMNS = (
    CHQ_HIST_COUNT, CHQ_HIST_COUNT_FLOAT, CHQ_HIST_SUM, CHQ_HIST_BOUNDS, CHQ_HIST_COUNTS,
    CHQ_HIST_SCHEMA, CHQ_HIST_ZERO_COUNT, CHQ_HIST_ZERO_COUNT_FLOAT, CHQ_HIST_ZERO_THRESHOLD,
    CHQ_HIST_POSITIVE_OFFSET, CHQ_HIST_POSITIVE_COUNTS, CHQ_HIST_POSITIVE_COUNTS_FLOAT,
    CHQ_HIST_NEGATIVE_OFFSET, CHQ_HIST_NEGATIVE_COUNTS, CHQ_HIST_NEGATIVE_COUNTS_FLOAT,
)  # fmt: skip
"""Columns that `histograms_of_samples` reads, as far as they exist."""
_DOUBLES = pa.list_(pa.float64())


def histograms_of_samples(table: pa.Table, rows: pa.Array) -> pa.StructArray:
    """Return the rows as histograms; counts beyond 2^63, negative in the columns, are as sent."""

    def column(name: str, kind: pa.DataType) -> pa.Array:
        if name not in table.column_names:
            return pa.nulls(len(rows), kind)
        return table.column(name).chunk(0).take(rows).cast(kind)

    def numbers(name: str) -> pa.Array:
        integers = column(name, pa.int64())
        doubles = _as_unsigned(integers.fill_null(0).to_numpy(zero_copy_only=False))
        return pc.if_else(integers.is_valid(), doubles, column(f"{name}_float", pa.float64()))

    def lists(name: str) -> pa.Array:
        integers = column(name, pa.list_(pa.int64()))
        doubles = pa.ListArray.from_arrays(
            _offsets(integers), _as_unsigned(integers.values.to_numpy(zero_copy_only=False))
        )
        floats = f"{name}_float"
        return pc.coalesce(doubles, column(floats, _DOUBLES)) if floats in table.column_names else doubles

    whole = {
        "schema": column(CHQ_HIST_SCHEMA, pa.int32()),
        "bounds": column(CHQ_HIST_BOUNDS, _DOUBLES),
        "counts": lists(CHQ_HIST_COUNTS),
        "zero_threshold": column(CHQ_HIST_ZERO_THRESHOLD, pa.float64()),
        "zero_count": numbers(CHQ_HIST_ZERO_COUNT),
        "positive_offset": column(CHQ_HIST_POSITIVE_OFFSET, pa.int32()),
        "positive_counts": lists(CHQ_HIST_POSITIVE_COUNTS),
        "negative_offset": column(CHQ_HIST_NEGATIVE_OFFSET, pa.int32()),
        "negative_counts": lists(CHQ_HIST_NEGATIVE_COUNTS),
        "count": numbers(CHQ_HIST_COUNT),
        "sum": column(CHQ_HIST_SUM, pa.float64()),
    }
    return histogram_struct(whole)


def _as_unsigned(integers: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.ascontiguousarray(integers).view(np.uint64).astype(np.float64), from_pandas=False)


def _offsets(lists: pa.ListArray) -> pa.Array:
    """Return the offsets with a null where the list is null."""
    valid = lists.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(lists.offsets.to_numpy(), mask=np.append(~valid, False))


def histogram_struct(columns: dict[str, pa.Array]) -> pa.StructArray:
    arrays = [columns[field.name].cast(field.type) for field in HIST]
    return pa.StructArray.from_arrays(arrays, fields=list(HIST))
