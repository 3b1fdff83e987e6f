"""`rate`, `increase` and `delta` over plain samples, in one pass: what most queries ask of most series.

    samples 10 20 5 9 at 15 30 45 60 s, window (0 s, 60 s]: 9 - 10, and 20 for the drop at 45 s, which is
    remembered as long as some window holds it

Says what `edges` says of runs of one sample each.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edges import PRESENT, Windows, drawn_out
from lakerunner_query.windows.functions import Function
from resources.arrays import Doubles, Int8s, Int64s
from resources.kernel import Integer, inlined, kernel

BY_GROWTH = frozenset({Function.RATE, Function.INCREASE, Function.DELTA})


@inlined
def _with_drops(
    grown: float, value: Doubles, drops: Int64s, oldest: Integer, newest: Integer, low: Integer
) -> tuple[Integer, float]:
    """Those drops that lie before the window are forgotten; what was counted before each other is added."""
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
    """Fill values and states, both by series and window; `value` has no stale markers."""
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
            factor = drawn_out(
                time_ms[low], time_ms[high - 1], high - low, until, windows.range, is_counter, first, grown
            )
            if function == Function.RATE:
                factor /= seconds
            values[series, step] = grown * factor
            states[series, step] = PRESENT
