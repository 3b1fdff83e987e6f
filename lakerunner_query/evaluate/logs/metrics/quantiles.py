"""`quantile_over_time`: between the two nearest ranks of a window's samples; NaN ranks lowest."""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edges import Windows
from resources.arrays import Doubles, Flags, Int64s
from resources.kernel import Integer, kernel, scanner


@kernel
def quantiles(
    wanted: float,
    offsets: Int64s,
    times: Int64s,
    numbers: Doubles,
    windows: Windows,
    values: Doubles,
    present: Flags,
) -> None:
    """Fill values and `present`, both by series and window; samples ordered by series and time."""
    for series in range(len(offsets) - 1):
        low = high = offsets[series]
        end = offsets[series + 1]
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            while high < end and times[high] <= until:
                high += 1
            while low < high and times[low] <= until - windows.range:
                low += 1
            if low == high:
                continue
            present[series, step] = True
            window = numbers[low:high]
            ranked = window[~np.isnan(window)]
            ranked.sort()
            values[series, step] = _ranked(wanted, ranked, high - low)


@scanner
def _ranked(wanted: float, ranked: Doubles, count: Integer) -> float:
    if np.isnan(wanted):
        return np.nan
    if wanted < 0 or wanted > 1:
        return -np.inf if wanted < 0 else np.inf
    without_number = count - len(ranked)
    rank = wanted * (count - 1)
    lower = int(np.floor(rank))
    upper = min(count - 1, lower + 1)
    weight = rank - np.floor(rank)
    below = np.nan if lower < without_number else ranked[lower - without_number]
    above = np.nan if upper < without_number else ranked[upper - without_number]
    return float(below * (1 - weight) + above * weight)
