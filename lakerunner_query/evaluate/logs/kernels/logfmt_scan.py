"""Finds the pairs of logfmt in lines: which key, where its value lies, whether it has escapes.

    level=info msg="a \\"b\\"" bad==x alone  ->  (level, info) (msg, a \\"b\\") (alone, "")

A pair that breaks the rules is passed over up to the next white space, or ends the line when the parser is
strict. Keys are numbered as they are met, as paths without parents.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.logs.kernels.fields import (
    FULL,
    TOKENS,
    Paths,
    Tokens,
    emit,
    find_path,
    next_path,
)
from lakerunner_query.evaluate.logs.kernels.json_tokens import (
    BACKSLASH,
    QUOTE,
    hex_number,
    is_escapable,
    string_end,
)
from resources.arrays import Bytes, Int8s, Int32s, Int64s
from resources.kernel import Integer, kernel, scanner

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
    """Scan lines until `last` or until tokens or keys are full; the row that was not scanned any more.

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
    """Where the pair ends or goes wrong, its error, and its key."""
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
    """Whether U+FFFD stands there, what bytes that are no UTF-8 have become."""
    for place in range(at, end - 2):
        if data[place] == 0xEF and data[place + 1] == 0xBF and data[place + 2] == 0xBD:
            return True
    return False


@scanner
def _is_unquotable(data: Bytes, at: Integer, end: Integer) -> bool:
    """Whether every backslash begins an escape: those of JSON and of a single quote."""
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
