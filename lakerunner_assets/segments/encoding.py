"""How each column is encoded, decided from a look at its values.

Dictionaries pay only where few values repeat; times and other integers are delta-coded, other doubles
split into byte streams. Trace and span ids get bloom filters, sized for the largest row group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

LOG_LEVEL = 1
METRIC_LEVEL = 3
"""Of zstd: logs and traces, metrics."""
BATCH_ROWS = 8192
"""Rows the writer encodes at a time; pyarrow's 1024 spends more on the batches than on short values."""
BLOOM_COLUMNS = ("trace_id", "span_id", "span_trace_id")
BLOOM_FPP = 0.05
"""The segment's token bloom already holds the ids; this one only chooses row groups."""

_SAMPLE = 4096
_SAMPLE_DISTINCT = 64


@dataclass(frozen=True, slots=True)
class Encodings:
    dictionary: tuple[str, ...]
    by_column: dict[str, str]

    def writer_options(self, bloom_rows: dict[str, int], compression_level: int) -> dict[str, Any]:
        """Keyword arguments of `pyarrow.parquet.ParquetWriter`."""
        return {
            "compression": "zstd",
            "compression_level": compression_level,
            "use_dictionary": list(self.dictionary),
            "column_encoding": self.by_column,
            "write_statistics": True,
            "write_page_index": True,
            "write_batch_size": BATCH_ROWS,
            "store_schema": False,  # readers get plain Parquet types, the same in every segment
            "bloom_filter_options": {
                name: {"ndv": rows, "fpp": BLOOM_FPP} for name, rows in bloom_rows.items()
            },
        }


def choose(table: pa.Table) -> Encodings:
    dictionary = [
        f.name for f, column in zip(table.schema, table.columns, strict=True) if few_values(column.chunk(0))
    ]
    by_column = {
        field.name: encoding
        for field in table.schema
        if field.name not in dictionary and (encoding := _encoding(field.type)) is not None
    }
    return Encodings(tuple(dictionary), by_column)


def few_values(column: pa.Array) -> bool:
    """Whether a dictionary is worth its page: known for dictionary arrays, sampled for numbers."""
    if pa.types.is_dictionary(column.type):
        return len(column.dictionary) <= max(16, len(column) // 4)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return False
    step = max(1, len(column) // _SAMPLE)
    sample = column.take(pa.array(np.arange(0, len(column), step)))
    return len(sample.unique()) <= min(_SAMPLE_DISTINCT, max(2, len(sample) // 8))


def _encoding(data_type: pa.DataType) -> str | None:
    if pa.types.is_integer(data_type):
        return "DELTA_BINARY_PACKED"
    return "BYTE_STREAM_SPLIT" if pa.types.is_floating(data_type) else None


def bloom_rows(table: pa.Table, groups: Sequence[tuple[int, int]]) -> dict[str, int]:
    """Distinct values to expect in the largest row group; columns without values get no filter."""
    largest = max(end - start for start, end in groups)
    present = {
        name: table.num_rows - table.column(name).null_count
        for name in BLOOM_COLUMNS
        if name in table.column_names
    }
    return {name: min(largest, rows) for name, rows in present.items() if rows}


def compacted(table: pa.Table) -> pa.Table:
    """Dictionaries without values that no row here uses: Parquet would write them in every row group."""
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(index, field, _compact(table.column(index).chunk(0)))
    return table


def _compact(column: pa.DictionaryArray) -> pa.DictionaryArray:
    size = len(column.dictionary)
    if size <= 8:
        return column
    codes = column.indices.fill_null(0).to_numpy()
    used = np.bincount(codes, minlength=size) > 0
    if used.sum() * 2 > size:
        return column
    code_of = (np.cumsum(used) - 1).astype(np.int32)
    indices = pa.array(code_of[codes], mask=column.is_null().to_numpy(zero_copy_only=False))
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.filter(pa.array(used)))
