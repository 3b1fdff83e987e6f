"""Quantiles of native histograms.

    schema 0: (0.5, 1] 1, (1, 2] 2, (2, 4] 1    the median is 2^0.5

In an exponential bucket observations are taken to be spread evenly on a logarithmic scale; in custom
buckets and in the zero bucket evenly as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from lakerunner_query.evaluate.histogram.model import Histogram
from lakerunner_query.evaluate.histogram.walk import Bucket, buckets, buckets_down, natural_zero


class NanFact(Enum):
    """What observations of NaN, which are in no bucket, did to an answer."""

    NONE = "none"
    RESULT = "result"
    """The quantile lies among them: it is NaN."""
    SKEW = "skew"
    """They count as if above all others, so the quantile is higher."""


@dataclass(frozen=True, slots=True)
class Quantile:
    value: float
    nan: NanFact = NanFact.NONE


def quantile(q: float, histogram: Histogram) -> Quantile:
    """The value below which the fraction `q` of observations lies."""
    if q < 0:
        return Quantile(-math.inf)
    if q > 1:
        return Quantile(math.inf)
    if histogram.count == 0 or math.isnan(q):
        return Quantile(math.nan)
    upwards = math.isnan(histogram.sum) or q < 0.5
    walk = buckets(histogram) if upwards else buckets_down(histogram)
    rank = (q if upwards else 1 - q) * histogram.count
    bucket, reached = _reach(walk, rank)
    return _within(bucket, reached, rank, walk, histogram, upwards)


def _reach(walk: Iterator[Bucket], rank: float) -> tuple[Bucket, float]:
    """The bucket in which the rank lies, and all that was counted up to its end."""
    bucket, reached = Bucket(0.0, 0.0, False, False, 0.0), 0.0
    for bucket in walk:
        if bucket.count == 0:
            continue
        reached += bucket.count
        if reached >= rank:
            break
    return bucket, reached


def _within(
    bucket: Bucket, reached: float, rank: float, walk: Iterator[Bucket], histogram: Histogram, upwards: bool
) -> Quantile:
    if histogram.is_custom:
        if bucket.lower == -math.inf:
            if bucket.upper <= 0:
                return Quantile(bucket.upper)
            bucket = replace(bucket, lower=0.0)
        elif bucket.upper == math.inf:
            return Quantile(bucket.lower)
    elif bucket.lower < 0 < bucket.upper:
        bucket = natural_zero(bucket, histogram)
    # Rounding may have counted more than there is.
    counted = min(reached, histogram.count)
    if counted < rank:
        is_nan = math.isnan(histogram.sum)
        return Quantile(math.nan, NanFact.RESULT) if is_nan else Quantile(bucket.upper)
    inside = rank - (counted - bucket.count) if upwards else counted - rank
    fraction = float(np.divide(inside, bucket.count)) if bucket.count else math.nan
    return Quantile(_interpolated(bucket, fraction, histogram), _skew(counted, walk, histogram))


def _interpolated(bucket: Bucket, fraction: float, histogram: Histogram) -> float:
    if histogram.is_custom or bucket.lower <= 0 <= bucket.upper:
        return bucket.lower + (bucket.upper - bucket.lower) * fraction
    low, high = log2(bucket.lower), log2(bucket.upper)
    with np.errstate(all="ignore"):
        if bucket.lower > 0:
            return float(np.exp2(low + (high - low) * fraction))
        return -float(np.exp2(high + (low - high) * (1 - fraction)))


def _skew(counted: float, walk: Iterator[Bucket], histogram: Histogram) -> NanFact:
    """A sum of NaN may also come from observations of both infinities; those are all in buckets."""
    if not math.isnan(histogram.sum):
        return NanFact.NONE
    total = counted + sum(bucket.count for bucket in walk)
    return NanFact.SKEW if total < histogram.count else NanFact.NONE


def log2(value: float) -> float:
    """Of the distance from zero; minus infinity at zero."""
    return math.log2(abs(value)) if value != 0 else -math.inf
