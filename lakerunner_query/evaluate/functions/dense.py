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

import numpy as np

from lakerunner_query.evaluate.histogram import Hint, Histogram
from lakerunner_query.evaluate.histogram.columns import BUCKETS, SUM, Side, columns_of, histograms_of
from lakerunner_query.evaluate.vectors import Objects
from lakerunner_query.windows.functions import Doubles, Flags, Int8s, Int64s


@dataclass(frozen=True, slots=True)
class Dense:
    model: Histogram
    """One of them, for what all have in common."""
    positive: Int64s
    """Places of the positive buckets, which follow the three totals; then the negative ones."""
    negative: Int64s
    numbers: Doubles
    """(samples, numbers)"""
    hints: Int8s

    def fell(self) -> Flags:
        """By sample: whether the counter began anew since the one before; by its hint, else by its counts."""
        found = np.zeros(len(self.numbers), np.bool_)
        counts = np.delete(self.numbers, SUM, axis=1)
        found[1:] = (counts[1:] < counts[:-1]).any(axis=1)
        found[self.hints == Hint.RESET] = True
        found[self.hints == Hint.NO_RESET] = False
        return found

    def histograms(self, numbers: Doubles, hints: Sequence[Hint]) -> Objects:
        """Rows of numbers as histograms, without buckets that count zero."""
        middle = BUCKETS + len(self.positive)
        positive, negative = numbers[:, BUCKETS:middle], numbers[:, middle:]
        sides = (
            Side(self.positive, positive, positive != 0),
            Side(self.negative, negative, negative != 0),
        )
        found = np.empty(len(numbers), np.object_)
        found[:] = list(histograms_of(self.model, numbers[:, :BUCKETS], sides, hints))
        return found


def dense_of(histograms: Objects) -> Dense | None:
    """None if their layouts differ, or one counts something within its own zero bucket."""
    columns = columns_of(histograms.tolist())
    if columns is None:
        return None
    positive, negative = columns.positive.places, columns.negative.places
    return Dense(columns.model, positive, negative, columns.numbers(), columns.hints)
