"""Finds the values at given paths in lines of JSON, arrays included; nothing else is written down.

    a.b[1] in {"a":{"b":[1,2]}}  ->  (a.b[1], "2")

The paths are a tree: from a node an edge leads on, named by a key or an index. Of a path that occurs twice
the first value counts. What is broken elsewhere does not matter, and a line that breaks off gives what stood
before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakerunner_query.evaluate.logs.kernels.escapes import unescape
from lakerunner_query.evaluate.logs.kernels.fields import FULL, TOKENS, Tokens, emit
from lakerunner_query.evaluate.logs.kernels.json_tokens import (
    ARRAY_ERROR,
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    COMMA,
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
    literal_kind,
    next_token,
    string_end,
    token_end,
)
from resources.arrays import Bytes, Flags, Int8s, Int32s, Int64s
from resources.kernel import Integer, kernel, scanner

NONE = -1


class Tree(NamedTuple):
    """Edge e leads from `parent[e]` to node e + 1; node 0 is the line."""

    parent: Int32s
    key_data: Bytes
    key_offsets: Int32s
    element: Int64s
    """Of array edges; -1: a key."""
    ends: Flags
    """By node: a path ends here."""
    leads_on: Flags
    """By node: edges begin here."""


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
    """Scan lines until `last` or until tokens are full; the row that was not scanned any more."""
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
    if begin == end:
        return FINE
    if data[begin] == QUOTE:
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
            if data[at] != QUOTE:
                at += 1
                continue
            close, escaped = string_end(data, at + 1, limit)
            if close < 0:
                return error
            behind = next_token(data, close + 1, limit)
            if behind == limit or data[behind] != COLON:
                at = close + 1
                continue
            child = _child_of_key(data, at + 1, close, escaped, tree, node, scratch)
            at = next_token(data, behind + 1, limit)
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
            depth += 1
            node = child
            index = np.int64(0 if data[at] == OPEN_ARRAY else -1)
            limit = close if close >= 0 else limit
            at += 1
            continue
        if close < 0:
            return error
        at = close


@scanner
def _value(data: Bytes, at: Integer, limit: Integer) -> tuple[Integer, Integer, Integer, bool, int]:
    """The text of a value from, to, behind it, whether it has escapes, and what is wrong with it.

    Behind is -1 where nothing can follow.
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
