"""The operators `</` and `>/` keep only observations below, or above, a value.

    bounds [5, 10, 15], counts [1, 6, 4, 0]   </ 7.5   counts [1, 3]

The sum is estimated anew from the middles of the buckets, unless nothing was taken away. An infinite
bucket that would be cut is dropped or kept as a whole: where in it observations lie is not known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.histogram.model import (
    Bucket,
    Buckets,
    Histogram,
    compact,
    negative_buckets,
    positive_buckets,
    zero_bucket,
)
from lakerunner_query.histogram.quantiles import log2

Share = tuple[float, float]
"""Number of observations that a bucket keeps, and the value that stands for each of them."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The value and side of a trim."""

    value: float
    is_upper: bool
    """The side below the value stays (`</`)."""
    is_custom: bool


def trim_upper(histogram: Histogram, value: float) -> Histogram:
    """Evaluate `histogram </ value`."""
    return _trim(histogram, Cut(value, True, histogram.is_custom))


def trim_lower(histogram: Histogram, value: float) -> Histogram:
    """Evaluate `histogram >/ value`."""
    return _trim(histogram, Cut(value, False, histogram.is_custom))


def _trim(histogram: Histogram, cut: Cut) -> Histogram:
    count, total = 0.0, 0.0
    sides = []
    for buckets, edges, is_positive in (
        (histogram.positive, positive_buckets(histogram), True),
        (histogram.negative, negative_buckets(histogram), False),
    ):
        kept = [_trim_bucket(edge, cut, is_positive) if edge.count else (0.0, 0.0) for edge in edges]
        for number, middle in kept:
            count, total = count + number, total + (middle * number if number else 0.0)
        sides.append(buckets.having(np.array([number for number, _ in kept], np.float64)))
    zero = _zero(histogram, cut)
    count, total = count + zero[0], total + zero[0] * zero[1]
    if zero[0] == histogram.zero_count and _same(histogram, sides):
        return histogram
    return compact(
        replace(histogram, count=count, sum=total, zero_count=zero[0], positive=sides[0], negative=sides[1])
    )


def _same(histogram: Histogram, sides: list[Buckets]) -> bool:
    pairs = zip((histogram.positive, histogram.negative), sides, strict=True)
    return all(bool((before.count == after.count).all()) for before, after in pairs)


def _trim_bucket(bucket: Bucket, cut: Cut, is_positive: bool) -> Share:
    is_inside = bucket.upper <= cut.value if cut.is_upper else bucket.lower >= cut.value
    if is_inside:
        return bucket.count, _middle(bucket.lower, bucket.upper, is_positive, cut)
    is_outside = bucket.lower >= cut.value if cut.is_upper else bucket.upper <= cut.value
    if is_outside or math.isnan(cut.value):
        return 0.0, 0.0
    if bucket.lower == -math.inf:
        return _from_infinity(bucket, cut)
    if bucket.upper == math.inf:
        return (0.0, 0.0) if cut.is_upper else _to_infinity(bucket, cut)
    below = _share_below(bucket, cut, is_positive) * bucket.count
    if cut.is_upper:
        return below, _middle(bucket.lower, cut.value, is_positive, cut)
    return bucket.count - below, _middle(cut.value, bucket.upper, is_positive, cut)


def _from_infinity(bucket: Bucket, cut: Cut) -> Share:
    """Cut the lowest custom bucket; if it ends above zero, it is taken to begin at zero."""
    if bucket.upper <= 0:
        return (bucket.count, cut.value) if cut.is_upper else (0.0, 0.0)
    if bucket.upper == math.inf:
        return 0.0, 0.0
    if cut.is_upper and cut.value > 0:
        return bucket.count * cut.value / bucket.upper, cut.value / 2
    if not cut.is_upper and cut.value >= 0:
        return bucket.count * (1 - cut.value / bucket.upper), (cut.value + bucket.upper) / 2
    return 0.0, 0.0


def _to_infinity(bucket: Bucket, cut: Cut) -> Share:
    """Cut the highest bucket for `>/`: all of it counts as above."""
    return bucket.count, cut.value


def _share_below(bucket: Bucket, cut: Cut, is_positive: bool) -> float:
    if cut.is_custom:
        return (cut.value - bucket.lower) / (bucket.upper - bucket.lower)
    low, high, at = log2(bucket.lower), log2(bucket.upper), log2(cut.value)
    if is_positive:
        return (at - low) / (high - low)
    return 1 - (at - high) / (low - high)


def _middle(lower: float, upper: float, is_positive: bool, cut: Cut) -> float:
    """Return the value that stands for observations between two others."""
    if math.isinf(lower):
        if math.isinf(upper):
            return 0.0
        return upper / 2 if upper > 0 else upper
    if math.isinf(upper):
        return lower
    if cut.is_custom:
        return (lower + upper) / 2
    middle = math.sqrt(abs(lower * upper))
    return middle if is_positive else -middle


def _zero(histogram: Histogram, cut: Cut) -> Share:
    """Cut the zero bucket; a populated side makes it end at zero on the other side."""
    if histogram.zero_count <= 0:
        return histogram.zero_count, 0.0
    bucket = zero_bucket(histogram)
    has_positive = bool((histogram.positive.count != 0).any())
    has_negative = bool((histogram.negative.count != 0).any())
    lower = 0.0 if has_positive and not has_negative else bucket.lower
    upper = 0.0 if has_negative and not has_positive else bucket.upper
    if cut.value >= upper if cut.is_upper else cut.value <= lower:
        is_gone = cut.is_upper and cut.value <= lower
        return (0.0, 0.0) if is_gone else (bucket.count, (lower + upper) / 2)
    if cut.value <= lower if cut.is_upper else cut.value >= upper:
        return 0.0, 0.0
    first, last = (lower, cut.value) if cut.is_upper else (cut.value, upper)
    return bucket.count * ((last - first) / (upper - lower)), (first + last) / 2
