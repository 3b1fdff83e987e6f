"""Native histograms give means, spreads, quantiles and fractions.

    schema 0: (0.5, 1] 1, (1, 2] 2, (2, 4] 1    the median is 2^0.5, the fraction between 1 and 2 a half

Observations in an exponential bucket are taken to be spread evenly on a logarithmic scale; in custom buckets
and in the zero bucket evenly as they are. `plain_quantiles` gives what `quantile` gives for many at once: a
kernel walks the buckets, and NumPy takes the logarithms of all together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from lakerunner_query.histogram.batch import BUCKETS, COUNT, SUM, ZEROS, Sheet
from lakerunner_query.histogram.batch_kernels import EXPONENTIAL, LINEAR, find_buckets
from lakerunner_query.histogram.logarithm_kernels import binary, exp2, power_of_two
from lakerunner_query.histogram.logarithm_kernels import log2 as all_log2
from lakerunner_query.histogram.model import (
    Bucket,
    Histogram,
    buckets,
    buckets_down,
    exponential_bounds,
    natural_zero,
)
from lakerunner_query.histogram.sums import plus_one
from resources.arrays import Doubles, Flags, Int8s, Int64s


def mean(histogram: Histogram) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(histogram.sum) / np.float64(histogram.count))


def stdvar(histogram: Histogram) -> float:
    """Return the population variance, each bucket taken as one value."""
    average = mean(histogram)
    total, lost = 0.0, 0.0
    for bucket in buckets(histogram):
        if bucket.count == 0:
            continue
        distance = _middle(bucket, histogram) - average
        total, lost = plus_one(bucket.count * distance * distance, total, lost)
    with np.errstate(all="ignore"):
        return float(np.float64(total + lost) / np.float64(histogram.count))


def stddev(histogram: Histogram) -> float:
    variance = stdvar(histogram)
    return math.sqrt(variance) if variance >= 0 else math.nan


def _middle(bucket: Bucket, histogram: Histogram) -> float:
    """Return the value of a bucket: custom (2, 4] -> 3, exponential (2, 8] -> 4, zero bucket -> 0."""
    if histogram.is_custom:
        return (bucket.upper + bucket.lower) / 2
    if bucket.lower <= 0 <= bucket.upper:
        return 0.0
    middle = math.sqrt(bucket.upper * bucket.lower)
    return -middle if bucket.upper < 0 else middle


class NanFact(Enum):
    """The effect on an answer of NaN observations, which are in no bucket."""

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
    """Return the value below which the fraction `q` of observations lies."""
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
    """Return the bucket of the rank, and the count up to its end."""
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
    # rounding may have counted more than there is
    counted = min(reached, histogram.count)
    if counted < rank:
        is_nan = math.isnan(histogram.sum)
        return Quantile(math.nan, NanFact.RESULT) if is_nan else Quantile(bucket.upper)
    inside = rank - (counted - bucket.count) if upwards else counted - rank
    fraction = float(np.divide(inside, bucket.count)) if bucket.count else math.nan
    return Quantile(_interpolate(bucket, fraction, histogram), _skew(counted, walk, histogram))


def _interpolate(bucket: Bucket, fraction: float, histogram: Histogram) -> float:
    if histogram.is_custom or bucket.lower <= 0 <= bucket.upper:
        return bucket.lower + (bucket.upper - bucket.lower) * fraction
    low, high = log2(bucket.lower), log2(bucket.upper)
    if bucket.lower > 0:
        return power_of_two(low + (high - low) * fraction)
    return -power_of_two(high + (low - high) * (1 - fraction))


def _skew(counted: float, walk: Iterator[Bucket], histogram: Histogram) -> NanFact:
    """Tell NaN observations from both infinities, which make a sum of NaN too but are in buckets."""
    if not math.isnan(histogram.sum):
        return NanFact.NONE
    total = counted + sum(bucket.count for bucket in walk)
    return NanFact.SKEW if total < histogram.count else NanFact.NONE


def log2(value: float) -> float:
    """Return the logarithm of the distance from zero; minus infinity at zero."""
    return binary(abs(value))


@dataclass(frozen=True, slots=True)
class Fraction:
    value: float
    has_nans: bool = False
    """NaN was observed; it is outside of any range."""


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
    """Count the observations below each value (None: all), and all that are in buckets."""
    low: float | None = None
    high: float | None = None
    rank = 0.0
    for bucket in buckets(histogram):
        low = _rank(lower, bucket, rank, histogram) if low is None else low
        high = _rank(upper, bucket, rank, histogram) if high is None else high
        rank += bucket.count
    return low, high, rank


def _rank(value: float, bucket: Bucket, rank: float, histogram: Histogram) -> float | None:
    """Count the observations below, if the value is not beyond this bucket."""
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
        # where in it observations lie is not known: all count as lower
        return bucket.count
    return rank + bucket.count * (value - bucket.lower) / (bucket.upper - bucket.lower)


def _logarithmic(value: float, bucket: Bucket) -> float:
    low, high, at = log2(bucket.lower), log2(bucket.upper), log2(value)
    if value > 0:
        return (at - low) / (high - low)
    return 1 - (at - high) / (low - high)


def is_plain(histogram: Histogram, q: float) -> bool:
    return (
        not histogram.is_custom
        and not histogram.negative.size
        and 0 <= q <= 1
        and not math.isnan(histogram.sum)
        and histogram.count != 0
    )


def plain_quantiles(quantiles: Doubles, histograms: Sequence[Histogram]) -> Doubles:
    """Return a quantile of each histogram; all are plain."""
    sizes = np.fromiter((one.positive.size for one in histograms), np.int64, len(histograms))
    index = np.concatenate([one.positive.index for one in histograms])
    counts = np.concatenate([one.positive.count for one in histograms])
    schemas = np.repeat(np.array([one.schema for one in histograms], np.int64), sizes)
    lower, upper = np.empty(len(index)), np.empty(len(index))
    for schema in np.unique(schemas).tolist():
        rows = schemas == schema
        lower[rows] = exponential_bounds(index[rows] - 1, schema)
        upper[rows] = exponential_bounds(index[rows], schema)
    totals = np.array([(one.count, one.zero_threshold, one.zero_count) for one in histograms], np.float64)
    return _walk_quantiles(quantiles, totals, sizes, lower, upper, counts)


def sheet_quantiles(quantiles: Doubles, sheet: Sheet, rows: Int64s) -> tuple[Doubles, Flags]:
    """Return a quantile of each of these rows, and the flags of plain rows; the others have no answer."""
    numbers, listed = sheet.numbers[rows], sheet.is_listed[rows]
    middle = len(sheet.positive)
    with np.errstate(invalid="ignore"):
        plain = (quantiles >= 0) & (quantiles <= 1) & ~np.isnan(numbers[:, SUM]) & (numbers[:, COUNT] != 0)
    plain &= ~np.logical_or.reduce(listed[:, middle:], axis=1) & (not sheet.model.is_custom)
    found = np.full(len(rows), np.nan)
    if not plain.any():
        return found, plain
    if not plain.all():
        quantiles, numbers, listed = quantiles[plain], numbers[plain], listed[plain]
    is_there = listed[:, :middle]
    places = np.nonzero(is_there)[1]
    totals = np.stack((numbers[:, COUNT], np.zeros(len(numbers)), numbers[:, ZEROS]), axis=1)
    totals[:, 1] = sheet.model.zero_threshold
    lower, upper = (
        exponential_bounds(index, sheet.model.schema) for index in (sheet.positive - 1, sheet.positive)
    )
    found[plain] = _walk_quantiles(
        quantiles, totals, np.count_nonzero(is_there, axis=1), lower[places], upper[places],
        numbers[:, BUCKETS : BUCKETS + middle][is_there],
    )  # fmt: skip
    return found, plain


def _walk_quantiles(
    quantiles: Doubles, totals: Doubles, sizes: Int64s, lower: Doubles, upper: Doubles, counts: Doubles
) -> Doubles:
    """Return quantiles; `totals` has count, zero threshold and zero count of each histogram."""
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    found = np.empty((len(sizes), 3))
    kinds = np.empty(len(sizes), np.int8)
    find_buckets(quantiles, totals, offsets, lower, upper, counts, found, kinds)
    return _interpolate_all(found, kinds)


def _interpolate_all(found: Doubles, kinds: Int8s) -> Doubles:
    low, high, fraction = found.T
    with np.errstate(all="ignore"):
        linear = low + (high - low) * fraction
        ends = all_log2(np.where(kinds == EXPONENTIAL, low, 1.0)), all_log2(np.where(high > 0, high, 1.0))
        exponential = exp2(ends[0] + (ends[1] - ends[0]) * fraction)
    return np.select([kinds == LINEAR, kinds == EXPONENTIAL], [linear, exponential], high)
