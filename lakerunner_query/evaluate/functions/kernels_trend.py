"""Least squares and double exponential smoothing over windows, addition by addition as Prometheus does them.

deriv of 0, 10, 20, 30 at 0, 300, 600, 900 s: 0.0333... a second
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.compensated import add
from lakerunner_query.windows.edges import PRESENT, Windows
from resources.arrays import Doubles, Int8s, Int64s
from resources.kernel import Integer, kernel, scanner

AT_FIRST_SAMPLE = 0
"""Times are counted from the first sample of the window, else from the given one: large times cost digits."""


@kernel
def trends(
    offsets: Int64s,
    times: Int64s,
    numbers: Doubles,
    windows: Windows,
    origins: Int64s,
    slopes: Doubles,
    heights: Doubles,
    states: Int8s,
) -> None:
    """Slope by second, and height at the origin of the step; without `origins`, at the first sample."""
    for series in range(len(offsets) - 1):
        low = high = offsets[series]
        end = offsets[series + 1]
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            while high < end and times[high] <= until:
                high += 1
            while low < high and times[low] <= until - windows.range:
                low += 1
            if high - low < 2:
                continue
            origin = origins[step] if len(origins) else times[low]
            slope, height = _line(times, numbers, low, high, origin)
            slopes[series, step] = slope
            heights[series, step] = height
            states[series, step] = PRESENT


@scanner
def _line(
    times: Int64s, numbers: Doubles, low: Integer, high: Integer, origin: Integer
) -> tuple[float, float]:
    sum_x = lost_x = sum_y = lost_y = sum_xy = lost_xy = sum_xx = lost_xx = 0.0
    first = numbers[low]
    is_constant = True
    for row in range(low, high):
        y = numbers[row]
        if y != first and row > low:
            is_constant = False
        x = float(times[row] - origin) / 1e3
        sum_x, lost_x = add(x, sum_x, lost_x)
        sum_y, lost_y = add(y, sum_y, lost_y)
        sum_xy, lost_xy = add(x * y, sum_xy, lost_xy)
        sum_xx, lost_xx = add(x * x, sum_xx, lost_xx)
    if is_constant:
        return (np.nan, np.nan) if np.isinf(first) else (0.0, first)
    count = float(high - low)
    sum_x += lost_x
    sum_y += lost_y
    sum_xy += lost_xy
    sum_xx += lost_xx
    slope = (sum_xy - sum_x * sum_y / count) / (sum_xx - sum_x * sum_x / count)
    return slope, sum_y / count - slope * sum_x / count


@kernel
def smoothings(
    offsets: Int64s,
    times: Int64s,
    numbers: Doubles,
    windows: Windows,
    smoothing: Doubles,
    trend: Doubles,
    values: Doubles,
    states: Int8s,
) -> None:
    """Both factors are given by step."""
    for series in range(len(offsets) - 1):
        low = high = offsets[series]
        end = offsets[series + 1]
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            while high < end and times[high] <= until:
                high += 1
            while low < high and times[low] <= until - windows.range:
                low += 1
            if high - low >= 2:
                values[series, step] = _smoothed(numbers, low, high, smoothing[step], trend[step])
                states[series, step] = PRESENT


@scanner
def _smoothed(numbers: Doubles, low: Integer, high: Integer, smoothing: float, trend: float) -> float:
    before = 0.0
    level = float(numbers[low])
    slope = numbers[low + 1] - numbers[low]
    for row in range(low + 1, high):
        raw = smoothing * numbers[row]
        if row > low + 1:
            slope = trend * (level - before) + (1 - trend) * slope
        kept = (1 - smoothing) * (level + slope)
        before = level
        level = raw + kept
    return level
