"""OTLP protobuf logs (ExportLogsServiceRequest or LogsData, the same on the wire) to Arrow tables.

An object is cut at ResourceLogs borders into slices, each slice is scanned by kernels and becomes one
table; the position of a record is its ordinal in the whole object, whatever the slicing. Columns of a
decoded table:

| column | type | what |
|---|---|---|
| chq_tsns | int64 | event time: time, else observed time, else arrival |
| chq_observed_tsns | int64, null | observed time as sent |
| chq_stream_id, chq_stream | int64, dictionary | stream id; its labels as text (not written to segments) |
| chq_fingerprint | int64 | template of the message |
| chq_object, chq_position | int64 | row id: raw object, ordinal in it |
| log_level, detected_level | dictionary | see levels.py |
| log_severity_number, log_severity_text | int32; dictionary, null | as sent |
| log_message, chq_body_kind | string; dictionary | OTel string form of the body ('' when unset); its kind |
| trace_id, span_id | fixed 16 / 8 bytes, null | as sent; null when absent, all zero or of a wrong length |
| log_flags, event_name | int64; dictionary, null | as sent |
| chq_{,resource_,scope_}dropped_attributes | int64 | counts as sent |
| scope_name, scope_version, {scope,resource}_schema_url | dictionary, null | as sent, null when '' |
| resource_* scope_* attr_*, *_overflow | by OTLP kind; map | flat attributes; fields carry scope, key, kind |

Text columns are `string` or `dictionary<int32, string>`, whichever fits the values; filter and slice at will.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.any_value import texts
from lakerunner_assets.decode.attributes import AttributeColumns, attribute_columns, take_columns
from lakerunner_assets.decode.compression import decompress
from lakerunner_assets.decode.distinct import distinct
from lakerunner_assets.decode.errors import EmptyObjectError, MalformedError
from lakerunner_assets.decode.fingerprint import fingerprints
from lakerunner_assets.decode.kernel import Integer
from lakerunner_assets.decode.levels import detected_levels, levels
from lakerunner_assets.decode.naming import assign
from lakerunner_assets.decode.scan import (
    KINDS,
    Attributes,
    Groups,
    Int32s,
    Owners,
    Records,
    Spans,
    count_owned,
    fill,
    fill_owned,
    measure,
    new_attributes,
    new_groups,
    new_owners,
    new_records,
    next_resource_logs,
)
from lakerunner_assets.decode.stream_labels import DEFAULT_INDEX_ATTRIBUTES, resource_streams, stream_columns
from lakerunner_assets.decode.text import coded_strings
from lakerunner_assets.decode.wire import Bytes, raise_fault
from resources.lake.segment_file import OVERFLOW_COLUMNS
from resources.lake.streams import Labels

RESOURCE_TAGS = (-1, -1, 10, 16)
SCOPE_TAGS = (10, 18, 26, 32)
"""Wire tags of name, version, attributes and dropped count in a Resource and in an InstrumentationScope."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One slice of an object. OTLP has no record that could be refused alone, so `rejected` is 0 here."""

    table: pa.Table
    rejected: int
    notes: dict[str, int]
    """What was odd, counted: time_from_observed, time_from_arrival, invalid_utf8, invalid_trace_id, …"""
    streams: dict[int, Labels]


@dataclass(frozen=True, slots=True)
class Scanned:
    """A slice as arrays of positions."""

    data: Bytes
    resources: Groups
    scopes: Groups
    records: Records
    attributes: Attributes


def decode_object(
    data: bytes,
    *,
    object_id: int,
    arrival_ns: int,
    max_bytes: int,
    slice_bytes: int,
    index_attributes: Sequence[str] = DEFAULT_INDEX_ATTRIBUTES,
) -> Iterator[Decoded]:
    """Tables of a raw object, plain or compressed, in order.

    An error may come after some tables were yielded: it fails the whole object, so drop those.
    """
    payload = decompress(data, max_bytes)
    if not payload:
        raise EmptyObjectError(0, "empty object inside its compression")
    position = 0
    for start, end in slices(payload, slice_bytes):
        decoded = decode_logs(
            payload,
            start=start,
            end=end,
            object_id=object_id,
            first_position=position,
            arrival_ns=arrival_ns,
            index_attributes=index_attributes,
        )
        position += decoded.table.num_rows
        yield decoded


def slices(data: bytes, max_bytes: int) -> Iterator[tuple[int, int]]:
    """(start, end) of runs of whole ResourceLogs up to `max_bytes`; a larger one is a slice of its own."""
    view = np.frombuffer(data, np.uint8)
    start, end = 0, 0
    position: Integer = 0
    while True:
        found, _, position = next_resource_logs(view, position, len(view))
        raise_fault(position)
        if found < 0:
            break
        if position - start > max_bytes and end > start:
            yield start, end
            start = end
        end = int(position)
    yield start, len(view)


def decode_logs(
    data: bytes,
    *,
    start: int = 0,
    end: int | None = None,
    object_id: int,
    first_position: int,
    arrival_ns: int,
    index_attributes: Sequence[str] = DEFAULT_INDEX_ATTRIBUTES,
) -> Decoded:
    """The records of one slice; `first_position` is the ordinal of its first record in the object."""
    scanned = scan(np.frombuffer(data, np.uint8), start, len(data) if end is None else end)
    notes: Counter[str] = Counter()
    records = scanned.records
    count = len(records.time)
    columns = dict(_record_columns(scanned, arrival_ns, notes))
    columns["chq_object"] = pa.array(np.full(count, object_id, np.int64))
    columns["chq_position"] = pa.array(np.arange(first_position, first_position + count))

    resource_of_group, resources, resource_owners = _owned(
        scanned.data, scanned.resources, RESOURCE_TAGS, "resource", notes
    )
    scope_of_group, scopes, scope_owners = _owned(scanned.data, scanned.scopes, SCOPE_TAGS, "scope", notes)
    group_of_row = scanned.scopes.parent[records.scope]
    resource_of_row = resource_of_group[group_of_row]
    scope_of_row = scope_of_group[records.scope]
    streams = resource_streams(resources, len(resource_owners.dropped), index_attributes)
    columns["chq_stream_id"], columns["chq_stream"] = stream_columns(streams, resource_of_row)
    columns["chq_resource_dropped_attributes"] = pa.array(resource_owners.dropped[resource_of_row])
    columns["chq_scope_dropped_attributes"] = pa.array(scope_owners.dropped[scope_of_row])
    columns["scope_name"] = _owner_text(scanned.data, scope_owners.name, scope_of_row, notes)
    columns["scope_version"] = _owner_text(scanned.data, scope_owners.version, scope_of_row, notes)
    columns["scope_schema_url"] = _owner_text(scanned.data, scanned.scopes.schema_url, records.scope, notes)
    columns["resource_schema_url"] = _owner_text(
        scanned.data, scanned.resources.schema_url, group_of_row, notes
    )

    log_attributes = attribute_columns(scanned.data, scanned.attributes, count, "log", notes)
    flat = [
        *(("resource", *pair) for pair in take_columns(resources, resource_of_row)),
        *(("scope", *pair) for pair in take_columns(scopes, scope_of_row)),
        *(("log", *pair) for pair in log_attributes.columns.items()),
    ]
    if log_attributes.overflow is not None:
        flat.append(("log", None, log_attributes.overflow))
    names = assign(attribute for _, attribute, _ in flat if attribute is not None)
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    arrays = list(columns.values())
    for scope, attribute, column in flat:
        fields.append(
            pa.field(OVERFLOW_COLUMNS[scope], column.type)
            if attribute is None
            else attribute.field(names[attribute], column.type)
        )
        arrays.append(column)
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    return Decoded(table, 0, dict(notes), dict(zip(streams.ids, streams.labels, strict=True)))


def scan(data: Bytes, start: int, end: int) -> Scanned:
    """Positions and numbers of every field in `data[start:end]`."""
    if not 0 <= start <= end <= len(data):
        raise MalformedError(start, f"slice [{start}, {end}) does not lie in {len(data)} bytes")
    counts = np.zeros(4, np.int64)
    raise_fault(measure(data, start, end, counts))
    resources, scopes = new_groups(int(counts[0])), new_groups(int(counts[1]))
    records, attributes = new_records(int(counts[2])), new_attributes(int(counts[3]))
    raise_fault(fill(data, start, end, resources, scopes, records, attributes))
    return Scanned(data, resources, scopes, records, attributes)


def _record_columns(scanned: Scanned, arrival_ns: int, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
    data, records = scanned.data, scanned.records
    yield "chq_tsns", _event_time(records, arrival_ns, notes)
    yield "chq_observed_tsns", _nullable(records.observed, records.observed == 0)
    severity_text = coded_strings(data, records.severity_text, notes)
    level = levels(records.severity, severity_text)
    yield "log_level", level
    yield "log_severity_number", pa.array(records.severity)
    yield "log_severity_text", _without_empty(severity_text)
    message = texts(data, records.body, notes)
    yield "log_message", message
    yield (
        "chq_body_kind",
        pa.DictionaryArray.from_arrays(pa.array(records.body.kind.astype(np.int32)), pa.array(KINDS)),
    )
    yield "detected_level", detected_levels(level, message)
    yield "chq_fingerprint", pa.array(fingerprints(message))
    yield "trace_id", _ids(records.trace_id, records.trace_id_length, "invalid_trace_id", notes)
    yield "span_id", _ids(records.span_id, records.span_id_length, "invalid_span_id", notes)
    yield "log_flags", pa.array(records.flags)
    yield "event_name", _without_empty(coded_strings(data, records.event_name, notes))
    yield "chq_dropped_attributes", pa.array(records.dropped)


def _event_time(records: Records, arrival_ns: int, notes: Counter[str]) -> pa.Array:
    """Unset (0) times fall back, counted. Times past 2262 (above int64) count as unset too."""
    time = records.time
    unset = time <= 0
    if not unset.any():
        return pa.array(time)
    observed = unset & (records.observed > 0)
    arrival = unset & ~observed
    notes["time_from_observed"] += int(observed.sum())
    notes["time_from_arrival"] += int(arrival.sum())
    return pa.array(np.where(observed, records.observed, np.where(arrival, arrival_ns, time)))


def _ids(ids: np.ndarray, lengths: np.ndarray, note: str, notes: Counter[str]) -> pa.Array:
    width = ids.shape[1]
    missing = lengths != width
    wrong = int((missing & (lengths != 0)).sum())
    if wrong:
        notes[note] += wrong
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None
    return pa.Array.from_buffers(pa.binary(width), len(ids), [validity, pa.py_buffer(ids.reshape(-1))])


def _nullable(values: np.ndarray, missing: np.ndarray) -> pa.Array:
    return pa.array(values, mask=missing) if missing.any() else pa.array(values)


def _without_empty(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Unset text fields of OTLP read as ''; a column says null."""
    words = column.dictionary.to_pylist()
    if "" not in words:
        return column
    codes = column.indices.to_numpy()
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes == words.index("")), column.dictionary)


def _owned(
    data: Bytes, groups: Groups, tags: tuple[int, int, int, int], scope: str, notes: Counter[str]
) -> tuple[Int32s, AttributeColumns, Owners]:
    """Code of each group's resource (or scope) message, and the content of the distinct ones."""
    codes, messages = distinct(data, groups.message)
    count, failed = count_owned(data, messages, tags[2])
    raise_fault(failed)
    owners, attributes = new_owners(len(messages.start)), new_attributes(int(count))
    raise_fault(fill_owned(data, messages, tags, owners, attributes))
    return codes, attribute_columns(data, attributes, len(messages.start), scope, notes), owners


def _owner_text(data: Bytes, spans: Spans, owner_of_row: Int32s, notes: Counter[str]) -> pa.DictionaryArray:
    return _without_empty(coded_strings(data, spans, notes).take(pa.array(owner_of_row)))
