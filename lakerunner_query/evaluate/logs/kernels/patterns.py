"""Matches patterns of literals and captures: `<ip> - <_> [<time>]`.

A capture reaches up to the first occurrence of the literal behind it. As a parser, a pattern whose literal is
not found gives the captures before it, and the rest of the line to the one at hand. As a filter it must reach
to the end of the line (its beginning may lie anywhere in it), and no capture may be empty.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.logs.kernels.fields import TOKENS, Tokens, emit
from lakerunner_query.evaluate.logs.kernels.searching import find
from resources.arrays import Bytes, Flags, Int32s, Int64s
from resources.kernel import Integer, kernel, scanner

UNNAMED = -2


@kernel
def capture_rows(
    data: Bytes,
    offsets: Int32s,
    first: Integer,
    last: Integer,
    parts: Int32s,
    literals: Bytes,
    literal_offsets: Int32s,
    tokens: Tokens,
    counts: Int64s,
) -> Integer:
    """Captures of lines until `last` or until tokens are full; `parts` are literals (>= 0) and captures.

    A capture stands as `-3 - number`, an unnamed one as `UNNAMED`.
    """
    for row in range(first, last):
        before = counts[TOKENS]
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if not _capture(data, begin, end, row, parts, literals, literal_offsets, tokens, counts):
            counts[TOKENS] = before
            return np.int64(row)
    return np.int64(last)


@scanner
def _capture(
    data: Bytes,
    at: Integer,
    end: Integer,
    row: Integer,
    parts: Int32s,
    literals: Bytes,
    literal_offsets: Int32s,
    tokens: Tokens,
    counts: Int64s,
) -> bool:
    """False when there is no room."""
    if at == end:
        return True
    part = 0
    if parts[0] >= 0:
        start, length = literal_offsets[parts[0]], literal_offsets[parts[0] + 1] - literal_offsets[parts[0]]
        if at + length > end or find(data, at, at + length, literals, start, length) != at:
            return True
        at += length
        part = 1
    while part < len(parts):
        found: Integer = np.int64(-1)
        length = np.int32(0)
        if part + 1 < len(parts):
            literal = parts[part + 1]
            start, length = literal_offsets[literal], literal_offsets[literal + 1] - literal_offsets[literal]
            found = find(data, at, end, literals, start, length)
        stop = end if found < 0 else found
        capture = -3 - parts[part]
        if capture >= 0 and not emit(tokens, counts, row, capture, at, stop, False):
            return False
        if found < 0:
            return True
        at = found + length
        part += 2
    return True


@kernel
def matching_rows(
    data: Bytes, offsets: Int32s, parts: Int32s, literals: Bytes, literal_offsets: Int32s
) -> Flags:
    """Which lines the pattern accounts for up to their end."""
    flags = np.empty(len(offsets) - 1, np.bool_)
    for row in range(len(flags)):
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        flags[row] = _is_match(data, begin, end, parts, literals, literal_offsets)
    return flags


@scanner
def _is_match(
    data: Bytes, begin: Integer, end: Integer, parts: Int32s, literals: Bytes, literal_offsets: Int32s
) -> bool:
    if begin == end or len(parts) == 0:
        return bool(begin == end and len(parts) == 0)
    at = begin
    for part in range(len(parts)):
        literal = parts[part]
        if literal < 0:
            continue
        start, length = literal_offsets[literal], literal_offsets[literal + 1] - literal_offsets[literal]
        found = find(data, at, end, literals, start, length)
        if found < 0 or (part > 0 and found == at):
            return False
        at = found + length
    return bool((parts[-1] < 0) == (at != end))
