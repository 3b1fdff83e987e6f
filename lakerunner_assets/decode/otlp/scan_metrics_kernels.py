"""Metrics and their data points in scanned bytes: one row of numbers and positions each.

The five kinds of points share time, start, flags, attributes and exemplars under different numbers; they are
read here, what only histograms and summaries have in scan_metric_distributions.py. Attributes of a point are
not read but noted as the *run* of bytes they fill: points of one series repeat the same run.
"""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.field_kernels import DOUBLE, INT, OWNER, Matrix, Spans, read_key_value
from lakerunner_assets.decode.memory_kernels import copy_bytes
from lakerunner_assets.decode.wire_kernels import read_fixed, read_length, read_tag, read_varint, skip_field
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, scanner

NAME, DESCRIPTION, UNIT = 0, 2, 4  # each a position and a length
KIND, DATA_FROM, TEMPORALITY, MONOTONIC, POINTS = range(6, 11)
METRIC_WIDTH = 11

GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY = 5, 7, 9, 10, 11
"""Values of KIND: the field numbers of the `data` oneof; 0 when none of them was sent."""
METADATA_TAG = 98

TIME, START, FLAGS, VALUE_KIND, VALUE, RUN, RUN_LENGTH, ATTRIBUTES, GAPS, EXEMPLARS = range(10)
"""VALUE_KIND is EMPTY, INT or DOUBLE of fields.py; GAPS: other fields lie between the attributes."""
POINT_WIDTH = 10


@scanner
def read_metrics(data: Bytes, spans: Spans, metrics: Matrix) -> Integer:
    """Fill a row per Metric; a fault or 0."""
    for row in range(len(spans.start)):
        start = spans.start[row]
        failed = read_metric(data, start, start + spans.length[row], metrics, row)
        if failed < 0:
            return failed
    return np.int64(0)


@scanner
def read_metric(data: Bytes, position: Integer, end: Integer, metrics: Matrix, row: Integer) -> Integer:
    """The last member of the oneof wins; the same member in a row is one message in several parts."""
    while position < end:
        at = position
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag & 7 != 2:
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
    """A Gauge, Sum, Histogram, ExponentialHistogram or Summary, but for its points."""
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag == 16:
            number, position = read_varint(data, position, end)
            metrics[row, TEMPORALITY] = np.int64(np.int32(number))
        elif tag == 24:
            number, position = read_varint(data, position, end)
            metrics[row, MONOTONIC] = 1 if number != 0 else 0
        else:
            if tag == 10:
                metrics[row, POINTS] += 1
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@scanner
def find_points(
    data: Bytes, spans: Spans, metrics: Matrix, points: Spans, metric_of_point: Int64s
) -> Integer:
    """Where the points of all metrics lie, in their order; `points` has room for exactly all of them."""
    used = 0
    for row in range(len(spans.start)):
        if metrics[row, POINTS] == 0:
            continue
        position: Integer = metrics[row, DATA_FROM]
        end = spans.start[row] + spans.length[row]
        member = metrics[row, KIND] * 8 + 2
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
                if tag == 10:
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
    """The tag of a point's attributes, by the kind of its metric."""
    if kind == HISTOGRAM:
        return 74
    return 10 if kind == EXPONENTIAL else 58


@scanner
def exemplar_tag(kind: Integer) -> Integer:
    """The tag of a point's exemplars; -1: this kind has none."""
    if kind == HISTOGRAM:
        return 66
    if kind == EXPONENTIAL:
        return 90
    return -1 if kind == SUMMARY else 42


@scanner
def read_points(
    data: Bytes, spans: Spans, metric_of_point: Int64s, metrics: Matrix, points: Matrix
) -> Integer:
    """Fill what all kinds of points share; a fault or 0."""
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
    flags = 80 if kind in (HISTOGRAM, EXPONENTIAL) else 64
    number = kind in (GAUGE, SUM)
    run_end: Integer = -1
    while position < end:
        at = position
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag & 7 == 2:
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
        if tag == 25:
            points[row, TIME], position = read_fixed(data, position, end, 8)
        elif tag == 17:
            points[row, START], position = read_fixed(data, position, end, 8)
        elif tag == flags:
            value, position = read_varint(data, position, end)
            points[row, FLAGS] = value & 0xFFFFFFFF
        elif number and tag in (33, 49):
            points[row, VALUE], position = read_fixed(data, position, end, 8)
            points[row, VALUE_KIND] = DOUBLE if tag == 33 else INT
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
    """Fill a row per key-value of every run; a fault or 0."""
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


EXEMPLAR_ATTRIBUTE_TAG = 58


@scanner
def find_exemplars(
    data: Bytes, spans: Spans, metric_of_point: Int64s, metrics: Matrix, points: Matrix, exemplars: Spans
) -> Integer:
    """Where the exemplars of all points lie, in their order; `exemplars` has room for exactly all."""
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
    """Fill a row per Exemplar and per attribute, whose number was counted before; a fault or 0."""
    used: Integer = 0
    for row in range(len(spans.start)):
        position: Integer = spans.start[row]
        end = position + spans.length[row]
        while position < end:
            tag, position = read_tag(data, position, end)
            if position < 0:
                return position
            if tag in (EXEMPLAR_ATTRIBUTE_TAG, 34, 42):
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
                    field = EXEMPLAR_SPAN_ID if tag == 34 else EXEMPLAR_TRACE_ID
                    exemplars[row, field] = position
                    exemplars[row, field + 1] = length
                position += length
            elif tag == 17:
                exemplars[row, EXEMPLAR_TIME], position = read_fixed(data, position, end, 8)
            elif tag in (25, 49):
                exemplars[row, EXEMPLAR_VALUE], position = read_fixed(data, position, end, 8)
                exemplars[row, EXEMPLAR_VALUE_KIND] = DOUBLE if tag == 25 else INT
            else:
                position = skip_field(data, position, end, tag)
            if position < 0:
                return position
    return np.int64(0)
