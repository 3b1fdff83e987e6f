"""The attributes of data points, each distinct set of bytes read once.

A producer sends the points of a series with the same attributes in the same bytes, a *run* of key-values.
Runs are coded by their bytes; only distinct ones are read, whatever the number of points. Where other fields
lie between the attributes of a point, its run is put together behind the payload first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakerunner_assets.decode import fields
from lakerunner_assets.decode.copying import copy_bytes
from lakerunner_assets.decode.distinct import distinct
from lakerunner_assets.decode.fields import OWNER, Attributes, Matrix, Spans, read_key_value
from lakerunner_assets.decode.otlp import scan_metrics as scan
from lakerunner_assets.decode.otlp.scan_metrics import GAPS, KIND, RUN, RUN_LENGTH, attribute_tag
from lakerunner_assets.decode.wire import raise_fault, read_length, read_tag, skip_field
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, scanner


@dataclass(frozen=True, slots=True)
class Runs:
    """The distinct runs of a slice in order of first appearance."""

    data: Bytes
    """What positions of keys and values count in: the payload, perhaps with joined runs behind it."""
    of_point: Int64s
    count: int
    attributes: Attributes
    """Owners are runs."""


def attribute_runs(data: Bytes, points: Matrix, metric_of_point: Int64s, metrics: Matrix) -> Runs:
    """The attributes of all points."""
    data, spans = _whole_runs(data, points, metric_of_point, metrics)
    of_point, runs = distinct(data, spans)
    count = len(runs.start)
    first = np.zeros(count, np.int64)
    first[of_point[::-1]] = np.arange(len(points) - 1, -1, -1)
    attributes = fields.matrix(int(points[first, scan.ATTRIBUTES].sum()), fields.ATTRIBUTE_WIDTH)
    raise_fault(read_runs(data, runs, attributes))
    return Runs(data, of_point.astype(np.int64), count, fields.attributes_of(attributes))


def _whole_runs(data: Bytes, points: Matrix, metric_of_point: Int64s, metrics: Matrix) -> tuple[Bytes, Spans]:
    """Runs without gaps; faults cannot happen any more, since the scan went over all these fields."""
    rows = np.flatnonzero(points[:, GAPS])
    if len(rows) == 0:
        return data, fields.spans_of(points, RUN)
    points = points.copy()
    joined = np.concatenate((data, np.zeros(int(points[rows, RUN_LENGTH].sum()), np.uint8)))
    join_runs(joined, len(data), rows, metrics[metric_of_point, KIND], points)
    return joined, fields.spans_of(points, RUN)


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
