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

from lakerunner_query.evaluate.histogram import Buckets, Hint, Histogram
from lakerunner_query.evaluate.histogram.bounds import exponential_bounds
from lakerunner_query.evaluate.vectors import Objects
from lakerunner_query.windows.functions import Doubles, Flags, Int8s, Int64s

COUNT, SUM, ZEROS, BUCKETS = 0, 1, 2, 3


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
        found = np.empty(len(numbers), np.object_)
        middle = BUCKETS + len(self.positive)
        for at, (row, hint) in enumerate(zip(numbers, hints, strict=True)):
            found[at] = Histogram(
                self.model.schema,
                float(row[COUNT]),
                float(row[SUM]),
                self.model.zero_threshold,
                float(row[ZEROS]),
                _populated(self.positive, row[BUCKETS:middle]),
                _populated(self.negative, row[middle:]),
                self.model.bounds,
                hint,
            )
        return found


def dense_of(histograms: Objects) -> Dense | None:
    """None if their layouts differ, or one counts something within its own zero bucket."""
    model: Histogram = histograms[0]
    layout = (model.schema, model.bounds, model.zero_threshold)
    if any((one.schema, one.bounds, one.zero_threshold) != layout for one in histograms):
        return None
    positive, negative = (
        _places([side.index for side in sides])
        for sides in ([one.positive for one in histograms], [one.negative for one in histograms])
    )
    if not (_is_beyond(positive, model) and _is_beyond(negative, model)):
        return None
    numbers = np.zeros((len(histograms), BUCKETS + len(positive) + len(negative)))
    for row, one in zip(numbers, histograms, strict=True):
        row[:BUCKETS] = one.count, one.sum, one.zero_count
        row[BUCKETS + np.searchsorted(positive, one.positive.index)] = one.positive.count
        row[BUCKETS + len(positive) + np.searchsorted(negative, one.negative.index)] = one.negative.count
    hints = np.array([one.hint for one in histograms], np.int8)
    return Dense(model, positive, negative, numbers, hints)


def _places(indices: list[Int64s]) -> Int64s:
    return np.unique(np.concatenate(indices)).astype(np.int64)


def _is_beyond(places: Int64s, model: Histogram) -> bool:
    if model.is_custom or model.zero_threshold == 0:
        return True
    return bool((exponential_bounds(places, model.schema) > model.zero_threshold).all())


def _populated(places: Int64s, counts: Doubles) -> Buckets:
    keep = counts != 0
    return Buckets(places[keep], counts[keep])
