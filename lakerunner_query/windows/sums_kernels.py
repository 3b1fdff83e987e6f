"""Functions over the samples in windows: every window anew, addition by addition in the order of time.

A sum that moves along would round differently from window to window and never forget an infinity; where all
numbers are whole, `whole.py` has sums that move and are exact nevertheless.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edge_kernels import extrapolation_factor
from lakerunner_query.windows.functions import PRESENT, Function, Windows
from resources.arrays import Doubles, Flags, Int8s, Int64s
from resources.kernel import Integer, inlined, kernel, scanner

# << Sums that keep what rounding loses: Kahan's, improved by Neumaier, with Prometheus' rule for infinity.


@inlined
def add(number: float, total: float, lost: float) -> tuple[float, float]:
    """The new total, and what all additions so far lost; an infinite total has lost nothing."""
    after = total + number
    if np.isinf(after):
        lost = 0.0
    elif abs(total) >= abs(number):
        lost += (total - after) + number
    else:
        lost += (number - after) + total
    return after, lost


# << Sums of whole numbers over windows that move: exact in any order, so no window is added up anew.
# <<
# << Counts, byte sizes and milliseconds are whole; 2^53 bounds what floats hold exactly.

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


# << Sum, mean and variance of samples, addition by addition as Prometheus does them.
# <<
# << Every window is summed anew: a sum that moves along would round differently, and never forget an
# << infinity.


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
        return _plain_total(numbers, low, high)
    if function == AVG:
        return _plain_mean(numbers, low, high)
    if function == FIRST:
        return float(numbers[low])
    if function == LAST:
        return float(numbers[high - 1])
    variance = _plain_variance(numbers, low, high)
    return float(np.sqrt(variance)) if function == STDDEV else variance


@scanner
def _plain_total(numbers: Doubles, low: Integer, high: Integer) -> float:
    total = 0.0
    for row in range(low, high):
        total += numbers[row]
    return total


@scanner
def _plain_mean(numbers: Doubles, low: Integer, high: Integer) -> float:
    """Sum by count; where that is not finite, corrected sample by sample: means overflow later than sums."""
    total = _plain_total(numbers, low, high)
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
def _plain_variance(numbers: Doubles, low: Integer, high: Integer) -> float:
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
    factor = extrapolation_factor(first, last, high - low, until, width, True, numbers[low], grown)
    return float(grown * factor / (float(width) / 1e9))
