"""Kernels of the instant selector, extremes and growth, one pass each.

    samples 10 20 5 9 at 15 30 45 60 s, window (0 s, 60 s]: 9 - 10, and 20 for the drop at 45 s, which is
    remembered as long as some window holds it

`growth` gives what `edges` gives for runs of one sample each.

`python -m benchmarks.kernels.windows`, 60,000 windows of 20 samples against `searchsorted` and `reduceat` or
running sums in NumPy: `growth` is 5 times as fast, `newest` 10, `extremes` 4, `times_of_extremes` 26 times.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edge_kernels import extrapolation_factor
from lakerunner_query.windows.functions import PRESENT, Function, Windows
from resources.arrays import Doubles, Flags, Int8s, Int64s
from resources.kernel import Integer, inlined, kernel

ALL: Flags = np.zeros(0, np.bool_)
"""Stands for `usable` where every row is."""


@kernel
def newest(
    offsets: Int64s,
    ends: Int64s,
    answers: Doubles,
    last_ts: Int64s,
    usable: Flags,
    windows: Windows,
    values: Doubles,
    states: Int8s,
) -> None:
    """Select the newest row of the look-back, unless it says that the series ended.

    bucket end   last sample   stale after it   at t = 12:10:00, look-back 5 min
    12:04        12:03:50      no
    12:08        12:07:50      no               value of 12:07:50; with "stale after it": none

    `ends` are of all rows, stale ones too; `answers` are the values of usable rows.
    """
    are_all = len(usable) == 0
    for series in range(len(offsets) - 1):
        high, end = offsets[series], offsets[series + 1]
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            while high < end and ends[high] <= until:
                high += 1
            row = high - 1
            if row >= offsets[series] and (are_all or usable[row]) and last_ts[row] > until - windows.range:
                values[series, step] = answers[row]
                states[series, step] = PRESENT


@kernel
def times_of_extremes(
    is_maximum: bool,
    offsets: Int64s,
    times: Int64s,
    numbers: Doubles,
    windows: Windows,
    values: Doubles,
    states: Int8s,
) -> None:
    """Fill the last time (s) at which each window's extreme was reached; of NaN if there is nothing else."""
    sign = 1.0 if is_maximum else -1.0
    queue = np.zeros(len(times) + 1, np.int64)
    for series in range(len(offsets) - 1):
        low = high = offsets[series]
        end = offsets[series + 1]
        head = tail = 0
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            while high < end and times[high] <= until:
                number = numbers[high]
                if not np.isnan(number):
                    while tail > head and sign * numbers[queue[tail - 1]] <= sign * number:
                        tail -= 1
                    queue[tail] = high
                    tail += 1
                high += 1
            while low < high and times[low] <= until - windows.range:
                low += 1
            while head < tail and queue[head] < low:
                head += 1
            if low < high:
                states[series, step] = PRESENT
                found = queue[head] if head < tail else high - 1
                values[series, step] = float(times[found]) / 1000


@kernel
def extremes(
    function: int,
    offsets: Int64s,
    ends: Int64s,
    numbers: Doubles,
    windows: Windows,
    values: Doubles,
    states: Int8s,
) -> None:
    """Fill minima or maxima from samples, or from the extremes of buckets.

    A queue of candidates makes long windows cost no more. NaN counts only where there is nothing else; of
    equal values the earliest is taken, as zeros may differ in sign.
    """
    sign = 1.0 if function == Function.MAX else -1.0
    queue = np.zeros(len(ends) + 1, np.int64)
    for series in range(len(offsets) - 1):
        low = high = offsets[series]
        end = offsets[series + 1]
        head = tail = 0
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            while high < end and ends[high] <= until:
                number = numbers[high]
                if not np.isnan(number):
                    while tail > head and sign * numbers[queue[tail - 1]] < sign * number:
                        tail -= 1
                    queue[tail] = high
                    tail += 1
                high += 1
            while low < high and ends[low] <= until - windows.range:
                low += 1
            while head < tail and queue[head] < low:
                head += 1
            if low < high:
                states[series, step] = PRESENT
                values[series, step] = numbers[queue[head]] if head < tail else np.nan


@inlined
def _with_drops(
    grown: float, value: Doubles, drops: Int64s, oldest: Integer, newest: Integer, low: Integer
) -> tuple[Integer, float]:
    """Drop the drops before the window, and add the value before each other one."""
    while oldest < newest and drops[oldest] <= low:
        oldest += 1
    for at in range(oldest, newest):
        grown += value[drops[at] - 1]
    return oldest, grown


@kernel
def growth(
    function: int,
    offsets: Int64s,
    time_ms: Int64s,
    value: Doubles,
    windows: Windows,
    values: Doubles,
    states: Int8s,
) -> None:
    """Fill `rate`, `increase` or `delta` by series and window; `value` has no stale markers."""
    longest = 0
    for series in range(len(offsets) - 1):
        longest = max(longest, offsets[series + 1] - offsets[series])
    drops = np.empty(longest, np.int64)  # where a counter began again, those that a window may still hold
    is_counter = function != Function.DELTA
    seconds = float(windows.range) / 1000
    for series in range(len(offsets) - 1):
        begin, end = offsets[series], offsets[series + 1]
        low = high = begin
        oldest: Integer = 0
        newest = 0
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            while high < end and time_ms[high] <= until:
                if high > begin and value[high] < value[high - 1]:
                    drops[newest] = high
                    newest += 1
                high += 1
            since = until - windows.range
            while low < high and time_ms[low] <= since:
                low += 1
            if high - low < 2:
                continue
            first = value[low]
            grown = value[high - 1] - first
            if is_counter:
                oldest, grown = _with_drops(grown, value, drops, oldest, newest, low)
            factor = extrapolation_factor(
                time_ms[low], time_ms[high - 1], high - low, until, windows.range, is_counter, first, grown
            )
            if function == Function.RATE:
                factor /= seconds
            values[series, step] = grown * factor
            states[series, step] = PRESENT
