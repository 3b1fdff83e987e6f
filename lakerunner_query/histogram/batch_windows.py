"""Sums and growth of one-layout histograms, over all windows at once.

    count sum zero (0.5, 1] (1, 2]
      4    5   0      1       3        0 s
      6    8   0      2       4        60 s

`rate` and sums treat every number alike, so they run on columns of numbers; windows are pairs [low, high).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lakerunner_query.histogram.batch import BUCKETS, COUNT, Sheet, columns_of
from lakerunner_query.histogram.batch_kernels import extrapolation_factors, find_drops
from lakerunner_query.histogram.model import Hint, Histogram
from lakerunner_query.vectors.vector import Objects
from lakerunner_query.windows.functions import Function, Windows
from lakerunner_query.windows.sums_kernels import sums
from resources.arrays import Doubles, Flags, Int8s, Int64s


@dataclass(frozen=True)
class Dense:
    """Histograms of one series as rows of numbers."""

    model: Histogram
    """Holder of what all have in common."""
    positive: Int64s
    """Places of the positive buckets, which follow the three totals; then the negative ones."""
    negative: Int64s
    numbers: Doubles
    """(samples, numbers)"""
    hints: Int8s

    @cached_property
    def resets(self) -> Int64s:
        """Samples before which the counter was reset."""
        return np.flatnonzero(self.fell())

    def fell(self) -> Flags:
        """Flag samples before which the counter was reset, by hint, else by counts."""
        found = np.zeros(len(self.numbers), np.bool_)
        found[1:] = find_drops(np.ascontiguousarray(self.numbers))
        found[self.hints == Hint.RESET] = True
        found[self.hints == Hint.NO_RESET] = False
        return found

    def histograms(self, numbers: Doubles, hints: Sequence[Hint]) -> Objects:
        """Return rows of numbers as histograms, without buckets that count zero."""
        sheet = Sheet(self.model, self.positive, self.negative, numbers, numbers[:, BUCKETS:] != 0)
        return sheet.histograms(hints)


def dense_of(histograms: Objects) -> Dense | None:
    """Return None if layouts differ, or one counts something within its own zero bucket."""
    columns = columns_of(histograms.tolist())
    if columns is None:
        return None
    sheet = columns.sheet
    return Dense(sheet.model, sheet.positive, sheet.negative, sheet.numbers, columns.hints)


def batch_growth(
    dense: Dense, times: Int64s, low: Int64s, high: Int64s, ends: Int64s, width: int, function: Function
) -> Doubles:
    """Return `rate`, `increase` or `delta` of windows with at least two samples, extrapolated."""
    first, last = low, high - 1
    start = dense.numbers[first]
    is_counter = function != Function.DELTA
    resets = dense.resets if is_counter else np.zeros(0, np.int64)
    with np.errstate(all="ignore"):
        start = np.where(np.isin(first + 1, resets)[:, None], 0.0, start)
        grown = dense.numbers[last] - start
        for reset in resets.tolist():
            inside = (first + 1 < reset) & (reset <= last)
            grown[inside] += dense.numbers[reset - 1]
        by = extrapolation_factors(
            times[first],
            times[last],
            high - low,
            ends,
            width,
            is_counter,
            dense.numbers[first, COUNT],
            np.ascontiguousarray(grown[:, COUNT]),
        )
        if function == Function.RATE:
            by /= width / 1000
        return grown * by[:, None]


def totals(dense: Dense, times: Int64s, windows: Windows, function: Function) -> Doubles | None:
    """Return compensated sums or means by window; None where they could overflow."""
    with np.errstate(over="ignore"):
        if not np.isfinite(np.abs(dense.numbers).sum(axis=0)).all():
            return None
    samples, columns = dense.numbers.shape
    values = np.zeros((columns, windows.steps))
    sums(
        int(function),
        samples * np.arange(columns + 1, dtype=np.int64),
        np.tile(times, columns),
        dense.numbers.T.ravel(),
        windows,
        values,
        np.zeros(values.shape, np.int8),
    )
    return values.T


def joint_hints(hints: Int8s, low: Int64s, high: Int64s) -> tuple[list[Hint], Flags]:
    """Return the hint of each window's sum, and whether its hints contradict each other."""
    has = {hint: any_within(hints == hint, low, high) for hint in Hint}
    of_sum = np.full(len(low), Hint.UNKNOWN, np.int8)
    for hint in (Hint.RESET, Hint.NO_RESET):
        others = [has[other] for other in Hint if other != hint]
        of_sum[has[hint] & ~np.logical_or.reduce(others)] = hint
    of_sum[has[Hint.GAUGE]] = Hint.GAUGE
    return [Hint(hint) for hint in of_sum.tolist()], has[Hint.RESET] & has[Hint.NO_RESET]


def any_within(marked: Flags, low: Int64s, high: Int64s) -> Flags:
    before = np.concatenate(([0], np.cumsum(marked)))
    found: Flags = before[high] > before[low]
    return found
