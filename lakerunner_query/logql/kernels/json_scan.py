"""Fields and paths of JSON in lines: where the values lie, without making any object.

    {"a":1,"b":{"c":"x"}}       ->  (a, "1") (b.c, "x")        scan_rows, all fields
    a.b[1] in {"a":{"b":[1,2]}}  ->  (a.b[1], "2")              scan_paths, values at given paths

`python -m benchmarks.kernels.logql`, ns per line: `| json` 212 against 627 of msgspec and dictionaries,
`| json path="…"` 152 against 330.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakerunner_query.logql.kernels.fields import FULL, TOKENS, Paths, Tokens, emit, find_path, next_path
from lakerunner_query.logql.kernels.json_text import (
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
    START_ERROR,
    STRING_ERROR,
    UNKNOWN,
    UNKNOWN_ERROR,
    block_end,
    is_escaped_well,
    literal_kind,
    next_token,
    string_end,
    token_end,
    unescape,
)
from resources.arrays import Bytes, Flags, Int8s, Int32s, Int64s
from resources.kernel import Integer, inlined, kernel, scanner

DEEPEST = 128
"""Upper bound of objects within objects; a line that goes deeper has an error."""


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
    """Find the fields of lines until `last` or until there is no room; return the next row.

    A line that is not an object, or breaks off, has an error; fields before it stand. With `is_flat`, objects
    within the line's are passed over.
    """
    ends = np.empty(DEEPEST, np.int64)
    parents = np.empty(DEEPEST, np.int32)
    for row in range(first, last):
        before = counts[TOKENS]
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        error = _scan_fields(data, begin, end, row, is_flat, tokens, paths, counts, ends, parents)
        if error == FULL:
            counts[TOKENS] = before
            return np.int64(row)
        errors[row] = error
    return np.int64(last)


@scanner
def _scan_fields(
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
            key, close, at, error = _scan_key(data, at, limit)
            if error != FINE:
                return error
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
            else:
                at, error = _scan_value(data, at, limit, row, path, tokens, paths, counts)
                if error != FINE:
                    return error
        at = next_token(data, at, limit)
        if at < limit and data[at] != CLOSE_OBJECT:
            if data[at] != COMMA:
                return OBJECT_ERROR
            at = next_token(data, at + 1, limit)
        if at == limit:
            return ARRAY_ERROR


@inlined
def _scan_key(data: Bytes, at: Integer, limit: Integer) -> tuple[Integer, Integer, Integer, Integer]:
    """Return begin and end of the key at `at`, the place of its value, and an error."""
    key, behind = at + 1, at
    close: Integer = np.int64(-1)
    escaped = False
    error = OBJECT_ERROR
    if data[at] == QUOTE:
        error = JSON_ERROR
        close, escaped = string_end(data, key, limit)
        if close >= 0 and escaped and not is_escaped_well(data, key, close):
            error = ESCAPE_ERROR
        elif close >= 0:
            behind = next_token(data, close + 1, limit)
            if behind < limit and data[behind] == COLON:
                behind = next_token(data, behind + 1, limit)
                error = FINE if behind < limit else JSON_ERROR
    return key, close, behind, error


@inlined
def _scan_value(
    data: Bytes,
    at: Integer,
    limit: Integer,
    row: Integer,
    path: Integer,
    tokens: Tokens,
    paths: Paths,
    counts: Int64s,
) -> tuple[Integer, Integer]:
    """Write down a value that is no object; arrays and nulls give nothing. Return its end and an error."""
    if data[at] == QUOTE:
        close, escaped = string_end(data, at + 1, limit)
        if close < 0:
            return at, STRING_ERROR
        if not paths.unwanted[path] and not emit(tokens, counts, row, path, at + 1, close, escaped):
            return at, FULL
        return close + 1, FINE
    if data[at] == OPEN_ARRAY:
        at = block_end(data, at, limit, OPEN_ARRAY, CLOSE_ARRAY)
        return at, FINE if at >= 0 else ARRAY_ERROR
    close = token_end(data, at, limit)
    kind = literal_kind(data, at, close)
    if kind == UNKNOWN:
        return at, UNKNOWN_ERROR
    if kind != NULL and not paths.unwanted[path] and not emit(tokens, counts, row, path, at, close, False):
        return at, FULL
    return close, FINE


NONE, NO_KEY = -1, -2


class Tree(NamedTuple):
    """Paths as a tree: edge e leads from `parent[e]` to node e + 1; node 0 is the line."""

    parent: Int32s
    key_data: Bytes
    key_offsets: Int32s
    element: Int64s
    """Index that an edge stands for; -1: a key."""
    ends: Flags
    """Nodes at which a path ends."""
    leads_on: Flags
    """Nodes at which edges begin."""


@kernel
def scan_paths(
    data: Bytes,
    offsets: Int32s,
    first: Integer,
    last: Integer,
    tree: Tree,
    deepest: Integer,
    tokens: Tokens,
    counts: Int64s,
    errors: Int8s,
) -> Integer:
    """Find the values at paths in lines until `last` or until there is no room; return the next row.

    The first of two values at one path counts. A fault elsewhere does not matter, and a line that breaks off
    gives the values before.
    """
    stack = np.empty((deepest + 1, 3), np.int64)
    seen = np.full(len(tree.ends), -1, np.int64)
    longest = np.int64(0)
    for row in range(first, last):
        longest = max(longest, np.int64(offsets[row + 1] - offsets[row]))
    scratch = np.empty(longest, np.uint8)
    for row in range(first, last):
        before = counts[TOKENS]
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        errors[row] = _scan_line(data, begin, end, row, tree, tokens, counts, stack, seen, scratch)
        if errors[row] == FULL:
            counts[TOKENS] = before
            errors[row] = FINE
            return np.int64(row)
    return np.int64(last)


@scanner
def _scan_line(
    data: Bytes,
    begin: Integer,
    end: Integer,
    row: Integer,
    tree: Tree,
    tokens: Tokens,
    counts: Int64s,
    stack: Int64s,
    seen: Int64s,
    scratch: Bytes,
) -> Integer:
    if begin == end or data[begin] == QUOTE:
        return FINE
    if data[begin] != OPEN_OBJECT and data[begin] != OPEN_ARRAY:
        return START_ERROR
    at, depth, limit, error = begin + 1, 0, end, FINE
    node: Integer = np.int64(0)
    index: Integer = np.int64(0 if data[begin] == OPEN_ARRAY else -1)
    while True:
        at = next_token(data, at, limit)
        if at >= limit or data[at] == (CLOSE_OBJECT if index < 0 else CLOSE_ARRAY):
            if depth == 0:
                return error
            depth -= 1
            at, node, limit, index = limit, stack[depth, 0], stack[depth, 1], stack[depth, 2]
            continue
        child: Integer = np.int64(NONE)
        if index >= 0:
            if data[at] == COMMA:
                at += 1
                continue
            child = _child_of_index(tree, node, index)
            index += 1
        else:
            at, child = _scan_edge(data, at, limit, tree, node, scratch)
            if at < 0:
                return error
            if child == NO_KEY:
                continue
        is_new = child >= 0 and tree.ends[child] and seen[child] != row
        if at == limit:
            return JSON_ERROR if is_new else error
        start, stop, close, escaped, wrong = _value(data, at, limit)
        if is_new:
            if wrong != FINE:
                error = wrong
            elif not emit(tokens, counts, row, child, start, stop, escaped):
                seen[:] = -1
                return FULL
            seen[child] = row
        if child >= 0 and tree.leads_on[child] and (data[at] == OPEN_OBJECT or data[at] == OPEN_ARRAY):
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = node, limit, index
            index = np.int64(0 if data[at] == OPEN_ARRAY else -1)
            limit = close if close >= 0 else limit
            at, depth, node = at + 1, depth + 1, child
            continue
        if close < 0:
            return error
        at = close


@scanner
def _scan_edge(
    data: Bytes, at: Integer, limit: Integer, tree: Tree, node: Integer, scratch: Bytes
) -> tuple[Integer, Integer]:
    """Return the place behind a key and its colon (-1: broken off), and the node, `NONE` or `NO_KEY`."""
    if data[at] != QUOTE:
        return at + 1, np.int64(NO_KEY)
    close, escaped = string_end(data, at + 1, limit)
    if close < 0:
        return np.int64(-1), np.int64(NO_KEY)
    behind = next_token(data, close + 1, limit)
    if behind == limit or data[behind] != COLON:
        return close + 1, np.int64(NO_KEY)
    child = _child_of_key(data, at + 1, close, escaped, tree, node, scratch)
    return next_token(data, behind + 1, limit), child


@scanner
def _value(data: Bytes, at: Integer, limit: Integer) -> tuple[Integer, Integer, Integer, bool, int]:
    """Return begin, end and the place behind a value, whether it has escapes, and an error.

    The place behind is -1 where nothing can follow.
    """
    if data[at] == QUOTE:
        close, escaped = string_end(data, at + 1, limit)
        if close < 0:
            return at, at, np.int64(-1), False, STRING_ERROR
        return at + 1, close, close + 1, escaped, FINE
    if data[at] == OPEN_OBJECT:
        close = block_end(data, at, limit, OPEN_OBJECT, CLOSE_OBJECT)
        return at, close, close, False, FINE if close >= 0 else OBJECT_ERROR
    if data[at] == OPEN_ARRAY:
        close = block_end(data, at, limit, OPEN_ARRAY, CLOSE_ARRAY)
        return at, close, close, False, FINE if close >= 0 else ARRAY_ERROR
    close = token_end(data, at, limit)
    kind = literal_kind(data, at, close)
    stop = at if kind == NULL else close
    return at, stop, max(close, at + 1), False, UNKNOWN_ERROR if kind == UNKNOWN else FINE


@scanner
def _child_of_key(
    data: Bytes, start: Integer, end: Integer, escaped: bool, tree: Tree, node: Integer, scratch: Bytes
) -> Integer:
    source = data
    if escaped:
        end = unescape(data, start, end, scratch, np.int64(0))
        source, start = scratch, np.int64(0)
    for edge in range(len(tree.parent)):
        begin, stop = tree.key_offsets[edge], tree.key_offsets[edge + 1]
        if tree.parent[edge] == node and tree.element[edge] < 0 and stop - begin == end - start:
            same = True
            for place in range(stop - begin):
                if tree.key_data[begin + place] != source[start + place]:
                    same = False
                    break
            if same:
                return np.int64(edge + 1)
    return np.int64(NONE)


@scanner
def _child_of_index(tree: Tree, node: Integer, index: Integer) -> Integer:
    for edge in range(len(tree.parent)):
        if tree.parent[edge] == node and tree.element[edge] == index:
            return np.int64(edge + 1)
    return np.int64(NONE)
