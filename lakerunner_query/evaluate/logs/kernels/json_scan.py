"""Finds the fields of JSON objects in lines: which path, where its value lies, whether it has escapes.

    {"a":1,"b":{"c":"x"}}  ->  (a, "1") (b.c, "x")

Paths are numbered as they are met, by their parent and the raw bytes of the key; the key that followed last
time is tried before anything is hashed. Arrays and nulls give nothing. What is not an object, or breaks off,
gives the code of an error; fields before it stand.
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
    ARRAY_ERROR,
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    DEPTH_ERROR,
    ESCAPE_ERROR,
    FINE,
    JSON_ERROR,
    NULL,
    OBJECT_ERROR,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    STRING_ERROR,
    UNKNOWN,
    UNKNOWN_ERROR,
    block_end,
    is_escaped_well,
    literal_kind,
    next_token,
    string_end,
    token_end,
)
from resources.arrays import Bytes, Int8s, Int32s, Int64s
from resources.kernel import Integer, kernel, scanner

DEEPEST = 128
"""Objects within objects; a line that goes deeper has an error."""


@kernel
def scan_rows(
    data: Bytes,
    offsets: Int32s,
    first: Integer,
    last: Integer,
    is_flat: bool,
    tokens: Tokens,
    paths: Paths,
    counts: Int64s,
    errors: Int8s,
) -> Integer:
    """Scan lines until `last` or until tokens or paths are full; the row that was not scanned any more.

    Flat: objects within the line's are passed over.
    """
    ends = np.empty(DEEPEST, np.int64)
    parents = np.empty(DEEPEST, np.int32)
    for row in range(first, last):
        before = counts[TOKENS]
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        error = _scan_line(data, begin, end, row, is_flat, tokens, paths, counts, ends, parents)
        if error == FULL:
            counts[TOKENS] = before
            return np.int64(row)
        errors[row] = error
    return np.int64(last)


@scanner
def _scan_line(
    data: Bytes,
    begin: Integer,
    end: Integer,
    row: Integer,
    is_flat: bool,
    tokens: Tokens,
    paths: Paths,
    counts: Int64s,
    ends: Int64s,
    parents: Int32s,
) -> Integer:
    at = next_token(data, begin, end)
    if at == end or data[at] != OPEN_OBJECT:
        return OBJECT_ERROR
    at = next_token(data, at + 1, end)
    if at == end:
        return JSON_ERROR
    depth, limit = 0, end
    parent: Integer = np.int64(-1)
    previous: Integer = np.int64(-1)
    while True:
        if data[at] == CLOSE_OBJECT:
            if depth == 0:
                return FINE
            depth -= 1
            at, limit, parent = limit, ends[depth], np.int64(parents[depth])
        else:
            if data[at] != QUOTE:
                return OBJECT_ERROR
            key = at + 1
            close, escaped = string_end(data, key, limit)
            if close < 0:
                return JSON_ERROR
            if escaped and not is_escaped_well(data, key, close):
                return ESCAPE_ERROR
            at = next_token(data, close + 1, limit)
            if at == limit or data[at] != COLON:
                return JSON_ERROR
            at = next_token(data, at + 1, limit)
            if at == limit:
                return JSON_ERROR
            path: Integer = next_path(data, paths, previous, parent, key, close - key)
            if path < 0:
                path = find_path(data, paths, counts, previous, parent, key, close - key)
            if path < 0:
                return FULL
            previous = path
            if data[at] == OPEN_OBJECT:
                finish = block_end(data, at, limit, OPEN_OBJECT, CLOSE_OBJECT)
                if finish < 0:
                    return OBJECT_ERROR
                if not is_flat:
                    if depth == DEEPEST:
                        return DEPTH_ERROR
                    ends[depth], parents[depth] = limit, parent
                    depth += 1
                    at, limit, parent = next_token(data, at + 1, finish), finish, path
                    continue
                at = finish
            elif data[at] == QUOTE:
                close, escaped = string_end(data, at + 1, limit)
                if close < 0:
                    return STRING_ERROR
                if not paths.unwanted[path] and not emit(tokens, counts, row, path, at + 1, close, escaped):
                    return FULL
                at = close + 1
            elif data[at] == OPEN_ARRAY:
                at = block_end(data, at, limit, OPEN_ARRAY, CLOSE_ARRAY)
                if at < 0:
                    return ARRAY_ERROR
            else:
                close = token_end(data, at, limit)
                kind = literal_kind(data, at, close)
                if kind == UNKNOWN:
                    return UNKNOWN_ERROR
                if (
                    kind != NULL
                    and not paths.unwanted[path]
                    and not emit(tokens, counts, row, path, at, close, False)
                ):
                    return FULL
                at = close
        at = next_token(data, at, limit)
        if at == limit:
            return ARRAY_ERROR
        if data[at] != CLOSE_OBJECT:
            if data[at] != COMMA:
                return OBJECT_ERROR
            at = next_token(data, at + 1, limit)
            if at == limit:
                return ARRAY_ERROR
