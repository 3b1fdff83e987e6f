"""Metrics functions count spans into cells: one for each group and step.

    {} | rate() by (kind)     start = 60 s, step = 60 s

    span     starts at   step                  group      cells     60 s   120 s
    a        61 s        120 s (60, 120]       server     server    0      2
    b        119 s       120 s                 server     client    0      1
    c        120 s       120 s                 client

Cells of disjoint spans merge by addition, minimum or maximum; quantiles and histograms keep a count for each
power of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakerunner_query.traceql.frame import Frame
from lakerunner_query.traceql.lang.ast import Field, MetricsAggregation, Type
from lakerunner_query.traceql.lang.functions import METRICS_FUNCTIONS, Merge
from lakerunner_query.traceql.values import NUMBERS, Column, GroupValue, distinct_numbers, group_codes
from resources.arrays import Doubles, Flags, Int64s

POWERS = 64
"""Buckets of a histogram: of values up to 2^0, 2^1, ..., 2^63."""
NANOSECONDS = 1e9
LabelValue = GroupValue


@dataclass(frozen=True, slots=True)
class Steps:
    """Evaluation times; each counts what starts in the `step_ns` up to it."""

    start_ns: int
    step_ns: int
    count: int

    def of(self, times_ns: Int64s) -> Int64s:
        """Return the step of each time; those outside are below 0, or `count` and more."""
        return (times_ns - self.start_ns + self.step_ns - 1) // self.step_ns


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of one function."""

    labels: tuple[tuple[LabelValue, ...], ...]
    """Values of the fields of `by`, of each group."""
    counts: Int64s
    """By group and step; of histograms by group, step and power."""
    values: Doubles
    """Sums, minima or maxima by group and step; empty where counts say all."""
    groups: Int64s
    """Group of each span that counts."""
    rows: Int64s
    """Spans that count."""


def measure(frame: Frame, node: MetricsAggregation, rows: Int64s, steps: Steps) -> Cells:
    """Count these spans."""
    merge = METRICS_FUNCTIONS[node.function].merge
    places = steps.of(frame.start_ns[rows])
    inside = (places >= 0) & (places < steps.count)
    rows, places = rows[inside], places[inside]
    if node.operand is None:
        values = np.zeros(0)
    else:
        values, known = _operands(frame.column(node.operand), merge)
        rows, places = rows[known[rows]], places[known[rows]]
        values = values[rows]
    groups, labels = group(frame, node.by, rows)
    if merge is Merge.BUCKETS:
        return Cells(
            labels, _powers(groups, places, values, (len(labels), steps.count)), np.zeros(0), groups, rows
        )
    shape = len(labels), steps.count
    flat = groups * steps.count + places
    counts = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape)
    return Cells(labels, counts, _reduced(merge, flat, values, shape), groups, rows)


def group(
    frame: Frame, fields: Sequence[Field], rows: Int64s
) -> tuple[Int64s, tuple[tuple[LabelValue, ...], ...]]:
    """Number the groups of spans; return their values by field."""
    codes = np.zeros(len(rows), np.int64)
    columns = [group_codes(frame.column(field)) for field in fields]
    possible = 1
    for of_field, names in columns:
        codes = codes * len(names) + of_field[rows]
        possible *= len(names)
    distinct, groups = distinct_numbers(codes, possible)
    labels: list[tuple[LabelValue, ...]] = []
    for combined in distinct.tolist():
        code, values = combined, list[LabelValue]()
        for _, names in reversed(columns):
            code, place = divmod(code, len(names))
            values.append(names[place])
        labels.append(tuple(reversed(values)))
    return groups, tuple(labels)


def _operands(column: Column, merge: Merge) -> tuple[Doubles, Flags]:
    """Return numbers by row; durations in seconds, but in nanoseconds for powers of two.

    Quantiles and histograms take integers and durations, no floats.
    """
    values, known = np.zeros(column.size), np.zeros(column.size, np.bool_)
    in_buckets = merge is Merge.BUCKETS
    for part in column.parts:
        if part.kind not in NUMBERS or part.is_list or (in_buckets and part.kind is Type.FLOAT):
            continue
        scale = NANOSECONDS if part.kind is Type.DURATION and not in_buckets else 1.0
        values[part.rows], known[part.rows] = part.values / scale, True
    if in_buckets:
        known &= values >= 2
    return values, known


def _powers(groups: Int64s, places: Int64s, values: Doubles, shape: tuple[int, int]) -> Int64s:
    """Count values by the power of two that is not less."""
    powers = np.ceil(np.log2(values)).astype(np.int64) if len(values) else np.zeros(0, np.int64)
    powers = np.minimum(powers, POWERS - 1)
    flat = (groups * shape[1] + places) * POWERS + powers
    return np.bincount(flat, minlength=shape[0] * shape[1] * POWERS).reshape(*shape, POWERS)


def _reduced(merge: Merge, flat: Int64s, values: Doubles, shape: tuple[int, int]) -> Doubles:
    if not len(values) and merge is Merge.SUM:
        return np.zeros(0)
    size = shape[0] * shape[1]
    if merge in {Merge.SUM, Merge.MEAN}:
        return np.asarray(np.bincount(flat, weights=values, minlength=size).reshape(shape), np.float64)
    found = np.full(size, np.nan)
    (np.fmin if merge is Merge.MIN else np.fmax).at(found, flat, values)
    return found.reshape(shape)
