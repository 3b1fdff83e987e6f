"""Pages of Parquet as kernels see them: their headers, integers that are delta-coded, and where those go.

A column chunk is pages end to end, each with a header in Thrift's compact protocol before it. What these
kernels do not know they say with `UNKNOWN`; whoever reads then asks Arrow, which knows everything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, inlined, kernel, scanner

# << Loops over runs of rows: finding their part of a time range, and laying them behind each other.


@kernel
def cut_runs(time_ms: Int64s, begin: Int64s, end: Int64s, from_ms: Integer, to_ms: Integer) -> None:
    """Narrow each `[begin, end)`, ascending in time, to the rows in `(from_ms, to_ms]`."""
    for run in range(len(begin)):
        low, high = begin[run], end[run]
        while low < high:
            middle = (low + high) // 2
            if time_ms[middle] <= from_ms:
                low = middle + 1
            else:
                high = middle
        begin[run] = low
        high = end[run]
        while low < high:
            middle = (low + high) // 2
            if time_ms[middle] <= to_ms:
                low = middle + 1
            else:
                high = middle
        end[run] = low


@kernel
def copy_runs(
    source: npt.NDArray[Any], begin: Int64s, end: Int64s, to: Int64s, target: npt.NDArray[Any]
) -> None:
    """`source[begin[i]:end[i]]` goes to `target` from `to[i]` on."""
    for run in range(len(begin)):
        shift = to[run] - begin[run]
        for row in range(begin[run], end[run]):
            target[row + shift] = source[row]


UNKNOWN = -1
KIND, PLAIN_BYTES, STORED_BYTES, VALUES, ENCODING, OFFSET = range(6)
"""Columns of what is told about pages; the bytes of a page begin at its offset in the chunk."""
FACTS = 6
MOST_BYTES = 1 << 30
"""Of a page: one that says it is larger is damaged."""
MOST_NUMBERS = 1 << 24
"""In a block of differences, of which writers make 128; products with widths stay far from overflowing."""
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _TEXT, _STRUCT = 0, 1, 2, 3, 7, 8, 12
_I16, _I64 = 4, 6
_DATA_PAGE_HEADER = 5
"""The field of a page's header that tells of its data."""
_DEEPEST = 4
_1, _2, _3, _4, _5, _6, _7 = (np.uint64(number) for number in range(1, 8))
MASKS = np.array([(1 << width) - 1 for width in range(65)], np.uint64)


@scanner
def varint(data: Bytes, at: Integer) -> tuple[Integer, np.uint64]:
    """Where it ends, and what it says; a place behind the data where it does not end."""
    value, shift = np.uint64(0), np.uint64(0)
    while at < len(data):
        byte = data[at]
        at += 1
        value |= np.uint64(byte & 127) << shift
        if byte < 128:
            return at, value
        shift += np.uint64(7)
    return len(data) + 1, np.uint64(0)


@inlined
def _signed(value: np.uint64) -> np.int64:
    """Of a number whose sign is its last bit."""
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))


@scanner
def header(  # noqa: C901, PLR0912 - a kernel: calls that take arrays along cost more than branches
    data: Bytes, at: Integer, facts: Int64s, last: Int64s, inside: Int64s
) -> Integer:
    """Fill the facts of the page at this place, and where its header ends."""
    depth = 0
    last[0] = 0
    while at < len(data):
        byte = np.int64(data[at])
        at += 1
        if byte == _STOP:
            depth -= 1
            if depth < 0:
                return at
            continue
        kind, step = byte & 15, byte >> 4
        if step == 0:
            at, raw = varint(data, at)
            last[depth] = _signed(raw)
        else:
            last[depth] += step
        field = last[depth]
        if kind in (_TRUE, _FALSE):
            continue
        if kind == _BYTE:
            at += 1
        elif _I16 <= kind <= _I64:
            at, raw = varint(data, at)
            if depth == 0 and 1 <= field <= STORED_BYTES + 1:
                facts[field - 1] = _signed(raw)
            elif depth == 1 and inside[1] == _DATA_PAGE_HEADER and 1 <= field <= 2:
                facts[VALUES + field - 1] = _signed(raw)
        elif kind == _DOUBLE:
            at += 8
        elif kind == _TEXT:
            at, raw = varint(data, at)
            if raw > np.uint64(len(data)):
                return UNKNOWN
            at += np.int64(raw)
        elif kind == _STRUCT and depth + 1 < _DEEPEST:
            depth += 1
            last[depth] = 0
            inside[depth] = field
        else:
            return UNKNOWN
    return UNKNOWN


@kernel
def pages_of(chunk: Bytes, rows: Integer) -> npt.NDArray[np.int64]:
    """Facts of all pages of a chunk of so many rows, one line each; no line where they cannot be told."""
    found = np.zeros((16, FACTS), np.int64)
    last, inside = np.zeros(_DEEPEST, np.int64), np.zeros(_DEEPEST, np.int64)
    at: Integer = 0
    count, told = 0, 0
    while told < rows:
        if count == len(found):
            more = np.zeros((2 * count, FACTS), np.int64)
            more[:count] = found
            found = more
        facts = found[count]
        at = header(chunk, at, facts, last, inside)
        if at == UNKNOWN or facts[STORED_BYTES] < 0 or facts[STORED_BYTES] > len(chunk) - at:
            return found[:0]
        if facts[VALUES] < 1 or facts[VALUES] > rows - told:  # pages of something else have no values
            return found[:0]
        if facts[PLAIN_BYTES] < 0 or facts[PLAIN_BYTES] > MOST_BYTES:
            return found[:0]
        facts[OFFSET] = at
        at += facts[STORED_BYTES]
        told += facts[VALUES]
        count += 1
    return found[:count] if told == rows else found[:0]


@inlined
def word(data: Bytes, at: np.uint64) -> np.uint64:
    """Eight bytes, the least significant one first; an unsigned place is not looked at for being negative."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + _1]) << np.uint64(8)
        | np.uint64(data[at + _2]) << np.uint64(16)
        | np.uint64(data[at + _3]) << np.uint64(24)
        | np.uint64(data[at + _4]) << np.uint64(32)
        | np.uint64(data[at + _5]) << np.uint64(40)
        | np.uint64(data[at + _6]) << np.uint64(48)
        | np.uint64(data[at + _7]) << np.uint64(56)
    )


@scanner
def packed(data: Bytes, at: Integer, shift: Integer, width: Integer) -> np.uint64:
    """A number of so many bits, wherever it lies; what is behind the data counts as zero."""
    value, have = np.uint64(0), -shift
    while have < width and at < len(data):
        byte = np.uint64(data[at])
        value |= byte << np.uint64(have) if have >= 0 else byte >> np.uint64(-have)
        have += 8
        at += 1
    found: np.uint64 = value & MASKS[width]
    return found


@kernel
def deltas(data: Bytes, at: Integer, out: Int64s) -> Integer:  # noqa: C901, PLR0912 - as above
    """Numbers from `at` on; how many there are, `UNKNOWN` where that cannot be told or they do not fit."""
    size = len(data)
    at, raw_block = varint(data, at)
    at, raw_parts = varint(data, at)
    at, raw_total = varint(data, at)
    at, raw_first = varint(data, at)
    block, parts, total = np.int64(raw_block), np.int64(raw_parts), np.int64(raw_total)
    if at > size or total < 1 or total > len(out) or parts < 1 or parts > size:
        return UNKNOWN
    if block < parts or block > MOST_NUMBERS or block % parts != 0:
        return UNKNOWN
    each = block // parts
    value = np.uint64(_signed(raw_first))
    out[0] = np.int64(value)
    done: Integer = 1
    while done < total:
        at, raw = varint(data, at)
        least, widths = np.uint64(_signed(raw)), at
        at += parts
        if at > size:
            return UNKNOWN
        for part in range(parts):
            if done >= total:
                break
            width = np.int64(data[widths + part])
            count = min(each, total - done)
            if width == 0:
                for place in range(done, done + count):
                    value += least
                    out[place] = np.int64(value)
            elif width > 64:
                return UNKNOWN
            elif width <= 57 and at + (each * width >> 3) + 8 <= size:  # a word holds it whole
                bit, step, mask = np.uint64(at) << _3, np.uint64(width), MASKS[width]
                for place in range(done, done + count):
                    value += least + ((word(data, bit >> _3) >> (bit & _7)) & mask)
                    out[place] = np.int64(value)
                    bit += step
            else:
                far: Integer = 0
                for place in range(done, done + count):
                    value += least + packed(data, at + (far >> 3), far & 7, width)
                    out[place] = np.int64(value)
                    far += width
            at += each * width >> 3
            done += count
    return total


@kernel
def place_times(
    page: Int64s, first: Integer, begin: Int64s, end: Int64s, to: Int64s, time_ms: Int64s
) -> Integer:
    """Of a page that begins at row `first`, what runs want of it; how many times repeat or step back."""
    repeats = 0
    until = first + len(page)
    for run in range(np.searchsorted(end, first, "right"), len(begin)):
        if begin[run] >= until:
            break
        shift = to[run] - begin[run]
        low, high = max(begin[run], first), min(end[run], until)
        for row in range(low, high):
            time = page[row - first]
            time_ms[row + shift] = time
            if row > begin[run] and time <= time_ms[row + shift - 1]:
                repeats += 1
    return repeats


@kernel
def place_values(
    page: Int64s,
    first: Integer,
    begin: Int64s,
    end: Int64s,
    to: Int64s,
    base: Int64s,
    power: npt.NDArray[np.float64],
    value: npt.NDArray[np.float64],
) -> None:
    """The same for scaled values: base and power of ten are by run."""
    until = first + len(page)
    for run in range(np.searchsorted(end, first, "right"), len(begin)):
        if begin[run] >= until:
            break
        shift = to[run] - begin[run]
        low, high = max(begin[run], first), min(end[run], until)
        if power[run] == 1.0:
            for row in range(low, high):
                value[row + shift] = float(page[row - first] + base[run])
            continue
        for row in range(low, high):
            value[row + shift] = float(page[row - first] + base[run]) / power[run]
