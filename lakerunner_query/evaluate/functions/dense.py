"""Histograms of one series side by side, if all have one layout: columns of numbers instead of objects.

    count sum zero (0.5, 1] (1, 2]
      4    5   0      1       3        0 s
      6    8   0      2       4       60 s

What `rate` and sums do with histograms they do with every number alike, so a few columns answer for all
windows at once. Series whose layout changes are left to the arithmetic of single histograms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lakerunner_query.evaluate.histogram.columns import columns_of
from lakerunner_query.evaluate.histogram.falling import any_fell
from lakerunner_query.evaluate.histogram.model import Hint, Histogram
from lakerunner_query.evaluate.histogram.sheets import BUCKETS, Sheet
from lakerunner_query.evaluate.vectors import Objects
from resources.arrays import Doubles, Flags, Int8s, Int64s


@dataclass(frozen=True)
class Dense:
    model: Histogram
    """One of them, for what all have in common."""
    positive: Int64s
    """Places of the positive buckets, which follow the three totals; then the negative ones."""
    negative: Int64s
    numbers: Doubles
    """(samples, numbers)"""
    hints: Int8s

    @cached_property
    def resets(self) -> Int64s:
        """Samples before which the counter began anew."""
        return np.flatnonzero(self.fell())

    def fell(self) -> Flags:
        """By sample: whether the counter began anew since the one before; by its hint, else by its counts."""
        found = np.zeros(len(self.numbers), np.bool_)
        found[1:] = any_fell(np.ascontiguousarray(self.numbers))
        found[self.hints == Hint.RESET] = True
        found[self.hints == Hint.NO_RESET] = False
        return found

    def histograms(self, numbers: Doubles, hints: Sequence[Hint]) -> Objects:
        """Rows of numbers as histograms, without buckets that count zero."""
        sheet = Sheet(self.model, self.positive, self.negative, numbers, numbers[:, BUCKETS:] != 0)
        return sheet.histograms(hints)


def dense_of(histograms: Objects) -> Dense | None:
    """None if their layouts differ, or one counts something within its own zero bucket."""
    columns = columns_of(histograms.tolist())
    if columns is None:
        return None
    sheet = columns.sheet
    return Dense(sheet.model, sheet.positive, sheet.negative, sheet.numbers, columns.hints)
