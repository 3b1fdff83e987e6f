"""Functions over the samples in windows: every window anew, addition by addition in the order of time.

A sum that moves along would round differently from window to window and never forget an infinity; where all
numbers are whole, `whole.py` has sums that move and are exact nevertheless.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edges import Windows, drawn_out
from resources.arrays import Doubles, Flags, Int64s
from resources.kernel import Integer, kernel, scanner

SUM, AVG, STDVAR, STDDEV, FIRST, LAST, GROWTH = range(7)
"""What `over_windows` is asked for; `GROWTH` is that of a counter, by second."""


@kernel
def over_windows(
    function: int,
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
            if function == GROWTH:
                values[series, step] = _growth(times, numbers, low, high, until, windows.range)
            else:
                values[series, step] = _folded(function, numbers, low, high)


@scanner
def _folded(function: int, numbers: Doubles, low: Integer, high: Integer) -> float:
    if function == SUM:
        return _total(numbers, low, high)
    if function == AVG:
        return _mean(numbers, low, high)
    if function == FIRST:
        return float(numbers[low])
    if function == LAST:
        return float(numbers[high - 1])
    variance = _variance(numbers, low, high)
    return float(np.sqrt(variance)) if function == STDDEV else variance


@scanner
def _total(numbers: Doubles, low: Integer, high: Integer) -> float:
    total = 0.0
    for row in range(low, high):
        total += numbers[row]
    return total


@scanner
def _mean(numbers: Doubles, low: Integer, high: Integer) -> float:
    """Sum by count; where that is not finite, corrected sample by sample: means overflow later than sums."""
    total = _total(numbers, low, high)
    if np.isfinite(total):
        return total / float(high - low)
    mean = 0.0
    for row in range(low, high):
        number, count = numbers[row], float(row - low + 1)
        if np.isinf(mean) and not np.isnan(number) and (not np.isinf(number) or number == mean):
            continue  # infinity stays; subtracting it from itself would leave nothing to say
        mean += number / count - mean / count
    return mean


@scanner
def _variance(numbers: Doubles, low: Integer, high: Integer) -> float:
    """Welford's."""
    mean, squares = 0.0, 0.0
    for row in range(low, high):
        away = numbers[row] - mean
        mean += away / float(row - low + 1)
        squares += away * (numbers[row] - mean)
    return squares / float(high - low)


@scanner
def _growth(
    times: Int64s, numbers: Doubles, low: Integer, high: Integer, until: Integer, width: Integer
) -> float:
    """By second, drawn out to the window's edges; where the counter fell it began again at zero."""
    if high - low < 2:
        return 0.0
    grown = numbers[high - 1] - numbers[low]
    for row in range(low + 1, high):
        if numbers[row] < numbers[row - 1]:
            grown += numbers[row - 1]
    first, last = times[low], times[high - 1]
    if first == last:
        return np.nan
    factor = drawn_out(first, last, high - low, until, width, True, numbers[low], grown)
    return float(grown * factor / (float(width) / 1e9))
