"""`TraceReader` reads whole traces by id, as the OTLP that was sent.

segments     token bloom and bloom filter of row groups say where the id may be, all others stay closed
rows         all columns, since everything that was sent is in one of them
bytes        each distinct value of a column becomes protobuf once; a span is its values end to end
answer       TracesData: spans by resource and scope, in the order of their starts
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from google.protobuf.message import Message  # type: ignore[import-untyped]
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from lakerunner_query.protocol.traces import TraceAnswer
from lakerunner_query.protocol.units import TraceUnit
from lakerunner_query.traceql.values import SPAN_KINDS, STATUSES
from lakerunner_query.worker.spans.rows import TRACE
from lakerunner_query.worker.tables.pruning import bloom_offset, groups_near_ids, groups_with_ids
from lakerunner_query.worker.tables.segments import OpenTable, TableOpener, TableReader
from resources.duckdb import Cancellation
from resources.lake.columns import (
    CHQ_DROPPED_ATTRIBUTES,
    CHQ_DROPPED_EVENTS,
    CHQ_DROPPED_LINKS,
    CHQ_RESOURCE_DROPPED_ATTRIBUTES,
    CHQ_SCOPE_DROPPED_ATTRIBUTES,
)
from resources.lake.segment_file import OVERFLOW_COLUMNS, MappedColumn
from resources.proto.build import build

Make = Callable[[Any], Message]
"""Function from a stored value to the message that has it alone."""
FEW = 64
"""Up to so many rows no values are looked for that are there twice."""
_PACKED = build("packed", "TracesData\n 1 of bytes*\nResourceSpans\n 2 of bytes*\nScopeSpans\n 2 of bytes*")
"""Messages whose members are bytes already."""


class TraceReader:
    """Answers units for traces by id."""

    def __init__(self, opener: TableOpener) -> None:
        self._opener = opener

    def run(self, unit: TraceUnit, cancellation: Cancellation) -> TraceAnswer:
        """Return the spans of these traces, each once."""
        with self._opener.open_unit(cancellation) as reader:
            parts: list[PackedSpans] = []
            for one, groups in _row_groups(reader, unit):
                cancellation.check()
                read = reader.reader.attempt(
                    one.segment,
                    lambda one=one, groups=groups: _rows(one, groups, unit.ids),  # type: ignore[misc]
                )
                if read is not None:
                    parts.append(pack_spans(read, one.footer.attributes))
            rows = sum(len(part.spans) for part in parts)
            data, duplicates = traces_data(parts)
            return TraceAnswer(data, rows, duplicates, reader.reader.report())


def _row_groups(reader: TableReader, unit: TraceUnit) -> list[tuple[OpenTable, list[int]]]:
    """Return the row groups that may have these traces, and begin to fetch them."""
    ids = sorted(unit.ids)
    tables = reader.open(reader.with_words(unit.segments, [one.hex() for one in ids]))
    for one in tables:
        near = groups_near_ids(one, TRACE, ids, np.ones(one.footer.groups, np.bool_))
        offsets = [bloom_offset(one, TRACE, number) for number in near]
        reader.reader.fetch(one.segment, [(offset, offset + 1) for offset in offsets if offset is not None])
    found: list[tuple[OpenTable, list[int]]] = []
    for one in tables:
        groups = np.flatnonzero(
            groups_with_ids(one, TRACE, ids, np.ones(one.footer.groups, np.bool_))
        ).tolist()
        if groups:
            layout = one.footer.layout
            chunks = [each for number in groups for each in layout.chunks(number, layout.places)]
            reader.reader.fetch(one.segment, chunks)
            found.append((one, groups))
    return found


def _rows(one: OpenTable, groups: Sequence[int], ids: Sequence[bytes]) -> pa.Table | None:
    """Read the rows of these traces, with all their columns."""
    with pq.ParquetFile(one.file.source(), metadata=one.footer.layout.metadata) as parquet:
        keys = parquet.read_row_groups(groups, [TRACE], use_threads=False).column(TRACE).combine_chunks()
        wanted = pa.array(sorted(ids), keys.type)
        places = np.flatnonzero(pc.is_in(keys, wanted).to_numpy(zero_copy_only=False))
        if not len(places):
            return None
        first, count = int(places[0]), int(places[-1]) - int(places[0]) + 1
        table = parquet.read_row_groups(groups, use_threads=False).slice(first, count)
    return table if count == len(places) else table.take(pa.array(places - first))


@dataclass(frozen=True, slots=True)
class PackedSpans:
    """Spans of one segment as protobuf, and what they belong to."""

    spans: Sequence[bytes]
    resources: Sequence[bytes]
    """`ResourceSpans` of each span, without spans."""
    scopes: Sequence[bytes]
    """`ScopeSpans` of each span, without spans."""
    identities: Sequence[tuple[int, bytes | None, bytes, str | None]]
    """Start, span id, trace id and kind."""


def traces_data(parts: Sequence[PackedSpans]) -> tuple[bytes, int]:
    """Join spans, each once, by resource and scope; by start, then id. Count those that were there before."""
    duplicates = 0
    seen: set[tuple[object, ...]] = set()
    groups: dict[bytes, dict[bytes, list[bytes]]] = {}
    places = [
        (start, span_id or b"", number, row)
        for number, part in enumerate(parts)
        for row, (start, span_id, _, _) in enumerate(part.identities)
    ]
    for _, span_id, number, row in sorted(places):
        part = parts[number]
        if span_id:
            identity = part.identities[row]
            if identity in seen:
                duplicates += 1
                continue
            seen.add(identity)
        scopes = groups.setdefault(part.resources[row], {})
        scopes.setdefault(part.scopes[row], []).append(part.spans[row])
    resources = [
        resource
        + _packed("ResourceSpans", [scope + _packed("ScopeSpans", spans) for scope, spans in scopes.items()])
        for resource, scopes in groups.items()
    ]
    return _packed("TracesData", resources), duplicates


def _packed(message: str, members: Sequence[bytes]) -> bytes:
    packed: bytes = _PACKED[message](of=members).SerializeToString()
    return packed


def pack_spans(table: pa.Table, attributes: Sequence[MappedColumn]) -> PackedSpans:
    """Return the rows as protobuf."""
    columns = _Columns(table, attributes)
    ids = [
        columns.values(name)
        for name in (TRACE, "span_id", "span_parent_span_id", "span_start_ns", "span_end_ns")
    ]
    heads = [
        Span(
            trace_id=trace, span_id=span or b"", parent_span_id=parent or b"", start_time_unix_nano=start,
            end_time_unix_nano=end or 0, status=Status(),
        ).SerializeToString()
        for trace, span, parent, start, end in zip(*ids, strict=True)
    ]  # fmt: skip
    traces, spans, _, starts, _ = ids
    return PackedSpans(
        columns.joined(heads, "record", SPAN_FIELDS, lambda pairs: Span(attributes=pairs)),
        columns.joined(
            [ResourceSpans(resource=Resource()).SerializeToString()] * table.num_rows, "resource",
            RESOURCE_FIELDS, lambda pairs: ResourceSpans(resource=Resource(attributes=pairs)),
        ),
        columns.joined(
            [ScopeSpans(scope=InstrumentationScope()).SerializeToString()] * table.num_rows, "scope",
            SCOPE_FIELDS, lambda pairs: ScopeSpans(scope=InstrumentationScope(attributes=pairs)),
        ),
        list(zip(starts, spans, traces, columns.values("span_kind"), strict=True)),
    )  # fmt: skip


class _Columns:
    """The columns of some rows."""

    def __init__(self, table: pa.Table, attributes: Sequence[MappedColumn]) -> None:
        self._rows, self._attributes = table.num_rows, attributes
        every = zip(table.column_names, table.columns, strict=True)
        self._columns = {name: column for name, column in every if column.null_count < len(column)}

    def values(self, name: str) -> list[Any]:
        column = self._columns.get(name)
        return [None] * self._rows if column is None else column.to_pylist()

    def joined(
        self,
        heads: list[bytes],
        scope: str,
        fields: Mapping[str, Make],
        attributes: Callable[[Iterable[KeyValue]], Message],
    ) -> list[bytes]:
        """Return the bytes of all fields and attributes of a scope, behind those of the heads."""
        parts = [heads, *(part for name, make in fields.items() for part in self._packed(name, make))]
        for one in self._attributes:
            if one.scope == scope:
                parts += self._packed(
                    one.column,
                    lambda value, one=one: attributes([_key_value(one, value)]),  # type: ignore[misc]
                )
        parts += self._packed(OVERFLOW_COLUMNS[scope], lambda pairs: attributes(_overflow(pairs)))
        return heads if len(parts) == 1 else list(map(b"".join, zip(*parts, strict=True)))

    def _packed(self, name: str, make: Make) -> Iterator[list[bytes]]:
        """Yield the bytes that a column adds to each row; nothing where no row has a value."""
        column = self._columns.get(name)
        if column is None:
            return
        if pa.types.is_nested(column.type) or len(column) <= FEW:
            values = column.to_pylist()
            yield [b"" if value is None else make(value).SerializeToString() for value in values]
            return
        if pa.types.is_dictionary(column.type):  # of the row group: few of its values are in these rows
            column = column.cast(column.type.value_type)
        coded = column.combine_chunks().dictionary_encode()
        words = [make(value).SerializeToString() for value in coded.dictionary.to_pylist()]
        yield [words[code] if code is not None else b"" for code in coded.indices.to_pylist()]


def _key_value(column: MappedColumn, value: object) -> KeyValue:
    return KeyValue(key=column.key, value=any_value(column.kind, value))


def _overflow(pairs: Sequence[tuple[str, str]]) -> Iterator[KeyValue]:
    for key, value in pairs:
        yield KeyValue(key=key, value=AnyValue(string_value=value))


def any_value(kind: str, value: Any) -> AnyValue:
    """Return a stored value as it was sent.

    >>> any_value("int", 5).int_value, any_value("array", '["a"]').array_value.values[0].string_value
    (5, 'a')
    """
    made = _VALUES.get(kind)
    return AnyValue() if made is None else made(value)


_VALUES: Mapping[str, Callable[[Any], AnyValue]] = {
    "string": lambda value: AnyValue(string_value=value),
    "bool": lambda value: AnyValue(bool_value=value if isinstance(value, bool) else value == "true"),
    "int": lambda value: AnyValue(int_value=int(value)),
    "double": lambda value: AnyValue(double_value=float(value)),
    "bytes": lambda value: AnyValue(bytes_value=base64.b64decode(value)),
    "array": lambda value: _of_json(json.loads(value)),
    "kvlist": lambda value: _of_json(json.loads(value)),
}
"""Makers of values by OTLP kind; a value of kind `empty` has nothing."""


def _of_json(value: Any) -> AnyValue:
    """Return a value of JSON, in which arrays and maps are stored."""
    found = AnyValue()
    match value:
        case bool():
            found.bool_value = value
        case int():
            found.int_value = value
        case float():
            found.double_value = value
        case str():
            found.string_value = value
        case list():
            found.array_value.values.extend(map(_of_json, value))
            found.array_value.SetInParent()
        case dict():
            found.kvlist_value.SetInParent()
            for key, each in value.items():
                found.kvlist_value.values.append(KeyValue(key=key, value=_of_json(each)))
    return found


def _number(word: str | None, words: Sequence[str]) -> int:
    """Return the number of a kind or status; one that OTLP does not name is stored as its digits."""
    if word in words:
        return words.index(word)
    return int(word) if word and word.isdigit() else 0


def _nested(attributes: Sequence[Mapping[str, Any]] | None) -> Iterator[KeyValue]:
    for one in attributes or ():
        yield KeyValue(key=one["key"], value=any_value(one["kind"], one["value"]))


def _event(event: Mapping[str, Any]) -> Span.Event:
    return Span.Event(
        time_unix_nano=event["tsns"] or 0, name=event["name"] or "",
        dropped_attributes_count=event["dropped"] or 0, attributes=_nested(event["attributes"]),
    )  # fmt: skip


def _link(link: Mapping[str, Any]) -> Span.Link:
    return Span.Link(
        trace_id=link["trace_id"] or b"", span_id=link["span_id"] or b"",
        trace_state=link["trace_state"] or "", flags=link["flags"] or 0,
        dropped_attributes_count=link["dropped"] or 0,
        attributes=_nested(link["attributes"]),
    )  # fmt: skip


SPAN_FIELDS: Mapping[str, Make] = {
    "span_trace_state": lambda value: Span(trace_state=value),
    "span_name": lambda value: Span(name=value),
    "span_kind": lambda value: Span(kind=_number(value, SPAN_KINDS)),  # type: ignore[arg-type]
    "span_flags": lambda value: Span(flags=value),
    "span_status_code": lambda value: Span(status=Status(code=_number(value, STATUSES))),  # type: ignore[arg-type]
    "span_status_message": lambda value: Span(status=Status(message=value)),
    CHQ_DROPPED_ATTRIBUTES: lambda value: Span(dropped_attributes_count=value),
    CHQ_DROPPED_EVENTS: lambda value: Span(dropped_events_count=value),
    CHQ_DROPPED_LINKS: lambda value: Span(dropped_links_count=value),
    "span_events": lambda events: Span(events=map(_event, events)),
    "span_links": lambda links: Span(links=map(_link, links)),
}
RESOURCE_FIELDS: Mapping[str, Make] = {
    "resource_schema_url": lambda value: ResourceSpans(schema_url=value),
    CHQ_RESOURCE_DROPPED_ATTRIBUTES: lambda value: ResourceSpans(
        resource=Resource(dropped_attributes_count=value)
    ),
}
SCOPE_FIELDS: Mapping[str, Make] = {
    "scope_schema_url": lambda value: ScopeSpans(schema_url=value),
    "scope_name": lambda value: ScopeSpans(scope=InstrumentationScope(name=value)),
    "scope_version": lambda value: ScopeSpans(scope=InstrumentationScope(version=value)),
    CHQ_SCOPE_DROPPED_ATTRIBUTES: lambda value: ScopeSpans(
        scope=InstrumentationScope(dropped_attributes_count=value)
    ),
}
