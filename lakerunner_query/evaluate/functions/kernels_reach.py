"""`anchored` and `smoothed` windows of floats: what lies just outside tells the values at the edges.

    increase(m[10s] smoothed) at 15 s of 0, 10, 20 at 0, 10, 20 s:
    5 at 5 s, 15 at 15 s, both on the line between their neighbours: 10

Windows come with what lies up to the look-back before them and, if smoothed, behind them.
"""

from __future__ import annotations

from lakerunner_query.evaluate.functions.kernels_starts import is_restart
from lakerunner_query.windows.edges import PRESENT, Windows
from lakerunner_query.windows.functions import Function
from resources.arrays import Doubles, Int8s, Int64s
from resources.kernel import Integer, inlined, kernel, scanner


@kernel
def reaching(
    function: int,
    is_smoothed: bool,
    look_back: int,
    offsets: Int64s,
    times: Int64s,
    numbers: Doubles,
    starts: Int64s,
    windows: Windows,
    values: Doubles,
    states: Int8s,
) -> None:
    """`delta`, `increase`, `rate`, `resets` and `changes`; the last two know no `smoothed`.

    Only `resets` looks at when counting began; zeros where that is not to be looked at.
    """
    for series in range(len(offsets) - 1):
        low = high = offsets[series]
        end = offsets[series + 1]
        for step in range(windows.steps):
            until = windows.first_end + step * windows.step
            since = until - windows.range
            reach = until + look_back if is_smoothed else until
            while high < end and times[high] <= reach:
                high += 1
            while low < high and times[low] <= since - look_back:
                low += 1
            if low == high:
                continue
            first = low + max(0, _first_after(times, low, high - 1, since) - low - 1)
            if function == Function.RESETS or function == Function.CHANGES:  # noqa: PLR1714
                if times[high - 1] <= since:
                    continue
                values[series, step] = _counted(function, times, numbers, starts, first, high)
                states[series, step] = PRESENT
                continue
            last = _first_from(times, low, high - 1, until) if is_smoothed else high - 1
            if times[last] <= since or (is_smoothed and times[first] > until):
                continue
            growth = _growth(function, is_smoothed, times, numbers, low, first, last, since, until)
            if function == Function.RATE:
                growth /= float(windows.range) / 1000
            values[series, step] = growth
            states[series, step] = PRESENT


@inlined
def _first_after(times: Int64s, begin: Integer, end: Integer, time: Integer) -> Integer:
    """Of [begin, end) the first later than `time`, else end."""
    while begin < end:
        middle = (begin + end) // 2
        if times[middle] > time:
            end = middle
        else:
            begin = middle + 1
    return begin


@inlined
def _first_from(times: Int64s, begin: Integer, end: Integer, time: Integer) -> Integer:
    """Of [begin, end) the first not before `time`, else end."""
    while begin < end:
        middle = (begin + end) // 2
        if times[middle] >= time:
            end = middle
        else:
            begin = middle + 1
    return begin


@scanner
def _counted(
    function: int, times: Int64s, numbers: Doubles, starts: Int64s, first: Integer, end: Integer
) -> float:
    count = 0.0
    for row in range(first + 1, end):
        before, after = numbers[row - 1], numbers[row]
        if function == Function.RESETS:
            if after < before or is_restart(starts[row - 1], times[row - 1], starts[row], times[row]):
                count += 1
        elif after != before and not (after != after and before != before):  # noqa: PLR0124 - NaN
            count += 1
    return count


@inlined
def between(times: Int64s, numbers: Doubles, row: Integer, time: Integer, is_counter: bool) -> float:
    """The value at `time` on the line from this sample to the next; a counter that fell began at zero."""
    before, after = float(numbers[row]), float(numbers[row + 1])
    if is_counter and after < before:
        before = 0.0
    return before + (after - before) * float(time - times[row]) / float(times[row + 1] - times[row])


@scanner
def _growth(
    function: int,
    is_smoothed: bool,
    times: Int64s,
    numbers: Doubles,
    begin: Integer,
    first: Integer,
    last: Integer,
    since: Integer,
    until: Integer,
) -> float:
    is_counter = function != Function.DELTA
    left, right = float(numbers[first]), float(numbers[last])
    if is_smoothed and times[first] < since:
        left = between(times, numbers, first, since, is_counter)
    if is_smoothed and last > begin and times[last] > until:
        right = between(times, numbers, last - 1, until, is_counter)
    growth = right - left
    if not is_counter:
        return growth
    if times[first] <= since:
        first += 1
    if times[last] >= until:
        last -= 1
    correction, before = 0.0, left
    for row in range(first, last + 1):
        if numbers[row] < before:
            correction += before
        before = float(numbers[row])
    if right < before:
        correction += before
    return growth + correction
