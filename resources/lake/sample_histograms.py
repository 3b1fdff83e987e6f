"""The histogram columns of metric samples as one array of histograms, for whoever computes with them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from resources.lake.rollup_columns import HIST

HISTOGRAM_COLUMNS = (
    "chq_hist_count", "chq_hist_count_float", "chq_hist_sum", "chq_hist_bounds", "chq_hist_counts",
    "chq_hist_schema", "chq_hist_zero_count", "chq_hist_zero_count_float", "chq_hist_zero_threshold",
    "chq_hist_positive_offset", "chq_hist_positive_counts", "chq_hist_positive_counts_float",
    "chq_hist_negative_offset", "chq_hist_negative_counts", "chq_hist_negative_counts_float",
)  # fmt: skip
"""What `histograms_of_samples` reads, as far as it is there."""
_DOUBLES = pa.list_(pa.float64())


def histograms_of_samples(table: pa.Table, rows: pa.Array) -> pa.StructArray:
    """The rows as histograms; counts beyond 2^63 are negative there and as sent here."""

    def column(name: str, kind: pa.DataType) -> pa.Array:
        if name not in table.column_names:
            return pa.nulls(len(rows), kind)
        return table.column(name).chunk(0).take(rows).cast(kind)

    def numbers(name: str) -> pa.Array:
        integers = column(name, pa.int64())
        doubles = _unsigned(integers.fill_null(0).to_numpy(zero_copy_only=False))
        return pc.if_else(integers.is_valid(), doubles, column(f"{name}_float", pa.float64()))

    def lists(name: str) -> pa.Array:
        integers = column(name, pa.list_(pa.int64()))
        doubles = pa.ListArray.from_arrays(
            _offsets(integers), _unsigned(integers.values.to_numpy(zero_copy_only=False))
        )
        floats = f"{name}_float"
        return pc.coalesce(doubles, column(floats, _DOUBLES)) if floats in table.column_names else doubles

    whole = {
        "schema": column("chq_hist_schema", pa.int32()),
        "bounds": column("chq_hist_bounds", _DOUBLES),
        "counts": lists("chq_hist_counts"),
        "zero_threshold": column("chq_hist_zero_threshold", pa.float64()),
        "zero_count": numbers("chq_hist_zero_count"),
        "positive_offset": column("chq_hist_positive_offset", pa.int32()),
        "positive_counts": lists("chq_hist_positive_counts"),
        "negative_offset": column("chq_hist_negative_offset", pa.int32()),
        "negative_counts": lists("chq_hist_negative_counts"),
        "count": numbers("chq_hist_count"),
        "sum": column("chq_hist_sum", pa.float64()),
    }
    return histogram_struct(whole)


def _unsigned(integers: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.ascontiguousarray(integers).view(np.uint64).astype(np.float64), from_pandas=False)


def _offsets(lists: pa.ListArray) -> pa.Array:
    """With a null where the list is null."""
    valid = lists.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(lists.offsets.to_numpy(), mask=np.append(~valid, False))


def histogram_struct(columns: dict[str, pa.Array]) -> pa.StructArray:
    arrays = [columns[field.name].cast(field.type) for field in HIST]
    return pa.StructArray.from_arrays(arrays, fields=list(HIST))
