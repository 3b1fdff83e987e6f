"""Exemplars in scanned bytes: where they lie, and one row of numbers and positions each."""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.fields import DOUBLE, INT, OWNER, Matrix, Spans, read_key_value
from lakerunner_assets.decode.otlp.scan_metrics_kernels import EXEMPLARS, KIND, exemplar_tag
from lakerunner_assets.decode.wire import read_fixed, read_length, read_tag, skip_field
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, scanner

TIME, VALUE_KIND, VALUE = range(3)
SPAN_ID, TRACE_ID = 3, 5  # each a position and a length
EXEMPLAR_WIDTH = 7
ATTRIBUTE_TAG = 58


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
            if tag in (ATTRIBUTE_TAG, 34, 42):
                length, position = read_length(data, position, end)
                if position < 0:
                    return position
                if tag == ATTRIBUTE_TAG:
                    attributes[used, OWNER] = row
                    failed = read_key_value(data, position, position + length, attributes, used)
                    used += 1
                    if failed < 0:
                        return failed
                else:
                    field = SPAN_ID if tag == 34 else TRACE_ID
                    exemplars[row, field] = position
                    exemplars[row, field + 1] = length
                position += length
            elif tag == 17:
                exemplars[row, TIME], position = read_fixed(data, position, end, 8)
            elif tag in (25, 49):
                exemplars[row, VALUE], position = read_fixed(data, position, end, 8)
                exemplars[row, VALUE_KIND] = DOUBLE if tag == 25 else INT
            else:
                position = skip_field(data, position, end, tag)
            if position < 0:
                return position
    return np.int64(0)
