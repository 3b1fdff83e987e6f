"""Sums of whole numbers over windows that move: exact in any order, so no window is added up anew.

Counts, byte sizes and milliseconds are whole; 2^53 bounds what floats hold exactly.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edges import Windows
from resources.arrays import Doubles, Flags, Int64s
from resources.kernel import kernel

EXACT = 2.0**53


def are_whole(numbers: Doubles) -> bool:
    """Whether every sum of some of these is exact; a negative zero is not told from a positive one then."""
    with np.errstate(all="ignore"):
        total = np.abs(numbers).sum()
        return bool(total < EXACT and (np.floor(numbers) == numbers).all())


@kernel
def whole_sums(
    is_mean: bool,
    offsets: Int64s,
    times: Int64s,
    numbers: Doubles,
    windows: Windows,
    values: Doubles,
    present: Flags,
) -> None:
    """As `over_windows` of `SUM` or `AVG`."""
    for series in range(len(offsets) - 1):
        low = high = offsets[series]
        end = offsets[series + 1]
        total = 0.0
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            while high < end and times[high] <= until:
                total += numbers[high]
                high += 1
            while low < high and times[low] <= until - windows.range:
                total -= numbers[low]
                low += 1
            if low < high:
                present[series, step] = True
                values[series, step] = total / float(high - low) if is_mean else total
