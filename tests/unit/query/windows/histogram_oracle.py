"""Functions of histograms in plain Python: a histogram is a dictionary of its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakerunner_query.windows.functions import Function

Key = str | tuple[str, int]
Histogram = dict[Key, float]
"""`count`, `sum`, `zeros`, and ("p" or "n", number of the bucket)."""


@dataclass(frozen=True)
class HistogramPoint:
    ts: int
    numbers: Histogram | None
    """None: a stale marker."""
    bounds: tuple[float, ...] | None
    """Of explicit buckets."""
    schema: int | None
    delta: bool = False

    @property
    def layout(self) -> object:
        return self.bounds, self.schema


def inside(points: Sequence[HistogramPoint], t: int, width: int) -> list[HistogramPoint]:
    return [point for point in points if t - width < point.ts <= t and point.numbers is not None]


def fell(before: HistogramPoint, after: HistogramPoint) -> bool:
    return any(after.numbers.get(key, 0.0) < value for key, value in before.numbers.items() if key != "sum")


def evaluate(function: Function, points: Sequence[HistogramPoint], t: int, width: int) -> Histogram | None:
    """Windows of one layout."""
    if function == Function.INSTANT:
        newest = [point for point in points if t - width < point.ts <= t][-1:]
        return newest[0].numbers if newest else None
    real = inside(points, t, width)
    if not real:
        return None
    if function in (Function.FIRST, Function.LAST):
        return real[0 if function == Function.FIRST else -1].numbers
    is_counter = function in (Function.RATE, Function.INCREASE)
    if function in (Function.SUM, Function.AVG) or (is_counter and real[0].delta):
        total = _combined([(1.0, point.numbers) for point in real])
        by = {Function.AVG: len(real), Function.RATE: width / 1000}.get(function, 1.0)
        return {key: value / by for key, value in total.items()}
    if len(real) < 2:
        return None
    return _extrapolated(function, real, t, width)


def _extrapolated(function: Function, real: Sequence[HistogramPoint], t: int, width: int) -> Histogram:
    is_counter = function != Function.DELTA
    first = real[0]
    parts = [(1.0, real[-1].numbers)]
    pairs = list(pairwise(real))
    if is_counter and fell(*pairs[0]):
        pairs = pairs[1:]  # the first is as if it were empty
    else:
        parts.append((-1.0, first.numbers))
    if is_counter:
        parts += [(1.0, before.numbers) for before, after in pairs if fell(before, after)]
    result = _combined(parts)
    to_start, to_end = (first.ts - (t - width)) / 1000, (t - real[-1].ts) / 1000
    sampled = (real[-1].ts - first.ts) / 1000
    average = sampled / (len(real) - 1)
    to_start = average / 2 if to_start >= average * 1.1 else to_start
    if is_counter and result["count"] > 0:
        to_start = min(to_start, sampled * (first.numbers["count"] / result["count"]))
    to_end = average / 2 if to_end >= average * 1.1 else to_end
    factor = (sampled + to_start + to_end) / sampled / (width / 1000 if function == Function.RATE else 1.0)
    return {key: value * factor for key, value in result.items()}


def _combined(parts: Sequence[tuple[float, Histogram]]) -> Histogram:
    keys = {key for _, numbers in parts for key in numbers}
    return {key: math.fsum(sign * numbers.get(key, 0.0) for sign, numbers in parts) for key in keys}
