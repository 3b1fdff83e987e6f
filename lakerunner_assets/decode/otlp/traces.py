"""OTLP protobuf traces (ExportTraceServiceRequest or TracesData) become Arrow tables.

One row per span; its position is its ordinal in the whole object, whatever the slicing. Columns of a decoded
table (`resources/lake/columns.py` names the system columns):

| column | type | what |
|---|---|---|
| object, position | int64 | row id: raw object, ordinal in it |
| span_trace_id; span_id, span_parent_span_id | fixed 16; 8 bytes, null | null: absent, all zero, wrong length |
| span_name | string | as sent, '' when unset |
| span_kind, span_status_code | dictionary | KIND_NAMES, STATUS_NAMES; an unknown number as its digits |
| span_status_message, span_trace_state | string, null | as sent, null when '' |
| span_start_ns | int64 | as sent, else the end, else arrival |
| span_end_ns | int64, null | as sent, null when unset |
| span_duration_ns | int64, null | end minus start; null when one was not sent, is past 2262, or end < start |
| span_flags, dropped attributes, events, links | int64 | as sent |
| span_events, span_links | lists of structs | see below |
| service_name | dictionary | service.name of the resource, else unknown_service |
| stream id, stream | int64, dictionary | id, and text of the index labels (not written to segments) |
| scope_*, resource_* columns of their own, flat attributes | | as in logs.py |

    span_events  list<struct<tsns, name, dropped, attributes>>
    span_links   list<struct<trace_id, span_id, trace_state, flags, dropped, attributes>>
    attributes   list<struct<key, kind, value>>

An attribute of an event or link keeps its OTLP kind beside the text of its value (OTel's string form), so
that `200` the number and `"200"` the text stay apart and repeated keys stay in their order. A map of text
could hold neither, and flat columns are no choice here: the keys of one span's five events would need five of
each.

Text columns are `string` or `dictionary<int32, string>`, whichever fits the values; filter and slice at will.
"""  # noqa: E501

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode.any_value import texts
from lakerunner_assets.decode.attributes import (
    ResourceStreams,
    attribute_columns,
    resource_streams,
    stream_columns,
)
from lakerunner_assets.decode.dispatch import DecodedSlice, Place
from lakerunner_assets.decode.errors import raise_fault
from lakerunner_assets.decode.field_kernels import KINDS, OWNER, Matrix, Spans
from lakerunner_assets.decode.otlp import scan_traces_kernels as scan
from lakerunner_assets.decode.otlp.groups_kernels import Groups
from lakerunner_assets.decode.otlp.owners import assemble, find_groups, ids, nullable, owners, time_in_range
from lakerunner_assets.decode.slice_kernels import take_spans
from lakerunner_assets.decode.text import column_at, strings, strings_at
from resources.arrays import Bytes, Int64s
from resources.lake.columns import (
    CHQ_DROPPED_ATTRIBUTES,
    CHQ_DROPPED_EVENTS,
    CHQ_DROPPED_LINKS,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_STREAM,
    CHQ_STREAM_ID,
)
from resources.lake.options import DecodeOptions

KIND_NAMES = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUS_NAMES = ("unset", "ok", "error")


def words(numbers: npt.NDArray[np.int64], names: tuple[str, ...]) -> pa.DictionaryArray:
    """Translate numbers to words; an unknown number stays as its digits.

    >>> words(np.array([2, 0, 9, -1]), STATUS_NAMES).to_pylist()
    ['error', 'unset', '9', '-1']
    """
    codes = numbers.astype(np.int32)
    odd = np.flatnonzero((numbers < 0) | (numbers >= len(names)))
    unknown, places = np.unique(numbers[odd], return_inverse=True)
    codes[odd] = len(names) + places
    return pa.DictionaryArray.from_arrays(
        pa.array(codes), pa.array([*names, *(str(number) for number in unknown.tolist())])
    )


def _list_of(*members: pa.Field) -> pa.ListType:
    # called as in Parquet, so that a segment read back has this very type
    return pa.list_(pa.field("element", pa.struct(members)))


ATTRIBUTES = _list_of(
    pa.field("key", pa.string()), pa.field("kind", pa.string()), pa.field("value", pa.string())
)
EVENTS = _list_of(
    pa.field("tsns", pa.int64()),
    pa.field("name", pa.string()),
    pa.field("dropped", pa.int64()),
    pa.field("attributes", ATTRIBUTES),
)
LINKS = _list_of(
    pa.field("trace_id", pa.binary(16)),
    pa.field("span_id", pa.binary(8)),
    pa.field("trace_state", pa.string()),
    pa.field("flags", pa.int64()),
    pa.field("dropped", pa.int64()),
    pa.field("attributes", ATTRIBUTES),
)


def event_lists(data: Bytes, found: scan.SpanRows, notes: Counter[str]) -> pa.ListArray:
    """Return `span_events` of every span, empty where it has none."""
    events = found.events
    time = fields.column(events, scan.EVENT_TIME)
    members = [
        nullable(time_in_range(time, notes), time == 0),
        strings(data, fields.spans_of(events, scan.EVENT_NAME), notes),
        pa.array(fields.column(events, scan.EVENT_DROPPED)),
        attribute_lists(data, found.event_attributes, len(events), notes),
    ]
    return _lists(EVENTS, events, members, len(found.spans))


def link_lists(data: Bytes, found: scan.SpanRows, notes: Counter[str]) -> pa.ListArray:
    """Return `span_links` of every span; absent ids are null, as those of spans are."""
    links = found.links
    states = fields.spans_of(links, scan.LINK_STATE)
    present = np.flatnonzero(states.length)
    members = [
        ids(data, fields.spans_of(links, scan.LINK_TRACE_ID), 16, "invalid_link_trace_id", notes),
        ids(data, fields.spans_of(links, scan.LINK_SPAN_ID), 8, "invalid_link_span_id", notes),
        strings_at(
            data, fields.Spans(states.start[present], states.length[present]), present, len(links), notes
        ),
        pa.array(fields.column(links, scan.LINK_FLAGS)),
        pa.array(fields.column(links, scan.LINK_DROPPED)),
        attribute_lists(data, found.link_attributes, len(links), notes),
    ]
    return _lists(LINKS, links, members, len(found.spans))


def attribute_lists(data: Bytes, rows: Matrix, owner_count: int, notes: Counter[str]) -> pa.ListArray:
    """Return the attributes of every owner, as sent."""
    attributes = fields.attributes_of(rows)
    members = [
        strings(data, attributes.key, notes),
        pa.array(KINDS).take(pa.array(attributes.values.kind)),
        texts(data, attributes.values, notes),
    ]
    return _lists(ATTRIBUTES, rows, members, owner_count)


def _lists(kind: pa.ListType, rows: Matrix, members: list[pa.Array], owner_count: int) -> pa.ListArray:
    """Group rows by owner: they lie together and owners ascend, so counting them gives the offsets."""
    offsets = np.zeros(owner_count + 1, np.int32)
    np.cumsum(np.bincount(rows[:, OWNER], minlength=owner_count), out=offsets[1:])
    structs = pa.StructArray.from_arrays(members, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=kind)


NO_END, WRONG_WAY = "span_without_end", "span_ends_before_start"


@dataclass(frozen=True, slots=True)
class ScannedTraces:
    """Slice as matrices of positions; scan_traces_kernels.py names the columns."""

    data: Bytes
    groups: Groups
    found: scan.SpanRows


def decode_traces(data: bytes, place: Place, options: DecodeOptions) -> DecodedSlice:
    """Decode the spans of an ExportTraceServiceRequest."""
    view = np.frombuffer(data, np.uint8)
    scanned = scan_slice(view, 0, len(view))
    notes: Counter[str] = Counter()
    count = len(scanned.found.spans)
    columns = {
        CHQ_OBJECT: pa.array(np.full(count, place.object_id, np.int64)),
        CHQ_POSITION: pa.array(np.arange(place.first_position, place.first_position + count)),
        **dict(_span_columns(scanned, notes)),
        **_times(scanned.found.spans, place.arrival_ns, notes),
        "span_events": event_lists(view, scanned.found, notes),
        "span_links": link_lists(view, scanned.found, notes),
    }
    owned = owners(view, scanned.groups, scanned.groups.scope_of_record, notes)
    # the service names a stream of spans always, whatever the organisation chose for its logs
    index = ("service.name", *options.index_attributes)
    streams = resource_streams(owned.resources.attributes, len(owned.resources.fields), index)
    of_row = owned.resources.of_row.astype(np.int32)
    columns[CHQ_STREAM_ID], columns[CHQ_STREAM] = stream_columns(streams, of_row)
    columns["service_name"] = _services(streams, columns[CHQ_STREAM])
    columns |= owned.columns
    record = attribute_columns(view, fields.attributes_of(scanned.found.attributes), count, "record", notes)
    flat = [*owned.flat(), *(("record", *pair) for pair in record.columns.items())]
    if record.overflow is not None:
        flat.append(("record", None, record.overflow))
    known = dict(zip(streams.ids, streams.labels, strict=True))
    return DecodedSlice(assemble(columns, flat), 0, dict(notes), streams=known)


def scan_slice(data: Bytes, start: int, end: int) -> ScannedTraces:
    """Scan `data[start:end]` for the positions and numbers of every field."""
    groups = find_groups(data, start, end)
    counts = np.zeros(5, np.int64)
    raise_fault(scan.count_spans(data, groups.records, counts))
    found = scan.room_for(len(groups.records.start), counts)
    raise_fault(scan.read_spans(data, groups.records, found))
    return ScannedTraces(data, groups, found)


def _span_columns(scanned: ScannedTraces, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
    data, rows = scanned.data, scanned.found.spans
    yield "span_trace_id", ids(data, fields.spans_of(rows, scan.TRACE_ID), 16, "invalid_trace_id", notes)
    yield "span_id", ids(data, fields.spans_of(rows, scan.SPAN_ID), 8, "invalid_span_id", notes)
    parent = fields.spans_of(rows, scan.PARENT_ID)
    yield "span_parent_span_id", ids(data, parent, 8, "invalid_parent_span_id", notes)
    names = fields.spans_of(rows, scan.NAME)
    yield "span_name", column_at(data, names, np.arange(len(rows)), len(rows), notes)
    yield "span_kind", words(rows[:, scan.KIND], KIND_NAMES)
    yield "span_status_code", words(rows[:, scan.STATUS_CODE], STATUS_NAMES)
    yield "span_status_message", _present(data, fields.spans_of(rows, scan.STATUS_MESSAGE), notes)
    yield "span_trace_state", _present(data, fields.spans_of(rows, scan.TRACE_STATE), notes)
    yield "span_flags", pa.array(fields.column(rows, scan.FLAGS))
    yield CHQ_DROPPED_ATTRIBUTES, pa.array(fields.column(rows, scan.DROPPED_ATTRIBUTES))
    yield CHQ_DROPPED_EVENTS, pa.array(fields.column(rows, scan.DROPPED_EVENTS))
    yield CHQ_DROPPED_LINKS, pa.array(fields.column(rows, scan.DROPPED_LINKS))


def _present(data: Bytes, spans: Spans, notes: Counter[str]) -> pa.Array:
    """Return text where there is any, null elsewhere."""
    rows = np.flatnonzero(spans.length)
    return column_at(data, take_spans(spans, rows), rows, len(spans.start), notes)


def _times(rows: fields.Matrix, arrival_ns: int, notes: Counter[str]) -> dict[str, pa.Array]:
    """Return start, end and duration; count every fallback and every oddity."""
    sent_start, sent_end = fields.column(rows, scan.START), fields.column(rows, scan.END)
    start, end = _start(sent_start, sent_end, arrival_ns, notes), time_in_range(sent_end, notes)
    known = (sent_start > 0) & (sent_end > 0)  # negative: past 2262
    wrong_way = known & (sent_end < sent_start)
    for note, rows_with in ((NO_END, sent_end == 0), (WRONG_WAY, wrong_way)):
        if rows_with.any():
            notes[note] += int(rows_with.sum())
    measured = known & ~wrong_way
    return {
        "span_start_ns": pa.array(start),
        "span_end_ns": nullable(end, sent_end == 0),
        "span_duration_ns": nullable(np.where(measured, sent_end - sent_start, 0), ~measured),
    }


def _start(sent_start: Int64s, sent_end: Int64s, arrival_ns: int, notes: Counter[str]) -> Int64s:
    start = time_in_range(sent_start, notes)
    unset = sent_start == 0
    if not unset.any():
        return start
    arrival = unset & (sent_end == 0)
    notes["time_from_arrival"] += int(arrival.sum())
    notes["time_from_end"] += int(unset.sum() - arrival.sum())
    return np.where(arrival, arrival_ns, np.where(unset, time_in_range(sent_end, Counter()), start))


def _services(streams: ResourceStreams, of_row: pa.DictionaryArray) -> pa.DictionaryArray:
    names = pa.array([dict(labels)["service_name"] for labels in streams.labels], pa.string())
    unique = names.dictionary_encode()
    return pa.DictionaryArray.from_arrays(unique.indices.take(of_row.indices), unique.dictionary)
