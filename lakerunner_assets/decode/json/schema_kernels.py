"""OTLP's messages stand in a table, which is compiled for the transcoder.

Names are written as in the .proto files; JSON may spell them so or in lowerCamelCase. `id` is a bytes field
that JSON writes in hexadecimal, `[]` marks repeated fields, `other` a name that only requests of another
signal have. A test compares the table with the descriptors of the protobuf runtime. `transcode_kernels.py`
measures the pass that it drives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lakerunner_assets.decode.eight_bytes_kernels import first_bytes, load_padded, load_word
from lakerunner_assets.decode.wire_kernels import FIXED32, FIXED64, LENGTH, VARINT, tag_of
from resources.arrays import Bytes
from resources.kernel import Integer, scanner

SCHEMA = """
LogsRequest: 1 ResourceLogs[] resource_logs; 0 other resource_metrics; 0 other resource_spans
MetricsRequest: 1 ResourceMetrics[] resource_metrics; 0 other resource_logs; 0 other resource_spans
TraceRequest: 1 ResourceSpans[] resource_spans; 0 other resource_logs; 0 other resource_metrics

ResourceLogs: 1 Resource resource; 2 ScopeLogs[] scope_logs; 3 string schema_url
ResourceMetrics: 1 Resource resource; 2 ScopeMetrics[] scope_metrics; 3 string schema_url
ResourceSpans: 1 Resource resource; 2 ScopeSpans[] scope_spans; 3 string schema_url
ScopeLogs: 1 InstrumentationScope scope; 2 LogRecord[] log_records; 3 string schema_url
ScopeMetrics: 1 InstrumentationScope scope; 2 Metric[] metrics; 3 string schema_url
ScopeSpans: 1 InstrumentationScope scope; 2 Span[] spans; 3 string schema_url

Resource: 1 KeyValue[] attributes; 2 uint32 dropped_attributes_count; 3 EntityRef[] entity_refs
EntityRef: 1 string schema_url; 2 string type; 3 string[] id_keys; 4 string[] description_keys
InstrumentationScope: 1 string name; 2 string version; 3 KeyValue[] attributes;
    4 uint32 dropped_attributes_count
KeyValue: 1 string key; 2 AnyValue value; 3 int32 key_strindex
AnyValue: 1 string string_value; 2 bool bool_value; 3 int64 int_value; 4 double double_value;
    5 ArrayValue array_value; 6 KeyValueList kvlist_value; 7 bytes bytes_value; 8 int32 string_value_strindex
ArrayValue: 1 AnyValue[] values
KeyValueList: 1 KeyValue[] values

LogRecord: 1 fixed64 time_unix_nano; 11 fixed64 observed_time_unix_nano; 2 SeverityNumber severity_number;
    3 string severity_text; 5 AnyValue body; 6 KeyValue[] attributes; 7 uint32 dropped_attributes_count;
    8 fixed32 flags; 9 id trace_id; 10 id span_id; 12 string event_name

Metric: 1 string name; 2 string description; 3 string unit; 5 Gauge gauge; 7 Sum sum; 9 Histogram histogram;
    10 ExponentialHistogram exponential_histogram; 11 Summary summary; 12 KeyValue[] metadata
Gauge: 1 NumberDataPoint[] data_points
Sum: 1 NumberDataPoint[] data_points; 2 AggregationTemporality aggregation_temporality; 3 bool is_monotonic
Histogram: 1 HistogramDataPoint[] data_points; 2 AggregationTemporality aggregation_temporality
ExponentialHistogram: 1 ExponentialHistogramDataPoint[] data_points;
    2 AggregationTemporality aggregation_temporality
Summary: 1 SummaryDataPoint[] data_points
NumberDataPoint: 7 KeyValue[] attributes; 2 fixed64 start_time_unix_nano; 3 fixed64 time_unix_nano;
    4 double as_double; 6 sfixed64 as_int; 5 Exemplar[] exemplars; 8 uint32 flags
HistogramDataPoint: 9 KeyValue[] attributes; 2 fixed64 start_time_unix_nano; 3 fixed64 time_unix_nano;
    4 fixed64 count; 5 double sum; 6 fixed64[] bucket_counts; 7 double[] explicit_bounds;
    8 Exemplar[] exemplars; 10 uint32 flags; 11 double min; 12 double max
ExponentialHistogramDataPoint: 1 KeyValue[] attributes; 2 fixed64 start_time_unix_nano;
    3 fixed64 time_unix_nano; 4 fixed64 count; 5 double sum; 6 sint32 scale; 7 fixed64 zero_count;
    8 Buckets positive; 9 Buckets negative; 10 uint32 flags; 11 Exemplar[] exemplars; 12 double min;
    13 double max; 14 double zero_threshold
Buckets: 1 sint32 offset; 2 uint64[] bucket_counts
SummaryDataPoint: 7 KeyValue[] attributes; 2 fixed64 start_time_unix_nano; 3 fixed64 time_unix_nano;
    4 fixed64 count; 5 double sum; 6 ValueAtQuantile[] quantile_values; 8 uint32 flags
ValueAtQuantile: 1 double quantile; 2 double value
Exemplar: 7 KeyValue[] filtered_attributes; 2 fixed64 time_unix_nano; 3 double as_double; 6 sfixed64 as_int;
    4 id span_id; 5 id trace_id

Span: 1 id trace_id; 2 id span_id; 3 string trace_state; 4 id parent_span_id; 16 fixed32 flags;
    5 string name; 6 SpanKind kind; 7 fixed64 start_time_unix_nano; 8 fixed64 end_time_unix_nano;
    9 KeyValue[] attributes; 10 uint32 dropped_attributes_count; 11 Event[] events;
    12 uint32 dropped_events_count; 13 Link[] links; 14 uint32 dropped_links_count; 15 Status status
Event: 1 fixed64 time_unix_nano; 2 string name; 3 KeyValue[] attributes; 4 uint32 dropped_attributes_count
Link: 1 id trace_id; 2 id span_id; 3 string trace_state; 4 KeyValue[] attributes;
    5 uint32 dropped_attributes_count; 6 fixed32 flags
Status: 2 string message; 3 StatusCode code
"""
_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
ENUMS: dict[str, tuple[str, ...]] = {
    "SeverityNumber": (
        "SEVERITY_NUMBER_UNSPECIFIED",
        *(f"SEVERITY_NUMBER_{level}{step}" for level in _LEVELS for step in ("", "2", "3", "4")),
    ),
    "AggregationTemporality": tuple(
        f"AGGREGATION_TEMPORALITY_{name}" for name in ("UNSPECIFIED", "DELTA", "CUMULATIVE")
    ),
    "SpanKind": tuple(
        f"SPAN_KIND_{name}"
        for name in ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
    ),
    "StatusCode": ("STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"),
}
"""Names of enums' values; a name's place is its number."""

SCALARS = (
    "message", "other", "string", "bytes", "id", "bool", "double", "enum",
    "int32", "int64", "uint32", "uint64", "sint32", "fixed32", "fixed64", "sfixed64",
)  # fmt: skip
MESSAGE, OTHER, STRING, BYTES, ID, BOOL, DOUBLE, ENUM = range(8)
PLAIN_VARINT, ZIGZAG, FOUR_BYTES, EIGHT_BYTES = range(4)
_ENCODINGS = {
    "sint32": ZIGZAG,
    "fixed32": FOUR_BYTES,
    "fixed64": EIGHT_BYTES,
    "sfixed64": EIGHT_BYTES,
    "double": EIGHT_BYTES,
}
_WIRE_TYPES = {PLAIN_VARINT: VARINT, ZIGZAG: VARINT, FOUR_BYTES: FIXED32, EIGHT_BYTES: FIXED64}


class Field(NamedTuple):
    """Row of the table; `type` is a scalar's or the name of a message or enum."""

    owner: str
    number: int
    type: str
    repeated: bool
    name: str


_NAME = re.compile(r"^(\w+): ", re.MULTILINE)


def fields_of(schema: str = SCHEMA) -> Iterator[Field]:
    """Parse the table.

    >>> next(fields_of("Sum: 1 NumberDataPoint[] data_points; 3 bool is_monotonic"))
    Field(owner='Sum', number=1, type='NumberDataPoint', repeated=True, name='data_points')
    """
    parts = _NAME.split(schema)[1:]
    for owner, text in zip(parts[::2], parts[1::2], strict=True):
        for line in text.split(";"):
            number, type_, name = line.split()
            yield Field(owner, int(number), type_.removesuffix("[]"), type_.endswith("[]"), name)


def camel(name: str) -> str:
    """Return the lowerCamelCase form of a field's name.

    >>> camel("time_unix_nano")
    'timeUnixNano'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


FIELDS = tuple(fields_of())
MESSAGES = {name: number for number, name in enumerate(dict.fromkeys(f.owner for f in FIELDS))}
_ENUM_OWNERS = {name: len(MESSAGES) + number for number, name in enumerate(ENUMS)}

TYPE, CHILD, TAG, TAG_SIZE, REPEATED, ENCODING = range(6)
"""Columns of `RULES`: kind of value, its message or enum, its tag as a word, the tag's bytes."""


def _rules() -> npt.NDArray[np.int64]:
    """Make a row per field that tells the transcoder how to write its value."""
    rows = np.zeros((len(FIELDS), 6), np.int64)
    for row, field in enumerate(FIELDS):
        kind = "message" if field.type in MESSAGES else "enum" if field.type in ENUMS else field.type
        encoding = _ENCODINGS.get(kind, PLAIN_VARINT)
        lengthy = kind in {"message", "string", "bytes", "id"} or field.repeated
        tag = tag_of(field.number, LENGTH if lengthy else _WIRE_TYPES[encoding])
        child = MESSAGES.get(field.type, _ENUM_OWNERS.get(field.type, -1))
        size, word = (1, tag) if tag < 128 else (2, tag & 127 | 128 | tag >> 7 << 8)
        rows[row] = SCALARS.index(kind), child, word, size, field.repeated, encoding
    return rows


def _names() -> Iterator[tuple[str, int, int]]:
    """Yield (name, owner, meaning): a row of `RULES`, or the number of an enum's value."""
    for row, field in enumerate(FIELDS):
        for name in dict.fromkeys((field.name, camel(field.name))):
            yield name, MESSAGES[field.owner], row
    for enum, names in ENUMS.items():
        for number, name in enumerate(names):
            yield name, _ENUM_OWNERS[enum], number


_TABLE_BITS = 11
_SHIFT = np.uint64(64 - _TABLE_BITS)
_MASK = np.uint64((1 << _TABLE_BITS) - 1)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@scanner
def slot_of(first: np.uint64, length: Integer, owner: Integer) -> np.uint64:
    mixed = (first ^ (np.uint64(owner) << np.uint64(48)) ^ np.uint64(length)) * _MULTIPLIER
    return (mixed ^ (mixed >> np.uint64(32))) * _MULTIPLIER >> _SHIFT


_START, _LENGTH, _OWNER, _MEANING = range(4)


def _table() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int16], Bytes]:
    """Build an open-addressing table of names: entries, slots (-1: free) and the text of all names."""
    names = list(_names())
    entries = np.zeros((len(names), 4), np.int64)
    slots = np.full(1 << _TABLE_BITS, -1, np.int16)
    text = bytearray()
    with np.errstate(over="ignore"):
        for row, (name, owner, meaning) in enumerate(names):
            first = np.uint64(int.from_bytes(name[:8].encode(), "little"))
            slot = int(slot_of(first, len(name), owner))
            while slots[slot] >= 0:
                slot = (slot + 1) % len(slots)
            slots[slot] = row
            entries[row] = len(text), len(name), owner, meaning
            text += name.encode() + bytes(-len(name) % 8)
    return entries, slots, np.frombuffer(bytes(text), np.uint8)


RULES = _rules()
_ENTRIES, _SLOTS, _TEXT = _table()


@scanner
def find_name(data: Bytes, start: Integer, length: Integer, owner: Integer) -> Integer:
    """Look up a name of a message (a row of `RULES`) or enum (a number); -1: unknown."""
    if length == 0:
        return np.int64(-1)
    first = first_bytes(load_padded(data, start), min(length, 8))
    slot = slot_of(first, length, owner)
    while _SLOTS[slot] >= 0:
        entry = np.uint64(_SLOTS[slot])
        if _ENTRIES[entry, _LENGTH] == length and _ENTRIES[entry, _OWNER] == owner:
            known = _ENTRIES[entry, _START]
            differs = first ^ load_word(_TEXT, known)
            offset: Integer = 8
            while differs == 0 and offset < length:
                word = first_bytes(load_padded(data, start + offset), min(length - offset, 8))
                differs = word ^ load_word(_TEXT, known + offset)
                offset += 8
            if differs == 0:
                return np.int64(_ENTRIES[entry, _MEANING])
        slot = (slot + np.uint64(1)) & _MASK
    return np.int64(-1)
