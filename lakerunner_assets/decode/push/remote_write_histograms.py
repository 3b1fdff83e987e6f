"""Native histograms have columns that are null at other points, and reasons to reject points.

Buckets are absolute counts from an offset on, by OTLP's numbering, in which bucket i ends where Prometheus'
bucket i + 1 does. Custom buckets (schema -53) are numbered from the first of their bounds, as sent.
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
from lakerunner_assets.decode.field_kernels import Matrix
from lakerunner_assets.decode.push import remote_write_histogram_kernels as kernels
from lakerunner_assets.decode.push import remote_write_kernels as scan
from lakerunner_assets.decode.push.remote_write_histogram_kernels import (
    ABSENT,
    CUSTOM,
    CUSTOM_SCHEMA,
    FLOAT,
    LENGTHS,
    NEGATIVE,
    POSITIVE,
    SPANS,
)
from lakerunner_assets.decode.text import scatter
from resources.arrays import Bytes, Flags, Int64s
from resources.lake.columns import (
    CHQ_HIST_BOUNDS,
    CHQ_HIST_COUNT,
    CHQ_HIST_SUM,
    CHQ_HIST_ZERO_COUNT,
    CHQ_HIST_ZERO_THRESHOLD,
    hist,
)

BEYOND = "histogram_counts_beyond_int64"


@dataclass(frozen=True, slots=True)
class Side:
    """Buckets on one side of zero."""

    side: int
    first: Int64s
    widths: Int64s
    """Number of buckets, or the reason why there are none."""


@dataclass(frozen=True, slots=True)
class Histograms:
    """Histograms of a slice, a row each."""

    points: Int64s
    """Points of the histograms, ascending."""
    point_count: int
    rows: Matrix
    lists: Matrix
    numbers: Int64s
    floats: Flags
    """Rows whose buckets are doubles."""
    sides: dict[str, Side]

    @property
    def sums(self) -> Int64s:
        """Bits of the sums."""
        return fields.column(self.rows, kernels.SUM)

    def faults(self) -> dict[int, str]:
        """Return the points to reject, and why."""
        return {
            int(self.points[row]): kernels.REASONS[int(side.widths[row])]
            for side in self.sides.values()
            for row in np.flatnonzero(side.widths < 0).tolist()
        }

    @property
    def buckets(self) -> int:
        """Number of buckets once gaps are filled: a few bytes can ask for thousands."""
        return sum(int(np.maximum(side.widths, 0).sum()) for side in self.sides.values())

    def columns(self, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
        everywhere = np.ones(len(self.points), np.bool_)
        for name, place in (
            (CHQ_HIST_COUNT, kernels.COUNT_KIND),
            (CHQ_HIST_ZERO_COUNT, kernels.ZERO_KIND),
        ):
            kind = self.rows[:, place]
            is_float = (kind == FLOAT) | ((kind == ABSENT) & self.floats)
            values = fields.column(self.rows, place + 1)
            _note_large(values[~is_float], notes)
            yield name, self._scalar(values, ~is_float)
            yield f"{name}_float", self._scalar(values.view(np.float64), is_float)
        yield CHQ_HIST_SUM, self._scalar(self.sums.view(np.float64), everywhere)
        threshold = fields.column(self.rows, kernels.THRESHOLD).view(np.float64)
        yield CHQ_HIST_ZERO_THRESHOLD, self._scalar(threshold, everywhere)
        for name, place in (("schema", kernels.SCHEMA), ("reset_hint", kernels.RESET_HINT)):
            yield hist(name), self._scalar(self.rows[:, place].astype(np.int32), everywhere)
        yield from self._bucket_columns()
        bounds = (self.rows[:, LENGTHS + CUSTOM] > 0) | (self.rows[:, kernels.SCHEMA] == CUSTOM_SCHEMA)
        if bounds.any():
            yield CHQ_HIST_BOUNDS, self._bounds(bounds)

    def _bucket_columns(self) -> Iterator[tuple[str, pa.Array]]:
        custom = self.rows[:, kernels.SCHEMA] == CUSTOM_SCHEMA
        for name, side in self.sides.items():
            has = (self.rows[:, LENGTHS + side.side + SPANS] > 0) & (side.widths >= 0)
            offset = np.where(custom, side.first, side.first - 1).astype(np.int32)
            yield hist(f"{name}_offset"), self._scalar(offset, has)
            spread = np.repeat(self.floats, np.maximum(side.widths, 0))
            counts = np.zeros(len(spread), np.int64)
            kernels.fill_side(
                self.rows, self.lists, self.numbers, side.side, self.floats, side.widths, counts
            )
            integers, doubles = counts[~spread], counts[spread].view(np.float64)
            if (has & ~self.floats).any():
                yield (
                    hist(f"{name}_counts"),
                    self._lists(side.widths, has & ~self.floats, pa.array(integers)),
                )
            if (has & self.floats).any():
                values = pa.array(doubles, from_pandas=False)
                yield hist(f"{name}_counts_float"), self._lists(side.widths, has & self.floats, values)

    def _bounds(self, present: Flags) -> pa.Array:
        lengths = self.rows[:, LENGTHS + CUSTOM]
        starts = self.lists[:, CUSTOM]
        chosen = [np.arange(start, start + length) for start, length in zip(starts, lengths, strict=True)]
        values = self.numbers[np.concatenate(chosen).astype(np.int64)].view(np.float64)
        return self._lists(lengths, present, pa.array(values, from_pandas=False))

    def _scalar(self, values: npt.NDArray[np.generic], present: Flags) -> pa.Array:
        return scatter(values[present], self.points[present], self.point_count)

    def _lists(self, widths: Int64s, present: Flags, values: pa.Array) -> pa.ListArray:
        lengths = np.zeros(self.point_count, np.int64)
        missing = np.ones(self.point_count + 1, np.bool_)
        lengths[self.points[present]] = widths[present]
        missing[self.points[present]] = False
        missing[-1] = False
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets, mask=missing), values)


def read_histograms(data: Bytes, points: Matrix) -> Histograms:
    """Read the native histograms among the points of a slice."""
    places = np.flatnonzero(points[:, scan.POINT_KIND] == scan.HISTOGRAM)
    starts, lengths = points[places, scan.MESSAGE], points[places, scan.MESSAGE_LENGTH]
    rows = fields.matrix(len(places), kernels.HISTOGRAM_WIDTH)
    lists = fields.matrix(len(places), kernels.LISTS)
    nothing = np.zeros(0, np.int64)
    raise_fault(kernels.read_histograms(data, starts, lengths, rows, lists, nothing, False))
    numbers = np.zeros(rows[:, LENGTHS:].sum(), np.int64)
    raise_fault(kernels.read_histograms(data, starts, lengths, rows, lists, numbers, True))
    sent_floats = rows[:, [LENGTHS + NEGATIVE + kernels.COUNTS, LENGTHS + POSITIVE + kernels.COUNTS]].any(
        axis=1
    )
    kind = rows[:, kernels.COUNT_KIND]
    floats = (kind == FLOAT) | ((kind == ABSENT) & sent_floats)
    sides = {
        name: _measure_side(rows, lists, numbers, side, floats)
        for name, side in (("positive", POSITIVE), ("negative", NEGATIVE))
    }
    return Histograms(places, len(points), rows, lists, numbers, floats, sides)


def _measure_side(rows: Matrix, lists: Matrix, numbers: Int64s, side: int, floats: Flags) -> Side:
    found = Side(side, np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64))
    kernels.measure_side(rows, lists, numbers, side, floats, found.first, found.widths)
    return found


def _note_large(counts: Int64s, notes: Counter[str]) -> None:
    if beyond := int((counts < 0).sum()):
        notes[BEYOND] += beyond
