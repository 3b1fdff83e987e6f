"""Foreign JSON records are scanned one after the other: a line each, or elements of lists.

When room runs out, the scan stops in front of a record, nothing of which is kept, and is called again with
more. A record that cannot be read is counted and leaves nothing behind either.

`benchmarks.kernels.decode`: columns of 100,000 records take a 10th of the time of `json.loads`, and two
thirds of that of `pyarrow.json`, which fails all records for one that is broken or of another type.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakerunner_assets.decode.eight_bytes_kernels import load_word
from lakerunner_assets.decode.field_kernels import EMPTY, Matrix
from lakerunner_assets.decode.json.list_kernels import WIDE
from lakerunner_assets.decode.json.record_kernels import LEAVES, NAME_LENGTH, ROOM_USED, ROWS, read_record
from lakerunner_assets.decode.json.token_kernels import (
    BACKSLASH,
    BAD_VALUE,
    BEHIND_RECORD,
    CLOSE_LIST,
    CLOSE_OBJECT,
    COMMA,
    FIXES,
    NO_ROOM,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    SURROGATES,
    TOO_LARGE,
    TOO_LONG,
    TRUNCATED,
    fault,
    skip_space,
)
from lakerunner_assets.decode.memory_kernels import trailing_zeros
from resources.arrays import Bytes, Int32s, Int64s
from resources.kernel import Integer, kernel, scanner

Bools = npt.NDArray[np.bool_]
MAX_LINE_BYTES = 64 << 20
_UNFOLDING = 16
"""Bytes of room that one byte of a record may take: a list's bracket takes twelve on the wire."""

AT, LINES, REJECTED, FIRST_FAULT, OPEN = range(6, 11)
"""Places in the tally, behind those of record_kernels.py: what was read so far, and whether a list is open.
"""
TALLY_WIDTH = 11

_ONES = np.uint64(0x0101010101010101)
_TOPS = np.uint64(0x8080808080808080)


@scanner
def line_end(data: Bytes, position: Integer, end: Integer) -> Integer:
    """Return the position of the next line feed, or the end."""
    while position + 8 <= end:
        word = load_word(data, position) ^ (_ONES * np.uint64(10))
        found = (word - _ONES) & ~word & _TOPS
        if found:
            return position + np.int64(trailing_zeros(found) >> np.uint64(3))
        position += 8
    while position < end and data[np.uint64(position)] != 10:
        position += 1
    return position


@scanner
def scan(
    data: Bytes,
    end: Integer,
    leaves: Matrix,
    lines: Int64s,
    fixes: Matrix,
    frames: Matrix,
    paths: Matrix,
    tally: Int64s,
) -> Integer:
    """Read the lines in `data[:end]` from where the tally says; return `end` or the fault NO_ROOM."""
    while True:
        start = skip_space(data, tally[AT], end)
        tally[AT] = start
        if start >= end:
            return start
        stop = line_end(data, start, end)
        if stop - start > MAX_LINE_BYTES:
            reject(fault(start, TOO_LONG), tally)
        elif not scan_record(data, start, stop, leaves, lines, fixes, frames, paths, tally):
            return fault(start, NO_ROOM)
        tally[AT] = stop


@scanner
def scan_list(
    data: Bytes,
    end: Integer,
    leaves: Matrix,
    lines: Int64s,
    fixes: Matrix,
    frames: Matrix,
    paths: Matrix,
    tally: Int64s,
) -> Integer:
    """Read the elements of lists in `data[:end]`; return `end`, or a fault that leaves none readable.

    A comma behind the last element is let pass: a window may end behind a comma.
    """
    while True:
        start = skip_space(data, tally[AT], end)
        tally[AT] = start
        if tally[OPEN] == 0:
            if start >= end:
                return start
            if data[np.uint64(start)] != OPEN_LIST:
                return fault(start, BEHIND_RECORD)
            tally[AT] = start + 1
            tally[OPEN] = 1
            continue
        if start >= end:
            return fault(start, TRUNCATED)
        if data[np.uint64(start)] == CLOSE_LIST:
            tally[AT] = start + 1
            tally[OPEN] = 0
            continue
        stop = element_end(data, start, end)
        if stop < 0:
            return stop
        last: Integer = stop
        while last > start and data[np.uint64(last - 1)] <= 32:
            last -= 1
        if last == start:
            return fault(start, BAD_VALUE)
        if last - start > MAX_LINE_BYTES:
            reject(fault(start, TOO_LONG), tally)
        elif not scan_record(data, start, last, leaves, lines, fixes, frames, paths, tally):
            return fault(start, NO_ROOM)
        tally[AT] = stop + 1 if data[np.uint64(stop)] == COMMA else stop


@scanner
def scan_record(
    data: Bytes,
    start: Integer,
    stop: Integer,
    leaves: Matrix,
    lines: Int64s,
    fixes: Matrix,
    frames: Matrix,
    paths: Matrix,
    tally: Int64s,
) -> bool:
    """Read or reject the record in `data[start:stop]`; return False, changing nothing, without room."""
    used, count, late = tally[ROOM_USED], tally[LEAVES], tally[FIXES]
    lone, wide = tally[SURROGATES], tally[WIDE]
    row = tally[ROWS]
    behind = fault(start, NO_ROOM)
    if row < len(lines):
        behind = read_record(data, start, stop, leaves, fixes, frames, paths, tally)
    if behind >= 0:
        lines[row] = tally[LINES]
        tally[ROWS] = row + 1
        tally[LINES] += 1
        return True
    if (-behind - 1) % 32 == NO_ROOM and tally[ROOM_USED] - used > _UNFOLDING * (stop - start) + 65536:
        behind = fault(start, TOO_LARGE)
    if tally[ROOM_USED] > used:
        paths[:, NAME_LENGTH] = -1  # some of them may lie in what is given back
    tally[ROOM_USED], tally[LEAVES], tally[FIXES] = used, count, late
    tally[SURROGATES], tally[WIDE] = lone, wide
    if (-behind - 1) % 32 == NO_ROOM:
        return False
    reject(behind, tally)
    return True


@scanner
def reject(position: Integer, tally: Int64s) -> None:
    """Count a record that cannot be read, for the fault `position`."""
    if tally[REJECTED] == 0:
        tally[FIRST_FAULT] = position
    tally[REJECTED] += 1
    tally[LINES] += 1


@scanner
def element_end(data: Bytes, position: Integer, end: Integer) -> Integer:
    """Find the comma or bracket behind a list's element by brackets and strings alone."""
    depth = 0
    while position < end:
        byte = data[np.uint64(position)]
        if byte == QUOTE:
            position = string_end(data, position + 1, end)
            continue
        if byte in (OPEN_LIST, OPEN_OBJECT):
            depth += 1
        elif depth == 0 and byte in (COMMA, CLOSE_LIST):
            return position
        elif byte in (CLOSE_LIST, CLOSE_OBJECT):
            depth -= 1
        position += 1
    return fault(end, TRUNCATED)


@scanner
def string_end(data: Bytes, position: Integer, end: Integer) -> Integer:
    """Return the position behind the closing quote, or `end`, whatever is in the string."""
    while position < end and data[np.uint64(position)] != QUOTE:
        position += 2 if data[np.uint64(position)] == BACKSLASH else 1
    return min(position + 1, end)


@scanner
def last_cut(data: Bytes, opened: bool) -> tuple[Integer, bool]:
    """Find the last comma between elements, or bracket that ends their list; tell whether a list is open."""
    cut: Integer = 0
    still_open = opened
    depth = 1 if opened else 0
    position: Integer = 0
    while position < len(data):
        byte = data[np.uint64(position)]
        if byte == QUOTE:
            position = string_end(data, position + 1, len(data))
            continue
        position += 1
        if byte in (OPEN_LIST, OPEN_OBJECT):
            depth += 1
        elif byte in (CLOSE_LIST, CLOSE_OBJECT):
            depth -= 1
            if depth == 0:
                cut, still_open = position, False
        elif byte == COMMA and depth == 1:
            cut, still_open = position, True
    return cut, still_open


@kernel
def last_of_each(owners: Int32s, codes: Int32s, kinds: Bytes, known: Integer) -> tuple[Bools, Integer]:
    """Keep, of leaves with one key in one record, the last if it is not null; count the repeats."""
    following = np.full(known, -1, np.int32)
    stays = np.ones(len(owners), np.bool_)
    repeated = 0
    for leaf in range(len(owners) - 1, -1, -1):
        again = following[codes[leaf]] == owners[leaf]
        repeated += again
        following[codes[leaf]] = owners[leaf]
        stays[leaf] = not again and kinds[leaf] != EMPTY
    return stays, repeated
