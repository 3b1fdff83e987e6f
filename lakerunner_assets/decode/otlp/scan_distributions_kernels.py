"""Histograms, exponential histograms and summaries are scanned into a row each and lists of numbers.

A scan runs twice over the same code: once to count the numbers of all lists, once to copy them. Numbers of
one list lie end to end in the order of the points; a row says how many of them are its own.

`benchmarks.kernels.decode`: 5 times as fast as protobuf and `pa.array` of the counts alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakerunner_assets.decode.field_kernels import Matrix, Spans
from lakerunner_assets.decode.otlp.scan_metrics_kernels import EXPONENTIAL, HISTOGRAM, KIND
from lakerunner_assets.decode.wire_kernels import (
    FIXED64,
    LENGTH,
    TRUNCATED,
    VARINT,
    fault,
    read_fixed,
    read_length,
    read_tag,
    read_varint,
    skip_field,
    tag_of,
)
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, scanner

COUNT, SUM_SENT, TOTAL, MIN_SENT, MIN, MAX_SENT, MAX = range(7)
SCALE, ZERO_COUNT, ZERO_THRESHOLD = 7, 8, 9
POSITIVE_SENT, POSITIVE_OFFSET, NEGATIVE_SENT, NEGATIVE_OFFSET = 10, 11, 12, 13
LENGTHS = 14
"""First of the columns that count the row's numbers in each list of `Numbers`."""
DISTRIBUTION_WIDTH = 19

COUNT_TAG, SUM_TAG = tag_of(4, FIXED64), tag_of(5, FIXED64)
"""Tags that all three kinds share."""
BUCKETS_TAG, BUCKETS_PACKED_TAG = tag_of(6, FIXED64), tag_of(6, LENGTH)
BOUNDS_TAG, BOUNDS_PACKED_TAG = tag_of(7, FIXED64), tag_of(7, LENGTH)
HISTOGRAM_MIN_TAG, HISTOGRAM_MAX_TAG = tag_of(11, FIXED64), tag_of(12, FIXED64)
SCALE_TAG, ZERO_COUNT_TAG, ZERO_THRESHOLD_TAG = tag_of(6, VARINT), tag_of(7, FIXED64), tag_of(14, FIXED64)
POSITIVE_TAG, NEGATIVE_TAG = tag_of(8, LENGTH), tag_of(9, LENGTH)
EXPONENTIAL_MIN_TAG, EXPONENTIAL_MAX_TAG = tag_of(12, FIXED64), tag_of(13, FIXED64)
OFFSET_TAG, COUNTS_TAG, COUNTS_PACKED_TAG = tag_of(1, VARINT), tag_of(2, VARINT), tag_of(2, LENGTH)
"""Tags in Buckets."""
QUANTILES_TAG = tag_of(6, LENGTH)
QUANTILE_TAG, QUANTILE_VALUE_TAG = tag_of(1, FIXED64), tag_of(2, FIXED64)

COUNTS, BOUNDS, POSITIVES, NEGATIVES, QUANTILES = range(5)
LISTS = 5


class Numbers(NamedTuple):
    """Raw 64 bits of all numbers of each list; quantiles are pairs of quantile and value."""

    counts: Int64s
    bounds: Int64s
    positives: Int64s
    negatives: Int64s
    quantiles: Int64s


@scanner
def read_distributions(
    data: Bytes,
    spans: Spans,
    rows: Int64s,
    metric_of_point: Int64s,
    metrics: Matrix,
    distributions: Matrix,
    used: Int64s,
    numbers: Numbers,
    filling: bool,
) -> Integer:
    """Read the points at `rows`; `used` counts the numbers of each list."""
    for index in range(len(rows)):
        row = rows[index]
        position = spans.start[row]
        end = position + spans.length[row]
        kind = metrics[metric_of_point[row], KIND]
        for each in range(LISTS):
            distributions[index, LENGTHS + each] = -used[each]
        if kind == HISTOGRAM:
            failed = read_histogram(data, position, end, distributions, index, used, numbers, filling)
        elif kind == EXPONENTIAL:
            failed = read_exponential(data, position, end, distributions, index, used, numbers, filling)
        else:
            failed = read_summary(data, position, end, distributions, index, used, numbers, filling)
        if failed < 0:
            return failed
        for each in range(LISTS):
            distributions[index, LENGTHS + each] += used[each]
    return np.int64(0)


@scanner
def read_histogram(
    data: Bytes,
    position: Integer,
    end: Integer,
    distributions: Matrix,
    row: Integer,
    used: Int64s,
    numbers: Numbers,
    filling: bool,
) -> Integer:
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag in (BUCKETS_TAG, BUCKETS_PACKED_TAG):
            position = read_fixed64s(data, position, end, tag, numbers.counts, used, COUNTS, filling)
        elif tag in (BOUNDS_TAG, BOUNDS_PACKED_TAG):
            position = read_fixed64s(data, position, end, tag, numbers.bounds, used, BOUNDS, filling)
        elif tag == COUNT_TAG:
            distributions[row, COUNT], position = read_fixed(data, position, end, 8)
        elif tag in (SUM_TAG, HISTOGRAM_MIN_TAG, HISTOGRAM_MAX_TAG):
            field = SUM_SENT if tag == SUM_TAG else MIN_SENT if tag == HISTOGRAM_MIN_TAG else MAX_SENT
            distributions[row, field] = 1
            distributions[row, field + 1], position = read_fixed(data, position, end, 8)
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@scanner
def read_exponential(
    data: Bytes,
    position: Integer,
    end: Integer,
    distributions: Matrix,
    row: Integer,
    used: Int64s,
    numbers: Numbers,
    filling: bool,
) -> Integer:
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag in (POSITIVE_TAG, NEGATIVE_TAG):
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            field = POSITIVE_SENT if tag == POSITIVE_TAG else NEGATIVE_SENT
            which = POSITIVES if tag == POSITIVE_TAG else NEGATIVES
            target = numbers.positives if tag == POSITIVE_TAG else numbers.negatives
            distributions[row, field] = 1
            position = read_buckets(
                data, position, position + length, distributions, row, field + 1, target, used, which, filling
            )
        elif tag == COUNT_TAG:
            distributions[row, COUNT], position = read_fixed(data, position, end, 8)
        elif tag == SCALE_TAG:
            number, position = read_varint(data, position, end)
            distributions[row, SCALE] = decode_zigzag(number)
        elif tag == ZERO_COUNT_TAG:
            distributions[row, ZERO_COUNT], position = read_fixed(data, position, end, 8)
        elif tag == ZERO_THRESHOLD_TAG:
            distributions[row, ZERO_THRESHOLD], position = read_fixed(data, position, end, 8)
        elif tag in (SUM_TAG, EXPONENTIAL_MIN_TAG, EXPONENTIAL_MAX_TAG):
            field = SUM_SENT if tag == SUM_TAG else MIN_SENT if tag == EXPONENTIAL_MIN_TAG else MAX_SENT
            distributions[row, field] = 1
            distributions[row, field + 1], position = read_fixed(data, position, end, 8)
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@scanner
def read_buckets(
    data: Bytes,
    position: Integer,
    end: Integer,
    distributions: Matrix,
    row: Integer,
    offset_field: Integer,
    target: Int64s,
    used: Int64s,
    which: Integer,
    filling: bool,
) -> Integer:
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag in (COUNTS_TAG, COUNTS_PACKED_TAG):
            position = read_varints(data, position, end, tag, target, used, which, filling)
        elif tag == OFFSET_TAG:
            number, position = read_varint(data, position, end)
            distributions[row, offset_field] = decode_zigzag(number)
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@scanner
def read_summary(
    data: Bytes,
    position: Integer,
    end: Integer,
    distributions: Matrix,
    row: Integer,
    used: Int64s,
    numbers: Numbers,
    filling: bool,
) -> Integer:
    distributions[row, SUM_SENT] = 1  # a summary always has a sum
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag == QUANTILES_TAG:
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            position = read_quantile(data, position, position + length, numbers.quantiles, used, filling)
        elif tag == COUNT_TAG:
            distributions[row, COUNT], position = read_fixed(data, position, end, 8)
        elif tag == SUM_TAG:
            distributions[row, TOTAL], position = read_fixed(data, position, end, 8)
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@scanner
def read_quantile(
    data: Bytes, position: Integer, end: Integer, target: Int64s, used: Int64s, filling: bool
) -> Integer:
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag in (QUANTILE_TAG, QUANTILE_VALUE_TAG):
            number, position = read_fixed(data, position, end, 8)
            if filling:
                target[used[QUANTILES] + (tag >> 3) - 1] = number
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    used[QUANTILES] += 2
    return position


@scanner
def read_fixed64s(
    data: Bytes,
    position: Integer,
    end: Integer,
    tag: Integer,
    target: Int64s,
    used: Int64s,
    which: Integer,
    filling: bool,
) -> Integer:
    """Read one field of eight bytes, or a packed run of them."""
    if tag & 7 == LENGTH:
        length, position = read_length(data, position, end)
        if position < 0:
            return position
        if length % 8 != 0:
            return fault(position, TRUNCATED)
        end = position + length
    elif end - position < 8:
        return fault(position, TRUNCATED)
    else:
        end = position + 8
    while position < end:
        number, position = read_fixed(data, position, end, 8)
        if filling:
            target[used[which]] = number
        used[which] += 1
    return position


@scanner
def read_varints(
    data: Bytes,
    position: Integer,
    end: Integer,
    tag: Integer,
    target: Int64s,
    used: Int64s,
    which: Integer,
    filling: bool,
) -> Integer:
    """Read one varint field, or a packed run of them."""
    packed = tag & 7 == LENGTH
    if packed:
        length, position = read_length(data, position, end)
        if position < 0:
            return position
        end = position + length
        if length == 0:
            return position
    while True:
        number, position = read_varint(data, position, end)
        if position < 0:
            return position
        if filling:
            target[used[which]] = number
        used[which] += 1
        if not packed or position >= end:
            return position


@scanner
def decode_zigzag(number: Integer) -> Integer:
    """Decode a sint32 from its zigzag form."""
    low = number & 0xFFFFFFFF
    return (low >> 1) ^ -(low & 1)
