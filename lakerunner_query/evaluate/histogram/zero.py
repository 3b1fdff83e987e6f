"""The zero bucket, made wide enough for two histograms.

    threshold 0.001, zero 2, (0.5, 1] 3   widened to 0.7:   threshold 1, zero 5

A threshold inside of a populated bucket moves on to where that bucket ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.evaluate.histogram.bounds import exponential_bounds
from lakerunner_query.evaluate.histogram.model import Buckets, Histogram, compact
from resources.arrays import Doubles


@dataclass(frozen=True, slots=True)
class Side:
    """One side's buckets with their edges, counted from zero."""

    lower: Doubles
    upper: Doubles
    count: Doubles


def side(buckets: Buckets, schema: int) -> Side:
    edge = exponential_bounds(buckets.index, schema)
    return Side(exponential_bounds(buckets.index - 1, schema), edge, buckets.count)


def threshold_over(sides: tuple[Side, Side], threshold: float) -> float:
    """The lowest threshold, from the given one on, that cuts no populated bucket."""
    while True:
        moved = threshold
        for one in sides:
            cut = (one.lower < moved) & (one.upper > moved) & (one.count != 0)
            if cut.any():
                moved = float(one.upper[cut].max())
        if moved == threshold:
            return threshold
        threshold = moved


@dataclass(frozen=True, slots=True)
class Widened:
    zero_count: float
    threshold: float


def widened(histogram: Histogram, threshold: float) -> Widened:
    """What the zero bucket would count with a threshold at least as large as the given one.

    The order of additions is that of Prometheus: outwards, the positive side first.
    """
    if threshold == histogram.zero_threshold:
        return Widened(histogram.zero_count, threshold)
    if threshold < histogram.zero_threshold:
        raise ValueError(f"threshold {threshold}: expected at least {histogram.zero_threshold}")
    sides = (side(histogram.positive, histogram.schema), side(histogram.negative, histogram.schema))
    threshold = threshold_over(sides, threshold)
    count = histogram.zero_count
    for one in sides:
        for inside in one.count[one.lower < threshold].tolist():
            count += inside
    return Widened(count, threshold)


def with_zero(histogram: Histogram, zero: Widened) -> Histogram:
    """With the wider zero bucket, and without the buckets it took in."""
    emptied = [
        buckets.having(np.where(side(buckets, histogram.schema).lower < zero.threshold, 0.0, buckets.count))
        for buckets in (histogram.positive, histogram.negative)
    ]
    wide = replace(
        histogram,
        zero_threshold=zero.threshold,
        zero_count=zero.zero_count,
        positive=emptied[0],
        negative=emptied[1],
    )
    return compact(wide)


def reconciled(first: Histogram, second: Histogram) -> tuple[Histogram, float]:
    """The first with a zero bucket that suits both, and what the second's would count with it."""
    zero = Widened(second.zero_count, second.zero_threshold)
    while zero.threshold != first.zero_threshold:
        if first.zero_threshold > zero.threshold:
            zero = widened(second, first.zero_threshold)
        if zero.threshold > first.zero_threshold:
            first = with_zero(first, widened(first, zero.threshold))
    return first, zero.zero_count
