"""Quantiles and the median absolute deviation of windows, from a sorted copy that moves along.

    window        sorted      quantile 0.5
    5 1 3         1 3 5       3
      1 3 9       1 3 9       3

NaN ranks below everything else. Entering and leaving samples are sorted in and out where few change, else the
window is sorted anew.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edges import PRESENT, Windows
from resources.arrays import Doubles, Int8s, Int64s
from resources.kernel import Integer, kernel, scanner

SORT_ANEW = 16
"""Sort anew where more than one in so many samples changes."""


@kernel
def ranks(
    offsets: Int64s,
    times: Int64s,
    numbers: Doubles,
    windows: Windows,
    quantiles: Doubles,
    values: Doubles,
    states: Int8s,
) -> None:
    """The quantile of each step; `quantiles` empty: the median absolute deviation."""
    longest = 0
    for series in range(len(offsets) - 1):
        longest = max(longest, offsets[series + 1] - offsets[series])
    ordered = np.zeros(longest + 1)
    for series in range(len(offsets) - 1):
        low = high = offsets[series]
        end = offsets[series + 1]
        held: Integer = 0
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            old_low, old_high = low, high
            while high < end and times[high] <= until:
                high += 1
            while low < high and times[low] <= until - windows.range:
                low += 1
            if low == high:
                held = 0
                continue
            changed = (low - old_low) + (high - old_high)
            if low >= old_high or changed * SORT_ANEW > high - low:
                held = _numbers(numbers, low, high, ordered)
                ordered[:held].sort()
            else:
                held = _moved(numbers, (old_low, low), (old_high, high), ordered, held)
            states[series, step] = PRESENT
            if len(quantiles):
                values[series, step] = _quantile(quantiles[step], ordered, held, high - low)
            else:
                values[series, step] = _deviation(ordered, held, high - low)


@scanner
def _numbers(numbers: Doubles, low: Integer, high: Integer, ordered: Doubles) -> Integer:
    """All but NaN."""
    held = 0
    for row in range(low, high):
        if not np.isnan(numbers[row]):
            ordered[held] = numbers[row]
            held += 1
    return held


@scanner
def _moved(
    numbers: Doubles,
    left: tuple[Integer, Integer],
    entered: tuple[Integer, Integer],
    ordered: Doubles,
    held: Integer,
) -> Integer:
    for row in range(left[0], left[1]):
        held = _without(ordered, held, numbers[row])
    for row in range(entered[0], entered[1]):
        held = _with(ordered, held, numbers[row])
    return held


@scanner
def _place(ordered: Doubles, held: Integer, number: float) -> Integer:
    """Where the first number stands that is not below this one."""
    begin: Integer = 0
    end = held
    while begin < end:
        middle = (begin + end) // 2
        if ordered[middle] < number:
            begin = middle + 1
        else:
            end = middle
    return begin


@scanner
def _with(ordered: Doubles, held: Integer, number: float) -> Integer:
    if np.isnan(number):
        return held
    place = _place(ordered, held, number)
    for at in range(held, place, -1):
        ordered[at] = ordered[at - 1]
    ordered[place] = number
    return held + 1


@scanner
def _without(ordered: Doubles, held: Integer, number: float) -> Integer:
    if np.isnan(number):
        return held
    for at in range(_place(ordered, held, number), held - 1):
        ordered[at] = ordered[at + 1]
    return held - 1


@scanner
def _at(ordered: Doubles, held: Integer, count: Integer, rank: Integer) -> float:
    """Of all, NaN first."""
    place = rank - (count - held)
    return np.nan if place < 0 else float(ordered[place])


@scanner
def _quantile(quantile: float, ordered: Doubles, held: Integer, count: Integer) -> float:
    if np.isnan(quantile):
        return np.nan
    if quantile < 0:
        return -np.inf
    if quantile > 1:
        return np.inf
    rank = quantile * float(count - 1)
    lower = int(np.floor(rank))
    upper = min(count - 1, lower + 1)
    weight = rank - np.floor(rank)
    below, above = _at(ordered, held, count, lower), _at(ordered, held, count, upper)
    return float(below * (1 - weight) + above * weight)


@scanner
def _deviation(ordered: Doubles, held: Integer, count: Integer) -> float:
    """The median of the distances from the median, which grow away from it to both sides."""
    if held < count:
        return np.nan
    median = _quantile(0.5, ordered, held, count)
    if not np.isfinite(median):
        return np.nan
    rank = 0.5 * float(count - 1)
    weight = rank - np.floor(rank)
    lower = int(np.floor(rank))
    upper = min(count - 1, lower + 1)
    right = _place(ordered, held, median)
    left = right - 1
    below = above = distance = 0.0
    for taken in range(upper + 1):
        if left < 0 or (right < held and ordered[right] - median <= median - ordered[left]):
            distance = ordered[right] - median
            right += 1
        else:
            distance = median - ordered[left]
            left -= 1
        if taken == lower:
            below = distance
        if taken == upper:
            above = distance
    return float(below * (1 - weight) + above * weight)
