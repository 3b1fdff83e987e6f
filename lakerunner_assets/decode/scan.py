"""Walks OTLP log messages and notes where every field lies, copying nothing but numbers.

Two passes over one slice: `measure` counts, so that arrays are allocated exactly once, and `fill` writes
positions and scalars into them. Both check every bound, since neither trusts the other to have looked at the
same depth. What the positions mean as text or columns is decided by the modules that call this one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lakerunner_assets.decode.kernel import Integer, kernel
from lakerunner_assets.decode.wire import (
    Bytes,
    read_fixed,
    read_length,
    read_tag,
    read_varint,
    skip_field,
)

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

EMPTY, STRING, BOOL, INT, DOUBLE, ARRAY, KVLIST, BYTES = range(8)
KINDS = ("empty", "string", "bool", "int", "double", "array", "kvlist", "bytes")


class Spans(NamedTuple):
    """Slices of the scanned bytes."""

    start: Int64s
    length: Int32s


class Values(NamedTuple):
    """AnyValues: `value` is a position for everything with a length, else the raw 64 bits."""

    kind: npt.NDArray[np.uint8]
    value: Int64s
    length: Int32s


class Attributes(NamedTuple):
    """Key-values of all owners in one run; `owner` ascends."""

    owner: Int32s
    key: Spans
    values: Values


class Groups(NamedTuple):
    """ResourceLogs or ScopeLogs: their resource or scope message, schema URL, and enclosing group."""

    message: Spans
    schema_url: Spans
    parent: Int32s


class Records(NamedTuple):
    time: Int64s
    observed: Int64s
    severity: Int32s
    flags: Int64s
    dropped: Int64s
    scope: Int32s
    severity_text: Spans
    event_name: Spans
    body: Values
    trace_id: npt.NDArray[np.uint8]
    trace_id_length: Int64s
    span_id: npt.NDArray[np.uint8]
    span_id_length: Int64s


class Owners(NamedTuple):
    """What resource and scope messages hold besides attributes."""

    name: Spans
    version: Spans
    dropped: Int64s


def new_spans(count: int) -> Spans:
    return Spans(np.zeros(count, np.int64), np.zeros(count, np.int32))


def new_values(count: int) -> Values:
    return Values(np.zeros(count, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int32))


def new_attributes(count: int) -> Attributes:
    return Attributes(np.zeros(count, np.int32), new_spans(count), new_values(count))


def new_groups(count: int) -> Groups:
    return Groups(new_spans(count), new_spans(count), np.zeros(count, np.int32))


def new_owners(count: int) -> Owners:
    return Owners(new_spans(count), new_spans(count), np.zeros(count, np.int64))


def new_records(count: int) -> Records:
    return Records(
        time=np.zeros(count, np.int64),
        observed=np.zeros(count, np.int64),
        severity=np.zeros(count, np.int32),
        flags=np.zeros(count, np.int64),
        dropped=np.zeros(count, np.int64),
        scope=np.zeros(count, np.int32),
        severity_text=new_spans(count),
        event_name=new_spans(count),
        body=new_values(count),
        trace_id=np.zeros((count, 16), np.uint8),
        trace_id_length=np.zeros(count, np.int64),
        span_id=np.zeros((count, 8), np.uint8),
        span_id_length=np.zeros(count, np.int64),
    )


@kernel
def next_resource_logs(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer, Integer]:
    """(start, end, position behind) of the next ResourceLogs of a request; start -1 at the end."""
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return np.int64(-1), np.int64(-1), position
        if tag == 10:
            length, position = read_length(data, position, end)
            if position < 0:
                return np.int64(-1), np.int64(-1), position
            return position, position + length, position + length
        position = skip_field(data, position, end, tag)
        if position < 0:
            return np.int64(-1), np.int64(-1), position
    return np.int64(-1), np.int64(-1), position


@kernel
def measure(data: Bytes, position: Integer, end: Integer, counts: Int64s) -> Integer:
    """Count resources, scopes, records and record attributes of the request in `data[position:end]`."""
    while True:
        start, stop, position = next_resource_logs(data, position, end)
        if start < 0:
            return position
        counts[0] += 1
        inner = start
        while inner < stop:
            tag, inner = read_tag(data, inner, stop)
            if inner < 0:
                return inner
            if tag != 18:
                inner = skip_field(data, inner, stop, tag)
                if inner < 0:
                    return inner
                continue
            length, inner = read_length(data, inner, stop)
            if inner < 0:
                return inner
            failed = measure_scope(data, inner, inner + length, counts)
            if failed < 0:
                return failed
            inner += length


@kernel
def measure_scope(data: Bytes, position: Integer, end: Integer, counts: Int64s) -> Integer:
    counts[1] += 1
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag != 18:
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
            continue
        length, position = read_length(data, position, end)
        if position < 0:
            return position
        counts[2] += 1
        stop = position + length
        while position < stop:
            tag, position = read_tag(data, position, stop)
            if position < 0:
                return position
            if tag == 50:
                counts[3] += 1
            position = skip_field(data, position, stop, tag)
            if position < 0:
                return position
    return position


@kernel
def read_span(data: Bytes, position: Integer, end: Integer, spans: Spans, index: Integer) -> Integer:
    length, position = read_length(data, position, end)
    if position < 0:
        return position
    spans.start[index] = position
    spans.length[index] = np.int32(length)
    return position + length


@kernel
def read_any_value(data: Bytes, position: Integer, end: Integer, values: Values, index: Integer) -> Integer:
    """One AnyValue; the last member of the oneof wins, as in protobuf."""
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag in {10, 42, 50, 58}:
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            values.kind[index] = tag >> 3
            values.value[index] = position
            values.length[index] = np.int32(length)
            position += length
        elif tag in {16, 24}:
            number, position = read_varint(data, position, end)
            if position < 0:
                return position
            values.kind[index] = tag >> 3
            values.value[index] = np.int64(number != 0) if tag == 16 else number
            values.length[index] = 0
        elif tag == 33:
            number, position = read_fixed(data, position, end, 8)
            if position < 0:
                return position
            values.kind[index] = 4
            values.value[index] = number
            values.length[index] = 0
        else:
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
    return position


@kernel
def read_key_value(
    data: Bytes, position: Integer, end: Integer, attributes: Attributes, index: Integer
) -> Integer:
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag == 10:
            position = read_span(data, position, end, attributes.key, index)
        elif tag == 18:
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            failed = read_any_value(data, position, position + length, attributes.values, index)
            position = failed if failed < 0 else position + length
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@kernel
def read_record(
    data: Bytes,
    position: Integer,
    end: Integer,
    records: Records,
    row: Integer,
    attributes: Attributes,
    used: Integer,
) -> tuple[Integer, Integer]:
    """One LogRecord into row `row`; also the number of attributes used so far."""
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position, used
        if tag == 50:
            length, position = read_length(data, position, end)
            if position < 0:
                return position, used
            attributes.owner[used] = row
            failed = read_key_value(data, position, position + length, attributes, used)
            used += 1
            position = failed if failed < 0 else position + length
        elif tag == 9:
            records.time[row], position = read_fixed(data, position, end, 8)
        elif tag == 89:
            records.observed[row], position = read_fixed(data, position, end, 8)
        elif tag == 16:
            number, position = read_varint(data, position, end)
            records.severity[row] = np.int32(number)
        elif tag == 26:
            position = read_span(data, position, end, records.severity_text, row)
        elif tag == 42:
            length, position = read_length(data, position, end)
            if position < 0:
                return position, used
            failed = read_any_value(data, position, position + length, records.body, row)
            position = failed if failed < 0 else position + length
        elif tag == 56:
            number, position = read_varint(data, position, end)
            records.dropped[row] = number & 0xFFFFFFFF
        elif tag == 69:
            records.flags[row], position = read_fixed(data, position, end, 4)
        elif tag in {74, 82}:
            length, position = read_length(data, position, end)
            if position < 0:
                return position, used
            if tag == 74:
                copy_id(data, position, length, 16, records.trace_id, records.trace_id_length, row)
            else:
                copy_id(data, position, length, 8, records.span_id, records.span_id_length, row)
            position += length
        elif tag == 98:
            position = read_span(data, position, end, records.event_name, row)
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position, used
    return position, used


@kernel
def copy_id(
    data: Bytes,
    position: Integer,
    length: Integer,
    width: Integer,
    ids: npt.NDArray[np.uint8],
    lengths: Int64s,
    row: Integer,
) -> None:
    """Ids of the right length are copied; an all-zero id means 'none' in OTLP, so its length reads 0."""
    lengths[row] = length
    if length != width:
        return
    seen = np.uint8(0)
    for index in range(width):
        ids[row, index] = data[position + index]
        seen |= data[position + index]
    if seen == 0:
        lengths[row] = 0


@kernel
def fill(
    data: Bytes,
    position: Integer,
    end: Integer,
    resources: Groups,
    scopes: Groups,
    records: Records,
    attributes: Attributes,
) -> Integer:
    """Fill the arrays that `measure` sized; returns the end or a fault."""
    resource = -1
    scope = -1
    row: Integer = 0
    used: Integer = 0
    while True:
        start, stop, position = next_resource_logs(data, position, end)
        if start < 0:
            return position
        resource += 1
        inner = start
        while inner < stop:
            tag, inner = read_tag(data, inner, stop)
            if inner < 0:
                return inner
            if tag == 10:
                inner = read_span(data, inner, stop, resources.message, resource)
            elif tag == 26:
                inner = read_span(data, inner, stop, resources.schema_url, resource)
            elif tag == 18:
                length, inner = read_length(data, inner, stop)
                if inner < 0:
                    return inner
                scope += 1
                scopes.parent[scope] = resource
                failed, row, used = fill_scope(
                    data, inner, inner + length, scope, scopes, records, row, attributes, used
                )
                inner = failed if failed < 0 else inner + length
            else:
                inner = skip_field(data, inner, stop, tag)
            if inner < 0:
                return inner


@kernel
def fill_scope(
    data: Bytes,
    position: Integer,
    end: Integer,
    scope: Integer,
    scopes: Groups,
    records: Records,
    row: Integer,
    attributes: Attributes,
    used: Integer,
) -> tuple[Integer, Integer, Integer]:
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position, row, used
        if tag == 18:
            length, position = read_length(data, position, end)
            if position < 0:
                return position, row, used
            records.scope[row] = scope
            failed, used = read_record(data, position, position + length, records, row, attributes, used)
            row += 1
            position = failed if failed < 0 else position + length
        elif tag == 10:
            position = read_span(data, position, end, scopes.message, scope)
        elif tag == 26:
            position = read_span(data, position, end, scopes.schema_url, scope)
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position, row, used
    return position, row, used


@kernel
def count_owned(data: Bytes, messages: Spans, attribute_tag: Integer) -> tuple[Integer, Integer]:
    """Number of attributes in resource or scope messages, or a fault."""
    count = 0
    for index in range(len(messages.start)):
        position = messages.start[index]
        end = position + messages.length[index]
        while position < end:
            tag, position = read_tag(data, position, end)
            if position < 0:
                return count, position
            if tag == attribute_tag:
                count += 1
            position = skip_field(data, position, end, tag)
            if position < 0:
                return count, position
    return count, np.int64(0)


@kernel
def fill_owned(
    data: Bytes, messages: Spans, tags: tuple[int, int, int, int], owners: Owners, attributes: Attributes
) -> Integer:
    """Read resource or scope messages; `tags`: name, version, attributes, dropped (-1: has none)."""
    name_tag, version_tag, attribute_tag, dropped_tag = tags
    used = 0
    for index in range(len(messages.start)):
        position = messages.start[index]
        end = position + messages.length[index]
        while position < end:
            tag, position = read_tag(data, position, end)
            if position < 0:
                return position
            if tag == attribute_tag:
                length, position = read_length(data, position, end)
                if position < 0:
                    return position
                attributes.owner[used] = index
                failed = read_key_value(data, position, position + length, attributes, used)
                used += 1
                position = failed if failed < 0 else position + length
            elif tag == name_tag:
                position = read_span(data, position, end, owners.name, index)
            elif tag == version_tag:
                position = read_span(data, position, end, owners.version, index)
            elif tag == dropped_tag:
                number, position = read_varint(data, position, end)
                owners.dropped[index] = number & 0xFFFFFFFF
            else:
                position = skip_field(data, position, end, tag)
            if position < 0:
                return position
    return np.int64(0)
