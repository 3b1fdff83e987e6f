"""Kernels of sum, mean and variance over the samples of windows.

Every window is summed anew: a sum that moves along would round differently from window to window and never
forget an infinity. Where all numbers are whole, `whole_sums` moves along and is exact nevertheless.

`python -m benchmarks.kernels.windows`, 60,000 windows of 20 samples against `searchsorted` and `reduceat` in
NumPy, which does not compensate: `sums` is 2.0 times as fast for sums and 1.3 for means, `over_windows` 3.4,
`whole_sums` 8 times. For variances `reduceat` takes 0.8 times as long and loses digits that Prometheus keeps.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.windows.edge_kernels import extrapolation_factor
from lakerunner_query.windows.functions import PRESENT, Function, Windows
from resources.arrays import Doubles, Flags, Int8s, Int64s
from resources.kernel import Integer, inlined, kernel, scanner


@inlined
def add(number: float, total: float, lost: float) -> tuple[float, float]:
    """Add as Kahan and Neumaier do: return the total, and what rounding lost; infinity loses nothing."""
    after = total + number
    if np.isinf(after):
        lost = 0.0
    elif abs(total) >= abs(number):
        lost += (total - after) + number
    else:
        lost += (number - after) + total
    return after, lost


EXACT = 2.0**53
"""Up to here floats hold every whole number; counts, byte sizes and milliseconds are whole."""


def are_whole(numbers: Doubles) -> bool:
    """Test whether every sum of some of these is exact; the sign of zero is not kept then."""
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
    """Fill values and `present` as `over_windows` does for `SUM` or `AVG`, with a total that moves along."""
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
    """Fill values and states by series and window, addition by addition as Prometheus does."""
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
    """Divide the sum by the count; from the addition on that would overflow, correct a mean step by step."""
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
        share = (count - 1) / count
        total, lost = add(numbers[row] / count, share * total, share * lost)
    if stepwise:
        return total + lost
    return total / float(high - low) + lost / float(high - low)


@scanner
def _variance(numbers: Doubles, low: Integer, high: Integer) -> float:
    """Compute Welford's variance, both running numbers compensated."""
    mean = mean_lost = squares = squares_lost = 0.0
    for row in range(low, high):
        away = numbers[row] - (mean + mean_lost)
        mean, mean_lost = add(away / float(row - low + 1), mean, mean_lost)
        squares, squares_lost = add(away * (numbers[row] - (mean + mean_lost)), squares, squares_lost)
    return (squares + squares_lost) / float(high - low)


SUM, AVG, STDVAR, STDDEV, FIRST, LAST, GROWTH = range(7)
"""Functions of `over_windows`, which LogQL asks for; `GROWTH` is that of a counter, by second."""


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
    """Fill values and `present` by series and window, as Loki computes them, without compensation."""
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
    """Divide the sum by the count; correct sample by sample where it overflows: means do so later."""
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
    """Compute Welford's variance."""
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
    """Return the growth by second, extrapolated to the edges; after a drop the counter began at zero."""
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
