"""`TraceReader` reads whole traces by id, as the OTLP that was sent.

segments     token bloom and bloom filter of row groups say where the id may be, all others stay closed
rows         all columns, since everything that was sent is in one of them
answer       TracesData: spans by resource and scope, in the order of their starts
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from lakerunner_query.protocol.traces import TraceAnswer
from lakerunner_query.protocol.units import TraceUnit
from lakerunner_query.traceql.values import SPAN_KINDS, STATUSES
from lakerunner_query.worker.spans.rows import TRACE
from lakerunner_query.worker.tables.pruning import groups_with_ids
from lakerunner_query.worker.tables.segments import OpenTable, TableOpener
from resources.duckdb import Cancellation
from resources.lake.columns import (
    CHQ_DROPPED_ATTRIBUTES,
    CHQ_DROPPED_EVENTS,
    CHQ_DROPPED_LINKS,
    CHQ_RESOURCE_DROPPED_ATTRIBUTES,
    CHQ_SCOPE_DROPPED_ATTRIBUTES,
)
from resources.lake.segment_file import OVERFLOW_COLUMNS, MappedColumn

Row = Mapping[str, Any]


class TraceReader:
    """Answers units for traces by id."""

    def __init__(self, opener: TableOpener) -> None:
        self._opener = opener

    def run(self, unit: TraceUnit, cancellation: Cancellation) -> TraceAnswer:
        """Return the spans of these traces, each once."""
        data = TracesData()
        rows = 0
        with self._opener.open_unit(cancellation) as reader:
            words = [one.hex() for one in unit.ids]
            held = [one for one in unit.segments if reader.may_hold(one, words)]
            found: list[tuple[OpenTable, list[Row]]] = []
            for one in reader.open(held):
                read = reader.reader.attempt(one.segment, lambda one=one: _rows(one, unit.ids))  # type: ignore[misc]
                if read:
                    found.append((one, read))
                    rows += len(read)
            duplicates = _fill(data, found)
            packed = data.SerializeToString(deterministic=True)
            return TraceAnswer(packed, rows, duplicates, reader.reader.report())


def _rows(one: OpenTable, ids: Sequence[bytes]) -> list[Row]:
    """Read the rows of these traces, with all their columns."""
    flags = groups_with_ids(one, TRACE, sorted(ids), np.ones(one.footer.groups, np.bool_))
    groups = np.flatnonzero(flags).tolist()
    if not groups:
        return []
    with pq.ParquetFile(one.file.source(), metadata=one.footer.layout.metadata) as parquet:
        keys = parquet.read_row_groups(groups, [TRACE], use_threads=False).column(TRACE).combine_chunks()
        wanted = pa.array(sorted(ids), keys.type)
        places = np.flatnonzero(pa.compute.is_in(keys, wanted).to_numpy(zero_copy_only=False))
        if not len(places):
            return []
        first, count = int(places[0]), int(places[-1]) - int(places[0]) + 1
        table = parquet.read_row_groups(groups, use_threads=False).slice(first, count)
    found: list[Row] = table.take(pa.array(places - first)).to_pylist()
    return found


def _fill(data: TracesData, found: Sequence[tuple[OpenTable, list[Row]]]) -> int:
    """Add spans, each once, to their resources and scopes; count those that were there before."""
    duplicates = 0
    seen: set[tuple[object, ...]] = set()
    resources: dict[bytes, Any] = {}
    scopes: dict[tuple[bytes, bytes], Any] = {}
    spans = sorted(
        ((row, one) for one, rows in found for row in rows),
        key=lambda each: (each[0]["span_start_ns"], each[0]["span_id"] or b""),
    )
    for row, one in spans:
        identity = (row[TRACE], row["span_id"], row["span_kind"], row["span_start_ns"])
        if row["span_id"] is not None and identity in seen:
            duplicates += 1
            continue
        seen.add(identity)
        resource, scope = _Owner(one, row, "resource").group(), _Owner(one, row, "scope").group()
        if resource.key not in resources:
            group = data.resource_spans.add(schema_url=row.get("resource_schema_url") or "")
            group.resource.attributes.extend(resource.attributes)
            group.resource.dropped_attributes_count = row.get(CHQ_RESOURCE_DROPPED_ATTRIBUTES) or 0
            resources[resource.key] = group
        key = resource.key, scope.key
        if key not in scopes:
            group = resources[resource.key].scope_spans.add(schema_url=row.get("scope_schema_url") or "")
            group.scope.name, group.scope.version = (
                row.get("scope_name") or "",
                row.get("scope_version") or "",
            )
            group.scope.attributes.extend(scope.attributes)
            group.scope.dropped_attributes_count = row.get(CHQ_SCOPE_DROPPED_ATTRIBUTES) or 0
            scopes[key] = group
        _fill_span(scopes[key].spans.add(), one, row)
    return duplicates


class _Group:
    """Attributes of a resource or scope, and the bytes that stand for all of it."""

    def __init__(self, attributes: list[KeyValue], others: tuple[object, ...]) -> None:
        self.attributes = attributes
        self.key = (
            b"\0".join(one.SerializeToString(deterministic=True) for one in attributes)
            + repr(others).encode()
        )


class _Owner:
    """A resource, scope or span of one row."""

    def __init__(self, one: OpenTable, row: Row, scope: str) -> None:
        self._columns = [each for each in one.footer.attributes if each.scope == scope]
        self._row = row
        self._scope = scope

    def group(self) -> _Group:
        fixed = {
            "resource": ("resource_schema_url", CHQ_RESOURCE_DROPPED_ATTRIBUTES),
            "scope": ("scope_name", "scope_version", "scope_schema_url", CHQ_SCOPE_DROPPED_ATTRIBUTES),
        }[self._scope]
        return _Group(list(self.attributes()), tuple(self._row.get(name) for name in fixed))

    def attributes(self) -> Iterator[KeyValue]:
        for column in self._columns:
            value = self._row.get(column.column)
            if value is not None:
                yield _key_value(column, value)
        for key, value in self._row.get(OVERFLOW_COLUMNS[self._scope]) or ():
            yield KeyValue(key=key, value=AnyValue(string_value=value))


def _key_value(column: MappedColumn, value: object) -> KeyValue:
    return KeyValue(key=column.key, value=any_value(column.kind, value))


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


def _fill_span(span: Span, one: OpenTable, row: Row) -> None:
    span.trace_id, span.span_id = row[TRACE], row["span_id"] or b""
    span.parent_span_id = row["span_parent_span_id"] or b""
    span.trace_state, span.name = row.get("span_trace_state") or "", row["span_name"] or ""
    span.kind = _number(  # type: ignore[assignment]
        row["span_kind"], SPAN_KINDS
    )
    span.start_time_unix_nano = row["span_start_ns"]
    span.end_time_unix_nano = row.get("span_end_ns") or 0
    span.flags = row.get("span_flags") or 0
    span.status.code = _number(  # type: ignore[assignment]
        row["span_status_code"], STATUSES
    )
    span.status.message = row.get("span_status_message") or ""
    span.attributes.extend(_Owner(one, row, "record").attributes())
    span.dropped_attributes_count = row.get(CHQ_DROPPED_ATTRIBUTES) or 0
    span.dropped_events_count = row.get(CHQ_DROPPED_EVENTS) or 0
    span.dropped_links_count = row.get(CHQ_DROPPED_LINKS) or 0
    for event in row.get("span_events") or ():
        made = span.events.add(time_unix_nano=event["tsns"] or 0, name=event["name"] or "")
        made.dropped_attributes_count = event["dropped"] or 0
        made.attributes.extend(_nested(event["attributes"]))
    for link in row.get("span_links") or ():
        made = span.links.add(trace_id=link["trace_id"] or b"", span_id=link["span_id"] or b"")
        made.trace_state, made.flags = link["trace_state"] or "", link["flags"] or 0
        made.dropped_attributes_count = link["dropped"] or 0
        made.attributes.extend(_nested(link["attributes"]))


def _number(word: str | None, words: Sequence[str]) -> int:
    """Return the number of a kind or status; one that OTLP does not name is stored as its digits."""
    if word in words:
        return words.index(word)
    return int(word) if word and word.isdigit() else 0


def _nested(attributes: Sequence[Mapping[str, Any]] | None) -> Iterator[KeyValue]:
    for one in attributes or ():
        yield KeyValue(key=one["key"], value=any_value(one["kind"], one["value"]))
