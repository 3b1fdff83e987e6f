"""Kernels that write DDSketches; bins and the reading of stored sketches are in `resources.lake`.

Fields come in the order of their numbers and bins in that of their indices, so equal bins are equal bytes.
Each store is written as a map of bins or as a block of counts from its first index to its last, whichever
is shorter; the block if both are as long. No installed library writes this form; binning is measured beside
`resources/lake/ddsketch_kernels.py`.
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, inlined, kernel, scanner
from resources.lake.ddsketch_kernels import BOUND, GAMMA, WIDTH, Bins, SketchGroups, clear, gather, sort_slots

BIN_BYTES = 15
"""Greatest size of a bin."""
OTHER_BYTES = 48
"""Greatest size of everything else."""


@inlined
def varint_size(value: Integer) -> Integer:
    return 1 + (value > 0x7F) + (value > 0x3FFF) + (value > 0x1FFFFF) + (value > 0xFFFFFFF)


@inlined
def zigzag(value: Integer) -> Integer:
    return (value << 1) ^ (value >> 63)


@inlined
def put_varint(out: Bytes, position: Integer, value: Integer) -> Integer:
    while value > 0x7F:
        out[np.uint64(position)] = (value & 0x7F) | 0x80
        value >>= 7
        position += 1
    out[np.uint64(position)] = value
    return position + 1


@scanner
def as_bits(value: float) -> np.uint64:
    return np.float64(value).view(np.uint64)


@inlined
def put_double(out: Bytes, position: Integer, value: float) -> Integer:
    bits = as_bits(value)
    for byte in range(8):
        out[np.uint64(position + byte)] = np.uint8((bits >> np.uint64(8 * byte)) & np.uint64(0xFF))
    return position + 8


@inlined
def entry_size(index: Integer) -> Integer:
    """Return the size of a bin in a map behind its own tag and length."""
    return 10 + varint_size(zigzag(index))


@scanner
def put_map(
    out: Bytes, position: Integer, bins: Bins, place: Integer, stop: Integer, step: Integer, origin: Integer
) -> Integer:
    while place != stop:
        slot = bins.slots[np.uint64(place)]
        index = (slot - origin) * step
        out[np.uint64(position)] = 0x0A
        out[np.uint64(position + 1)] = entry_size(index)
        out[np.uint64(position + 2)] = 0x08
        position = put_varint(out, position + 3, zigzag(index))
        out[np.uint64(position)] = 0x11
        position = put_double(out, position + 1, bins.counts[np.uint64(slot)])
        place += step
    return position


@scanner
def put_block(
    out: Bytes, position: Integer, bins: Bins, slot: Integer, size: Integer, step: Integer, origin: Integer
) -> Integer:
    out[np.uint64(position)] = 0x12
    position = put_varint(out, position + 1, 8 * size)
    first = (slot - origin) * step
    for _ in range(size):
        position = put_double(out, position, bins.counts[np.uint64(slot)])
        slot += step
    if first != 0:
        out[np.uint64(position)] = 0x18
        position = put_varint(out, position + 1, zigzag(first))
    return position


@scanner
def put_store(
    out: Bytes, position: Integer, tag: Integer, bins: Bins, place: Integer, stop: Integer, step: Integer
) -> Integer:
    """Write the bins of a store by rising index.

    They are at `place`, `place + step`, … before `stop`.
    """
    if place == stop:
        return position
    origin = WIDTH + 1 + BOUND if step > 0 else BOUND
    slot = bins.slots[np.uint64(place)]
    size = (bins.slots[np.uint64(stop - step)] - slot) * step + 1
    first = (slot - origin) * step
    as_block = 1 + varint_size(8 * size) + 8 * size + (1 + varint_size(zigzag(first)) if first != 0 else 0)
    as_map: Integer = np.int64(0)
    at = place
    while at != stop and as_map < as_block:
        as_map += 2 + entry_size((bins.slots[np.uint64(at)] - origin) * step)
        at += step
    out[np.uint64(position)] = tag
    position = put_varint(out, position + 1, min(as_map, as_block))
    if as_map < as_block:
        return put_map(out, position, bins, place, stop, step, origin)
    return put_block(out, position, bins, slot, size, step, origin)


@scanner
def put_sketch(out: Bytes, position: Integer, bins: Bins) -> Integer:
    """Write all bins, which are sorted; there is room for them."""
    out[np.uint64(position)] = 0x0A
    out[np.uint64(position + 1)] = 9
    out[np.uint64(position + 2)] = 0x09
    position = put_double(out, position + 3, GAMMA)
    size, zeros = bins.size[0], bins.counts[WIDTH]
    positive = np.int64(0)
    while positive < size and bins.slots[np.uint64(positive)] <= WIDTH:
        positive += 1
    negatives = positive - 1 if zeros > 0 else positive
    position = put_store(out, position, 0x12, bins, positive, size, 1)
    position = put_store(out, position, 0x1A, bins, negatives - 1, -1, -1)
    if zeros > 0:
        out[np.uint64(position)] = 0x21
        position = put_double(out, position + 1, zeros)
    return position


@kernel
def sketches_of_groups(
    given: SketchGroups, groups: int, bins: Bins, cursor: Int64s, ends: Int64s, present: Bytes
) -> tuple[Bytes, Integer]:
    """Write one sketch per group; fill `ends[1:]` and `present`. A negative result is a fault."""
    out = np.empty(max(64 * groups, 1 << 10), np.uint8)
    position: Integer = np.int64(0)
    for group in range(groups):
        outcome = gather(given, group, cursor, bins)
        if outcome < 0:
            return out[:0], outcome
        if outcome > 0:
            present[group] = 1
            sort_slots(bins)
            needed = position + OTHER_BYTES + BIN_BYTES * bins.size[0]
            if needed > len(out):
                larger = np.empty(needed + needed // 2, np.uint8)
                larger[:position] = out[:position]
                out = larger
            position = put_sketch(out, position, bins)
            clear(bins)
        ends[group + 1] = position
    return out[:position], np.int64(0)
