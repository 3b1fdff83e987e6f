"""Sum, mean and variance of samples, addition by addition as Prometheus does them.

Every window is summed anew: a sum that moves along would round differently, and never forget an infinity.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.compensated import add
from lakerunner_query.windows.edges import PRESENT, Windows
from lakerunner_query.windows.functions import Function
from resources.arrays import Doubles, Int8s, Int64s
from resources.kernel import Integer, kernel, scanner


@kernel
def sums(
    function: int,
    offsets: Int64s,
    times: Int64s,
    numbers: Doubles,
    windows: Windows,
    values: Doubles,
    states: Int8s,
) -> None:
    """Fill values and states, both by series and window."""
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
            states[series, step] = PRESENT
            if function == Function.SUM:
                values[series, step] = _total(numbers, low, high)
            elif function == Function.AVG:
                values[series, step] = _mean(numbers, low, high)
            else:
                variance = _variance(numbers, low, high)
                values[series, step] = np.sqrt(variance) if function == Function.STDDEV else variance


@scanner
def _total(numbers: Doubles, low: Integer, high: Integer) -> float:
    total, lost = 0.0, 0.0
    for row in range(low, high):
        total, lost = add(numbers[row], total, lost)
    return total if np.isinf(total) else total + lost


@scanner
def _mean(numbers: Doubles, low: Integer, high: Integer) -> float:
    """Sum by count; from the addition on that would overflow, a mean that is corrected step by step."""
    total, lost = float(numbers[low]), 0.0
    stepwise = False
    for row in range(low + 1, high):
        count = float(row - low + 1)
        if not stepwise:
            after, after_lost = add(numbers[row], total, lost)
            if not np.isinf(after):
                total, lost = after, after_lost
                continue
            stepwise = True
            total /= count - 1
            lost /= count - 1
        kept = (count - 1) / count
        total, lost = add(numbers[row] / count, kept * total, kept * lost)
    if stepwise:
        return total + lost
    return total / float(high - low) + lost / float(high - low)


@scanner
def _variance(numbers: Doubles, low: Integer, high: Integer) -> float:
    """Welford's, both running numbers compensated."""
    mean = mean_lost = squares = squares_lost = 0.0
    for row in range(low, high):
        away = numbers[row] - (mean + mean_lost)
        mean, mean_lost = add(away / float(row - low + 1), mean, mean_lost)
        squares, squares_lost = add(away * (numbers[row] - (mean + mean_lost)), squares, squares_lost)
    return (squares + squares_lost) / float(high - low)
