"""Span segments are read as arrays, in slices that hold whole traces.

    segments (sorted by trace)  →  slice 0: traces 00… to 7f…   slice 1: traces 80… to ff…

A slice reads the same range of trace ids from every segment, so that memory is bounded and a trace is never
torn. Spans of the hour before and the hour behind are read where they begin near the hour: their other halves
may lie in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resources.arrays import Doubles, Flags, Int64s
from resources.lake.segment_file import OVERFLOW_COLUMNS, MappedColumn, read_label_map
from resources.lake.signals import MARGIN_NS
from resources.lake.streams import UNKNOWN_SERVICE
from resources.lake.timecut import HOUR_NS

Words: TypeAlias = npt.NDArray[np.uint64]

SLICE_ROWS = 2_000_000
"""Spans of a slice, some 300 bytes each while they are paired and grouped."""
NONE = -1
"""Code of a text that a span does not have."""
KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
SERVER, CLIENT, PRODUCER, CONSUMER = range(2, 6)
STATUSES = ("unset", "ok", "error")
ERROR = 2

PEER = ("peer.service", "service.peer.name")
ADDRESS, PEER_ADDRESS, PEER_PORT = "server.address", "network.peer.address", "network.peer.port"
DATABASE = ("db.namespace", "db.name", "db.system.name", "db.system")
QUEUE = ("messaging.destination.name", "messaging.destination", "messaging.system")
ATTRIBUTES = frozenset({*PEER, ADDRESS, PEER_ADDRESS, PEER_PORT, *DATABASE, *QUEUE})
_STORED = (
    "span_trace_id", "span_id", "span_parent_span_id", "span_name", "span_kind", "span_status_code",
    "span_start_ns", "span_duration_ns", "service_name",
)  # fmt: skip


class Texts:
    """Texts and their codes, the same in all slices of an hour."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def all(self) -> list[str]:
        return list(self._codes)

    def code(self, text: str) -> int:
        return self._codes.setdefault(text, len(self._codes))

    def codes(self, column: pa.Array) -> Int64s:
        """Return the code of each text of a column, `NONE` for nulls."""
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        known = np.array(
            [NONE if t is None else self.code(t) for t in coded.dictionary.to_pylist()], np.int64
        )
        places = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        found: Int64s = np.append(known, NONE)[places]
        return found


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans of one slice, one row each."""

    trace: Words
    """Two words of each trace id; zero without one."""
    span: Words
    parent: Words
    kind: Int64s
    status: Int64s
    service: Int64s
    name: Int64s
    start_ns: Int64s
    duration_ns: Int64s
    """Zero where it is not known."""
    size: Doubles
    """Estimated bytes: the mean of the uncompressed pages of its row group."""
    is_own: Flags
    """True in the hour itself, False beside it."""
    database: Int64s
    """Database that the span asks, `NONE` for other spans."""
    queue: Int64s
    peer: Int64s

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, rows: Int64s | Flags) -> Spans:
        return Spans(*(getattr(self, name)[rows] for name in Spans.__slots__))

    @classmethod
    def join(cls, parts: Sequence[Spans]) -> Spans:
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))


@dataclass(frozen=True, slots=True)
class Hour:
    """Segments of an hour, and those of its neighbours that have spans near it."""

    start_ns: int
    own: Sequence[Path]
    beside: Sequence[Path]


def read_slices(hour: Hour, texts: Texts, slice_rows: int = SLICE_ROWS) -> Iterator[Spans]:
    """Yield the spans of the hour in slices of whole traces; a slice may be empty."""
    files = [_File(path, is_own=True) for path in hour.own] + [
        _File(path, is_own=False) for path in hour.beside
    ]
    count = max(1, -(-sum(file.rows for file in files) // slice_rows))
    for number in range(count):
        low, high = ((number + place) * 2**32 // count for place in (0, 1))
        parts = [part for file in files for part in file.read(low, high, hour.start_ns, texts)]
        if parts:
            yield Spans.join(parts)


class _File:
    """One segment, read by ranges of the leading 32 bits of trace ids."""

    def __init__(self, path: Path, *, is_own: bool) -> None:
        self._file = pq.ParquetFile(path, pre_buffer=False)
        self._is_own = is_own
        self._names = set(self._file.schema_arrow.names)
        mapped = [c for c in read_label_map(self._file.metadata) if c.scope == "record"]
        self._attributes = [c for c in mapped if c.key in ATTRIBUTES]
        self.rows: int = self._file.metadata.num_rows

    def read(self, low: int, high: int, hour_ns: int, texts: Texts) -> Iterator[Spans]:
        for number in range(self._file.metadata.num_row_groups):
            group = self._file.metadata.row_group(number)
            if _may_hold(group, low, high):
                size = group.total_byte_size / max(1, group.num_rows)
                part = self._group(number, low, high, hour_ns, size, texts)
                if part is not None:
                    yield part

    def _group(
        self, number: int, low: int, high: int, hour_ns: int, size: float, texts: Texts
    ) -> Spans | None:
        ids = self._file.read_row_group(number, columns=self._present(("span_trace_id", "span_start_ns")))
        trace = _words(ids, "span_trace_id", 2)
        leading = (trace[:, 0] >> np.uint64(32)).astype(np.int64)
        wanted = (leading >= low) & (leading < high)
        if not self._is_own:
            wanted &= _near(ids.column("span_start_ns").to_numpy(), hour_ns)
        if not wanted.any():
            return None
        overflow = self._present((OVERFLOW_COLUMNS["record"],))
        columns = [*self._present(_STORED), *(c.column for c in self._attributes), *overflow]
        table = self._file.read_row_group(number, columns=columns)
        rows = pa.array(np.flatnonzero(wanted))
        return _spans(table.take(rows), self._attributes, texts, size, is_own=self._is_own)

    def _present(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self._names]


def _near(start_ns: Int64s, hour_ns: int) -> Flags:
    return (start_ns > hour_ns - MARGIN_NS) & (start_ns <= hour_ns + HOUR_NS + MARGIN_NS)


def _may_hold(group: pq.RowGroupMetaData, low: int, high: int) -> bool:
    """Tell by statistics if a row group may hold traces of the range; rows without an id count as zero."""
    for place in range(group.num_columns):
        chunk = group.column(place)
        if chunk.path_in_schema == "span_trace_id":
            known = chunk.statistics
            if known is None or not known.has_min_max or not known.has_null_count or known.null_count:
                return True
            least, most = (int.from_bytes(bound[:4], "big") for bound in (known.min, known.max))
            return least < high and most >= low
    return True


def _spans(
    table: pa.Table, attributes: Sequence[MappedColumn], texts: Texts, size: float, *, is_own: bool
) -> Spans:
    count = table.num_rows
    kind = _known(table, "span_kind", KINDS)
    service = texts.codes(_text(table, "service_name"))
    service[service == NONE] = texts.code(UNKNOWN_SERVICE)
    name = texts.codes(_text(table, "span_name"))
    name[name == NONE] = texts.code("")
    database, queue, peer = (np.full(count, NONE) for _ in range(3))
    ends = np.flatnonzero(kind >= SERVER)  # only ends of edges have peers
    if len(ends):
        nodes = _Nodes(table.take(pa.array(ends)), attributes)
        database[ends], queue[ends], peer[ends] = (texts.codes(found) for found in nodes.all())
    return Spans(
        _words(table, "span_trace_id", 2),
        _words(table, "span_id", 1)[:, 0],
        _words(table, "span_parent_span_id", 1)[:, 0],
        kind,
        _known(table, "span_status_code", STATUSES),
        service,
        name,
        table.column("span_start_ns").to_numpy(),
        _column(table, "span_duration_ns", pa.int64()).fill_null(0).to_numpy(),
        np.full(count, size),
        np.full(count, is_own),
        database,
        queue,
        peer,
    )


class _Nodes:
    """Names of databases, queues and peers by the attributes of their callers."""

    def __init__(self, table: pa.Table, attributes: Sequence[MappedColumn]) -> None:
        self._table = table
        self._columns = attributes
        self._nothing = pa.nulls(table.num_rows, pa.string())

    def all(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        peer = self._first(PEER)
        named = self._first(DATABASE)
        address, port = self._value(PEER_ADDRESS), self._value(PEER_PORT)
        with_port = pc.binary_join_element_wise(address, port, ":")
        database = pc.coalesce(peer, self._value(ADDRESS), with_port, address, named)
        return pc.if_else(named.is_valid(), database, None), self._first(QUEUE), peer

    def _first(self, keys: Sequence[str]) -> pa.Array:
        return pc.coalesce(*(self._value(key) for key in keys))

    def _value(self, key: str) -> pa.Array:
        """Return the texts of an attribute; an empty one counts as absent."""
        found = [_text(self._table, c.column) for c in self._columns if c.key == key]
        overflow = OVERFLOW_COLUMNS["record"]
        if overflow in self._table.column_names:
            found.append(pc.map_lookup(_column(self._table, overflow), key, "first").cast(pa.string()))
        value = pc.coalesce(self._nothing, *found)
        return pc.if_else(pc.equal(value, ""), None, value)


def _column(table: pa.Table, name: str, kind: pa.DataType | None = None) -> pa.Array:
    """Return a column in one piece; nulls where a foreign segment lacks it."""
    if name not in table.column_names:
        return pa.nulls(table.num_rows, kind)
    return (
        table.column(name).combine_chunks() if table.num_rows else pa.nulls(0, table.schema.field(name).type)
    )


def _text(table: pa.Table, name: str) -> pa.Array:
    return _column(table, name, pa.string()).cast(pa.string())


def _known(table: pa.Table, name: str, values: Sequence[str]) -> Int64s:
    """Return the place of each text among the known ones, the first for any other."""
    found = pc.index_in(_text(table, name), pa.array(values, pa.string())).fill_null(0)
    places: Int64s = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _words(table: pa.Table, name: str, words: int) -> Words:
    """Return ids as big-endian words, zero where there is none."""
    column = _column(table, name, pa.binary(8 * words)).fill_null(bytes(8 * words))
    raw = column.buffers()[1] or b""
    found = np.frombuffer(raw, ">u8")[words * column.offset : words * (column.offset + len(column))]
    return found.astype(np.uint64).reshape(-1, words)
