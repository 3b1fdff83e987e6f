"""Column chunks are located by the footer and decoded page by page, without Arrow.

Two kinds are known: 64-bit integers stored as differences, and dictionary codes of integers and texts, both
without nulls. Other columns have no location here and are left to Arrow or DuckDB.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow.parquet as pq
import xxhash
import zstandard

from lakerunner_query.worker.parquet.dictionary_kernels import add_codes, dictionary_page
from lakerunner_query.worker.parquet.page_kernels import (
    DATA_PAGE,
    ENCODING,
    KIND,
    OFFSET,
    PLAIN_BYTES,
    STORED_BYTES,
    UNKNOWN,
    VALUES,
    deltas,
    pages_of,
    read_varint,
)
from resources.arrays import Bytes, Int32s, Int64s
from resources.lake.tokens import SALTS

CODECS = {"ZSTD": "zstd", "UNCOMPRESSED": None}
"""Compression by its name in footers."""
PLAIN, DELTA_BINARY_PACKED, RLE_DICTIONARY = 0, 5, 8
"""Encodings of pages, from `parquet.thrift`."""
_BLOOM_HEADER, _BLOOM_BLOCK = 32, 32
_BLOCK_WORDS = struct.Struct("<8I")
"""Bytes that a header has at most, and those of a block."""
_I32_FIELD, _BLOOM_KIND = 0x15, bytes.fromhex("1c1c0000" * 3 + "00")
_LENGTH_BYTES = 4
"""Bytes of the length before the levels of a page, and before each text of a dictionary."""


class RangeReader(Protocol):
    """A file that is read by ranges: a segment on this disk, or one in the block cache."""

    def read(self, start: int, length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column of one row group, as a range of the file."""

    offset: int
    length: int
    codec: str | None
    has_levels: bool
    """The pages begin with definition levels, all equal since such chunks have no nulls."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A column of one row group in which all rows have the same value; None: null."""

    value: int | str | None


ColumnLocation = Chunk | Constant | None
"""None: a column that only Arrow and DuckDB read."""


class _Decompressor(threading.local):
    """One decompressor per thread: setting it up takes longer than a small page."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor()


_decompressor = _Decompressor()


def locate(metadata: pq.FileMetaData, name: str, *, are_deltas: bool) -> tuple[ColumnLocation, ...]:
    """Return the location of a column by row group; a column that the file lacks is null."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    if name not in names:
        return (Constant(None),) * len(groups)
    at = names.index(name)
    find = delta_chunk if are_deltas else _dictionary_chunk
    return tuple(find(group.column(at), metadata.schema.column(at)) for group in groups)


def delta_chunk(column: pq.ColumnChunkMetaData, schema: pq.ColumnSchema) -> Chunk | None:
    """Locate 64-bit integers stored as differences; None for anything else."""
    facts = column.statistics
    is_known = (
        column.physical_type == "INT64"
        and not column.has_dictionary_page
        and column.compression in CODECS
        and facts is not None
        and facts.has_null_count
        and facts.null_count == 0
        and "DELTA_BINARY_PACKED" in column.encodings
        and "PLAIN" not in column.encodings
        and schema.max_definition_level <= 1
        and schema.max_repetition_level == 0
    )
    if not is_known:
        return None
    return Chunk(
        column.data_page_offset, column.total_compressed_size, CODECS[column.compression],
        schema.max_definition_level == 1,
    )  # fmt: skip


def _dictionary_chunk(column: pq.ColumnChunkMetaData, schema: pq.ColumnSchema) -> ColumnLocation:
    facts = column.statistics
    if facts is None or not facts.has_null_count or schema.max_repetition_level:
        return None
    if facts.null_count == column.num_values:
        return Constant(None)
    if facts.null_count or column.physical_type not in {"INT64", "BYTE_ARRAY"}:
        return None
    if facts.has_min_max and facts.min == facts.max:
        return Constant(facts.min)
    if column.compression not in CODECS or not column.has_dictionary_page or schema.max_definition_level > 1:
        return None
    return Chunk(
        column.dictionary_page_offset, column.total_compressed_size, CODECS[column.compression],
        schema.max_definition_level == 1,
    )  # fmt: skip


def plain_chunk(column: pq.ColumnChunkMetaData, schema: pq.ColumnSchema) -> Chunk | None:
    """Locate texts or ids stored as they are; None for anything else. They may have nulls."""
    is_known = (
        column.physical_type in {"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"}
        and not column.has_dictionary_page
        and column.compression in CODECS
        and set(column.encodings) <= {"PLAIN", "RLE"}
        and schema.max_definition_level <= 1
        and schema.max_repetition_level == 0
    )
    if not is_known:
        return None
    return Chunk(
        column.data_page_offset, column.total_compressed_size, CODECS[column.compression],
        schema.max_definition_level == 1,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bloom:
    """A bloom filter of a column chunk, for values of fixed length.

    It is a header in Thrift's compact protocol with the number of bytes and three empty structs, for the only
    kind, hash and compression there are, and blocks of 32 bytes with one bit of the value in each word.
    """

    offset: int
    """First block in the file."""
    blocks: int
    """0: of an unknown kind, which excludes nothing."""

    @classmethod
    def read(cls, file: RangeReader, offset: int) -> Bloom:
        head = np.frombuffer(file.read(offset, _BLOOM_HEADER), np.uint8)
        if head[0] != _I32_FIELD:
            return cls(offset, 0)
        end, raw = read_varint(head, 1)
        size, is_odd = divmod(int(raw), 2)
        kind = head[end : end + len(_BLOOM_KIND)].tobytes()
        if kind != _BLOOM_KIND or is_odd or size % _BLOOM_BLOCK:
            return cls(offset, 0)
        return cls(offset + int(end) + len(_BLOOM_KIND), size // _BLOOM_BLOCK)

    def may_hold(self, file: RangeReader, hashed: int) -> bool:
        """Ask for a value by its hash."""
        if not self.blocks:
            return True
        block = ((hashed >> 32) * self.blocks) >> 32
        words = _BLOCK_WORDS.unpack(file.read(self.offset + block * _BLOOM_BLOCK, _BLOOM_BLOCK))
        low = hashed & 0xFFFFFFFF
        return all(
            word >> ((low * salt & 0xFFFFFFFF) >> 27) & 1 for word, salt in zip(words, SALTS, strict=True)
        )


def bloom_hash(value: bytes) -> int:
    return xxhash.xxh64_intdigest(value)


def may_hold(file: RangeReader, bloom_offset: int, value: bytes) -> bool:
    """Ask a bloom filter for one value."""
    return Bloom.read(file, bloom_offset).may_hold(file, bloom_hash(value))


def chunk_bytes(file: RangeReader | Path, chunk: Chunk) -> Bytes:
    raw = _local_bytes(file, chunk) if isinstance(file, Path) else file.read(chunk.offset, chunk.length)
    if len(raw) != chunk.length:
        raise OSError(f"the file ends before byte {chunk.offset + chunk.length}")
    return np.frombuffer(raw, np.uint8)


def _local_bytes(path: Path, chunk: Chunk) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.pread(descriptor, chunk.length, chunk.offset)
    finally:
        os.close(descriptor)


def pages_in(raw: Bytes, rows: int) -> Int64s:
    """Return the facts of the chunk's pages, one line each."""
    pages = pages_of(raw, rows)
    if not len(pages):
        raise ValueError("a column chunk whose pages do not hold the rows of its row group")
    return pages


def decompress(data: Bytes, size: int, codec: str | None) -> Bytes:
    """Decompress a page, which must become `size` bytes."""
    if codec is None:
        return data
    try:
        if zstandard.frame_content_size(data.data) != size:  # before room is made for them
            raise ValueError(f"a page of {size} bytes whose compressed form is of another size")
        return np.frombuffer(_decompressor.zstd.decompress(data.data, max_output_size=size), np.uint8)
    except zstandard.ZstdError as error:
        raise ValueError(f"a damaged page: {error}") from error


def page_bytes(raw: Bytes, page: Sequence[int], chunk: Chunk) -> tuple[Bytes, int]:
    """Decompress a page; return its bytes, and where behind its levels the values begin."""
    stored = raw[page[OFFSET] : page[OFFSET] + page[STORED_BYTES]]
    data = decompress(stored, page[PLAIN_BYTES], chunk.codec)
    return data, behind_levels(data) if chunk.has_levels else 0


def behind_levels(data: Bytes) -> int:
    """Return where the levels of a page end, of which their length stands first."""
    if len(data) < _LENGTH_BYTES:
        raise ValueError(f"a page of {len(data)} bytes, too short for its levels")
    length = int.from_bytes(data[:_LENGTH_BYTES].tobytes(), "little")
    if length > len(data) - _LENGTH_BYTES:
        raise ValueError(f"levels of {length} bytes in a page of {len(data)}")
    return _LENGTH_BYTES + length


def delta_pages(file: RangeReader | Path, chunk: Chunk, rows: int) -> Iterator[tuple[int, Int64s]]:
    """Yield first row and numbers of each page; the numbers are good until the next one."""
    raw = chunk_bytes(file, chunk)
    pages: list[list[int]] = pages_in(raw, rows).tolist()
    room = np.empty(max(page[VALUES] for page in pages), np.int64)
    first = 0
    for page in pages:
        yield first, delta_numbers(raw, page, chunk, room)
        first += page[VALUES]


def delta_numbers(raw: Bytes, page: Sequence[int], chunk: Chunk, room: Int64s) -> Int64s:
    """Decode the numbers of a page into `room`."""
    if page[KIND] != DATA_PAGE or page[ENCODING] != DELTA_BINARY_PACKED:
        raise ValueError(f"a page of kind {page[KIND]}, encoding {page[ENCODING]}: its footer says otherwise")
    count = deltas(*page_bytes(raw, page, chunk), room)
    if count == UNKNOWN or count != page[VALUES]:
        raise ValueError(f"{count} numbers in a page of {page[VALUES]}")
    return room[:count]


@dataclass(frozen=True, slots=True)
class DictionaryChunk:
    """The bytes of a dictionary, and the pages of codes behind it."""

    dictionary: bytes
    pages: Bytes
    chunk: Chunk

    @classmethod
    def read(cls, file: RangeReader | Path, chunk: Chunk) -> DictionaryChunk:
        raw = chunk_bytes(file, chunk)
        page = dictionary_page(raw).tolist()
        if not page:
            raise ValueError("a column chunk that does not begin with a dictionary")
        begin, end, size = page
        return cls(decompress(raw[begin:end], size, chunk.codec).tobytes(), raw[end:], chunk)

    def add_to(self, keys: Int32s, size: int) -> None:
        """Make every key `key * size + code`; `keys` has one entry per row of the row group."""
        first = 0
        for page in pages_in(self.pages, len(keys)).tolist():
            if page[KIND] != DATA_PAGE or page[ENCODING] != RLE_DICTIONARY:
                raise ValueError(f"a page of kind {page[KIND]}, encoding {page[ENCODING]}, not of codes")
            part = keys[first : first + page[VALUES]]
            if add_codes(*page_bytes(self.pages, page, self.chunk), size, part) == UNKNOWN:
                raise ValueError("a page of codes that are not in the dictionary")
            first += page[VALUES]


def rows_with_id(file: RangeReader, chunk: Chunk, rows: int, value: bytes) -> Int64s | None:
    """Return the rows of a column of ids that have this one; None where some are null."""
    raw = np.frombuffer(file.read(chunk.offset, chunk.length), np.uint8)
    found, first = [np.zeros(0, np.int64)], 0
    for page in pages_in(raw, rows).tolist():
        if page[KIND] != DATA_PAGE or page[ENCODING] != PLAIN:
            raise ValueError(f"a page of kind {page[KIND]}, encoding {page[ENCODING]}, not of plain ids")
        data, at = page_bytes(raw, page, chunk)
        if len(data) - at != page[VALUES] * len(value):
            return None
        ids = data[at:].reshape(page[VALUES], len(value))
        likely = np.flatnonzero(ids[:, 0] == value[0])
        found.append(likely[(ids[likely] == np.frombuffer(value, np.uint8)).all(axis=1)] + first)
        first += page[VALUES]
    return np.concatenate(found)


def plain_integers(raw: bytes) -> list[int]:
    """Decode a dictionary of 64-bit integers.

    >>> plain_integers((7).to_bytes(8, "little") + (1).to_bytes(8, "little"))
    [7, 1]
    """
    numbers: list[int] = np.frombuffer(raw, "<i8").tolist()  # refuses a part of a number at the end
    return numbers


def plain_texts(raw: bytes) -> list[str]:
    """Decode a dictionary of texts, each behind its length.

    >>> plain_texts(bytes([2, 0, 0, 0]) + b"ab" + bytes([1, 0, 0, 0]) + b"c")
    ['ab', 'c']
    """
    texts: list[str] = []
    at = 0
    while at < len(raw):
        begin = at + _LENGTH_BYTES
        at = begin + int.from_bytes(raw[at:begin], "little")
        if at > len(raw):
            raise ValueError("a dictionary that ends within a text")
        texts.append(raw[begin:at].decode())
    return texts
