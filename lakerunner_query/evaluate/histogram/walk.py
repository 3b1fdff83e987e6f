"""The buckets of a histogram from lowest to highest, the zero bucket among them.

negative [-2, -1) 1   zero [-0.5, 0.5] 4   positive (1, 2] 3
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakerunner_query.evaluate.histogram.bounds import ends
from lakerunner_query.evaluate.histogram.model import Histogram


@dataclass(frozen=True, slots=True)
class Bucket:
    lower: float
    upper: float
    lower_inclusive: bool
    upper_inclusive: bool
    count: float


def positive_buckets(histogram: Histogram) -> list[Bucket]:
    """Outwards from zero."""
    index = histogram.positive.index
    lower, upper = ends(histogram, index - 1).tolist(), ends(histogram, index).tolist()
    counts = histogram.positive.count.tolist()
    if histogram.is_custom:
        return [
            Bucket(low, high, i == 0, True, count)
            for i, low, high, count in zip(index.tolist(), lower, upper, counts, strict=True)
        ]
    return [
        Bucket(low, high, low < 0, high > 0, count)
        for low, high, count in zip(lower, upper, counts, strict=True)
    ]


def negative_buckets(histogram: Histogram) -> list[Bucket]:
    """Outwards from zero."""
    index = histogram.negative.index
    lower, upper = (-ends(histogram, index)).tolist(), (-ends(histogram, index - 1)).tolist()
    counts = histogram.negative.count.tolist()
    return [
        Bucket(low, high, low < 0, high > 0, count)
        for low, high, count in zip(lower, upper, counts, strict=True)
    ]


def zero_bucket(histogram: Histogram) -> Bucket:
    width = histogram.zero_threshold
    return Bucket(-width, width, True, True, histogram.zero_count)


def buckets(histogram: Histogram) -> Iterator[Bucket]:
    """Ascending; where a bucket reaches into the zero bucket, it is cut off there."""
    yield from (_cut(one, histogram) for one in reversed(negative_buckets(histogram)))
    yield from _zero(histogram)
    yield from (_cut(one, histogram) for one in positive_buckets(histogram))


def buckets_down(histogram: Histogram) -> Iterator[Bucket]:
    """Descending."""
    yield from (_cut(one, histogram) for one in reversed(positive_buckets(histogram)))
    yield from _zero(histogram)
    yield from (_cut(one, histogram) for one in negative_buckets(histogram))


def _zero(histogram: Histogram) -> Iterator[Bucket]:
    if histogram.zero_count > 0:
        yield zero_bucket(histogram)


def _cut(bucket: Bucket, histogram: Histogram) -> Bucket:
    width = histogram.zero_threshold
    if bucket.upper < 0 and bucket.upper > -width:
        return replace(bucket, upper=-width)
    if bucket.lower > 0 and bucket.lower < width:
        return replace(bucket, lower=width)
    return bucket


def natural_zero(bucket: Bucket, histogram: Histogram) -> Bucket:
    """The zero bucket of a histogram with one side only ends at zero on the other."""
    has_negative, has_positive = histogram.negative.size > 0, histogram.positive.size > 0
    if has_positive and not has_negative:
        return replace(bucket, lower=0.0)
    if has_negative and not has_positive:
        return replace(bucket, upper=0.0)
    return bucket
