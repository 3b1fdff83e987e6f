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

from lakerunner_assets.decode import scan
from lakerunner_assets.decode.any_value import texts
from lakerunner_assets.decode.attributes import AttributeColumns, attribute_columns, take_columns
from lakerunner_assets.decode.compression import decompress
from lakerunner_assets.decode.distinct import distinct
from lakerunner_assets.decode.errors import EmptyObjectError, MalformedError, TooLargeError
from lakerunner_assets.decode.fingerprint import fingerprints
from lakerunner_assets.decode.kernel import Integer
from lakerunner_assets.decode.levels import detected_levels, levels
from lakerunner_assets.decode.naming import assign
from lakerunner_assets.decode.scan import KINDS, Int32s, Int64s, Matrix, Spans
from lakerunner_assets.decode.stream_labels import DEFAULT_INDEX_ATTRIBUTES, resource_streams, stream_columns
from lakerunner_assets.decode.text import coded_strings
from lakerunner_assets.decode.wire import Bytes, raise_fault
from resources.lake.segment_file import OVERFLOW_COLUMNS
from resources.lake.streams import Labels

LAST_NS = 2**63 - 1
MAX_SLICE_BYTES = 2**30
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
    """A slice as matrices of positions; columns are named in scan.py."""

    data: Bytes
    resources: Matrix
    scopes: Matrix
    records: Matrix
    attributes: Matrix


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
        found, _, position = scan.next_resource_logs(view, position, len(view))
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
    scanned = scanned_slice(np.frombuffer(data, np.uint8), start, len(data) if end is None else end)
    notes: Counter[str] = Counter()
    count = len(scanned.records)
    columns = dict(_record_columns(scanned, arrival_ns, notes))
    columns["chq_object"] = pa.array(np.full(count, object_id, np.int64))
    columns["chq_position"] = pa.array(np.arange(first_position, first_position + count))

    scope_of_row = scan.column(scanned.records, scan.SCOPE)
    resource_of_row = scanned.scopes[:, scan.PARENT][scope_of_row]
    resources = _owned(scanned.data, scanned.resources, RESOURCE_TAGS, "resource", resource_of_row, notes)
    scopes = _owned(scanned.data, scanned.scopes, SCOPE_TAGS, "scope", scope_of_row, notes)
    streams = resource_streams(resources.attributes, len(resources.fields), index_attributes)
    columns["chq_stream_id"], columns["chq_stream"] = stream_columns(streams, resources.of_row)
    columns["chq_resource_dropped_attributes"] = resources.dropped()
    columns["chq_scope_dropped_attributes"] = scopes.dropped()
    columns["scope_name"] = _owner_text(scanned.data, scopes.fields, scan.NAME, scopes.of_row, notes)
    columns["scope_version"] = _owner_text(scanned.data, scopes.fields, scan.VERSION, scopes.of_row, notes)
    for scope, groups, of_row in (
        ("scope", scanned.scopes, scope_of_row),
        ("resource", scanned.resources, resource_of_row),
    ):
        columns[f"{scope}_schema_url"] = _owner_text(scanned.data, groups, scan.SCHEMA_URL, of_row, notes)

    log_attributes = attribute_columns(
        scanned.data, scan.attributes_of(scanned.attributes), count, "log", notes
    )
    flat = [
        *(("resource", *pair) for pair in take_columns(resources.attributes, resources.of_row)),
        *(("scope", *pair) for pair in take_columns(scopes.attributes, scopes.of_row)),
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


def scanned_slice(data: Bytes, start: int, end: int) -> Scanned:
    """Positions and numbers of every field in `data[start:end]`."""
    if not 0 <= start <= end <= len(data):
        raise MalformedError(start, f"slice [{start}, {end}) does not lie in {len(data)} bytes")
    if end - start > MAX_SLICE_BYTES:  # Arrow's string offsets are 32 bits wide
        raise TooLargeError(start, f"one ResourceLogs of {end - start} bytes: the limit is {MAX_SLICE_BYTES}")
    counts = np.zeros(4, np.int64)
    raise_fault(scan.measure(data, start, end, counts))
    widths = (scan.GROUP_WIDTH, scan.GROUP_WIDTH, scan.RECORD_WIDTH, scan.ATTRIBUTE_WIDTH)
    resources, scopes, records, attributes = map(scan.matrix, counts.tolist(), widths)
    raise_fault(scan.fill(data, start, end, resources, scopes, records, attributes))
    return Scanned(data, resources, scopes, records, attributes)


def _record_columns(scanned: Scanned, arrival_ns: int, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
    data, records = scanned.data, scanned.records
    time, observed = scan.column(records, scan.TIME), scan.column(records, scan.OBSERVED)
    yield "chq_tsns", _event_time(time, observed, arrival_ns, notes)
    yield "chq_observed_tsns", _nullable(_in_range(observed, Counter()), observed == 0)
    severity = records[:, scan.SEVERITY].astype(np.int32)
    severity_text = coded_strings(data, scan.spans_of(records, scan.SEVERITY_TEXT), notes)
    level = levels(severity, severity_text)
    yield "log_level", level
    yield "log_severity_number", pa.array(severity)
    yield "log_severity_text", _without_empty(severity_text)
    body = scan.values_of(records, scan.BODY_KIND)
    message = texts(data, body, notes)
    yield "log_message", message
    yield (
        "chq_body_kind",
        pa.DictionaryArray.from_arrays(pa.array(body.kind.astype(np.int32)), pa.array(KINDS)),
    )
    yield "detected_level", detected_levels(level, message)
    yield "chq_fingerprint", pa.array(fingerprints(message))
    yield "trace_id", _ids(data, scan.spans_of(records, scan.TRACE_ID), 16, "invalid_trace_id", notes)
    yield "span_id", _ids(data, scan.spans_of(records, scan.SPAN_ID), 8, "invalid_span_id", notes)
    yield "log_flags", pa.array(scan.column(records, scan.FLAGS))
    yield "event_name", _without_empty(coded_strings(data, scan.spans_of(records, scan.EVENT_NAME), notes))
    yield "chq_dropped_attributes", pa.array(scan.column(records, scan.DROPPED))


def _event_time(sent: Int64s, observed: Int64s, arrival_ns: int, notes: Counter[str]) -> pa.Array:
    """Time, else observed time, else arrival; every fallback is counted."""
    time = _in_range(sent, notes)
    unset = sent == 0
    if not unset.any():
        return pa.array(time)
    arrival = unset & (observed == 0)
    notes["time_from_arrival"] += int(arrival.sum())
    notes["time_from_observed"] += int(unset.sum() - arrival.sum())
    known = np.where(unset, _in_range(observed, notes), time)
    return pa.array(np.where(arrival, arrival_ns, known))


def _in_range(time: Int64s, notes: Counter[str]) -> Int64s:
    """OTLP times are unsigned; those past 2262 become the last instant that fits, for the quarantine."""
    beyond = time < 0
    if not beyond.any():
        return time
    notes["time_after_2262"] += int(beyond.sum())
    return np.where(beyond, np.int64(LAST_NS), time)


def _ids(data: Bytes, spans: Spans, width: int, note: str, notes: Counter[str]) -> pa.Array:
    ids, missing, wrong = scan.copy_ids(data, spans, width)
    if wrong:
        notes[note] += int(wrong)
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None
    return pa.Array.from_buffers(pa.binary(width), len(missing), [validity, pa.py_buffer(ids)])


def _nullable(values: np.ndarray, missing: np.ndarray) -> pa.Array:
    return pa.array(values, mask=missing) if missing.any() else pa.array(values)


def _without_empty(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Unset text fields of OTLP read as ''; a column says null."""
    words = column.dictionary.to_pylist()
    if "" not in words:
        return column
    codes = column.indices.to_numpy()
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes == words.index("")), column.dictionary)


@dataclass(frozen=True, slots=True)
class Owned:
    """The distinct resource or scope messages of a slice, and which of them each row belongs to."""

    fields: Matrix
    attributes: AttributeColumns
    of_row: Int32s

    def dropped(self) -> pa.Array:
        return pa.array(scan.column(self.fields, scan.OWNER_DROPPED)[self.of_row])


def _owned(
    data: Bytes,
    groups: Matrix,
    tags: tuple[int, int, int, int],
    scope: str,
    group_of_row: Int64s,
    notes: Counter[str],
) -> Owned:
    codes, messages = distinct(data, scan.spans_of(groups, scan.MESSAGE))
    count, failed = scan.count_owned(data, messages, tags[2])
    raise_fault(failed)
    fields = scan.matrix(len(messages.start), scan.OWNER_WIDTH)
    attributes = scan.matrix(int(count), scan.ATTRIBUTE_WIDTH)
    raise_fault(scan.fill_owned(data, messages, tags, fields, attributes))
    columns = attribute_columns(data, scan.attributes_of(attributes), len(fields), scope, notes)
    return Owned(fields, columns, codes[group_of_row])


def _owner_text(
    data: Bytes, owners: Matrix, field: int, owner_of_row: Int32s | Int64s, notes: Counter[str]
) -> pa.DictionaryArray:
    texts_of_owners = coded_strings(data, scan.spans_of(owners, field), notes)
    return _without_empty(texts_of_owners.take(pa.array(owner_of_row)))
