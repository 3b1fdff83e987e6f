"""Row groups of nothing but floats that are scaled integers: decoded straight to where samples are wanted.

    pages of chq_timestamp     -> times     of the runs of the series that match, wherever those are laid
    pages of chq_value_scaled  -> values    (scaled + base) / 10^exponent, both from the series table

A row whose value is scaled is a float and no stale marker, so a row group without any other has nothing else
to tell but when counting began, which hardly anybody asks. Nearly all row groups are such ones. Only pages in
which a run lies are decompressed, a page is decoded into memory that stays in the processor's cache, and
nothing is kept: decoding again takes no longer than copying. Arrow reads the others (`row_groups.py`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import zstandard

from lakerunner_query.worker.parquet.page_kernels import (
    ENCODING,
    KIND,
    OFFSET,
    PLAIN_BYTES,
    STORED_BYTES,
    UNKNOWN,
    VALUES,
    deltas,
    pages_of,
    place_times,
    place_values,
)
from resources.arrays import Bytes, Int64s
from resources.lake import metric_values
from resources.lake.columns import CHQ_TIMESTAMP

# << Pages decompressed with what each thread keeps for it: setting that up takes longer than a small page.

CODECS = {"ZSTD": "zstd", "UNCOMPRESSED": None}
"""As Parquet names them, and as they are named here."""


class _Kept(threading.local):
    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor()


_kept = _Kept()


def decompressed(data: Bytes, size: int, codec: str | None) -> Bytes:
    """The bytes of a page, of which there must be so many."""
    if codec is None:
        return data
    try:
        if zstandard.frame_content_size(data.data) != size:  # before there is room for them
            raise ValueError(f"a page of {size} bytes whose compressed form is of another size")
        return np.frombuffer(_kept.zstd.decompress(data.data, max_output_size=size), np.uint8)
    except zstandard.ZstdError as error:
        raise ValueError(f"a damaged page: {error}") from error


TIMESTAMP, TEMPORALITY = CHQ_TIMESTAMP, "metric_temporality"
DATA_PAGE, DELTA_BINARY_PACKED = 0, 5
_LEVELS = np.dtype("<u4")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where a column of a row group lies in the file."""

    offset: int
    length: int
    codec: str | None
    has_levels: bool
    """Whether its pages say which values there are; all, since such chunks have no nulls."""


@dataclass(frozen=True, slots=True)
class PlainGroup:
    """One row group; whatever is asked of it is read and decoded anew."""

    path: Path
    rows: int
    times: Chunk
    scaled: Chunk

    def times_of(self, begin: Int64s, end: Int64s) -> Int64s:
        """By row of the group; only those of rows `[begin, end)` are filled."""
        found = np.empty(self.rows, np.int64)
        self.times_to(begin, end, begin, found)
        return found

    def times_to(self, begin: Int64s, end: Int64s, to: Int64s, time_ms: Int64s) -> int:
        """Rows `[begin, end)`, ascending, go to `to`; how many of them do not come after the one before."""
        return sum(
            int(place_times(page, first, begin, end, to, time_ms))
            for first, page in self._pages(self.times, begin, end)
        )

    def values_to(
        self,
        begin: Int64s,
        end: Int64s,
        to: Int64s,
        base: Int64s,
        exponent: npt.NDArray[np.int32],
        value: npt.NDArray[np.float64],
    ) -> None:
        power = metric_values.POWERS[exponent]
        for first, page in self._pages(self.scaled, begin, end):
            place_values(page, first, begin, end, to, base, power, value)

    def _pages(self, chunk: Chunk, begin: Int64s, end: Int64s) -> Iterator[tuple[int, Int64s]]:
        """First row and numbers of each page in which a run lies; they are good until the next one."""
        raw = chunk_bytes(self.path, chunk)
        pages = pages_of(raw, self.rows)
        if not len(pages):
            raise ValueError("a column chunk whose pages do not hold the rows of its row group")
        room = np.empty(int(pages[:, VALUES].max()), np.int64)
        behind = np.cumsum(pages[:, VALUES])
        run = np.searchsorted(end, behind - pages[:, VALUES], "right")
        wanted = run < len(end)
        wanted[wanted] = begin[run[wanted]] < behind[wanted]
        for page, until in zip(pages[wanted].tolist(), behind[wanted].tolist(), strict=True):
            found = delta_numbers(raw, page, chunk, room)
            yield until - len(found), found


def plain_group(path: Path, metadata: pq.FileMetaData, number: int) -> PlainGroup | None:
    """None where the row group has something else, or is written in another way."""
    group = metadata.row_group(number)
    places = {name: place for place, name in enumerate(metadata.schema.names)}
    if not {TIMESTAMP, metric_values.SCALED} <= places.keys():
        return None

    def column(name: str) -> pq.ColumnChunkMetaData:
        return group.column(places[name])

    if TEMPORALITY in places and not _never_says(column(TEMPORALITY), "delta"):
        return None
    times = delta_chunk(column(TIMESTAMP), metadata.schema.column(places[TIMESTAMP]))
    scaled = delta_chunk(column(metric_values.SCALED), metadata.schema.column(places[metric_values.SCALED]))
    return None if times is None or scaled is None else PlainGroup(path, group.num_rows, times, scaled)


def _never_says(column: pq.ColumnChunkMetaData, word: str) -> bool:
    facts = column.statistics
    if facts is None or not facts.has_null_count:
        return False
    return facts.null_count == column.num_values or (facts.has_min_max and not facts.min <= word <= facts.max)


def delta_chunk(column: pq.ColumnChunkMetaData, schema: pq.ColumnSchema) -> Chunk | None:
    """Whole numbers as differences; None where that is not so."""
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


def chunk_bytes(path: Path, chunk: Chunk) -> Bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        raw = os.pread(descriptor, chunk.length, chunk.offset)
    finally:
        os.close(descriptor)
    if len(raw) != chunk.length:
        raise OSError(f"the file ends before byte {chunk.offset + chunk.length}")
    return np.frombuffer(raw, np.uint8)


def delta_numbers(raw: Bytes, page: Sequence[int], chunk: Chunk, room: Int64s) -> Int64s:
    """The numbers of a page, in this room."""
    if page[KIND] != DATA_PAGE or page[ENCODING] != DELTA_BINARY_PACKED:
        raise ValueError(f"a page of kind {page[KIND]}, encoding {page[ENCODING]}: its footer says otherwise")
    found = deltas(*page_bytes(raw, page, chunk), room)
    if found == UNKNOWN or found != page[VALUES]:
        raise ValueError(f"{found} numbers in a page of {page[VALUES]}")
    return room[:found]


def page_bytes(raw: Bytes, page: Sequence[int], chunk: Chunk) -> tuple[Bytes, int]:
    """A page decompressed, and where behind its levels the values begin."""
    stored = raw[page[OFFSET] : page[OFFSET] + page[STORED_BYTES]]
    data = decompressed(stored, page[PLAIN_BYTES], chunk.codec)
    if not chunk.has_levels:
        return data, 0
    return data, _LEVELS.itemsize + int(data[: _LEVELS.itemsize].view(_LEVELS)[0])
