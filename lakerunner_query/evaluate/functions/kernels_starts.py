"""Counters whose samples say when counting began: a new beginning is a reset, whatever the values say.

sample        10 @ 60 s, began 0 s     12 @ 120 s, began 90 s
increase      the second counter counted 12 since 90 s, nothing of the first is in it
"""

from __future__ import annotations

from lakerunner_query.windows.edges import PRESENT, Windows
from lakerunner_query.windows.functions import Function
from resources.arrays import Doubles, Flags, Int8s, Int64s
from resources.kernel import Integer, inlined, kernel, scanner


@inlined
def is_restart(start_before: Integer, before: Integer, start: Integer, time: Integer) -> bool:
    """Whether the sample's beginning tells of a reset since the sample before it.

    A beginning at the very time of the sample before is a delta's, or the unknown beginning of a cumulative
    series: there the sample before has none that is known.
    """
    if start == 0 or start >= time or start < before:
        return False
    if start > before:
        return True
    return bool(start_before < before and start_before != 0)


@inlined
def overlaps(start_before: Integer, before: Integer, start: Integer) -> bool:
    """A beginning before the last sample, but another than that sample's: one of both is wrong."""
    return bool(start != 0 and start < before and start != start_before)


@kernel
def since_starts(
    function: int,
    offsets: Int64s,
    times: Int64s,
    numbers: Doubles,
    starts: Int64s,
    windows: Windows,
    values: Doubles,
    states: Int8s,
    overlapping: Flags,
) -> None:
    """`rate`, `increase`, `irate` and `resets`; `overlapping` by series: some window has an overlap."""
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
            found, value = _window(function, times, numbers, starts, low, high, until, windows.range)
            if found:
                values[series, step] = value
                states[series, step] = PRESENT
            if function <= Function.INCREASE and _overlap(times, starts, low, high):
                overlapping[series] = True


@scanner
def _window(
    function: int,
    times: Int64s,
    numbers: Doubles,
    starts: Int64s,
    low: Integer,
    high: Integer,
    until: Integer,
    width: Integer,
) -> tuple[bool, float]:
    if function == Function.RESETS:
        return True, _restarts(times, numbers, starts, low, high)
    if function == Function.IRATE:
        if high - low < 2:
            return False, 0.0
        return True, _last_two(times, numbers, starts, high - 1)
    return _extrapolated(function, times, numbers, starts, low, high, until, width)


@scanner
def _overlap(times: Int64s, starts: Int64s, low: Integer, high: Integer) -> bool:
    for row in range(low + 1, high):  # noqa: SIM110 - kernels know no generators
        if overlaps(starts[row - 1], times[row - 1], starts[row]):
            return True
    return False


@inlined
def _is_reset(times: Int64s, numbers: Doubles, starts: Int64s, row: Integer) -> bool:
    return bool(
        numbers[row] < numbers[row - 1]
        or is_restart(starts[row - 1], times[row - 1], starts[row], times[row])
    )


@scanner
def _restarts(times: Int64s, numbers: Doubles, starts: Int64s, low: Integer, high: Integer) -> float:
    count = 0.0
    for row in range(low + 1, high):
        if _is_reset(times, numbers, starts, row):
            count += 1
    return count


@scanner
def _last_two(times: Int64s, numbers: Doubles, starts: Int64s, row: Integer) -> float:
    value = float(numbers[row])
    if not _is_reset(times, numbers, starts, row):
        value -= numbers[row - 1]
    return value / (float(times[row] - times[row - 1]) / 1000)


@scanner
def _extrapolated(
    function: int,
    times: Int64s,
    numbers: Doubles,
    starts: Int64s,
    low: Integer,
    high: Integer,
    until: Integer,
    width: Integer,
) -> tuple[bool, float]:
    growth = float(numbers[high - 1] - numbers[low])
    for row in range(low + 1, high):
        if _is_reset(times, numbers, starts, row):
            growth += numbers[row - 1]
    gaps = high - low - 1
    found, factor, adds_first = drawn_out_from_start(
        times[low], times[high - 1], starts[low], gaps, until, width, float(numbers[low]), growth
    )
    if not found:
        return False, 0.0
    if adds_first:
        growth += numbers[low]
    if function == Function.RATE:
        factor /= float(width) / 1000
    return True, growth * factor


@scanner
def drawn_out_from_start(
    first_ts: Integer,
    last_ts: Integer,
    start: Integer,
    gaps: Integer,
    until: Integer,
    width: Integer,
    first: float,
    growth: float,
) -> tuple[bool, float, bool]:
    """By how much the growth is to be multiplied, and whether the first sample itself grew in the window.

    Where counting began inside of the window, a zero stood there: nothing is drawn out to the left.
    """
    sampled = float(last_ts - first_ts) / 1000
    to_start = float(first_ts - (until - width)) / 1000
    to_end = float(until - last_ts) / 1000
    average = sampled / float(gaps) if gaps > 0 else 0.0
    threshold = average * 1.1
    adds_first = bool(start != 0 and until - width < start < first_ts)
    if adds_first:
        to_start = 0.0
        sampled = float(last_ts - start) / 1000
    elif gaps == 0:
        return False, 0.0, False
    else:
        if to_start >= threshold:
            to_start = average / 2
        if growth > 0 and first >= 0:
            to_zero = sampled * (first / growth)
            if to_zero < to_start:  # noqa: PLR1730 - min() would let a NaN through
                to_start = to_zero
    if to_end >= threshold:
        to_end = average / 2
    factor = 1.0
    if sampled != 0:
        factor = (sampled + to_start + to_end) / sampled
    return True, factor, adds_first
