"""Range functions of Prometheus 3 in plain Python, one window at a time, from their published definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from lakerunner_query.windows.functions import Function
from tests.support.query.windows.oracle import Point, is_stale, kahan


def evaluate(function: Function, points: Sequence[Point], t: int, width: int) -> float | None:
    """The value at t over (t - width, t], or None."""
    inside = [point for point in points if t - width < point.ts <= t]
    if function in (Function.INSTANT, Function.TIMESTAMP):
        if not inside or is_stale(inside[-1].value):
            return None
        return inside[-1].value if function == Function.INSTANT else inside[-1].ts / 1000
    real = [point for point in inside if not is_stale(point.value)]
    if not real:
        return None
    if function in _EXTRAPOLATED:
        return _extrapolated(function, real, t, width)
    if function in (Function.IRATE, Function.IDELTA):
        return _last_two(function, real)
    return _SIMPLE[function](real)


_EXTRAPOLATED = (Function.RATE, Function.INCREASE, Function.DELTA)


def _extrapolated(  # noqa: C901 - in one piece, to be read beside the original
    function: Function, real: Sequence[Point], t: int, width: int
) -> float | None:
    seconds = width / 1000
    if real[0].delta and function != Function.DELTA:
        total = _sum(real)
        return total / seconds if function == Function.RATE else total
    if len(real) < 2:
        return None
    first, last = real[0], real[-1]
    result = last.value - first.value
    is_counter = function != Function.DELTA
    if is_counter:
        for before, after in pairwise(real):
            if after.value < before.value:
                result += before.value
    to_start, to_end = (first.ts - (t - width)) / 1000, (t - last.ts) / 1000
    sampled = (last.ts - first.ts) / 1000
    average = sampled / (len(real) - 1)
    threshold = average * 1.1
    if to_start >= threshold:
        to_start = average / 2
    if is_counter:
        to_zero = to_start
        if result > 0 and first.value >= 0:
            to_zero = sampled * (first.value / result)
        if to_zero < to_start:  # noqa: PLR1730 - as it is defined, NaN included
            to_start = to_zero
    if to_end >= threshold:
        to_end = average / 2
    factor = (sampled + to_start + to_end) / sampled
    return result * (factor / seconds if function == Function.RATE else factor)


def _last_two(function: Function, real: Sequence[Point]) -> float | None:
    if len(real) < 2:
        return None
    before, after = real[-2:]
    if function == Function.IDELTA:
        return after.value - before.value
    whole = after.delta or after.value < before.value
    grown = after.value if whole else after.value - before.value
    return grown / ((after.ts - before.ts) / 1000)


def _sum(real: Sequence[Point]) -> float:
    total = lost = 0.0
    for point in real:
        total, lost = kahan(total, lost, point.value)
    return total if math.isinf(total) else total + lost


def _avg(real: Sequence[Point]) -> float:
    total, lost, mean, stepwise = real[0].value, 0.0, 0.0, False
    for index, point in enumerate(real[1:]):
        count = float(index + 2)
        if not stepwise:
            after, after_lost = kahan(total, lost, point.value)
            if not math.isinf(after):
                total, lost = after, after_lost
                continue
            stepwise = True
            mean, lost = total / (count - 1), lost / (count - 1)
        q = (count - 1) / count
        mean, lost = kahan(q * mean, q * lost, point.value / count)
    return mean + lost if stepwise else total / len(real) + lost / len(real)


def _stdvar(real: Sequence[Point]) -> float:
    count = mean = mean_lost = squares = squares_lost = 0.0
    for point in real:
        count += 1
        away = point.value - (mean + mean_lost)
        mean, mean_lost = kahan(mean, mean_lost, away / count)
        squares, squares_lost = kahan(squares, squares_lost, away * (point.value - (mean + mean_lost)))
    return (squares + squares_lost) / count


def _stddev(real: Sequence[Point]) -> float:
    variance = _stdvar(real)
    return math.sqrt(variance) if variance >= 0 else math.nan  # overflow can leave it below zero


def _min(real: Sequence[Point]) -> float:
    found = real[0].value
    for point in real:
        if point.value < found or math.isnan(found):
            found = point.value
    return found


def _max(real: Sequence[Point]) -> float:
    found = real[0].value
    for point in real:
        if point.value > found or math.isnan(found):
            found = point.value
    return found


def _resets(real: Sequence[Point]) -> float:
    pairs = pairwise(real)
    return 0.0 if real[0].delta else float(sum(after.value < before.value for before, after in pairs))


def _changes(real: Sequence[Point]) -> float:
    pairs = [(a.value, b.value) for a, b in pairwise(real)]
    return float(sum(a != b and not (math.isnan(a) and math.isnan(b)) for a, b in pairs))


_SIMPLE: dict[Function, Callable[[Sequence[Point]], float]] = {
    Function.FIRST: lambda real: real[0].value,
    Function.LAST: lambda real: real[-1].value,
    Function.COUNT: lambda real: float(len(real)),
    Function.PRESENT: lambda _: 1.0,
    Function.MIN: _min,
    Function.MAX: _max,
    Function.SUM: _sum,
    Function.AVG: _avg,
    Function.STDDEV: _stddev,
    Function.STDVAR: _stdvar,
    Function.RESETS: _resets,
    Function.CHANGES: _changes,
}
