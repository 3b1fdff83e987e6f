"""Dictionaries of Parquet files: which columns are better read as such, and how long their values are.

Asking pyarrow for what a damaged footer says of a column ends the process; reading the column is an error
that can be caught. So one row of every row group is read first, and only then is a footer asked.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_FEW_BYTES = 4
"""A column whose stored values take less on average is mostly references to a dictionary."""
_CODED = {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}
_BUFFER_BYTES = 1 << 20


def longest_value(source: pa.NativeFile, metadata: pq.FileMetaData) -> int:
    """Bytes of the longest text in the dictionaries of top-level columns, at least 1.

    Reading one row of a column as a dictionary gives the whole first dictionary of its row group.
    """
    longest = 1
    texts = _texts(metadata)
    file = pq.ParquetFile(
        source, metadata=metadata, read_dictionary=texts, pre_buffer=False, buffer_size=_BUFFER_BYTES
    )
    for group in range(metadata.num_row_groups):
        for batch in file.iter_batches(1, row_groups=[group], use_threads=False):
            for column in batch.columns:
                if pa.types.is_dictionary(column.type) and len(column.dictionary):
                    longest = max(longest, pc.max(pc.binary_length(column.dictionary)).as_py() or 0)
            break
    return longest


def repetitive(metadata: pq.FileMetaData) -> list[str]:
    """Top-level text columns that are better decoded once per distinct value; after `longest_value` only."""
    size: dict[str, int] = {}
    count: dict[str, int] = {}
    texts = set(_texts(metadata))
    for group in range(metadata.num_row_groups):
        for name, chunk in _coded(metadata, group):
            if name in texts:
                size[name] = size.get(name, 0) + chunk.total_uncompressed_size
                count[name] = count.get(name, 0) + chunk.num_values
    return [name for name in size if size[name] < _FEW_BYTES * count[name]]


def _texts(metadata: pq.FileMetaData) -> list[str]:
    columns = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    return [
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY"
        and column.max_repetition_level == 0
        and "." not in column.path
    ]


def _coded(metadata: pq.FileMetaData, group: int) -> Iterator[tuple[str, pq.ColumnChunkMetaData]]:
    row_group = metadata.row_group(group)
    if row_group.num_rows:
        for index in range(row_group.num_columns):
            chunk = row_group.column(index)
            if _CODED & set(chunk.encodings):
                yield chunk.path_in_schema, chunk
