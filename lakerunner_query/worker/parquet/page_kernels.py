"""Kernels decode Parquet pages: Thrift headers, and integers stored as differences (DELTA_BINARY_PACKED).

A column chunk is pages end to end, each behind a header in Thrift's compact protocol. What a kernel does not
know, or what does not fit the bytes, it answers with `UNKNOWN`; the reader then asks Arrow, which knows all.

131,072 differences take 0.12 ms, by Arrow 0.41 ms: 3.4 times (`python -m benchmarks.kernels.worker`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, inlined, kernel, scanner

UNKNOWN = -1
DATA_PAGE, DICTIONARY_PAGE = 0, 2
"""Kinds of pages, from `parquet.thrift`."""
KIND, PLAIN_BYTES, STORED_BYTES, VALUES, ENCODING, OFFSET = range(6)
"""Columns of a page's facts; its bytes begin at its offset in the chunk."""
FACTS = 6
LARGEST_PAGE = 1 << 30
"""Uncompressed bytes of a page; one that states more is damaged."""
LARGEST_BLOCK = 1 << 24
"""Numbers in a block of differences (writers put 128): products with widths do not overflow."""
DEEPEST = 4
"""Nesting of structs in a read_header."""
_DATA_PAGE_HEADER = 5
"""Field of a page header that describes a data page."""
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I64, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 4, 6, 7, 8, 12
"""Field types of Thrift's compact protocol."""
_1, _2, _3, _4, _5, _6, _7 = (np.uint64(number) for number in range(1, 8))
MASKS = np.array([(1 << width) - 1 for width in range(65)], np.uint64)


@scanner
def read_varint(data: Bytes, at: Integer) -> tuple[Integer, np.uint64]:
    """Return its end and its value; an end behind the data where it is cut off."""
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
def _zigzag(value: np.uint64) -> np.int64:
    """Decode a number whose sign is its last bit."""
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))


@scanner
def read_header(  # noqa: C901, PLR0912 - a kernel: calls that take arrays along cost more than branches
    data: Bytes, at: Integer, facts: Int64s, last: Int64s, inside: Int64s
) -> Integer:
    """Fill the facts of the page that begins here; return where its header ends."""
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
            at, raw = read_varint(data, at)
            last[depth] = _zigzag(raw)
        else:
            last[depth] += step
        field = last[depth]
        if kind in (_TRUE, _FALSE):
            continue
        if kind == _BYTE:
            at += 1
        elif _I16 <= kind <= _I64:
            at, raw = read_varint(data, at)
            if depth == 0 and 1 <= field <= STORED_BYTES + 1:
                facts[field - 1] = _zigzag(raw)
            elif depth == 1 and inside[1] == _DATA_PAGE_HEADER and 1 <= field <= 2:
                facts[VALUES + field - 1] = _zigzag(raw)
        elif kind == _DOUBLE:
            at += 8
        elif kind == _BINARY:
            at, raw = read_varint(data, at)
            if raw > np.uint64(len(data)):
                return UNKNOWN
            at += np.int64(raw)
        elif kind == _STRUCT and depth + 1 < DEEPEST:
            depth += 1
            last[depth] = 0
            inside[depth] = field
        else:
            return UNKNOWN
    return UNKNOWN


@kernel
def pages_of(chunk: Bytes, rows: Integer) -> npt.NDArray[np.int64]:
    """Return the facts of all pages of a chunk, one line each; no line unless they hold `rows` values."""
    found = np.zeros((16, FACTS), np.int64)
    last, inside = np.zeros(DEEPEST, np.int64), np.zeros(DEEPEST, np.int64)
    at: Integer = 0
    count, seen = 0, 0
    while seen < rows:
        if count == len(found):
            more = np.zeros((2 * count, FACTS), np.int64)
            more[:count] = found
            found = more
        facts = found[count]
        at = read_header(chunk, at, facts, last, inside)
        if at == UNKNOWN or facts[STORED_BYTES] < 0 or facts[STORED_BYTES] > len(chunk) - at:
            return found[:0]
        if facts[VALUES] < 1 or facts[VALUES] > rows - seen:  # pages of something else have no values
            return found[:0]
        if facts[PLAIN_BYTES] < 0 or facts[PLAIN_BYTES] > LARGEST_PAGE:
            return found[:0]
        facts[OFFSET] = at
        at += facts[STORED_BYTES]
        seen += facts[VALUES]
        count += 1
    return found[:count] if seen == rows else found[:0]


@inlined
def read_word(data: Bytes, at: np.uint64) -> np.uint64:
    """Read eight bytes, little-endian; numba does not check an unsigned place for being negative."""
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
def read_bits(data: Bytes, at: Integer, shift: Integer, width: Integer) -> np.uint64:
    """Read a number of `width` bits, wherever it lies; bits behind the data are zero."""
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
    """Decode numbers from `at` on into `out`; return how many, `UNKNOWN` where they do not fit."""
    size = len(data)
    at, raw_block = read_varint(data, at)
    at, raw_parts = read_varint(data, at)
    at, raw_total = read_varint(data, at)
    at, raw_first = read_varint(data, at)
    block, parts, total = np.int64(raw_block), np.int64(raw_parts), np.int64(raw_total)
    if at > size or total < 1 or total > len(out) or parts < 1 or parts > size:
        return UNKNOWN
    if block < parts or block > LARGEST_BLOCK or block % parts != 0:
        return UNKNOWN
    each = block // parts
    value = np.uint64(_zigzag(raw_first))
    out[0] = np.int64(value)
    done: Integer = 1
    while done < total:
        at, raw = read_varint(data, at)
        least, widths = np.uint64(_zigzag(raw)), at
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
                    value += least + ((read_word(data, bit >> _3) >> (bit & _7)) & mask)
                    out[place] = np.int64(value)
                    bit += step
            else:
                far: Integer = 0
                for place in range(done, done + count):
                    value += least + read_bits(data, at + (far >> 3), far & 7, width)
                    out[place] = np.int64(value)
                    far += width
            at += each * width >> 3
            done += count
    return total
