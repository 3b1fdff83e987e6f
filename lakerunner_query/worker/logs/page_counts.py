"""Where the pages of a column lie in a file, or the one value that all rows of a row group have.

Only columns that are read without Arrow are looked up: times as differences, and dictionary codes of ids and
texts without nulls. It is found once per file and kept with its footer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.logql.frame import ABSENT
from lakerunner_query.worker.logs.segment_opener import Opened
from lakerunner_query.worker.parquet.column_chunks import (
    CODECS,
    DATA_PAGE,
    Chunk,
    chunk_bytes,
    decompressed,
    delta_chunk,
    delta_numbers,
    page_bytes,
)
from lakerunner_query.worker.parquet.dictionary_kernels import add_codes, first_page
from lakerunner_query.worker.parquet.page_kernels import ENCODING, KIND, UNKNOWN, VALUES, pages_of
from resources.arrays import Bytes, Int32s, Int64s
from resources.lake.columns import CHQ_TSNS

# << Dictionaries of row groups as numbers that mean the same in all of them.
# <<
# <<     "info" "warn"  ->  0 1        "warn" "debug" "info"  ->  1 2 0
# <<
# << Neighbouring row groups often have the same dictionary, byte for byte, which is looked into once.

Show = Callable[[pa.Array], pa.StringArray]
REMEMBERED_BYTES = 4096
_LENGTH_BYTES = 4


class Vocabulary(Protocol):
    """Numbers of values; `ABSENT` of one that is none."""

    def of_page(self, raw: bytes) -> Int32s: ...

    def of_value(self, value: int | str | None) -> Int32s: ...


class Streams:
    """Ids of streams; those that are not wanted are absent."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers

    def of_page(self, raw: bytes) -> Int32s:
        ids = np.frombuffer(raw, "<i8").tolist()
        return np.array([self._numbers.get(one, ABSENT) for one in ids], np.int32)

    def of_value(self, value: int | str | None) -> Int32s:
        return np.array([self._numbers.get(value, ABSENT) if isinstance(value, int) else ABSENT], np.int32)


class Texts:
    """Texts as the label shows them."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._numbers: dict[str | None, int] = {None: ABSENT}
        self._pages: dict[bytes, Int32s] = {}

    @property
    def values(self) -> pa.StringArray:
        return pa.array(list(self._numbers)[1:], pa.string())

    def of_page(self, raw: bytes) -> Int32s:
        known = self._pages.get(raw)
        if known is None:
            known = self._numbered(texts_in(raw))
            if len(raw) <= REMEMBERED_BYTES:
                self._pages[raw] = known
        return known

    def of_value(self, value: int | str | None) -> Int32s:
        return self._numbered([None if value is None else str(value)])

    def _numbered(self, stored: Sequence[str | None]) -> Int32s:
        numbers = self._numbers
        shown = self._show(pa.array(stored, pa.string())).to_pylist()
        return np.array([numbers.setdefault(text, len(numbers) - 1) for text in shown], np.int32)


def texts_in(raw: bytes) -> list[str]:
    """Each behind its length.

    >>> texts_in(bytes([2, 0, 0, 0]) + b"ab" + bytes([1, 0, 0, 0]) + b"c")
    ['ab', 'c']
    """
    found: list[str] = []
    at = 0
    while at < len(raw):
        begin = at + _LENGTH_BYTES
        at = begin + int.from_bytes(raw[at:begin], "little")
        if at > len(raw):
            raise ValueError("a dictionary that ends within a text")
        found.append(raw[begin:at].decode())
    return found


TIMES = CHQ_TSNS
DICTIONARY_CODES = 8
"""An encoding of pages."""


@dataclass(frozen=True, slots=True)
class Constant:
    """What all rows of a row group say; None: nothing."""

    value: int | str | None


Place = Chunk | Constant | None
"""None: somewhere where only Arrow and DuckDB find it."""


def places(one: Opened, columns: Sequence[str]) -> list[tuple[Place, ...]]:
    """By column and row group."""
    known = one.footer.places
    if any(name not in known for name in columns):
        metadata = pq.read_metadata(one.path)
        known.update((name, _places(metadata, name)) for name in columns)
    return [known[name] for name in columns]


@dataclass(frozen=True, slots=True)
class Codes:
    """A column chunk of dictionary codes, as it was read."""

    dictionary: bytes
    pages: Bytes
    chunk: Chunk

    @classmethod
    def read(cls, one: Opened, chunk: Chunk) -> Codes:
        raw = chunk_bytes(one.path, chunk)
        begin, end, size = first_page(raw)
        return cls(decompressed(raw[begin:end], size, chunk.codec).tobytes(), raw[end:], chunk)

    def add_to(self, keys: Int32s, size: int) -> None:
        """`key * size + code` for all rows of a row group."""
        first = 0
        for page in _pages(self.pages, len(keys)):
            if page[KIND] != DATA_PAGE or page[ENCODING] != DICTIONARY_CODES:
                raise ValueError(f"a page of kind {page[KIND]}, encoding {page[ENCODING]}, not of codes")
            part = keys[first : first + page[VALUES]]
            if add_codes(*page_bytes(self.pages, page, self.chunk), size, part) == UNKNOWN:
                raise ValueError("a page of codes that are not in the dictionary")
            first += page[VALUES]


def times_of(one: Opened, chunk: Chunk, rows: int) -> Iterator[tuple[int, Int64s]]:
    """First row and times of each page; they are good until the next one."""
    raw = chunk_bytes(one.path, chunk)
    pages = _pages(raw, rows)
    room = np.empty(max(page[VALUES] for page in pages), np.int64)
    first = 0
    for page in pages:
        yield first, delta_numbers(raw, page, chunk, room)
        first += page[VALUES]


def _pages(raw: Bytes, rows: int) -> list[list[int]]:
    pages: list[list[int]] = pages_of(raw, rows).tolist()
    if not pages:
        raise ValueError("a column chunk whose pages do not hold the rows of its row group")
    return pages


def _places(metadata: pq.FileMetaData, name: str) -> tuple[Place, ...]:
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    if name not in names:
        return (Constant(None),) * len(groups)
    at = names.index(name)
    find = delta_chunk if name == TIMES else _place
    return tuple(find(group.column(at), metadata.schema.column(at)) for group in groups)


def _place(column: pq.ColumnChunkMetaData, schema: pq.ColumnSchema) -> Place:
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
