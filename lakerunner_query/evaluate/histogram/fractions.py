"""Which part of a histogram's observations lies between two values.

schema 0: (0.5, 1] 1, (1, 2] 2, (2, 4] 1    between 1 and 2: a half
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lakerunner_query.evaluate.histogram.model import Histogram
from lakerunner_query.evaluate.histogram.quantiles import log2
from lakerunner_query.evaluate.histogram.walk import Bucket, buckets, natural_zero


@dataclass(frozen=True, slots=True)
class Fraction:
    value: float
    has_nans: bool = False
    """There are observations of NaN; they are outside of any range."""


def fraction(lower: float, upper: float, histogram: Histogram) -> Fraction:
    if histogram.count == 0 or math.isnan(lower) or math.isnan(upper):
        return Fraction(math.nan)
    if lower >= upper:
        return Fraction(0.0)
    low, high, counted = _ranks(lower, upper, histogram)
    has_nans = False
    total = histogram.count
    if math.isnan(histogram.sum):
        total, has_nans = counted, counted < histogram.count
    low = total if low is None or low > total else low
    high = total if high is None or high > total else high
    return Fraction(float(np.divide(high - low, histogram.count)), has_nans)


def _ranks(lower: float, upper: float, histogram: Histogram) -> tuple[float | None, float | None, float]:
    """How many observations are below each value, None if all are, and how many there are in buckets."""
    low: float | None = None
    high: float | None = None
    rank = 0.0
    for bucket in buckets(histogram):
        low = _rank(lower, bucket, rank, histogram) if low is None else low
        high = _rank(upper, bucket, rank, histogram) if high is None else high
        rank += bucket.count
    return low, high, rank


def _rank(value: float, bucket: Bucket, rank: float, histogram: Histogram) -> float | None:
    """How many observations are below, if the value is not beyond this bucket."""
    is_zero = bucket.lower <= 0 <= bucket.upper
    if is_zero:
        bucket = natural_zero(bucket, histogram)
    if bucket.lower >= value:
        return rank
    if bucket.upper <= value:
        return None
    if not histogram.is_custom and not is_zero:
        return rank + bucket.count * _logarithmic(value, bucket)
    if bucket.lower == -math.inf:
        # Nothing is known of where in it observations lie: all count as lower.
        return bucket.count
    return rank + bucket.count * (value - bucket.lower) / (bucket.upper - bucket.lower)


def _logarithmic(value: float, bucket: Bucket) -> float:
    low, high, at = log2(bucket.lower), log2(bucket.upper), log2(value)
    if value > 0:
        return (at - low) / (high - low)
    return 1 - (at - high) / (low - high)
