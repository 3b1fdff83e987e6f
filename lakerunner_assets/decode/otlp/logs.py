"""OTLP protobuf logs (ExportLogsServiceRequest or LogsData) become Arrow tables.

An object is cut at ResourceLogs borders into slices; kernels scan each slice, which becomes one table. The
position of a record is its ordinal in the whole object, whatever the slicing. Columns of a decoded table
(`resources/lake/columns.py` names the system columns):

| column | type | what |
|---|---|---|
| event time | int64 | time, else observed time, else arrival |
| observed time | int64, null | as sent |
| stream id, stream | int64, dictionary | stream id; its labels as text (not written to segments) |
| fingerprint | int64 | template of the message |
| object, position | int64 | row id: raw object, ordinal in it |
| log_level, detected_level | dictionary | see levels.py |
| log_severity_number, log_severity_text | int32; dictionary, null | as sent |
| log_message, body kind | string; dictionary | OTel string form of the body ('' when unset); its kind |
| trace_id, span_id | fixed 16 / 8 bytes, null | as sent; null when absent, all zero or of a wrong length |
| log_flags, event_name | int64; dictionary, null | as sent |
| dropped attributes of record, resource, scope | int64 | counts as sent |
| scope_name, scope_version, {scope,resource}_schema_url | dictionary, null | as sent, null when '' |
| resource_* scope_* attr_*, *_overflow | by OTLP kind; map | flat attributes; fields carry scope, key, kind |

Text columns are `string` or `dictionary<int32, string>`, whichever fits the values; filter and slice at will.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode.any_value import texts
from lakerunner_assets.decode.attributes import attribute_columns, resource_streams, stream_columns
from lakerunner_assets.decode.dispatch import DecodedSlice, Place
from lakerunner_assets.decode.errors import raise_fault
from lakerunner_assets.decode.field_kernels import KINDS, Matrix
from lakerunner_assets.decode.fingerprint import fingerprints
from lakerunner_assets.decode.levels import detect_levels, levels
from lakerunner_assets.decode.otlp import scan_logs_kernels as scan
from lakerunner_assets.decode.otlp.groups_kernels import Groups
from lakerunner_assets.decode.otlp.owners import (
    assemble,
    find_groups,
    ids,
    nullable,
    owners,
    time_in_range,
    without_empty,
)
from lakerunner_assets.decode.text import encode_strings
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer
from resources.lake.columns import (
    CHQ_BODY_KIND,
    CHQ_DROPPED_ATTRIBUTES,
    CHQ_FINGERPRINT,
    CHQ_OBJECT,
    CHQ_OBSERVED_TSNS,
    CHQ_POSITION,
    CHQ_STREAM,
    CHQ_STREAM_ID,
    CHQ_TSNS,
)
from resources.lake.options import DecodeOptions

_USUAL_ATTRIBUTES = 8
"""Attributes of a record that there is room for at first. Unused room is never touched."""


@dataclass(frozen=True, slots=True)
class ScannedLogs:
    """Slice as matrices of positions; scan_logs_kernels.py names the columns."""

    data: Bytes
    groups: Groups
    records: Matrix
    attributes: Matrix


def decode_logs(data: bytes, place: Place, options: DecodeOptions) -> DecodedSlice:
    """Decode the records of an ExportLogsServiceRequest."""
    view = np.frombuffer(data, np.uint8)
    scanned = scan_slice(view, 0, len(view))
    notes: Counter[str] = Counter()
    count = len(scanned.records)
    columns = dict(_record_columns(scanned, place.arrival_ns, notes))
    columns[CHQ_OBJECT] = pa.array(np.full(count, place.object_id, np.int64))
    columns[CHQ_POSITION] = pa.array(np.arange(place.first_position, place.first_position + count))
    owned = owners(view, scanned.groups, scanned.groups.scope_of_record, notes)
    resources = owned.resources
    streams = resource_streams(resources.attributes, len(resources.fields), options.index_attributes)
    columns[CHQ_STREAM_ID], columns[CHQ_STREAM] = stream_columns(streams, resources.of_row.astype(np.int32))
    columns |= owned.columns
    record = attribute_columns(view, fields.attributes_of(scanned.attributes), count, "record", notes)
    flat = [*owned.flat(), *(("record", *pair) for pair in record.columns.items())]
    if record.overflow is not None:
        flat.append(("record", None, record.overflow))
    known = dict(zip(streams.ids, streams.labels, strict=True))
    return DecodedSlice(assemble(columns, flat), 0, dict(notes), streams=known)


def scan_slice(data: Bytes, start: int, end: int) -> ScannedLogs:
    """Scan `data[start:end]` for the positions and numbers of every field."""
    groups = find_groups(data, start, end)
    records = fields.matrix(len(groups.records.start), scan.RECORD_WIDTH)
    attributes = np.empty((_USUAL_ATTRIBUTES * len(records), fields.ATTRIBUTE_WIDTH), np.int64)
    row: Integer = 0
    used: Integer = 0
    while True:
        failed, row, used = scan.read_records(data, groups.records, row, records, attributes, used)
        raise_fault(failed)
        if row == len(records):
            return ScannedLogs(data, groups, fields.by_column(records), attributes[:used])
        more = np.empty((max(len(attributes), scan.MIN_ROOM), fields.ATTRIBUTE_WIDTH), np.int64)
        attributes = np.concatenate((attributes, more))


def _record_columns(
    scanned: ScannedLogs, arrival_ns: int, notes: Counter[str]
) -> Iterator[tuple[str, pa.Array]]:
    data, records = scanned.data, scanned.records
    time, observed = fields.column(records, scan.TIME), fields.column(records, scan.OBSERVED)
    yield CHQ_TSNS, _event_time(time, observed, arrival_ns, notes)
    yield CHQ_OBSERVED_TSNS, nullable(time_in_range(observed, Counter()), observed == 0)
    severity = records[:, scan.SEVERITY].astype(np.int32)
    severity_text = encode_strings(data, fields.spans_of(records, scan.SEVERITY_TEXT), notes)
    level = levels(severity, severity_text)
    yield "log_level", level
    yield "log_severity_number", pa.array(severity)
    yield "log_severity_text", without_empty(severity_text)
    body = fields.values_of(records, scan.BODY_KIND)
    message = texts(data, body, notes)
    yield "log_message", message
    yield (
        CHQ_BODY_KIND,
        pa.DictionaryArray.from_arrays(pa.array(body.kind.astype(np.int32)), pa.array(KINDS)),
    )
    yield "detected_level", detect_levels(level, message)
    yield CHQ_FINGERPRINT, pa.array(fingerprints(message))
    yield "trace_id", ids(data, fields.spans_of(records, scan.TRACE_ID), 16, "invalid_trace_id", notes)
    yield "span_id", ids(data, fields.spans_of(records, scan.SPAN_ID), 8, "invalid_span_id", notes)
    yield "log_flags", pa.array(fields.column(records, scan.FLAGS))
    yield "event_name", without_empty(encode_strings(data, fields.spans_of(records, scan.EVENT_NAME), notes))
    yield CHQ_DROPPED_ATTRIBUTES, pa.array(fields.column(records, scan.DROPPED))


def _event_time(sent: Int64s, observed: Int64s, arrival_ns: int, notes: Counter[str]) -> pa.Array:
    """Take the time, else the observed time, else the arrival; count every fallback."""
    time = time_in_range(sent, notes)
    unset = sent == 0
    if not unset.any():
        return pa.array(time)
    arrival = unset & (observed == 0)
    notes["time_from_arrival"] += int(arrival.sum())
    notes["time_from_observed"] += int(unset.sum() - arrival.sum())
    known = np.where(unset, time_in_range(observed, notes), time)
    return pa.array(np.where(arrival, arrival_ns, known))
