"""OTLP JSON becomes OTLP protobuf in one pass, driven by the table in `schema_kernels.py`.

    {"resourceLogs":[{"scopeLogs":[…]}]}  →  0A xx xx xx xx xx 12 xx xx xx xx xx …

The length of a message is known at its end: five bytes are reserved for it and written then. A later value of
a name overrides an earlier one, and null leaves a field out, because both are so on the wire too. JSON spends
at least a quarter of a field's bytes on the wire, which bounds the size of the output.

`benchmarks.kernels.decode`: 100 times as fast as `json_format.Parse` and `SerializeToString`.
"""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.field_kernels import Matrix
from lakerunner_assets.decode.json.scalar_kernels import LENGTH_BYTES, put_length, put_scalar, put_scalars
from lakerunner_assets.decode.json.schema_kernels import (
    CHILD,
    MESSAGE,
    OTHER,
    REPEATED,
    RULES,
    TAG,
    TAG_SIZE,
    TYPE,
    find_name,
)
from lakerunner_assets.decode.json.token_kernels import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    COMMA,
    EXPECTED_COMMA,
    EXPECTED_NAME,
    EXPECTED_OBJECT,
    FIXES,
    LETTER_N,
    MAX_DEPTH,
    NULL,
    OPEN_LIST,
    OPEN_OBJECT,
    OTHER_SIGNAL,
    QUOTE,
    SURROGATES,
    TOO_DEEP,
    TRUNCATED,
    WRONG_TYPE,
    fault,
    skip_space,
    text_end,
    unescape,
    word_behind,
)
from lakerunner_assets.decode.json.value_kernels import read_colon, skip_value
from lakerunner_assets.decode.memory_kernels import store_word
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, inlined, scanner

GROWTH = 4
"""Bytes of output per byte of input at most: a zero and a comma in a list of fixed64."""
ROOM = 64
"""Bytes of output beyond that, for stores of whole words."""

CONTENT, OWNER, LIST, _ = range(4)
"""Columns of the frames: position of the message's content, its type, the field of the open list (-1: none).

The last belongs to `value_kernels.py`.
"""
FRAME_WIDTH = 4

AT, USED, PLACE, FIXED, REPLACED = range(2, 7)
"""Places in the tally, behind those of token_kernels.py: the last good cut in input and output, its place in
a document, and the counts of token_kernels.py there.
"""
TALLY_WIDTH = 7
DONE, OPENED = -1, -2
"""Results in place of a field: its value was read or skipped; it is a list of messages, now open."""
OUTSIDE = -2
"""Place between documents. Any other place is behind a value in one: the field of the open list, or -1."""


@scanner
def transcode(
    data: Bytes, root: Integer, out: Bytes, fixes: Matrix, frames: Matrix, tally: Int64s
) -> Integer:
    """Transcode documents of message `root`; return the end, or the fault of the first broken one.

    Starts at the cut in `tally` and moves it on: up to there the output is good even if a fault is returned.
    """
    end = len(data)
    position: Integer = tally[AT]
    used: Integer = tally[USED]
    while True:
        opened = tally[PLACE] == OUTSIDE
        frames[0, OWNER], frames[0, LIST] = root, max(tally[PLACE], -1)
        if opened:
            position = skip_space(data, position, end)
            tally[AT] = position
            if position == end:
                return position
            if data[np.uint64(position)] != OPEN_OBJECT:
                return fault(position, EXPECTED_OBJECT)
            position += 1
        position, used = put_members(data, position, end, opened, out, used, fixes, frames, tally)
        if position < 0:
            return position
        cut(tally, position, used, OUTSIDE)


@scanner
def cut(tally: Int64s, position: Integer, used: Integer, place: Integer) -> None:
    tally[AT], tally[USED], tally[PLACE] = position, used, place
    tally[FIXED], tally[REPLACED] = tally[FIXES], tally[SURROGATES]


@scanner
def put_members(
    data: Bytes,
    position: Integer,
    end: Integer,
    opened: bool,
    out: Bytes,
    used: Integer,
    fixes: Matrix,
    frames: Matrix,
    tally: Int64s,
) -> tuple[Integer, Integer]:
    """Write everything in a document; unless its innermost part is just `opened`, a value lies before."""
    depth = 0
    while True:
        position = skip_space(data, position, end)
        if position >= end:
            return fault(position, TRUNCATED), used
        byte = data[np.uint64(position)]
        field: Integer = frames[depth, LIST]
        if byte == COMMA and not opened:
            position = skip_space(data, position + 1, end)
            if position >= end:
                return fault(position, TRUNCATED), used
            byte = data[np.uint64(position)]
        elif byte == (CLOSE_OBJECT if field < 0 else CLOSE_LIST):
            position, opened = position + 1, False
            if field >= 0:
                frames[depth, LIST] = -1
                continue
            if depth == 0:
                return position, used
            put_length(out, frames[depth, CONTENT] - LENGTH_BYTES, frames[depth, CONTENT], used)
            depth -= 1
            if depth == 0:
                cut(tally, position, used, frames[0, LIST])
            continue
        elif not opened:
            return fault(position, EXPECTED_COMMA), used
        if field < 0:
            position, used, field = read_member(data, position, end, out, used, fixes, frames, depth, tally)
            if position < 0:
                return position, used
            opened = field == OPENED
            if field < 0:
                continue
            byte = data[np.uint64(position)]
        used = put_tag(out, used, field)
        opened = bool(RULES[field, TYPE] == MESSAGE)
        if opened:
            depth += 1
            if byte != OPEN_OBJECT or depth >= MAX_DEPTH:
                return fault(position, TOO_DEEP if byte == OPEN_OBJECT else WRONG_TYPE), used
            used += LENGTH_BYTES
            frames[depth, CONTENT], frames[depth, OWNER], frames[depth, LIST] = used, RULES[field, CHILD], -1
            position += 1
            continue
        position, used = put_scalar(data, position, end, field, out, used, fixes, tally)
        if position < 0:
            return position, used


@inlined
def put_tag(out: Bytes, used: Integer, field: Integer) -> Integer:
    store_word(out, used, np.uint64(RULES[field, TAG]))
    return used + np.int64(RULES[field, TAG_SIZE])


@inlined
def read_member(
    data: Bytes,
    position: Integer,
    end: Integer,
    out: Bytes,
    used: Integer,
    fixes: Matrix,
    frames: Matrix,
    depth: Integer,
    tally: Int64s,
) -> tuple[Integer, Integer, Integer]:
    """Read a name, and a value that needs no message; return the field, DONE or OPENED."""
    if data[np.uint64(position)] != QUOTE:
        return fault(position, EXPECTED_NAME), used, np.int64(DONE)
    name_at = position
    position, field = read_name(data, position + 1, end, out, used, frames[depth, OWNER], tally)
    if position < 0:
        return position, used, np.int64(DONE)
    byte = data[np.uint64(position)]
    if field < 0:
        return skip_value(data, position, end, frames, depth), used, np.int64(DONE)
    if RULES[field, TYPE] == OTHER:
        return fault(name_at, OTHER_SIGNAL), used, np.int64(DONE)
    if byte == LETTER_N:
        return word_behind(data, position, end, NULL), used, np.int64(DONE)
    if not RULES[field, REPEATED]:
        return position, used, field
    if byte != OPEN_LIST:
        return fault(position, WRONG_TYPE), used, np.int64(DONE)
    if RULES[field, TYPE] == MESSAGE:
        frames[depth, LIST] = field
        return position + 1, used, np.int64(OPENED)
    position, used = put_scalars(data, position + 1, end, field, out, used, fixes, tally)
    return position, used, np.int64(DONE)


@scanner
def read_name(
    data: Bytes, position: Integer, end: Integer, out: Bytes, used: Integer, owner: Integer, tally: Int64s
) -> tuple[Integer, Integer]:
    """Return the position of the value (or a fault) of the name at `position`, and its meaning to `owner`.

    A name with escapes is opened in the unused part of the output.
    """
    stop, escaped = text_end(data, position, end)
    if stop < 0:
        return stop, np.int64(-1)
    if not escaped:
        return read_colon(data, stop + 1, end), find_name(data, position, stop - position, owner)
    length = unescape(data, position, stop, out, used, tally) - used
    if length < 0:
        return length + used, np.int64(-1)
    return read_colon(data, stop + 1, end), find_name(out, used, length, owner)
