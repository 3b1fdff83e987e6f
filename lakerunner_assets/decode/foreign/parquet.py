"""Foreign Parquet and our own segments are read a batch of rows at a time.

A row group may hold a gigabyte, and a dictionary turns a few bytes of file into as much memory as its writer
likes. So pages are read through a buffer, and a batch has as many rows as the largest row group and the
longest value of any dictionary allow. pyarrow ends the process when asked about a damaged footer, but raises
when it reads a damaged column: so one row of every row group is read before its footer is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_assets.decode.dispatch import DecodedSlice, Decoder, Request
from lakerunner_assets.decode.errors import DecodeError, MalformedError, TooLargeError
from lakerunner_assets.decode.foreign.arrow_columns import Raw, raw_columns
from lakerunner_assets.decode.foreign.batches import check_batch, unfolded_bytes
from lakerunner_assets.decode.foreign.mapping import Key
from lakerunner_assets.decode.foreign.own_segments import is_segment, segment_tables
from lakerunner_assets.decode.foreign.tables import decode_rows
from lakerunner_assets.decode.foreign.values import without_dictionary
from lakerunner_assets.decode.json.lines import RawRows
from lakerunner_assets.decode.payload import IN_MEMORY_BYTES, Payload
from resources.lake.layout import Signal

_FEW_BYTES = 4
"""Average stored bytes below which a column is mostly references to a dictionary."""
_CODED = {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}
_BUFFER_BYTES = 1 << 20


def longest_value(source: pa.NativeFile, metadata: pq.FileMetaData) -> int:
    """Return the bytes of the longest text in the dictionaries of top-level columns, at least 1.

    Reading one row of a column as a dictionary gives the whole first dictionary of its row group.
    """
    longest = 1
    texts = _texts(metadata)
    file = pq.ParquetFile(
        source,
        metadata=metadata,
        read_dictionary=texts,
        pre_buffer=False,
        buffer_size=_BUFFER_BYTES,
        page_checksum_verification=True,
    )
    for group in range(metadata.num_row_groups):
        for batch in file.iter_batches(1, row_groups=[group], use_threads=False):
            for column in batch.columns:
                if pa.types.is_dictionary(column.type) and len(column.dictionary):
                    longest = max(longest, pc.max(pc.binary_length(column.dictionary)).as_py() or 0)
            break
    return longest


def repetitive(metadata: pq.FileMetaData) -> list[str]:
    """List the top-level text columns to read as dictionaries; call `longest_value` first."""
    size: dict[str, int] = {}
    count: dict[str, int] = {}
    texts = set(_texts(metadata))
    for group in range(metadata.num_row_groups):
        for name, chunk in _coded_chunks(metadata, group):
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


def _coded_chunks(metadata: pq.FileMetaData, group: int) -> Iterator[tuple[str, pq.ColumnChunkMetaData]]:
    row_group = metadata.row_group(group)
    if row_group.num_rows:
        for index in range(row_group.num_columns):
            chunk = row_group.column(index)
            if _CODED & set(chunk.encodings):
                yield chunk.path_in_schema, chunk


BATCH_BYTES = 16 << 20
"""Stored bytes of a batch; Arrow and our columns take a few times as much."""
BATCH_ROWS = 1 << 17
LONG_BYTES = 256 << 20
"""Bytes of a batch at most if every value were the longest of its dictionary."""
SMALL_UNFOLDED = 64 << 20
USUAL, STEEPEST = 100, 1000
"""Bytes that a byte of file may unfold to: of any file, and below the limit of envelopes."""


def decode_parquet(signal: Signal) -> Decoder:
    """Make a decoder of Parquet files that hold records of this signal."""

    def decoder(payload: Payload, request: Request) -> Iterator[DecodedSlice]:
        with _faults():
            source = _source(payload)
            metadata = pq.read_metadata(source)
            longest = longest_value(source, metadata)
            check_counts(metadata)
            file = pq.ParquetFile(
                source,
                metadata=metadata,
                read_dictionary=repetitive(metadata),
                buffer_size=_BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            )
            rows = min(batch_rows(metadata, request.slice_bytes), LONG_BYTES // longest)
            batches = _checked(file.iter_batches(max(rows, 1), use_threads=False), payload, metadata)
            if is_segment(metadata):
                with _damaged_segment():
                    yield from segment_tables(payload, metadata, batches, request, signal)
            else:
                yield from decode_rows(map(raw_rows, batches), request, signal)

    return decoder


def check_counts(metadata: pq.FileMetaData) -> None:
    """Raise unless the footer's numbers of rows agree with each other; call `longest_value` first."""
    rows = 0
    for place in range(metadata.num_row_groups):
        group = metadata.row_group(place)
        rows += group.num_rows
        for index in range(group.num_columns):
            chunk = group.column(index)
            is_flat = metadata.schema.column(index).max_repetition_level == 0
            if chunk.num_values < group.num_rows or (is_flat and chunk.num_values > group.num_rows):
                raise MalformedError(
                    0,
                    f"Parquet: row group {place}: {chunk.num_values} values of {chunk.path_in_schema!r} "
                    f"in {group.num_rows} rows",
                )
    if rows != metadata.num_rows or rows < 0:
        raise MalformedError(0, f"Parquet: {metadata.num_rows} rows, {rows} in its row groups")


def _checked(
    batches: Iterator[pa.RecordBatch], payload: Payload, metadata: pq.FileMetaData
) -> Iterator[pa.RecordBatch]:
    """Check every batch; refuse a file that unfolds to more than a file of its size has reason to."""
    limit = most_unfolded(payload)
    total = rows = 0
    for batch in batches:
        check_batch(batch)
        rows += batch.num_rows
        total += sum(map(unfolded_bytes, batch.columns))
        if total > limit:
            raise TooLargeError(
                limit, f"Parquet: a file of {payload.size} bytes that unfolds to more than {limit} bytes"
            )
        yield batch
    if rows != metadata.num_rows:
        raise MalformedError(0, f"Parquet: a file of {metadata.num_rows} rows in which {rows} were found")


def most_unfolded(payload: Payload) -> int:
    """Return the limit of what a file may unfold to.

    Columns of repeated values take next to nothing in a file and much in memory, so the limit of envelopes
    alone is too little for a large file and far too much for one of a few kilobytes.
    """
    size = payload.size
    return max(SMALL_UNFOLDED, min(STEEPEST * size, payload.max_bytes), USUAL * size)


def _source(payload: Payload) -> pa.NativeFile:
    if payload.size <= IN_MEMORY_BYTES:
        return pa.BufferReader(payload.read(0, payload.size))
    return pa.PythonFile(payload.file, mode="r")


@contextmanager
def _faults() -> Iterator[None]:
    """Turn Arrow's errors about a broken file into ours; errors of the disk keep their number and pass."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise MalformedError(0, f"Parquet: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise MalformedError(0, f"Parquet: {error}") from error


@contextmanager
def _damaged_segment() -> Iterator[None]:
    """Turn the many errors of a damaged segment of ours into one."""
    try:
        yield
    except (DecodeError, pa.ArrowException, UnicodeDecodeError):
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise MalformedError(0, f"Parquet: a damaged segment of Lakerunner: {error!r}") from error


def batch_rows(metadata: pq.FileMetaData, slice_bytes: int) -> int:
    """Return the rows that take about a batch's bytes in the largest row group."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    per_row = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1.0)
    return max(1, min(BATCH_ROWS, int(min(slice_bytes, BATCH_BYTES) / max(per_row, 1.0))))


def raw_rows(batch: pa.RecordBatch) -> RawRows:
    """Convert a batch to raw columns; of repeated names the first value in a row wins."""
    notes: Counter[str] = Counter()
    columns: dict[Key, pa.Array] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for key, found in _drop_empty(raw_columns(name, column, notes)):
            values = found
            if key in columns and key[1] in {"string", "array"}:
                values = pc.coalesce(without_dictionary(columns[key]), without_dictionary(values))
            elif key in columns:
                values = pc.coalesce(columns[key], values)
            columns[key] = values
    count = batch.num_rows
    return RawRows(count, columns, None, count, np.arange(count), 0, "", dict(notes))


def _drop_empty(columns: Iterator[Raw]) -> Iterator[Raw]:
    return ((key, values) for key, values in columns if values.null_count < len(values))
