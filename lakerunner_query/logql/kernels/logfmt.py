"""Pairs of logfmt and patterns of literals and captures in lines.

    level=info msg="a \\"b\\"" bad==x alone  ->  (level, info) (msg, a \\"b\\") (alone, "")

A pair that breaks the rules is passed over up to the next white space, or ends the line when the parser is
strict. Keys are numbered as they are met, as paths without parents.

    `<ip> - <_> [<time>]`  on  `10.0.0.1 - x [09:00]`  ->  (ip, 10.0.0.1) (time, 09:00)

A capture reaches up to the first occurrence of the literal behind it. As a parser, a pattern whose literal is
not found gives the captures before it, and the rest of the line to the one at hand. As a filter it must reach
to the end of the line (its beginning may lie anywhere in it), and no capture may be empty.

`python -m benchmarks.kernels.logql`, ns per line: `| logfmt` 290 against 1742 of a regex of `re`, `| pattern`
211 against 727 of `pyarrow.compute.extract_regex`, `|>` 26 against 113 of `match_substring_regex`.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.logql.kernels.fields import FULL, TOKENS, Paths, Tokens, emit, find_path, next_path
from lakerunner_query.logql.kernels.json_text import BACKSLASH, QUOTE, hex_number, is_escapable, string_end
from lakerunner_query.logql.kernels.strings import find
from resources.arrays import Bytes, Flags, Int8s, Int32s, Int64s
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
    """Find captures of lines until `last` or until there is no room; return the next row.

    `parts` are literals (>= 0) and captures: `-3 - number`, an unnamed one `UNNAMED`.
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
    """Find the captures of one line; return False when there is no room."""
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
    """Flag lines that the pattern matches up to their end."""
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


FINE = 0
EQUALS_ERROR, QUOTE_ERROR, KEY_ERROR, UNTERMINATED_ERROR, QUOTED_ERROR = range(1, 6)
EQUALS, SPACE, APOSTROPHE = 61, 32, 39


@kernel
def scan_pairs(
    data: Bytes,
    offsets: Int32s,
    first: Integer,
    last: Integer,
    is_strict: bool,
    tokens: Tokens,
    paths: Paths,
    counts: Int64s,
    errors: Int8s,
    places: Int32s,
) -> Integer:
    """Find pairs of lines until `last` or until there is no room; return the next row.

    `errors` and `places` (bytes from the line's begin) are those of a strict parser.
    """
    for row in range(first, last):
        before = counts[TOKENS]
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        at: Integer = begin
        previous: Integer = np.int64(-1)
        while at < end:
            at, error, previous = _scan_pair(data, at, end, row, previous, tokens, paths, counts)
            if error == FULL:
                counts[TOKENS] = before
                return np.int64(row)
            if error != FINE:
                if is_strict:
                    errors[row] = error
                    places[row] = at - begin
                    break
                while at < end and data[at] > SPACE:
                    at += 1
    return np.int64(last)


@scanner
def _scan_pair(
    data: Bytes,
    at: Integer,
    end: Integer,
    row: Integer,
    previous: Integer,
    tokens: Tokens,
    paths: Paths,
    counts: Int64s,
) -> tuple[Integer, Integer, Integer]:
    """Find a pair; return where it ends or goes wrong, its error, and its key."""
    while at < end and data[at] <= SPACE:
        at += 1
    start = at
    if at == end:
        return at, np.int64(FINE), previous
    while at < end and data[at] > SPACE and data[at] != EQUALS:
        if data[at] == QUOTE:
            return at, np.int64(QUOTE_ERROR), previous
        at += 1
    stop = at
    if stop == start:
        return at, np.int64(EQUALS_ERROR), previous
    if has_replacement(data, start, stop):
        return at, np.int64(KEY_ERROR), previous
    begin, close, escaped = at, at, False
    if at < end and data[at] == EQUALS:
        at += 1
        begin, close = at, at
        if at < end and data[at] == QUOTE:
            begin = at + 1
            close, escaped = string_end(data, begin, end)
            if close < 0:
                return end, np.int64(UNTERMINATED_ERROR), previous
            at = close + 1
            if escaped and not _is_unquotable(data, begin, close):
                return at, np.int64(QUOTED_ERROR), previous
        else:
            while at < end and data[at] > SPACE:
                if data[at] == EQUALS:
                    return at, np.int64(EQUALS_ERROR), previous
                if data[at] == QUOTE:
                    return at, np.int64(QUOTE_ERROR), previous
                at += 1
            close = at
    path: Integer = next_path(data, paths, previous, np.int64(-1), start, stop - start)
    if path < 0:
        path = find_path(data, paths, counts, previous, np.int64(-1), start, stop - start)
    if path < 0:
        return at, np.int64(FULL), previous
    if not paths.unwanted[path] and not emit(tokens, counts, row, path, begin, close, escaped):
        return at, np.int64(FULL), previous
    return at, np.int64(FINE), path


@scanner
def has_replacement(data: Bytes, at: Integer, end: Integer) -> bool:
    """Tell whether U+FFFD stands there, which bytes outside UTF-8 have become."""
    for place in range(at, end - 2):
        if data[place] == 0xEF and data[place + 1] == 0xBF and data[place + 2] == 0xBD:
            return True
    return False


@scanner
def _is_unquotable(data: Bytes, at: Integer, end: Integer) -> bool:
    """Tell whether every backslash begins an escape: those of JSON and of a single quote."""
    while at < end:
        if data[at] != BACKSLASH:
            at += 1
            continue
        kind = data[at + 1]
        if kind == 117:
            if hex_number(data, at + 2, end) < 0:
                return False
            at += 6
        elif kind == APOSTROPHE or is_escapable(kind):
            at += 2
        else:
            return False
    return True
