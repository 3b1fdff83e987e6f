"""Metrics, data points and exemplars are scanned into a row of numbers and positions each.

The five kinds of points share time, start, flags, attributes and exemplars under different numbers; these are
read here, histograms and summaries in scan_distributions_kernels.py. Attributes of a point are not read but
noted as the *run* of bytes they fill: points of one series repeat the same run, and only distinct runs are
read.

`benchmarks.kernels.decode`: 14 times as fast as the protobuf runtime with a loop over times and values.
"""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.field_kernels import DOUBLE, INT, OWNER, Matrix, Spans, read_key_value
from lakerunner_assets.decode.memory_kernels import copy_bytes
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
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, scanner

NAME, DESCRIPTION, UNIT = 0, 2, 4  # each a position and a length
KIND, DATA_FROM, TEMPORALITY, MONOTONIC, POINTS = range(6, 11)
METRIC_WIDTH = 11

GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY = 5, 7, 9, 10, 11
"""Values of KIND: the field numbers of the `data` oneof; 0 when none of them was sent."""
METADATA_TAG = tag_of(12, LENGTH)
POINTS_TAG, TEMPORALITY_TAG, MONOTONIC_TAG = tag_of(1, LENGTH), tag_of(2, VARINT), tag_of(3, VARINT)
START_TAG, TIME_TAG = tag_of(2, FIXED64), tag_of(3, FIXED64)
DOUBLE_TAG, INT_TAG = tag_of(4, FIXED64), tag_of(6, FIXED64)
_POINT_FLAGS, _HISTOGRAM_FLAGS = tag_of(8, VARINT), tag_of(10, VARINT)
_POINT_ATTRIBUTE, _HISTOGRAM_ATTRIBUTE, _EXPONENTIAL_ATTRIBUTE = (tag_of(n, LENGTH) for n in (7, 9, 1))
_POINT_EXEMPLAR, _HISTOGRAM_EXEMPLAR, _EXPONENTIAL_EXEMPLAR = (tag_of(n, LENGTH) for n in (5, 8, 11))

TIME, START, FLAGS, VALUE_KIND, VALUE, RUN, RUN_LENGTH, ATTRIBUTES, GAPS, EXEMPLARS = range(10)
"""Columns of points. VALUE_KIND is EMPTY, INT or DOUBLE; GAPS: other fields lie between the attributes."""
POINT_WIDTH = 10


@scanner
def read_metrics(data: Bytes, spans: Spans, metrics: Matrix) -> Integer:
    """Fill a row per Metric; return a fault or 0."""
    for row in range(len(spans.start)):
        start = spans.start[row]
        failed = read_metric(data, start, start + spans.length[row], metrics, row)
        if failed < 0:
            return failed
    return np.int64(0)


@scanner
def read_metric(data: Bytes, position: Integer, end: Integer, metrics: Matrix, row: Integer) -> Integer:
    """Read one Metric.

    The last member of the oneof wins; the same member in a row is one message in several parts.
    """
    while position < end:
        at = position
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag & 7 != LENGTH:
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
            continue
        length, position = read_length(data, position, end)
        if position < 0:
            return position
        number = tag >> 3
        if number <= 3:
            metrics[row, 2 * number - 2] = position
            metrics[row, 2 * number - 1] = length
        elif number in (GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY):
            if metrics[row, KIND] != number:
                metrics[row, KIND] = number
                metrics[row, DATA_FROM] = at
                metrics[row, TEMPORALITY] = 0
                metrics[row, MONOTONIC] = 0
                metrics[row, POINTS] = 0
            failed = read_data(data, position, position + length, metrics, row)
            if failed < 0:
                return failed
        position += length
    return position


@scanner
def read_data(data: Bytes, position: Integer, end: Integer, metrics: Matrix, row: Integer) -> Integer:
    """Read a Gauge, Sum, Histogram, ExponentialHistogram or Summary, but for its points."""
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag == TEMPORALITY_TAG:
            number, position = read_varint(data, position, end)
            metrics[row, TEMPORALITY] = np.int64(np.int32(number))
        elif tag == MONOTONIC_TAG:
            number, position = read_varint(data, position, end)
            metrics[row, MONOTONIC] = 1 if number != 0 else 0
        else:
            if tag == POINTS_TAG:
                metrics[row, POINTS] += 1
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@scanner
def find_points(
    data: Bytes, spans: Spans, metrics: Matrix, points: Spans, metric_of_point: Int64s
) -> Integer:
    """Find the points of all metrics in order; `points` has room for exactly all of them."""
    used = 0
    for row in range(len(spans.start)):
        if metrics[row, POINTS] == 0:
            continue
        position: Integer = metrics[row, DATA_FROM]
        end = spans.start[row] + spans.length[row]
        member = metrics[row, KIND] << 3 | LENGTH
        while position < end:
            tag, position = read_tag(data, position, end)
            if position < 0:
                return position
            if tag != member:
                position = skip_field(data, position, end, tag)
                if position < 0:
                    return position
                continue
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            stop = position + length
            while position < stop:
                tag, position = read_tag(data, position, stop)
                if position < 0:
                    return position
                if tag == POINTS_TAG:
                    size, position = read_length(data, position, stop)
                    if position < 0:
                        return position
                    points.start[used] = position
                    points.length[used] = size
                    metric_of_point[used] = row
                    used += 1
                    position += size
                else:
                    position = skip_field(data, position, stop, tag)
                    if position < 0:
                        return position
    return np.int64(0)


@scanner
def attribute_tag(kind: Integer) -> Integer:
    """Return the tag of a point's attributes, by the kind of its metric."""
    if kind == HISTOGRAM:
        return _HISTOGRAM_ATTRIBUTE
    return _EXPONENTIAL_ATTRIBUTE if kind == EXPONENTIAL else _POINT_ATTRIBUTE


@scanner
def exemplar_tag(kind: Integer) -> Integer:
    """Return the tag of a point's exemplars; -1: this kind has none."""
    if kind == HISTOGRAM:
        return _HISTOGRAM_EXEMPLAR
    if kind == EXPONENTIAL:
        return _EXPONENTIAL_EXEMPLAR
    return -1 if kind == SUMMARY else _POINT_EXEMPLAR


@scanner
def read_points(
    data: Bytes, spans: Spans, metric_of_point: Int64s, metrics: Matrix, points: Matrix
) -> Integer:
    """Fill the columns that all kinds of points share; return a fault or 0."""
    for row in range(len(spans.start)):
        start = spans.start[row]
        kind = metrics[metric_of_point[row], KIND]
        failed = read_point(data, start, start + spans.length[row], kind, points, row)
        if failed < 0:
            return failed
    return np.int64(0)


@scanner
def read_point(
    data: Bytes, position: Integer, end: Integer, kind: Integer, points: Matrix, row: Integer
) -> Integer:
    attribute = attribute_tag(kind)
    exemplar = exemplar_tag(kind)
    flags = _HISTOGRAM_FLAGS if kind in (HISTOGRAM, EXPONENTIAL) else _POINT_FLAGS
    number = kind in (GAUGE, SUM)
    run_end: Integer = -1
    while position < end:
        at = position
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag & 7 == LENGTH:
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            position += length
            if tag == attribute:
                if run_end < 0:
                    points[row, RUN] = at
                elif run_end != at:
                    points[row, GAPS] = 1
                run_end = position
                points[row, ATTRIBUTES] += 1
            elif tag == exemplar:
                points[row, EXEMPLARS] += 1
            continue
        if tag == TIME_TAG:
            points[row, TIME], position = read_fixed(data, position, end, 8)
        elif tag == START_TAG:
            points[row, START], position = read_fixed(data, position, end, 8)
        elif tag == flags:
            value, position = read_varint(data, position, end)
            points[row, FLAGS] = value & 0xFFFFFFFF
        elif number and tag in (DOUBLE_TAG, INT_TAG):
            points[row, VALUE], position = read_fixed(data, position, end, 8)
            points[row, VALUE_KIND] = DOUBLE if tag == DOUBLE_TAG else INT
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    if run_end >= 0:
        points[row, RUN_LENGTH] = run_end - points[row, RUN]
    return position


@scanner
def join_runs(joined: Bytes, used: Integer, rows: Int64s, kinds: Int64s, points: Matrix) -> Integer:
    """Copy the attribute fields of the points at `rows` to `joined[used:]` and point their runs there."""
    for row in rows:
        position: Integer = points[row, RUN]
        end = position + points[row, RUN_LENGTH]
        wanted = attribute_tag(kinds[row])
        start = used
        while position < end:
            at = position
            tag, position = read_tag(joined, position, end)
            if position < 0:
                return position
            position = skip_field(joined, position, end, tag)
            if position < 0:
                return position
            if tag == wanted:
                copy_bytes(joined, used, joined, at, position - at)
                used += position - at
        points[row, RUN] = start
        points[row, RUN_LENGTH] = used - start
    return used


@scanner
def read_runs(data: Bytes, runs: Spans, attributes: Matrix) -> Integer:
    """Fill a row per key-value of every run; return a fault or 0."""
    used: Integer = 0
    for row in range(len(runs.start)):
        position: Integer = runs.start[row]
        end = position + runs.length[row]
        while position < end:
            _, position = read_tag(data, position, end)
            if position < 0:
                return position
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            attributes[used, OWNER] = row
            failed = read_key_value(data, position, position + length, attributes, used)
            used += 1
            if failed < 0:
                return failed
            position += length
    return np.int64(0)


EXEMPLAR_TIME, EXEMPLAR_VALUE_KIND, EXEMPLAR_VALUE = range(3)


EXEMPLAR_SPAN_ID, EXEMPLAR_TRACE_ID = 3, 5  # each a position and a length


EXEMPLAR_WIDTH = 7


EXEMPLAR_TIME_TAG, EXEMPLAR_DOUBLE_TAG, EXEMPLAR_INT_TAG = (tag_of(n, FIXED64) for n in (2, 3, 6))
EXEMPLAR_SPAN_ID_TAG, EXEMPLAR_TRACE_ID_TAG, EXEMPLAR_ATTRIBUTE_TAG = (tag_of(n, LENGTH) for n in (4, 5, 7))


@scanner
def find_exemplars(
    data: Bytes, spans: Spans, metric_of_point: Int64s, metrics: Matrix, points: Matrix, exemplars: Spans
) -> Integer:
    """Find the exemplars of all points in order; `exemplars` has room for exactly all."""
    used = 0
    for row in range(len(spans.start)):
        if points[row, EXEMPLARS] == 0:
            continue
        position: Integer = spans.start[row]
        end = position + spans.length[row]
        wanted = exemplar_tag(metrics[metric_of_point[row], KIND])
        while position < end:
            tag, position = read_tag(data, position, end)
            if position < 0:
                return position
            if tag != wanted:
                position = skip_field(data, position, end, tag)
                if position < 0:
                    return position
                continue
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            exemplars.start[used] = position
            exemplars.length[used] = length
            used += 1
            position += length
    return np.int64(0)


@scanner
def read_exemplars(data: Bytes, spans: Spans, exemplars: Matrix, attributes: Matrix) -> Integer:
    """Fill a row per Exemplar and per attribute, counted before; return a fault or 0."""
    used: Integer = 0
    for row in range(len(spans.start)):
        position: Integer = spans.start[row]
        end = position + spans.length[row]
        while position < end:
            tag, position = read_tag(data, position, end)
            if position < 0:
                return position
            if tag in (EXEMPLAR_ATTRIBUTE_TAG, EXEMPLAR_SPAN_ID_TAG, EXEMPLAR_TRACE_ID_TAG):
                length, position = read_length(data, position, end)
                if position < 0:
                    return position
                if tag == EXEMPLAR_ATTRIBUTE_TAG:
                    attributes[used, OWNER] = row
                    failed = read_key_value(data, position, position + length, attributes, used)
                    used += 1
                    if failed < 0:
                        return failed
                else:
                    field = EXEMPLAR_SPAN_ID if tag == EXEMPLAR_SPAN_ID_TAG else EXEMPLAR_TRACE_ID
                    exemplars[row, field] = position
                    exemplars[row, field + 1] = length
                position += length
            elif tag == EXEMPLAR_TIME_TAG:
                exemplars[row, EXEMPLAR_TIME], position = read_fixed(data, position, end, 8)
            elif tag in (EXEMPLAR_DOUBLE_TAG, EXEMPLAR_INT_TAG):
                exemplars[row, EXEMPLAR_VALUE], position = read_fixed(data, position, end, 8)
                exemplars[row, EXEMPLAR_VALUE_KIND] = DOUBLE if tag == EXEMPLAR_DOUBLE_TAG else INT
            else:
                position = skip_field(data, position, end, tag)
            if position < 0:
                return position
    return np.int64(0)
