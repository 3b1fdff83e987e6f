"""When the extreme of a window was reached, the last time if more than once; NaN if there is nothing else."""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edges import PRESENT, Windows
from resources.arrays import Doubles, Int8s, Int64s
from resources.kernel import kernel


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
    """In seconds."""
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
