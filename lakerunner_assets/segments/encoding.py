"""Each column gets an encoding by a look at its values.

Dictionaries pay only where few values repeat; times and other integers are delta-coded, hashes are not, other
doubles are split into byte streams. Trace and span ids get bloom filters, sized for the largest row group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from resources.lake.columns import CHQ_FINGERPRINT, CHQ_STREAM_ID

LOG_LEVEL = 1
METRIC_LEVEL = 3
MESSAGE_LEVEL = 2
STRONG_LEVEL = 6
"""Levels of zstd: logs and traces, metrics and integers, messages, messages of compacted segments."""
MESSAGE = "log_message"
"""The longest text of a row; its least and greatest value would only make footers longer."""
HASHES = frozenset({CHQ_FINGERPRINT, CHQ_STREAM_ID})
BATCH_ROWS = 8192
"""Rows the writer encodes at a time; pyarrow's 1024 spends more on the batches than on short values."""
BLOOM_COLUMNS = ("trace_id", "span_id", "span_trace_id")
BLOOM_FPP = 0.05
"""The segment's token bloom already holds the ids; this one only chooses row groups."""

_SAMPLE = 4096
_SAMPLE_DISTINCT = 64
_SMALL_DICTIONARY = 32
"""Written whole in every row group: finding out what is used would cost more than it saves."""


@dataclass(frozen=True, slots=True)
class Encodings:
    dictionary: tuple[str, ...]
    by_column: dict[str, str]
    constant: tuple[str, ...] = ()
    """Columns of one value: a few bytes of runs, which compression would only take time for."""

    def writer_options(
        self,
        schema: pa.Schema,
        bloom_rows: dict[str, int],
        compression_level: int,
        message_level: int = MESSAGE_LEVEL,
    ) -> dict[str, Any]:
        """Build the keyword arguments of `pyarrow.parquet.ParquetWriter`."""
        leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
        compression = dict.fromkeys(leaves, "zstd") | dict.fromkeys(self.constant, "none")
        levels = {MESSAGE: message_level} | {
            name: max(compression_level, METRIC_LEVEL)
            for name, encoding in self.by_column.items()
            if encoding == "DELTA_BINARY_PACKED"
        }
        return {
            "compression": compression,
            "compression_level": {
                name: levels.get(name, compression_level)
                for name, codec in compression.items()
                if codec == "zstd"
            },
            "use_dictionary": list(self.dictionary),
            "column_encoding": self.by_column,
            "write_statistics": [leaf for leaf in leaves if leaf != MESSAGE],
            "write_page_index": True,
            "write_page_checksum": True,
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
        if field.name not in dictionary
        and field.name not in HASHES
        and (encoding := _encoding(field.type)) is not None
    }
    constant = [name for name in dictionary if is_constant(table.column(name).chunk(0))]
    return Encodings(tuple(dictionary), by_column, tuple(constant))


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield Parquet's own columns inside a column, as it spells them."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


def narrow_columns(table: pa.Table, encodings: Encodings) -> pa.Table:
    """Return columns the writer is quickest with: narrow codes, not nullable where nothing is null."""
    fields: list[pa.Field] = []
    columns: list[pa.Array] = []
    for field, whole in zip(table.schema, table.columns, strict=True):
        column = whole.chunk(0)
        if pa.types.is_dictionary(field.type):
            column = _narrow(column) if field.name in encodings.dictionary else column.cast(pa.string())
        fields.append(pa.field(field.name, column.type, nullable=column.null_count > 0))
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _narrow(column: pa.DictionaryArray) -> pa.DictionaryArray:
    size = len(column.dictionary)
    code = pa.int8() if size < 1 << 7 else pa.int16() if size < 1 << 15 else pa.int32()
    return pa.DictionaryArray.from_arrays(
        column.indices.cast(code, safe=False), column.dictionary, safe=False
    )


def is_constant(column: pa.Array) -> bool:
    """Tell if all rows of a column of few values are equal, or all null."""
    if column.null_count:
        return bool(column.null_count == len(column))
    if pa.types.is_dictionary(column.type):
        column = column.indices
    ends = pc.min_max(column).as_py()
    return bool(ends["min"] == ends["max"])


def few_values(column: pa.Array) -> bool:
    """Tell if a dictionary is worth its page: known for dictionary arrays, sampled for numbers."""
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
    """Count the distinct values to expect in the largest row group; empty columns get no filter.

    Nor does a file of one row group: its token bloom has already been asked.
    """
    if len(groups) == 1:
        return {}
    largest = max(end - start for start, end in groups)
    present = {
        name: table.num_rows - table.column(name).null_count
        for name in BLOOM_COLUMNS
        if name in table.column_names
    }
    return {name: min(largest, rows) for name, rows in present.items() if rows}


def compact_dictionaries(table: pa.Table) -> pa.Table:
    """Drop unused values of dictionaries: Parquet would write them in every row group."""
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(index, field, _compact(table.column(index).chunk(0)))
    return table


def _compact(column: pa.DictionaryArray) -> pa.DictionaryArray:
    size = len(column.dictionary)
    if size <= _SMALL_DICTIONARY:
        return column
    codes = column.indices.fill_null(0).to_numpy()
    used = np.bincount(codes, minlength=size) > 0
    if used.sum() * 2 > size:
        return column
    code_of = (np.cumsum(used) - 1).astype(codes.dtype)
    indices = pa.array(code_of[codes], mask=column.is_null().to_numpy(zero_copy_only=False))
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.filter(pa.array(used)), safe=False)
