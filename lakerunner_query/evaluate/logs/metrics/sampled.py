"""Samples of frames put in order by series and time, and the functions over their windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.metrics.times import Grid
from lakerunner_query.windows import sums_kernels
from lakerunner_query.windows.edges import PRESENT
from lakerunner_query.windows.extremes_kernels import extremes
from lakerunner_query.windows.functions import Evaluated, Function
from lakerunner_query.windows.ranks_kernels import quantiles
from lakerunner_query.windows.sums_kernels import are_whole, whole_sums
from resources.arrays import Doubles, Int64s
from resources.kernel import kernel

SUMS: Mapping[str, int] = {
    "sum_over_time": sums_kernels.SUM, "rate": sums_kernels.SUM, "avg_over_time": sums_kernels.AVG
}  # fmt: skip
OTHERS: Mapping[str, int] = {
    "stdvar_over_time": sums_kernels.STDVAR,
    "stddev_over_time": sums_kernels.STDDEV,
    "first_over_time": sums_kernels.FIRST,
    "last_over_time": sums_kernels.LAST,
    "rate_counter": sums_kernels.GROWTH,
}
QUANTILE = "quantile_over_time"
EXTREMES: Mapping[str, Function] = {"min_over_time": Function.MIN, "max_over_time": Function.MAX}


@dataclass(frozen=True, slots=True)
class Samples:
    """Series s has `[offsets[s], offsets[s + 1])`, times ascending."""

    offsets: Int64s
    times: Int64s
    numbers: Doubles


@dataclass(slots=True)
class Sampler:
    """Keeps what frames have; of equal times the row that was stored first comes first."""

    _series: list[Int64s] = field(default_factory=list)
    _times: list[Int64s] = field(default_factory=list)
    _numbers: list[Doubles] = field(default_factory=list)
    _objects: list[Int64s] = field(default_factory=list)
    _positions: list[Int64s] = field(default_factory=list)
    count: int = 0

    def add(self, series: Int64s, frame: LogFrame, numbers: Doubles) -> None:
        self.count += len(series)
        self._series.append(series)
        self._times.append(frame.tsns)
        self._numbers.append(numbers)
        none = np.zeros(len(series), np.int64)
        self._objects.append(none if frame.row_object is None else frame.row_object)
        self._positions.append(none if frame.row_position is None else frame.row_position)

    def samples(self, series: int) -> Samples:
        if not self._series:
            return Samples(np.zeros(series + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))
        codes, times = np.concatenate(self._series), np.concatenate(self._times)
        order = placed(codes, series)
        offsets = np.searchsorted(codes[order], np.arange(series + 1)).astype(np.int64)
        if not is_ascending(codes[order], times[order]):
            ties = (np.concatenate(self._positions), np.concatenate(self._objects))
            order = np.lexsort((*ties, times, codes)).astype(np.int64)
        return Samples(offsets, times[order], np.concatenate(self._numbers)[order])


@kernel
def placed(codes: Int64s, count: int) -> Int64s:
    """Rows series by series, otherwise in the order they have."""
    places = np.zeros(count + 1, np.int64)
    for row in range(len(codes)):
        places[codes[row] + 1] += 1
    for code in range(count):
        places[code + 1] += places[code]
    order = np.empty(len(codes), np.int64)
    for row in range(len(codes)):
        order[places[codes[row]]] = row
        places[codes[row]] += 1
    return order


@kernel
def is_ascending(codes: Int64s, times: Int64s) -> bool:
    """Whether times grow within every series; equal ones do not."""
    for row in range(1, len(codes)):
        if codes[row] == codes[row - 1] and times[row] <= times[row - 1]:
            return False
    return True


def over_samples(op: str, parameter: float, samples: Samples, grid: Grid) -> Evaluated:
    """`op` of each series in each window."""
    shape = (len(samples.offsets) - 1, grid.steps)
    values, present = np.full(shape, np.nan), np.zeros(shape, np.bool_)
    data = (samples.offsets, samples.times, samples.numbers, grid.windows)
    if op in EXTREMES:
        states = np.zeros(shape, np.int8)
        extremes(EXTREMES[op], *data, values, states)
        return Evaluated(values, states == PRESENT)
    if op == QUANTILE:
        quantiles(parameter, *data, values, present)
    elif op in SUMS and are_whole(samples.numbers):
        whole_sums(SUMS[op] == sums_kernels.AVG, *data, values, present)
    else:
        sums_kernels.over_windows({**SUMS, **OTHERS}[op], *data, values, present)
    return Evaluated(values / (grid.range_ns / 1e9) if op == "rate" else values, present)
