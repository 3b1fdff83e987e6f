"""Protobuf wire primitives check their bounds at every byte.

A primitive returns the position after what it read, or a negative *fault* that carries the offset and the
reason; callers return a negative position at once. No message type is known here, and unknown fields (also
the retired groups) are skipped exactly as the protobuf runtime skips them.

Bytes are indexed with unsigned numbers: for signed ones numba compiles Python's "counted from the end" into
every access, and eight neighbouring bytes are no longer one load.

`benchmarks.kernels.decode`: every scan that reads messages with these is measured there against the protobuf
runtime.
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Bytes
from resources.kernel import Integer, inlined, scanner

TRUNCATED = 0
LONG_VARINT = 1
OVERRUN = 2
BAD_TAG = 3
BAD_WIRE_TYPE = 4
BAD_GROUP = 5
TOO_DEEP = 6
MAX_GROUP_DEPTH = 100

VARINT, FIXED64, LENGTH, GROUP_START, GROUP_END, FIXED32 = range(6)
"""Wire types: the low three bits of a tag."""
_MORE = 128
"""Bit of a varint's byte that says another one follows."""
_FIRST_TAG, _LAST_TAG = 8, 0xFFFFFFFF


def tag_of(number: int, wire_type: int) -> int:
    """Return the tag of a field.

    >>> tag_of(1, LENGTH), tag_of(1, FIXED64)
    (10, 9)
    """
    return number << 3 | wire_type


@scanner
def fault(offset: Integer, reason: Integer) -> Integer:
    return -(offset * 16 + reason) - 1


@inlined
def read_varint(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    """Read the low 64 bits as a signed integer (as protobuf's int64); return the position behind too."""
    if position < end and data[np.uint64(position)] < _MORE:
        return np.int64(data[np.uint64(position)]), position + 1
    start = position
    value = np.uint64(0)
    for index in range(10):
        if position >= end:
            return np.int64(0), fault(position, TRUNCATED)
        byte = data[np.uint64(position)]
        position += 1
        value |= np.uint64(byte & 127) << np.uint64(7 * index)
        if byte < _MORE:
            return np.int64(value), position
    return np.int64(0), fault(start, LONG_VARINT)


@inlined
def read_length(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    """Read a length prefix that fits before `end`."""
    length, after = read_varint(data, position, end)
    if after < 0:
        return np.int64(0), after
    if length < 0 or length > end - after:
        return np.int64(0), fault(position, OVERRUN)
    return length, after


@inlined
def read_tag(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    tag, after = read_varint(data, position, end)
    if after < 0:
        return np.int64(0), after
    if tag < _FIRST_TAG or tag > _LAST_TAG:
        return np.int64(0), fault(position, BAD_TAG)
    return tag, after


@inlined
def read_fixed(data: Bytes, position: Integer, end: Integer, width: Integer) -> tuple[Integer, Integer]:
    """Read a little-endian integer of 4 (unsigned) or 8 (signed) bytes."""
    if width > end - position:
        return np.int64(0), fault(position, TRUNCATED)
    value = np.uint64(0)
    for index in range(width):
        value |= np.uint64(data[np.uint64(position + index)]) << np.uint64(8 * index)
    return np.int64(value), position + width


@scanner
def skip_scalar(data: Bytes, position: Integer, end: Integer, tag: Integer) -> Integer:
    """Step over one field that is not a group."""
    wire_type = tag & 7
    if wire_type == VARINT:
        _, after = read_varint(data, position, end)
        return after
    if wire_type == LENGTH:
        length, after = read_length(data, position, end)
        return after if after < 0 else after + length
    width = 8 if wire_type == FIXED64 else 4
    if wire_type not in (FIXED64, FIXED32):
        return fault(position, BAD_WIRE_TYPE)
    return fault(position, TRUNCATED) if width > end - position else position + width


@scanner
def skip_group(data: Bytes, position: Integer, end: Integer, tag: Integer) -> Integer:
    """Step over a group and the groups in it. Only the outermost end tag is compared with its start."""
    depth = 1
    while True:
        tag_at = position
        inner, position = read_tag(data, position, end)
        if position < 0:
            return position
        if inner & 7 == GROUP_START:
            depth += 1
        elif inner & 7 == GROUP_END:
            depth -= 1
            if depth == 0:
                return position if inner >> 3 == tag >> 3 else fault(tag_at, BAD_GROUP)
        else:
            position = skip_scalar(data, position, end, inner)
        if position < 0 or depth > MAX_GROUP_DEPTH:
            return fault(tag_at, BAD_GROUP) if position >= 0 else position


@scanner
def skip_field(data: Bytes, position: Integer, end: Integer, tag: Integer) -> Integer:
    if tag & 7 == GROUP_START:
        return skip_group(data, position, end, tag)
    if tag & 7 == GROUP_END:
        return fault(position, BAD_GROUP)
    return skip_scalar(data, position, end, tag)


@scanner
def whole_fields(data: Bytes, end: Integer) -> Integer:
    """Count the bytes of the whole fields in `data[:end]`; a malformed one ends them."""
    done: Integer = 0
    while done < end:
        tag, position = read_tag(data, done, end)
        if position < 0:
            return done
        position = skip_field(data, position, end, tag)
        if position < 0:
            return done
        done = position
    return done
