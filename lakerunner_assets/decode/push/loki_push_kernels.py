"""Loki's streams, entries and label pairs are scanned into rows of numbers and positions.

    PushRequest { 1: Stream { 1: labels, 2: Entry { 1: Timestamp, 2: line, 3: LabelPair… }, 3: hash } }

The first pass counts, the second fills; both check every bound.

`benchmarks.kernels.decode`: 11 times as fast as the protobuf runtime with a loop over times and lines.
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
from lakerunner_assets.decode.wire_kernels import (
    LENGTH,
    VARINT,
    read_length,
    read_tag,
    read_varint,
    skip_field,
    tag_of,
)
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, scanner

AT, LABELS, STREAM_WIDTH = 0, 1, 3
"""Columns of streams: position of the message; position and length of the label text."""
STREAM, SECONDS, NANOS, LINE, ENTRY_WIDTH = 0, 1, 2, 3, 5
"""Columns of entries; the line is a position and a length."""

STREAM_TAG = LABELS_TAG = TIME_TAG = NAME_TAG = tag_of(1, LENGTH)
"""Tags of the first fields of a PushRequest, a Stream, an Entry and a LabelPair."""
ENTRY_TAG = LINE_TAG = VALUE_TAG = tag_of(2, LENGTH)
"""Tags of the second fields of a Stream, an Entry and a LabelPair."""
METADATA_TAG = tag_of(3, LENGTH)
SECONDS_TAG, NANOS_TAG = tag_of(1, VARINT), tag_of(2, VARINT)

STREAMS, ENTRIES, PAIRS = range(3)


class PushRows(NamedTuple):
    """Rows of a slice; `used` counts them. Label pairs are attributes of entries, as OTLP's are."""

    streams: Matrix
    entries: Matrix
    pairs: Matrix
    used: Int64s


@scanner
def walk_push(data: Bytes, pushed: PushRows, filling: bool) -> Integer:
    """Count streams, entries and label pairs, or fill the matrices; return a fault or the end."""
    position: Integer = 0
    end: Integer = len(data)
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag != STREAM_TAG:
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
def walk_stream(data: Bytes, position: Integer, end: Integer, pushed: PushRows, filling: bool) -> Integer:
    stream = pushed.used[STREAMS]
    pushed.used[STREAMS] += 1
    if filling:
        pushed.streams[stream, AT] = position
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag not in (LABELS_TAG, ENTRY_TAG):
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
            continue
        length, position = read_length(data, position, end)
        if position < 0:
            return position
        if tag == ENTRY_TAG:
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
def walk_entry(data: Bytes, position: Integer, end: Integer, pushed: PushRows, filling: bool) -> Integer:
    """Read one Entry. Its field 4 (labels a query parsed out of the line) is not for pushes and skipped."""
    entry = pushed.used[ENTRIES]
    pushed.used[ENTRIES] += 1
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag not in (TIME_TAG, LINE_TAG, METADATA_TAG):
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
            continue
        length, position = read_length(data, position, end)
        if position < 0:
            return position
        failed: Integer = 0
        if tag == METADATA_TAG:
            pair = pushed.used[PAIRS]
            pushed.used[PAIRS] += 1
            if filling:
                pushed.pairs[pair, OWNER] = entry
                pushed.pairs[pair, KIND] = STRING
                failed = read_pair(data, position, position + length, pushed.pairs, pair)
        elif filling and tag == TIME_TAG:
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
        if tag in (SECONDS_TAG, NANOS_TAG):
            number, position = read_varint(data, position, end)
            if tag == SECONDS_TAG:
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
        if tag in (NAME_TAG, VALUE_TAG):
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            field = KEY if tag == NAME_TAG else VALUE
            pairs[row, field] = position
            pairs[row, field + 1] = length
            position += length
        else:
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
    return position
