"""Native histograms are read, and the gaps between their spans filled with empty buckets.

    spans (offset 2, length 2) (offset 1, length 1), deltas 3 -1 2
    →  first bucket 2, counts 3 2 0 4

An offset is that of the first bucket for the first span, a number of empty buckets for the others.

`benchmarks.kernels.decode`: 7.2 times as fast as protobuf and lists of Python.
"""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.field_kernels import Matrix
from lakerunner_assets.decode.wire_kernels import (
    FIXED64,
    LENGTH,
    VARINT,
    read_fixed,
    read_length,
    read_tag,
    read_varint,
    skip_field,
    tag_of,
)
from resources.arrays import Bytes, Flags, Int64s
from resources.kernel import Integer, inlined, scanner

COUNT_KIND, COUNT, SUM, SCHEMA, THRESHOLD, ZERO_KIND, ZERO_COUNT, RESET_HINT, LENGTHS = range(9)
NEGATIVE, POSITIVE, CUSTOM = 0, 3, 6
"""Lists, with their lengths in the columns from LENGTHS on: spans, deltas, counts of each side; custom
values.
"""
SPANS, DELTAS, COUNTS = range(3)
LISTS = 7
HISTOGRAM_WIDTH = LENGTHS + LISTS
ABSENT, INTEGER, FLOAT = range(3)
"""Kinds of counts; the last one sent counts."""
CUSTOM_SCHEMA = -53

COUNT_INT_TAG, COUNT_FLOAT_TAG = tag_of(1, VARINT), tag_of(2, FIXED64)
SUM_TAG, SCHEMA_TAG, THRESHOLD_TAG = tag_of(3, FIXED64), tag_of(4, VARINT), tag_of(5, FIXED64)
ZERO_INT_TAG, ZERO_FLOAT_TAG = tag_of(6, VARINT), tag_of(7, FIXED64)
RESET_HINT_TAG = tag_of(14, VARINT)
FIRST_LIST_FIELD, LAST_LIST_FIELD, CUSTOM_FIELD = 8, 13, 16
"""Field numbers: spans, deltas and counts of the negative side, then of the positive; custom values."""
OFFSET_TAG, SPAN_LENGTH_TAG = tag_of(1, VARINT), tag_of(2, VARINT)

MAX_BUCKETS = 10_000
"""Buckets on one side of zero at most, gaps included."""
TOO_WIDE, NEGATIVE_GAP, MISMATCH, NEGATIVE_COUNT, FAR_OFFSET = range(-1, -6, -1)
REASONS = {
    TOO_WIDE: "native_histogram_with_too_many_buckets",
    NEGATIVE_GAP: "native_histogram_with_overlapping_spans",
    MISMATCH: "native_histogram_whose_spans_and_counts_differ",
    NEGATIVE_COUNT: "native_histogram_with_negative_counts",
    FAR_OFFSET: "native_histogram_with_impossible_offset",
}
"""Reasons why the buckets of a side cannot be laid out."""
_INFINITY = 0x7FF0000000000000
_FURTHEST = 2**31 - MAX_BUCKETS - 2


@inlined
def zigzag(number: Integer) -> Integer:
    return np.int64(np.uint64(number) >> np.uint64(1)) ^ -(number & 1)


@scanner
def read_histograms(
    data: Bytes, starts: Int64s, lengths: Int64s, rows: Matrix, lists: Matrix, numbers: Int64s, filling: bool
) -> Integer:
    """Read scalars and list lengths of every histogram; when `filling` the lists too, from `lists` on."""
    used: Integer = np.int64(0)
    for row in range(len(starts)):
        for which in range(LISTS):
            lists[row, which] = used
            used += rows[row, LENGTHS + which]
            rows[row, LENGTHS + which] = 0
        failed = read_histogram(
            data, starts[row], starts[row] + lengths[row], rows, row, lists, numbers, filling
        )
        if failed < 0:
            return failed
    return np.int64(0)


@scanner
def read_histogram(
    data: Bytes,
    position: Integer,
    end: Integer,
    rows: Matrix,
    row: Integer,
    lists: Matrix,
    numbers: Int64s,
    filling: bool,
) -> Integer:
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        which = list_of(tag)
        if which >= 0:
            at = lists[row, which] + rows[row, LENGTHS + which]
            count, position = read_list(data, position, end, tag, which, numbers, at, filling)
            rows[row, LENGTHS + which] += count
        elif tag in (COUNT_INT_TAG, ZERO_INT_TAG):
            number, position = read_varint(data, position, end)
            place = COUNT_KIND if tag == COUNT_INT_TAG else ZERO_KIND
            rows[row, place], rows[row, place + 1] = INTEGER, number
        elif tag in (COUNT_FLOAT_TAG, ZERO_FLOAT_TAG):
            number, position = read_fixed(data, position, end, 8)
            place = COUNT_KIND if tag == COUNT_FLOAT_TAG else ZERO_KIND
            rows[row, place], rows[row, place + 1] = FLOAT, number
        elif tag in (SUM_TAG, THRESHOLD_TAG):
            number, position = read_fixed(data, position, end, 8)
            rows[row, SUM if tag == SUM_TAG else THRESHOLD] = number
        elif tag == SCHEMA_TAG:
            number, position = read_varint(data, position, end)
            rows[row, SCHEMA] = np.int64(np.int32(zigzag(number & 0xFFFFFFFF)))
        elif tag == RESET_HINT_TAG:
            number, position = read_varint(data, position, end)
            rows[row, RESET_HINT] = np.int64(np.int32(number))
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@scanner
def list_of(tag: Integer) -> Integer:
    """Return the list that a field adds to, packed or not; -1 for none."""
    number, wire_type = tag >> 3, tag & 7
    if number == CUSTOM_FIELD:
        return CUSTOM if wire_type in (FIXED64, LENGTH) else -1
    if number < FIRST_LIST_FIELD or number > LAST_LIST_FIELD:
        return -1
    which = number - FIRST_LIST_FIELD
    kind = which % 3
    if kind == SPANS:
        return which if wire_type == LENGTH else -1
    if kind == DELTAS:
        return which if wire_type in (VARINT, LENGTH) else -1
    return which if wire_type in (FIXED64, LENGTH) else -1


@scanner
def read_list(
    data: Bytes,
    position: Integer,
    end: Integer,
    tag: Integer,
    which: Integer,
    numbers: Int64s,
    at: Integer,
    filling: bool,
) -> tuple[Integer, Integer]:
    """Read one field of a list; return the number of its numbers and the position behind."""
    stop = end
    if tag & 7 == LENGTH:
        length, position = read_length(data, position, end)
        if position < 0:
            return np.int64(0), position
        stop = position + length
        if which in (NEGATIVE, POSITIVE):
            return read_span(data, position, stop, numbers, at, filling)
    count: Integer = np.int64(0)
    integers = which in (NEGATIVE + DELTAS, POSITIVE + DELTAS)
    while position < stop:
        if integers:
            number, position = read_varint(data, position, stop)
            number = zigzag(number)
        else:
            number, position = read_fixed(data, position, stop, 8)
        if position < 0:
            return count, position
        if filling:
            numbers[np.uint64(at + count)] = number
        count += 1
        if tag & 7 != LENGTH:
            break
    return count, position


@scanner
def read_span(
    data: Bytes, position: Integer, end: Integer, numbers: Int64s, at: Integer, filling: bool
) -> tuple[Integer, Integer]:
    """Read offset and length of a BucketSpan."""
    offset: Integer = np.int64(0)
    length: Integer = np.int64(0)
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return np.int64(0), position
        if tag == OFFSET_TAG:
            number, position = read_varint(data, position, end)
            offset = np.int64(np.int32(zigzag(number & 0xFFFFFFFF)))
        elif tag == SPAN_LENGTH_TAG:
            number, position = read_varint(data, position, end)
            length = number & 0xFFFFFFFF
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return np.int64(0), position
    if filling:
        numbers[np.uint64(at)] = offset
        numbers[np.uint64(at + 1)] = length
    return np.int64(2), position


@scanner
def measure_side(
    rows: Matrix, lists: Matrix, numbers: Int64s, side: Integer, floats: Flags, first: Int64s, widths: Int64s
) -> None:
    """Measure one side of every histogram: first bucket and number of buckets, or a reason."""
    for row in range(len(rows)):
        kind = COUNTS if floats[row] else DELTAS
        first[row], widths[row] = measure(rows, row, lists, numbers, side, kind)


@scanner
def fill_side(
    rows: Matrix, lists: Matrix, numbers: Int64s, side: Integer, floats: Flags, widths: Int64s, counts: Int64s
) -> None:
    """Write the measured counts end to end, doubles as bits; `counts` must be zeros."""
    end: Integer = np.int64(0)
    for row in range(len(rows)):
        if widths[row] < 0:
            continue
        used = end
        end += widths[row]
        source: Integer = lists[row, side + COUNTS if floats[row] else side + DELTAS]
        value: Integer = np.int64(0)
        for span in range(rows[row, LENGTHS + side + SPANS] // 2):
            at = lists[row, side + SPANS] + 2 * span
            if span:
                used += numbers[np.uint64(at)]
            for _ in range(numbers[np.uint64(at + 1)]):
                number = numbers[np.uint64(source)]
                source += 1
                value = number if floats[row] else value + number
                counts[np.uint64(used)] = value
                used += 1


@scanner
def measure(
    rows: Matrix, row: Integer, lists: Matrix, numbers: Int64s, side: Integer, kind: Integer
) -> tuple[Integer, Integer]:
    """Return the first bucket, and the number of buckets or a reason."""
    first: Integer = np.int64(0)
    width: Integer = np.int64(0)
    listed: Integer = np.int64(0)
    spans = rows[row, LENGTHS + side + SPANS] // 2
    for span in range(spans):
        at = lists[row, side + SPANS] + 2 * span
        offset, length = numbers[np.uint64(at)], numbers[np.uint64(at + 1)]
        if span == 0:
            first = offset
        elif offset < 0:
            return first, np.int64(NEGATIVE_GAP)
        else:
            width += offset
        width += length
        listed += length
        if width > MAX_BUCKETS:
            return first, np.int64(TOO_WIDE)
    other = DELTAS if kind == COUNTS else COUNTS
    if listed != rows[row, LENGTHS + side + kind] or rows[row, LENGTHS + side + other] > 0:
        return first, np.int64(MISMATCH)
    if has_negative(numbers, lists[row, side + kind], listed, kind):
        return first, np.int64(NEGATIVE_COUNT)
    custom = rows[row, SCHEMA] == CUSTOM_SCHEMA
    highest = rows[row, LENGTHS + CUSTOM] + 1 - width if custom else np.int64(_FURTHEST)
    lowest = np.int64(0) if custom else np.int64(-_FURTHEST)
    if spans > 0 and (first < lowest or first > highest):
        return first, np.int64(FAR_OFFSET)
    return first, width


@scanner
def has_negative(numbers: Int64s, start: Integer, count: Integer, kind: Integer) -> bool:
    """Find a count below zero; of doubles -0.0 and NaN are not."""
    value: Integer = np.int64(0)
    for index in range(start, start + count):
        number = numbers[np.uint64(index)]
        value = number if kind == COUNTS else value + number
        if value < 0:
            magnitude = value & 0x7FFFFFFFFFFFFFFF
            if kind == DELTAS or 0 < magnitude <= _INFINITY:
                return True
    return False
