"""`SpanReader` reads whole traces out of all segments, each span once.

    segment 1     a1 a2 b1          ids [a, b)  ->   rows a1 a2 a3          trace a
    segment 2     a3 b2                         ids [b, c)  ->   b1 b2      trace b

Segments are sorted by trace id: a range of ids lies in few row groups of each. Spans that were sent twice
(same trace, id, kind and start) count once. A segment that cannot be read is recorded as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.traceql.frame import ID_BYTES, SERVICE, TRACE_ID_BYTES, Frame
from lakerunner_query.traceql.lang.ast import Attribute, Field, Intrinsic, Literal, Scope, Type
from lakerunner_query.traceql.values import SPAN_KINDS, STATUSES, Column, Part, constant, first_of
from lakerunner_query.worker.spans.columns import (
    attribute_column,
    list_field,
    nested_attribute,
    nested_texts,
    text_column,
)
from lakerunner_query.worker.spans.order import SpanKeys, order_of
from lakerunner_query.worker.spans.summaries import (
    KnownTraces,
    between,
    known_traces,
    rows_of,
    scan_summaries,
)
from lakerunner_query.worker.tables.segments import OpenTable, TableReader
from resources.arrays import Bytes, Flags, Int8s, Int64s, UInt64s
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION
from resources.lake.segment_file import OVERFLOW_COLUMNS

TRACE, SPAN, PARENT, KIND, STATUS, START, END = (
    "span_trace_id", "span_id", "span_parent_span_id", "span_kind", "span_status_code", "span_start_ns",
    "span_end_ns",
)  # fmt: skip
EVENTS, LINKS = "span_events", "span_links"
ALWAYS = (TRACE, SPAN, PARENT, KIND, STATUS, START, END, CHQ_OBJECT, CHQ_POSITION)
STORED_SCOPES = {Scope.SPAN: "record", Scope.RESOURCE: "resource", Scope.INSTRUMENTATION: "scope"}
"""Scopes of attributes as segments spell them."""
TEXTS = {
    "name": "span_name", "statusMessage": "span_status_message", "instrumentation:name": "scope_name",
    "instrumentation:version": "scope_version",
}  # fmt: skip
"""Intrinsics that are columns of texts."""
NESTED = {
    "event:name": (EVENTS, "name"), "event:timeSinceStart": (EVENTS, "tsns"),
    "link:traceID": (LINKS, "trace_id"), "link:spanID": (LINKS, "span_id"),
}  # fmt: skip
"""Intrinsics that are fields of events and links."""


@dataclass(frozen=True, slots=True)
class TraceRange:
    """Trace ids from `first` to before `behind`, as bytes; an empty bound is open."""

    first: bytes = b""
    behind: bytes = b""
    only: np.ndarray | None = None
    """Ids of the range that are wanted, ascending; None: all."""

    def may_hold(self, least: bytes, greatest: bytes) -> bool:
        """Tell whether a run of ids between these bounds may have one of the range."""
        return greatest >= self.first and (not self.behind or least < self.behind)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Columns that a frame needs beyond ids and times."""

    attributes: tuple[tuple[Scope, str], ...]
    plain: tuple[str, ...]

    @classmethod
    def of(cls, fields: Iterable[Field]) -> Wanted:
        attributes: dict[tuple[Scope, str], None] = {}
        plain: dict[str, None] = {}
        for field in fields:
            if isinstance(field, Intrinsic):
                for name in {"rootName": ["name"], "rootServiceName": []}.get(field.name, [field.name]):
                    if name in TEXTS or name in NESTED:
                        plain[name] = None
                if field.name == "rootServiceName":
                    attributes[SERVICE.scope, SERVICE.name] = None
            else:
                attributes |= dict.fromkeys(_keys(field))
        return cls(tuple(attributes), tuple(plain))

    @property
    def has_events(self) -> bool:
        return self._reads(Scope.EVENT, EVENTS)

    @property
    def has_links(self) -> bool:
        return self._reads(Scope.LINK, LINKS)

    def _reads(self, scope: Scope, column: str) -> bool:
        return any(one is scope for one, _ in self.attributes) or any(
            NESTED[name][0] == column for name in self.plain if name in NESTED
        )


def _keys(field: Attribute) -> list[tuple[Scope, str]]:
    scopes = [Scope.SPAN, Scope.RESOURCE] if field.scope is Scope.NONE else [field.scope]
    return [(scope, field.name) for scope in scopes]


class SpanReader:
    """Reads frames of one unit."""

    def __init__(self, reader: TableReader) -> None:
        self.reader = reader
        self.rows = 0
        """Spans that were read."""

    def read(
        self, segments: Sequence[SegmentRef], wanted: Wanted, ids: TraceRange, *, is_any_order: bool = False
    ) -> Frame:
        """Return the traces with these ids; in any order, where each span stands for itself."""
        tables = [
            table for one in self.reader.open(segments)
            if (table := self._read_segment(one, wanted, ids)) is not None and table.num_rows
        ]  # fmt: skip
        read = sum(table.num_rows for table in tables)
        self.rows += read
        self.reader.reader.rows_considered += read
        if not tables:
            return frame_of(_empty(), wanted)
        whole = pa.concat_tables(tables, promote_options="default").unify_dictionaries()
        return frame_of(_in_order(whole.combine_chunks(), is_any=is_any_order), wanted)

    def traces(self, segments: Sequence[SegmentRef], ids: TraceRange) -> KnownTraces:
        """Return the traces of a range, without reading any span."""
        return known_traces([table for _, table in self.summaries(segments, ids)], b"", b"")

    def summaries(self, segments: Sequence[SegmentRef], ids: TraceRange) -> list[tuple[OpenTable, pa.Table]]:
        """Return the summaries of a range by segment."""
        found = self.reader.summaries(self.reader.open(segments), scan_summaries)
        return [(one, between(table, ids.first, ids.behind)) for one, table in found]

    def all_attributes(self, segments: Sequence[SegmentRef], wanted: Wanted) -> Wanted:
        """Add every attribute of these segments, and the texts of spans."""
        scopes = {stored: scope for scope, stored in STORED_SCOPES.items()}
        found = dict.fromkeys(wanted.attributes)
        for _, footer in self.reader.footers(segments):
            found |= dict.fromkeys((scopes[one.scope], one.key) for one in footer.attributes)
        found[SERVICE.scope, SERVICE.name] = None
        plain = dict.fromkeys((*wanted.plain, *TEXTS))
        return Wanted(tuple(found), tuple(plain))

    def nested_keys(self, segments: Sequence[SegmentRef], column: str) -> set[str]:
        """Return the keys of attributes of events or links."""
        found: set[str] = set()
        for one in self.reader.open(segments):
            if column in one.footer.types:
                groups = range(one.footer.groups)
                table = self.reader.reader.attempt(
                    one.segment,
                    lambda one=one, groups=groups: _read(one, groups, {column: column}),  # type: ignore[misc]
                )
                if table is not None:
                    _, attributes = list_field(table.column(column).combine_chunks(), "attributes")
                    found.update(pc.struct_field(attributes.flatten(), "key").unique().to_pylist())
        return found

    def _read_segment(self, one: OpenTable, wanted: Wanted, ids: TraceRange) -> pa.Table | None:
        """Return the rows of the range with columns in names that all segments share."""
        if ids.only is not None:
            return self._read_traces(one, wanted, ids.only)
        groups = list(_groups(one, ids))
        if not groups:
            return None
        names = _names(one, wanted)
        self._fetch(one, groups, names)
        stored = self.reader.reader.attempt(one.segment, lambda: _read(one, groups, names))
        return None if stored is None else _renamed(_within(stored, ids), names)

    def _read_traces(self, one: OpenTable, wanted: Wanted, only: np.ndarray) -> pa.Table | None:
        """Return the rows of some traces; the summaries say where they are."""
        known = self.reader.summaries([one], scan_summaries)
        rows = rows_of(known[0][1], only) if known else np.zeros(0, np.int64)
        if not len(rows):
            return None
        starts = one.footer.layout.starts
        group_of_row = np.searchsorted(starts, rows, side="right") - 1
        groups = np.unique(group_of_row)
        sizes = np.diff(starts)[groups]
        first_read = np.cumsum(sizes) - sizes
        places = rows - starts[group_of_row] + first_read[np.searchsorted(groups, group_of_row)]
        names = _names(one, wanted)
        self._fetch(one, groups.tolist(), names)
        stored = self.reader.reader.attempt(one.segment, lambda: _read(one, groups.tolist(), names))
        return None if stored is None else _renamed(stored.take(pa.array(places)), names)

    def _fetch(self, one: OpenTable, groups: Sequence[int], names: dict[str, str]) -> None:
        layout = one.footer.layout
        ranges = [each for number in groups for each in layout.chunks(number, names.values())]
        self.reader.reader.fetch(one.segment, ranges)


def _groups(one: OpenTable, ids: TraceRange) -> Iterator[int]:
    """Yield row groups that may have traces of the range."""
    layout = one.footer.layout
    places = layout.places.get(TRACE, ())
    for number in range(one.footer.groups if places else 0):
        facts = layout.metadata.row_group(number).column(places[0]).statistics
        if facts is None or not facts.has_min_max or ids.may_hold(facts.min, facts.max):
            yield number


def _names(one: OpenTable, wanted: Wanted) -> dict[str, str]:
    """Return stored columns by the names they have in a frame's table."""
    types = one.footer.types
    found = {name: name for name in ALWAYS if name in types}
    found |= {TEXTS[name]: TEXTS[name] for name in wanted.plain if TEXTS.get(name) in types}
    if wanted.has_events and EVENTS in types:
        found[EVENTS] = EVENTS
    if wanted.has_links and LINKS in types:
        found[LINKS] = LINKS
    keys = {(STORED_SCOPES[scope], key) for scope, key in wanted.attributes if scope in STORED_SCOPES}
    for column in one.footer.attributes:
        if (column.scope, column.key) in keys:
            found[stored_name(column.scope, column.kind, column.key)] = column.column
    for scope in {scope for scope, _ in keys}:
        if OVERFLOW_COLUMNS[scope] in types:
            found[OVERFLOW_COLUMNS[scope]] = OVERFLOW_COLUMNS[scope]
    return found


def stored_name(scope: str, kind: str, key: str) -> str:
    """Return the name of an attribute's column in the tables of all segments."""
    return f"{scope}\0{kind}\0{key}"


def _read(one: OpenTable, groups: Sequence[int], names: dict[str, str]) -> pa.Table:
    texts = [name for name in names.values() if pa.types.is_string(one.footer.types[name])]
    with pq.ParquetFile(
        one.file.source(), metadata=one.footer.layout.metadata, read_dictionary=texts
    ) as parquet:
        return parquet.read_row_groups(groups, list(dict.fromkeys(names.values())), use_threads=False)


def _within(table: pa.Table, ids: TraceRange) -> pa.Table:
    """Keep the rows of the range; rows are sorted by trace id, those without one come last."""
    table = table.combine_chunks()
    column = table.column(TRACE)
    known = len(column) - column.null_count
    first, behind = _lower_bound(column, ids.first, known), known
    if ids.behind:
        behind = _lower_bound(column, ids.behind, known)
    return table.slice(first, behind - first)


def _lower_bound(column: pa.ChunkedArray, value: bytes, end: int) -> int:
    """Return the first row whose id is not less."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        if column[middle].as_py() < value:
            low = middle + 1
        else:
            high = middle
    return low


def _renamed(table: pa.Table, names: dict[str, str]) -> pa.Table:
    return pa.table({name: table.column(stored) for name, stored in names.items()})


def _empty() -> pa.Table:
    ids = {TRACE: pa.binary(16), SPAN: pa.binary(8), PARENT: pa.binary(8)}
    types = {**ids, KIND: pa.string(), STATUS: pa.string(), START: pa.int64(), END: pa.int64()}
    types |= {CHQ_OBJECT: pa.int64(), CHQ_POSITION: pa.int64()}
    return pa.schema(list(types.items())).empty_table()


def _in_order(table: pa.Table, *, is_any: bool) -> pa.Table:
    """Sort spans by trace and, within it, as they were sent; drop those that are there twice."""
    low, high = _halves(table.column(TRACE).combine_chunks())
    order = order_of(
        SpanKeys(
            high, low, id_numbers(table.column(SPAN).combine_chunks()), table.column(START).to_numpy(),
            _codes(table.column(KIND), SPAN_KINDS), table.column(CHQ_OBJECT).to_numpy(),
            table.column(CHQ_POSITION).to_numpy(),
        ),
        is_any=is_any,
    )  # fmt: skip
    if len(order) == table.num_rows and (np.diff(order) > 0).all():
        return table
    return table.take(pa.array(order))


def _halves(ids: pa.Array) -> tuple[UInt64s, UInt64s]:
    both = _id_bytes(ids, TRACE_ID_BYTES).view(">u8").reshape(-1, 2)
    return both[:, 1].astype(np.uint64), both[:, 0].astype(np.uint64)


def _id_bytes(ids: pa.Array, width: int) -> Bytes:
    """Return the bytes of ids; zeros where there is none."""
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    filled = ids.fill_null(bytes(width))
    raw = np.frombuffer(filled.buffers()[1], np.uint8) if len(ids) else np.zeros(0, np.uint8)
    return raw[filled.offset * width : (filled.offset + len(ids)) * width]


def id_numbers(ids: pa.Array) -> UInt64s:
    """Return ids of 8 bytes as numbers; 0 where there is none."""
    found: UInt64s = _id_bytes(ids, ID_BYTES).view(">u8").astype(np.uint64)
    return found


def _codes(column: pa.ChunkedArray, words: Sequence[str]) -> Int8s:
    """Return the places of texts among `words`, 0 for any other."""
    coded = column.combine_chunks()
    coded = coded if pa.types.is_dictionary(coded.type) else coded.dictionary_encode()
    known = {word: place for place, word in enumerate(words)}
    places = np.array([known.get(word, 0) for word in coded.dictionary.to_pylist()] + [0], np.int8)
    found: Int8s = places[coded.indices.fill_null(len(places) - 1).to_numpy(zero_copy_only=False)]
    return found


def frame_of(table: pa.Table, wanted: Wanted) -> Frame:
    """Return a frame of rows that are in order."""
    raw = _id_bytes(table.column(TRACE), TRACE_ID_BYTES).reshape(-1, TRACE_ID_BYTES)
    is_new: Flags = np.ones(len(raw), np.bool_)
    is_new[1:] = (raw[1:] != raw[:-1]).any(axis=1)
    first = np.flatnonzero(is_new)
    start = table.column(START).to_numpy()
    end = table.column(END).combine_chunks()
    end_ns = np.where(
        end.is_valid().to_numpy(zero_copy_only=False), end.fill_null(0).to_numpy(zero_copy_only=False), start
    )
    return Frame(
        starts=np.append(first, len(raw)),
        trace_ids=raw[first],
        span_ids=id_numbers(table.column(SPAN)),
        parent_ids=id_numbers(table.column(PARENT)),
        start_ns=start,
        end_ns=end_ns,
        kinds=_codes(table.column(KIND), SPAN_KINDS),
        statuses=_codes(table.column(STATUS), STATUSES),
        attributes={key: _or_nameless(key, _attribute(table, *key)) for key in wanted.attributes},
        plain={name: _plain(table, name, start) for name in wanted.plain},
    )


def _or_nameless(key: tuple[Scope, str], column: Column) -> Column:
    """Give resources without a service the empty name, as Tempo does."""
    if key != (SERVICE.scope, SERVICE.name):
        return column
    return first_of((column, constant(Literal(Type.STRING, ""), column.size)), column.size)


def _attribute(table: pa.Table, scope: Scope, key: str) -> Column:
    """Return an attribute of spans, resources, scopes, events or links."""
    if scope in {Scope.EVENT, Scope.LINK}:
        name = EVENTS if scope is Scope.EVENT else LINKS
        if name not in table.column_names:
            return Column(table.num_rows)
        return nested_attribute(table.column(name).combine_chunks(), key)
    stored = []
    for name in table.column_names:
        where, _, rest = name.partition("\0")
        kind, _, original = rest.partition("\0")
        if (where, original) == (STORED_SCOPES[scope], key):
            stored.append((kind, table.column(name).combine_chunks()))
    overflow = OVERFLOW_COLUMNS[STORED_SCOPES[scope]]
    if overflow in table.column_names:
        stored.append(("string", _of_map(table.column(overflow).combine_chunks(), key)))
    return attribute_column(stored, table.num_rows)


def _of_map(maps: pa.Array, key: str) -> pa.Array:
    """Return the first value of a key in each map."""
    return pc.map_lookup(maps, pa.scalar(key), "first")


def _plain(table: pa.Table, name: str, start_ns: Int64s) -> Column:
    """Return the column of an intrinsic that is stored."""
    if name in TEXTS:
        stored = TEXTS[name]
        if stored not in table.column_names:
            return constant(Literal(Type.STRING, ""), table.num_rows)
        return text_column(table.column(stored).combine_chunks())
    stored, field = NESTED[name]
    if stored not in table.column_names:
        return Column(table.num_rows)
    owners, values = list_field(table.column(stored).combine_chunks(), field)
    if field == "name":
        return _sized(nested_texts(owners, values), table.num_rows)
    if field == "tsns":
        since = values.fill_null(0).to_numpy(zero_copy_only=False) - start_ns[owners]
        return _since_start(owners, since, table.num_rows)
    texts = pa.array([_id_text(one, field) for one in values.to_pylist()], pa.string())
    return _sized(nested_texts(owners, texts), table.num_rows)


def _id_text(raw: bytes | None, field: str) -> str | None:
    """Return an id in hexadecimal; those of traces without leading zeros."""
    if not raw:
        return None
    return raw.hex().lstrip("0") if field == "trace_id" else raw.hex()


def _sized(column: Column, size: int) -> Column:
    return Column(size, column.parts)


def _since_start(owners: Int64s, since: Int64s, size: int) -> Column:
    return Column(size, (Part(Type.DURATION, owners, since, (), True),) if len(owners) else ())
