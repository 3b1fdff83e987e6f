"""Loki's PushRequest in scanned bytes: one row of numbers and positions per stream, entry and label pair.

    PushRequest { 1: Stream { 1: labels, 2: Entry { 1: Timestamp, 2: line, 3: LabelPair… }, 3: hash } }

Two passes, as everywhere: the first counts, the second fills; both check every bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakerunner_assets.decode.field_kernels import (
    KEY,
    KIND,
    OWNER,
    STRING,
    VALUE,
    Matrix,
)
from lakerunner_assets.decode.wire_kernels import read_length, read_tag, read_varint, skip_field
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, scanner

AT, LABELS, STREAM_WIDTH = 0, 1, 3
"""Of streams: where the message starts; position and length of the label text."""
STREAM, SECONDS, NANOS, LINE, ENTRY_WIDTH = 0, 1, 2, 3, 5
"""Of entries; the line is a position and a length."""

STREAMS, ENTRIES, PAIRS = range(3)


class Pushed(NamedTuple):
    """All rows of a slice; `used` counts them. Label pairs are attributes of entries, as OTLP's are."""

    streams: Matrix
    entries: Matrix
    pairs: Matrix
    used: Int64s


@scanner
def walk_push(data: Bytes, pushed: Pushed, filling: bool) -> Integer:
    """Count streams, entries and label pairs, or fill the matrices sized by that; a fault or the end."""
    position: Integer = 0
    end: Integer = len(data)
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag != 10:
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
            continue
        length, position = read_length(data, position, end)
        if position < 0:
            return position
        failed = walk_stream(data, position, position + length, pushed, filling)
        if failed < 0:
            return failed
        position += length
    return position


@scanner
def walk_stream(data: Bytes, position: Integer, end: Integer, pushed: Pushed, filling: bool) -> Integer:
    stream = pushed.used[STREAMS]
    pushed.used[STREAMS] += 1
    if filling:
        pushed.streams[stream, AT] = position
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag not in (10, 18):
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
            continue
        length, position = read_length(data, position, end)
        if position < 0:
            return position
        if tag == 18:
            if filling:
                pushed.entries[pushed.used[ENTRIES], STREAM] = stream
            failed = walk_entry(data, position, position + length, pushed, filling)
            if failed < 0:
                return failed
        elif filling:
            pushed.streams[stream, LABELS] = position
            pushed.streams[stream, LABELS + 1] = length
        position += length
    return position


@scanner
def walk_entry(data: Bytes, position: Integer, end: Integer, pushed: Pushed, filling: bool) -> Integer:
    """One Entry; its field 4 (labels a query parsed out of the line) is not for pushes and skipped."""
    entry = pushed.used[ENTRIES]
    pushed.used[ENTRIES] += 1
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag not in (10, 18, 26):
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
            continue
        length, position = read_length(data, position, end)
        if position < 0:
            return position
        failed: Integer = 0
        if tag == 26:
            pair = pushed.used[PAIRS]
            pushed.used[PAIRS] += 1
            if filling:
                pushed.pairs[pair, OWNER] = entry
                pushed.pairs[pair, KIND] = STRING
                failed = read_pair(data, position, position + length, pushed.pairs, pair)
        elif filling and tag == 10:
            failed = read_time(data, position, position + length, pushed.entries, entry)
        elif filling:
            pushed.entries[entry, LINE] = position
            pushed.entries[entry, LINE + 1] = length
        if failed < 0:
            return failed
        position += length
    return position


@scanner
def read_time(data: Bytes, position: Integer, end: Integer, entries: Matrix, row: Integer) -> Integer:
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag in (8, 16):
            number, position = read_varint(data, position, end)
            if tag == 8:
                entries[row, SECONDS] = number
            else:
                entries[row, NANOS] = np.int64(np.int32(number))
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@scanner
def read_pair(data: Bytes, position: Integer, end: Integer, pairs: Matrix, row: Integer) -> Integer:
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag in (10, 18):
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            field = KEY if tag == 10 else VALUE
            pairs[row, field] = position
            pairs[row, field + 1] = length
            position += length
        else:
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
    return position
