"""A segment is read back before it is published: footer, pages, series table.

    column of times:  [header crc=7a01…][page][header crc=…][page]  →  as many values as the footer says

Nobody could read a page that was damaged between the encoder and the disk, and its raw objects would count as
done. Headers are read here because pyarrow checks checksums only while it decodes.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from resources.lake import trace_summaries
from resources.lake.segment_file import SegmentFacts, read_facts

_TYPE, _UNPACKED, _SIZE, _CRC = 1, 2, 3, 4
"""Fields of Parquet's PageHeader."""
_OF_TYPE = {0: 5, 2: 7, 3: 8}
"""Field of the header that each type of page has: data, dictionary, data of version 2."""
_DICTIONARY = 2
_VALUES = 1
"""Field of either data page header: its number of values."""
_BOOLS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
"""Types of Thrift's compact protocol."""
_TAIL = 8
"""Bytes behind the footer: its length, and `PAR1`."""

Fields = dict[int, "int | Fields | None"]


class UnreadableSegmentError(RuntimeError):
    """A segment that was just written cannot be read; it must not be published."""


def verify_segment(path: Path) -> None:
    """Raise `UnreadableSegmentError` unless the file can be read from its footer to its last page."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _verify(data, pq.read_metadata(path))
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
        raise UnreadableSegmentError(f"{path.name} cannot be read as it was written: {error!r}") from error


def _verify(data: mmap.mmap, metadata: pq.FileMetaData) -> None:
    facts = read_facts(metadata)
    if metadata.num_rows != facts.rows:
        raise ValueError(f"{metadata.num_rows} rows; expected {facts.rows}")
    for place in range(metadata.num_row_groups):
        group = metadata.row_group(place)
        for index in range(group.num_columns):
            _verify_chunk(data, group.column(index), place)
        data.madvise(mmap.MADV_DONTNEED)  # pages that were read count as memory of the task
    _verify_blocks(data, facts, len(data) - _TAIL - metadata.serialized_size)
    _verify_summaries(data, facts, trace_summaries.read_length(metadata))


def _verify_chunk(data: mmap.mmap, chunk: pq.ColumnChunkMetaData, place: int) -> None:
    where = f"row group {place}, column {chunk.path_in_schema}"
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    end = start + chunk.total_compressed_size
    values = unpacked = 0
    while start < end:
        header, body = read_struct(data, start)
        size, crc = cast("int", header[_SIZE]), cast("int", header[_CRC])
        if not 0 <= size <= end - body:
            raise ValueError(f"{where}: a page of {size} bytes at {body}, the chunk ends at {end}")
        if crc & 0xFFFFFFFF != isal_zlib.crc32(data[body : body + size]):
            raise ValueError(f"{where}: the page at {body} has not the checksum in its header")
        page = cast("Fields", header[_OF_TYPE[cast("int", header[_TYPE])]])
        values += cast("int", page[_VALUES]) if header[_TYPE] != _DICTIONARY else 0
        unpacked += body - start + cast("int", header[_UNPACKED])
        start = body + size
    found = (start, values, unpacked)
    expected = (end, chunk.num_values, chunk.total_uncompressed_size)
    if found != expected:
        raise ValueError(f"{where}: end, values and unpacked bytes are {found}; expected {expected}")


def _verify_blocks(data: mmap.mmap, facts: SegmentFacts, end: int) -> None:
    table = data[facts.series_offset : facts.series_offset + facts.series_length]
    ends = (facts.series_offset + facts.series_length, facts.bloom_offset + facts.bloom_length)
    if max(ends) > end or len(table) != facts.series_length:
        raise ValueError(f"its blocks do not lie before its footer at {end}: {facts}")
    if not table:
        return  # cardinality is counted per metric, not per series
    with pa.ipc.open_stream(table) as reader:
        reader.read_all().validate(full=True)


def _verify_summaries(data: mmap.mmap, facts: SegmentFacts, length: int) -> None:
    if not length:
        return
    spans = trace_summaries.read_table(data[facts.bloom_offset - length : facts.bloom_offset]).column("spans")
    if pa.compute.sum(spans).as_py() > facts.rows:
        raise ValueError(f"its trace summaries count more than its {facts.rows} spans")


def read_struct(data: mmap.mmap | bytes, at: int) -> tuple[Fields, int]:
    """Read a struct of Thrift's compact protocol; return integers and structs in it by field, and its end.

    >>> read_struct(bytes([0x15, 0x06, 0x2C, 0x15, 0x04, 0x00, 0x00]), 0)
    ({1: 3, 3: {1: 2}}, 7)
    """
    fields: Fields = {}
    number = 0
    while data[at]:
        kind, step = data[at] & 15, data[at] >> 4
        at += 1
        if step:
            number += step
        else:
            number, at = _integer(data, at)
        fields[number], at = _value(data, at, kind)
    return fields, at + 1


def _value(data: mmap.mmap | bytes, at: int, kind: int) -> tuple[int | Fields | None, int]:
    if kind in _BOOLS:
        return None, at
    if kind in _INTEGERS:
        return _integer(data, at)
    if kind == _STRUCT:
        return read_struct(data, at)
    if kind == _BINARY:
        length, at = _varint(data, at)
        return None, at + length
    if kind in {_BYTE, _DOUBLE}:
        return None, at + (1 if kind == _BYTE else 8)
    raise ValueError(f"a page header with a field of type {kind} at {at}")


def _integer(data: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(data: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while data[at] & 128:
        number |= (data[at] & 127) << shift
        shift += 7
        at += 1
    return number | data[at] << shift, at + 1
