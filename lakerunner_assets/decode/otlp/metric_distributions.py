"""Histograms, exponential histograms and summaries have columns that are null at other points.

Counts are unsigned in OTLP and int64 here: those beyond 2^63 - 1 keep their bits and are counted in the
notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode.errors import raise_fault
from lakerunner_assets.decode.field_kernels import Matrix, Spans
from lakerunner_assets.decode.otlp import scan_distributions_kernels as scan
from lakerunner_assets.decode.otlp.scan_distributions_kernels import Numbers
from lakerunner_assets.decode.otlp.scan_metrics_kernels import EXPONENTIAL, HISTOGRAM, SUMMARY
from lakerunner_assets.decode.text import scatter
from resources.arrays import Bytes, Int64s
from resources.lake.columns import (
    CHQ_HIST_BOUNDS,
    CHQ_HIST_COUNT,
    CHQ_HIST_COUNTS,
    CHQ_HIST_SCHEMA,
    CHQ_HIST_ZERO_COUNT,
    CHQ_HIST_ZERO_THRESHOLD,
    CHQ_SUMMARY_QUANTILES,
    hist,
)

BEYOND = "histogram_counts_beyond_int64"


@dataclass(frozen=True, slots=True)
class Distributions:
    """Distribution points at `points` (ascending), a row each, and the numbers of all their lists."""

    points: Int64s
    kinds: Int64s
    rows: Matrix
    numbers: Numbers
    point_count: int

    def scalar(self, values: npt.NDArray[np.generic], present: npt.NDArray[np.bool_]) -> pa.Array:
        return scatter(values[present], self.points[present], self.point_count)

    def lists(self, which: int, values: pa.Array, present: npt.NDArray[np.bool_]) -> pa.ListArray:
        """Return list `which` of every point; absent rows have no numbers."""
        lengths = np.zeros(self.point_count, np.int64)
        missing = np.ones(self.point_count + 1, np.bool_)
        width = 2 if which == scan.QUANTILES else 1
        lengths[self.points] = self.rows[:, scan.LENGTHS + which] // width
        missing[self.points[present]] = False
        missing[-1] = False
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets, mask=missing), values)


def distribution_columns(
    data: Bytes,
    spans: Spans,
    metric_of_point: Int64s,
    metrics: Matrix,
    kind_of_point: Int64s,
    notes: Counter[str],
) -> Iterator[tuple[str, pa.Array]]:
    """Yield the columns of distributions; none when all points are numbers."""
    points = np.flatnonzero((kind_of_point != 0) & (kind_of_point >= HISTOGRAM))
    if len(points) == 0:
        return
    found = _scan(data, spans, points, metric_of_point, metrics, kind_of_point)
    yield from _shared_columns(found, notes)
    if (found.kinds == HISTOGRAM).any():
        yield from _histogram_columns(found, notes)
    if (found.kinds == EXPONENTIAL).any():
        yield from _exponential_columns(found, notes)
    if (found.kinds == SUMMARY).any():
        pairs = found.numbers.quantiles.view(np.float64).reshape(-1, 2)
        quantiles = pa.StructArray.from_arrays(
            [pa.array(np.ascontiguousarray(pairs[:, side])) for side in (0, 1)], ["quantile", "value"]
        )
        yield CHQ_SUMMARY_QUANTILES, found.lists(scan.QUANTILES, quantiles, found.kinds == SUMMARY)


def _scan(
    data: Bytes,
    spans: Spans,
    points: Int64s,
    metric_of_point: Int64s,
    metrics: Matrix,
    kind_of_point: Int64s,
) -> Distributions:
    rows = fields.matrix(len(points), scan.DISTRIBUTION_WIDTH)
    used = np.zeros(scan.LISTS, np.int64)
    numbers = Numbers(*(np.zeros(0, np.int64) for _ in range(scan.LISTS)))
    raise_fault(
        scan.read_distributions(
            data, spans, points, metric_of_point, metrics, rows, used, numbers, filling=False
        )
    )
    numbers = Numbers(*(np.zeros(size, np.int64) for size in used.tolist()))
    used[:] = 0
    raise_fault(
        scan.read_distributions(
            data, spans, points, metric_of_point, metrics, rows, used, numbers, filling=True
        )
    )
    return Distributions(points, kind_of_point[points], rows, numbers, len(spans.start))


def _shared_columns(found: Distributions, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
    everywhere = np.ones(len(found.points), np.bool_)
    count = fields.column(found.rows, scan.COUNT)
    _note_large(count, notes)
    yield CHQ_HIST_COUNT, found.scalar(count, everywhere)
    for name, sent in (("sum", scan.SUM_SENT), ("min", scan.MIN_SENT), ("max", scan.MAX_SENT)):
        values = fields.column(found.rows, sent + 1).view(np.float64)
        yield hist(name), found.scalar(values, found.rows[:, sent] != 0)


def _histogram_columns(found: Distributions, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
    present = found.kinds == HISTOGRAM
    bounds, counts = found.numbers.bounds.view(np.float64), found.numbers.counts
    _note_large(counts, notes)
    yield CHQ_HIST_BOUNDS, found.lists(scan.BOUNDS, pa.array(bounds), present)
    yield CHQ_HIST_COUNTS, found.lists(scan.COUNTS, pa.array(counts), present)


def _exponential_columns(found: Distributions, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
    present = found.kinds == EXPONENTIAL
    rows = found.rows
    zeros = fields.column(rows, scan.ZERO_COUNT)
    _note_large(zeros, notes)
    yield CHQ_HIST_SCHEMA, found.scalar(rows[:, scan.SCALE].astype(np.int32), present)
    yield CHQ_HIST_ZERO_COUNT, found.scalar(zeros, present)
    threshold = fields.column(rows, scan.ZERO_THRESHOLD).view(np.float64)
    yield CHQ_HIST_ZERO_THRESHOLD, found.scalar(threshold, present)
    for name, sent, which in (
        ("positive", scan.POSITIVE_SENT, scan.POSITIVES),
        ("negative", scan.NEGATIVE_SENT, scan.NEGATIVES),
    ):
        has = rows[:, sent] != 0
        yield hist(f"{name}_offset"), found.scalar(rows[:, sent + 1].astype(np.int32), has)
        _note_large(found.numbers[which], notes)
        yield hist(f"{name}_counts"), found.lists(which, pa.array(found.numbers[which]), has)


def _note_large(counts: Int64s, notes: Counter[str]) -> None:
    if beyond := int((counts < 0).sum()):
        notes[BEYOND] += beyond
