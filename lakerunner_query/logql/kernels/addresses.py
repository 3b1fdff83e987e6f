"""Addresses in texts, compared with a range.

    "client 10.0.0.7:80" between 10.0.0.0 and 10.255.255.255  ->  yes

A candidate is the longest run of characters that an address can have, from a place that looks like the begin
of one; a run that is no address is passed over as a whole. Addresses are two 64-bit numbers, those of IPv4
have their bits in the lower one.

`python -m benchmarks.kernels.logql`: `holding_rows` takes 259 ns per line against 3691 of `re` and
`ipaddress`.
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Bytes, Flags, Int32s, UInt64s
from resources.kernel import Integer, inlined, kernel, scanner

COLON, DOT = 58, 46


@kernel
def holding_rows(data: Bytes, offsets: Int32s, is_v6: bool, first: UInt64s, last: UInt64s) -> Flags:
    """Flag texts that hold an address of this family from `first` to `last`."""
    flags = np.zeros(len(offsets) - 1, np.bool_)
    groups = np.zeros(8, np.uint64)
    for row in range(len(flags)):
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        while at < end and not flags[row]:
            stop = at
            if _begins_v4(data, at, end):
                while stop < end and (_is_digit(data[stop]) or data[stop] == DOT):
                    stop += 1
                found, value = _v4(data, at, stop)
                flags[row] = found and not is_v6 and first[1] <= value <= last[1]
            elif _begins_v6(data, at, end):
                while stop < end and (_hex(data[stop]) >= 0 or data[stop] == DOT or data[stop] == COLON):
                    stop += 1
                if is_v6 and _v6(data, at, stop, groups):
                    flags[row] = _is_between(groups, first, last)
            at = max(stop, at + 1)
    return flags


@inlined
def _is_digit(byte: Integer) -> bool:
    return bool(48 <= byte <= 57)


@scanner
def _hex(byte: Integer) -> Integer:
    """Return the value of a hexadecimal digit, or -1."""
    lower = byte | 32
    if 48 <= byte <= 57:
        return np.int64(byte - 48)
    return np.int64(lower - 87 if 97 <= lower <= 102 else -1)


@scanner
def _begins_v4(data: Bytes, at: Integer, end: Integer) -> bool:
    """Tell whether a digit stands there, and a dot among the three bytes behind it."""
    if not _is_digit(data[at]):
        return False
    for place in range(at + 1, min(at + 4, end)):
        if data[place] == DOT:
            return True
    return False


@scanner
def _begins_v6(data: Bytes, at: Integer, end: Integer) -> bool:
    """Tell whether two colons and a digit stand there, or up to four digits and a colon."""
    if data[at] == COLON:
        return bool(at + 2 < end and data[at + 1] == COLON and _hex(data[at + 2]) >= 0)
    place = at
    while place < end and place - at < 4 and _hex(data[place]) >= 0:
        place += 1
    return bool(at < place < end and data[place] == COLON)


@scanner
def _v4(data: Bytes, at: Integer, end: Integer) -> tuple[bool, np.uint64]:
    value, parts = np.uint64(0), 0
    while parts < 4:
        number, start = np.int64(0), at
        while at < end and _is_digit(data[at]) and at - start < 4:
            number = number * 10 + data[at] - 48
            at += 1
        if at == start or number > 255 or (data[start] == 48 and at - start > 1):
            return False, value
        value = (value << np.uint64(8)) | np.uint64(number)
        parts += 1
        if parts < 4:
            if at == end or data[at] != DOT:
                return False, value
            at += 1
    return at == end, value


@scanner
def _v6(data: Bytes, at: Integer, end: Integer, groups: UInt64s) -> bool:
    """Read eight groups of 16 bits; `::` stands for those that are missing."""
    groups[:] = 0
    count, gap = 0, -1
    if end - at >= 2 and data[at] == COLON and data[at + 1] == COLON:
        gap = 0
        at += 2
    while at < end:
        if count == 8:
            return False
        start = at
        number: Integer = np.int64(0)
        while at < end and _hex(data[at]) >= 0 and at - start < 5:
            number = number * 16 + _hex(data[at])
            at += 1
        if at < end and data[at] == DOT:
            found, value = _v4(data, start, end)
            if not found or count > 6:
                return False
            groups[count] = value >> np.uint64(16)
            groups[count + 1] = value & np.uint64(0xFFFF)
            count += 2
            at = end
            break
        if at == start or at - start > 4:
            return False
        groups[count] = number
        count += 1
        if at == end:
            break
        if data[at] != COLON or at + 1 == end:
            return False
        at += 1
        if data[at] == COLON:
            if gap >= 0:
                return False
            gap = count
            at += 1
    if gap < 0:
        return count == 8
    if count == 8:
        return False
    for group in range(count - 1, gap - 1, -1):
        groups[group + 8 - count] = groups[group]
        groups[group] = 0
    return True


@scanner
def _is_between(groups: UInt64s, first: UInt64s, last: UInt64s) -> bool:
    high, low = np.uint64(0), np.uint64(0)
    for number in range(4):
        high = (high << np.uint64(16)) | groups[number]
        low = (low << np.uint64(16)) | groups[number + 4]
    above = high > first[0] or (high == first[0] and low >= first[1])
    return bool(above and (high < last[0] or (high == last[0] and low <= last[1])))
