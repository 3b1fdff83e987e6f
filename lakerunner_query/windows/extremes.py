"""`min_over_time` and `max_over_time`: a queue of candidates, so that long windows cost no more.

NaN counts only where there is nothing else. Of equal values the earliest is given: zeros may differ in sign.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edges import PRESENT, Windows
from lakerunner_query.windows.functions import Function
from resources.arrays import Doubles, Int8s, Int64s
from resources.kernel import kernel


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
    """`numbers`: the samples, or the extremes of buckets."""
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
