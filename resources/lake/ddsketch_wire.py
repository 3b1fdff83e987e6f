"""Reads stored DDSketches into bins, bounds-checked at every byte.

Reading is strict, since a wrong bin is a wrong answer without a trace: unknown or repeated fields, another
mapping, and indices that no double has are faults. A negative position is a fault that carries the offset
and the reason, as in the wire decoders; whoever sees one hands it straight up.
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Bytes
from resources.kernel import Integer, inlined, scanner
from resources.lake.ddsketch_bins import BOUND, GAMMA, WIDTH, Bins, add

CUT_SHORT, OVERRUN, LONG_VARINT, ODD_FIELD, NO_MAPPING, OTHER_MAPPING, BAD_INDEX, BAD_COUNT, BAD_BLOCK = (
    range(9)
)
REASONS = (
    "field is cut short",
    "length runs past the end of its message",
    "varint longer than 5 bytes",
    "field is unknown, repeated or of another type",
    "index mapping expected, found none",
    "another index mapping: expected gamma 1.01/0.99, no offset, no interpolation",
    f"bin index beyond ±{BOUND}",
    "bin count expected to be finite and not negative",
    "length of bin counts expected to be a multiple of 8",
)


@inlined
def fault(position: Integer, reason: Integer) -> Integer:
    return -(position * 16 + reason) - 1


@inlined
def read_varint(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    """An unsigned number of at most 32 bits, and the position behind."""
    value = np.int64(0)
    shift = np.int64(0)
    at = position
    while at < end and shift < 35:
        byte = np.int64(data[np.uint64(at)])
        value |= (byte & 127) << shift
        shift += 7
        at += 1
        if byte < 128:
            return value & 0xFFFFFFFF, at
    return np.int64(0), fault(position, LONG_VARINT if shift >= 35 else CUT_SHORT)


@inlined
def read_length(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    length, after = read_varint(data, position, end)
    if after >= 0 and length > end - after:
        return np.int64(0), fault(position, OVERRUN)
    return length, after


@scanner
def as_double(bits: np.uint64) -> float:
    return float(np.uint64(bits).view(np.float64))


@inlined
def double_at(data: Bytes, position: Integer) -> float:
    """Of eight bytes that are known to be there."""
    bits = np.uint64(0)
    for byte in range(8):
        bits |= np.uint64(data[np.uint64(position + byte)]) << np.uint64(8 * byte)
    return as_double(bits)


@inlined
def read_double(data: Bytes, position: Integer, end: Integer) -> tuple[float, Integer]:
    if end - position < 8:
        return 0.0, fault(position, CUT_SHORT)
    return double_at(data, position), position + 8


@inlined
def read_index(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    """A zigzag varint; whether a bin has that index is for the caller to check."""
    value, after = read_varint(data, position, end)
    return (value >> 1) ^ -(value & 1), after


@inlined
def is_count(value: float) -> bool:
    return bool(0 <= value < np.inf)


@scanner
def read_mapping(data: Bytes, position: Integer, end: Integer) -> Integer:
    """Check that it is ours; `end` if so."""
    start = position
    gamma, offset = 0.0, 0.0
    interpolation: Integer = np.int64(0)
    seen = 0
    while 0 <= position < end:
        tag_at, tag = position, data[np.uint64(position)]
        if tag == 0x09 and not seen & 1:
            seen |= 1
            gamma, position = read_double(data, position + 1, end)
        elif tag == 0x11 and not seen & 2:
            seen |= 2
            offset, position = read_double(data, position + 1, end)
        elif tag == 0x18 and not seen & 4:
            seen |= 4
            interpolation, position = read_varint(data, position + 1, end)
        else:
            return fault(tag_at, ODD_FIELD)
    if position >= 0 and (gamma != GAMMA or offset != 0 or interpolation != 0):
        return fault(start, OTHER_MAPPING)
    return position


@scanner
def read_entry(
    data: Bytes, position: Integer, end: Integer, origin: Integer, step: Integer, bins: Bins
) -> Integer:
    """One bin of the sparse form; index and count are 0 where they are left out."""
    start = position
    index: Integer = np.int64(0)
    count = 0.0
    seen = 0
    while 0 <= position < end:
        tag_at, tag = position, data[np.uint64(position)]
        if tag == 0x08 and not seen & 1:
            seen |= 1
            index, position = read_index(data, position + 1, end)
        elif tag == 0x11 and not seen & 2:
            seen |= 2
            count, position = read_double(data, position + 1, end)
        else:
            return fault(tag_at, ODD_FIELD)
    if position < 0:
        return position
    if index < -BOUND or index > BOUND:
        return fault(start, BAD_INDEX)
    if not is_count(count):
        return fault(start, BAD_COUNT)
    add(bins, origin + step * index, count)
    return position


@scanner
def read_block(
    data: Bytes, position: Integer, size: Integer, first: Integer, origin: Integer, step: Integer, bins: Bins
) -> Integer:
    """The `size` bins from index `first` on; the position behind them."""
    if first < -BOUND or first + size - 1 > BOUND:
        return fault(position, BAD_INDEX)
    slot = origin + step * first
    for _ in range(size):
        count = double_at(data, position)
        if not is_count(count):
            return fault(position, BAD_COUNT)
        add(bins, slot, count)
        slot += step
        position += 8
    return position


@scanner
def read_store(
    data: Bytes, position: Integer, end: Integer, origin: Integer, step: Integer, bins: Bins
) -> Integer:
    """Add the bins of one store, index i to the slot `origin + step * i`; `end` if they are sound."""
    block: Integer = np.int64(-1)
    size: Integer = np.int64(0)
    first: Integer = np.int64(0)
    seen = 0
    while 0 <= position < end:
        tag_at, tag = position, data[np.uint64(position)]
        if tag == 0x0A:
            length, position = read_length(data, position + 1, end)
            if position >= 0:
                position = read_entry(data, position, position + length, origin, step, bins)
        elif tag == 0x12 and not seen & 1:
            seen |= 1
            length, block = read_length(data, position + 1, end)
            if block >= 0 and length % 8:
                return fault(tag_at, BAD_BLOCK)
            size = length // 8
            position = block + length
        elif tag == 0x18 and not seen & 2:
            seen |= 2
            first, position = read_index(data, position + 1, end)
        else:
            return fault(tag_at, ODD_FIELD)
    if position < 0 or size == 0:
        return position
    after = read_block(data, block, size, first, origin, step, bins)
    return after if after < 0 else position


@scanner
def read_sketch(data: Bytes, position: Integer, end: Integer, bins: Bins) -> Integer:
    """Add the bins of a whole sketch; `end` if it is sound. All its tags have one byte."""
    seen = 0
    while 0 <= position < end:
        tag_at, tag = position, data[np.uint64(position)]
        field = 1 << (tag >> 3)
        if seen & field:
            return fault(tag_at, ODD_FIELD)
        seen |= field
        if tag == 0x21:
            zeros, position = read_double(data, position + 1, end)
            if position >= 0 and not is_count(zeros):
                return fault(tag_at, BAD_COUNT)
            add(bins, WIDTH, zeros)
            continue
        if tag not in (0x0A, 0x12, 0x1A):
            return fault(tag_at, ODD_FIELD)
        length, position = read_length(data, position + 1, end)
        if position < 0:
            return position
        if tag == 0x0A:
            position = read_mapping(data, position, position + length)
        elif tag == 0x12:
            position = read_store(data, position, position + length, WIDTH + 1 + BOUND, 1, bins)
        else:
            position = read_store(data, position, position + length, BOUND, -1, bins)
    return position if position < 0 or seen & 2 else fault(end, NO_MAPPING)
