"""Many histograms as columns of numbers, if they have one schema, one zero threshold and the same bounds.

      count sum zero (0.5, 1] (1, 2]
        4    5   0      1       3
        8    8   0      2       .      listed: yes, no

Arithmetic that does the same with every number is done for all histograms at once. Others are left to the
arithmetic of single ones, and so are those that count something within their own zero bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from lakerunner_query.evaluate.histogram.bounds import exponential_bounds
from lakerunner_query.evaluate.histogram.model import NO_BUCKETS, Buckets, Hint, Histogram
from lakerunner_query.windows.functions import Doubles, Flags, Int8s, Int64s

COUNT, SUM, ZEROS, BUCKETS = 0, 1, 2, 3
WIDEST = 1 << 16
"""Between the lowest and the highest bucket; beyond it, places are found by sorting."""


@dataclass(frozen=True, slots=True)
class Side:
    """Buckets of one side."""

    places: Int64s
    counts: Doubles
    """(histograms, places); zero where a bucket is not listed."""
    listed: Flags


@dataclass(frozen=True, slots=True)
class Columns:
    model: Histogram
    """One of them, for what all have in common."""
    totals: Doubles
    """(histograms, 3): count, sum, zero count."""
    positive: Side
    negative: Side
    hints: Int8s

    def numbers(self) -> Doubles:
        """All that a histogram counts, a row each."""
        return np.concatenate((self.totals, self.positive.counts, self.negative.counts), axis=1)


def columns_of(histograms: Sequence[Histogram]) -> Columns | None:
    """At least one; None where single arithmetic has to do it."""
    model = histograms[0]
    layout = (model.schema, model.zero_threshold, model.bounds)
    if any((one.schema, one.zero_threshold, one.bounds) != layout for one in histograms):
        return None
    positive, negative = (
        _side([one.positive for one in histograms]),
        _side([one.negative for one in histograms]),
    )
    if not (is_beyond(positive.places, model) and is_beyond(negative.places, model)):
        return None
    totals = np.array([(one.count, one.sum, one.zero_count) for one in histograms], np.float64)
    return Columns(model, totals, positive, negative, np.array([one.hint for one in histograms], np.int8))


def is_beyond(places: Int64s, model: Histogram) -> bool:
    """Whether none of these buckets ends within the zero bucket."""
    if model.is_custom or model.zero_threshold == 0 or not len(places):
        return True
    return bool((exponential_bounds(places, model.schema) > model.zero_threshold).all())


def _side(sides: list[Buckets]) -> Side:
    sizes = np.fromiter((len(one.index) for one in sides), np.int64, len(sides))
    index = np.concatenate([one.index for one in sides])
    if not len(index):
        none = np.zeros((len(sides), 0))
        return Side(NO_BUCKETS.index, none, none.astype(np.bool_))
    counts = np.concatenate([one.count for one in sides])
    places, where = _places(index)
    rows = np.repeat(np.arange(len(sides)), sizes)
    matrix, listed = np.zeros((len(sides), len(places))), np.zeros((len(sides), len(places)), np.bool_)
    matrix[rows, where], listed[rows, where] = counts, True
    return Side(places, matrix, listed)


def _places(index: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct ones, ascending, and where each is among them."""
    low, high = int(index.min()), int(index.max())
    if high - low > WIDEST:
        places, where = np.unique(index, return_inverse=True)
        return places, where.ravel().astype(np.int64)
    seen = np.zeros(high - low + 1, np.bool_)
    seen[index - low] = True
    return np.flatnonzero(seen) + low, (np.cumsum(seen) - 1)[index - low]


def histograms_of(
    model: Histogram, totals: Doubles, sides: tuple[Side, Side], hints: Sequence[Hint]
) -> Iterator[Histogram]:
    """Rows of columns as histograms, with the buckets that are listed."""
    positives, negatives = (_buckets(side) for side in sides)
    for numbers, positive, negative, hint in zip(totals.tolist(), positives, negatives, hints, strict=True):
        yield Histogram(
            model.schema, numbers[COUNT], numbers[SUM], model.zero_threshold, numbers[ZEROS],
            positive, negative, model.bounds, hint,
        )  # fmt: skip


def _buckets(side: Side) -> Iterator[Buckets]:
    if not len(side.places):
        yield from repeat(NO_BUCKETS, len(side.counts))
        return
    complete: Flags = np.logical_and.reduce(side.listed, axis=1)
    for counts, listed, are_all in zip(side.counts, side.listed, complete.tolist(), strict=True):
        yield Buckets(side.places, counts) if are_all else Buckets(side.places[listed], counts[listed])
