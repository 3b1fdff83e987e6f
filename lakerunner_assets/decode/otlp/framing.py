"""OTLP payloads of any size are cut into requests of bounded size.

Requests are cut between ResourceLogs (…Metrics, …Spans). A ResourceLogs that is larger than a slice is itself
cut between its ScopeLogs, and one of those between its records, each piece with the resource and the scope it
belongs to in front:

    R{resource, S{scope, r1 r2 r3}}   →   R{resource, S{scope, r1 r2}}   R{resource, S{scope, r3}}

Positions of records do not depend on the cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from lakerunner_assets.decode.errors import MalformedError, TooLargeError, raise_fault
from lakerunner_assets.decode.payload import Payload
from lakerunner_assets.decode.wire_kernels import (
    GROUP_START,
    LENGTH,
    read_tag,
    read_varint,
    skip_field,
    tag_of,
    whole_fields,
)

CHILD, RECORD = tag_of(1, LENGTH), tag_of(2, LENGTH)
"""Tags of ResourceLogs in a request; of ScopeLogs in a ResourceLogs, and of records in a ScopeLogs."""
MAX_RECORD_BYTES = 64 << 20
MAX_HEADER_BYTES = 16 << 20
"""Bytes of a resource or scope that has to be repeated in front of every piece."""
_FIELD_HEAD = 20
"""Bytes of a tag and a length at most."""


class Slice(NamedTuple):
    """A whole request, and its position in the payload (for the offsets of errors)."""

    base: int
    data: bytes


class Field(NamedTuple):
    tag: int
    start: int
    """Position of the tag."""
    content: int
    end: int


def slices(payload: Payload, slice_bytes: int) -> Iterator[Slice]:
    """Yield requests of about `slice_bytes` that hold all records of the payload, in order."""
    if payload.size <= slice_bytes:
        yield Slice(0, payload.read(0, payload.size))
        return
    position = 0
    while position < payload.size:
        window = payload.read(position, slice_bytes)
        length = int(whole_fields(np.frombuffer(window, np.uint8), len(window)))
        if position + len(window) == payload.size:
            length = len(window)  # the end of the object: what is cut short here is malformed
        if length:
            yield Slice(position, window[:length])
            position += length
            continue
        field = read_field(payload, position, payload.size)
        if field.tag == CHILD:
            yield from _cut_group(payload, field, slice_bytes)
        position = field.end


def _cut_group(payload: Payload, group: Field, slice_bytes: int) -> Iterator[Slice]:
    """Yield pieces of one ResourceLogs."""
    head = read_header(payload, group)
    for scope in read_runs(payload, group, slice_bytes):
        if isinstance(scope, Slice):
            yield Slice(scope.base, write_message(CHILD, head + scope.data))
            continue
        inner = read_header(payload, scope)
        for records in read_runs(payload, scope, slice_bytes):
            if not isinstance(records, Slice):
                records = read_alone(payload, records)  # noqa: PLW2901
            yield Slice(
                records.base, write_message(CHILD, head + write_message(RECORD, inner + records.data))
            )


def read_alone(payload: Payload, record: Field) -> Slice:
    size = record.end - record.start
    if size > MAX_RECORD_BYTES:
        raise TooLargeError(record.start, f"one record of {size} bytes: the limit is {MAX_RECORD_BYTES}")
    return Slice(record.start, payload.read(record.start, size))


def read_runs(payload: Payload, parent: Field, slice_bytes: int) -> Iterator[Slice | Field]:
    """Yield runs of the repeated children as bytes, and each child that is too large as a field."""
    parts: list[bytes] = []
    size = base = 0
    for field in read_fields(payload, parent):
        if field.tag != RECORD:
            continue
        length = field.end - field.start
        if parts and size + length > slice_bytes:
            yield Slice(base, b"".join(parts))
            parts, size = [], 0
        if length > slice_bytes:
            yield field
            continue
        base = base if parts else field.start
        parts.append(payload.read(field.start, length))
        size += length
    if parts:
        yield Slice(base, b"".join(parts))


def read_header(payload: Payload, parent: Field) -> bytes:
    """Return everything in a message but its repeated children."""
    own = [field for field in read_fields(payload, parent) if field.tag != RECORD]
    size = sum(field.end - field.start for field in own)
    if size > MAX_HEADER_BYTES:
        raise TooLargeError(
            parent.start, f"resource or scope of {size} bytes: the limit is {MAX_HEADER_BYTES}"
        )
    return b"".join(payload.read(field.start, field.end - field.start) for field in own)


def read_fields(payload: Payload, parent: Field) -> Iterable[Field]:
    position = parent.content
    while position < parent.end:
        field = read_field(payload, position, parent.end)
        yield field
        position = field.end


def read_field(payload: Payload, position: int, end: int) -> Field:
    """Return the field at `position`, without reading its content."""
    window = np.frombuffer(payload.read(position, min(_FIELD_HEAD, end - position)), np.uint8)
    tag, after = read_tag(window, 0, len(window))
    raise_fault(after, position)
    if tag & 7 == LENGTH:
        length, content = read_varint(window, after, len(window))
        raise_fault(content, position)
        if not 0 <= length <= end - position - content:
            raise MalformedError(position + int(after), "length runs past the end of its message")
        return Field(int(tag), position, position + int(content), position + int(content + length))
    if tag & 7 == GROUP_START:  # nobody sends groups any more; a large one is not worth a reader of its own
        raise MalformedError(position, "a group where a message was expected")
    behind = skip_field(window, after, len(window), tag)
    raise_fault(behind, position)
    return Field(int(tag), position, position + int(after), position + int(behind))


def write_message(tag: int, content: bytes) -> bytes:
    length, size = bytearray(), len(content)
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return bytes((tag, *length)) + content
