"""Native histograms have float counts and sparse buckets, as PromQL computes with them.

    schema 0, positive buckets at 0 and 1, zero bucket of width 0.001

    count 7   sum 9.5   zero 2 in [-0.001, 0.001]   (0.5, 1] -> 1   (1, 2] -> 4

A bucket that is listed with a count of zero is not the same as one that is not listed: equality and the
assumptions about the zero bucket see the difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from lakerunner_query.windows.functions import STALE_BITS
from resources.arrays import Doubles, Int64s

CUSTOM = -53
"""Schema of histograms with their own bounds."""
LOWEST, HIGHEST = -4, 8
"""Exponential schemas: a power of two is cut into 2^schema buckets."""


class Hint(IntEnum):
    """Knowledge of a reset between this histogram and the previous one of its series."""

    UNKNOWN = 0
    RESET = 1
    NO_RESET = 2
    GAUGE = 3


class IncompatibleHistogramsError(ValueError):
    """One histogram has exponential buckets, the other custom ones; nothing of theirs can be added."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(
            f"histograms of schema {first} and {second}: expected both custom or both exponential"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Buckets of one side, ascending by distance from zero, and their counts."""

    index: Int64s
    """Exponential: bucket i ends at 2^(i / 2^schema); custom: at `bounds[i]`."""
    count: Doubles

    @property
    def size(self) -> int:
        return len(self.index)

    def populated(self) -> Buckets:
        """Drop the buckets that count zero."""
        keep = self.count != 0
        return self if bool(keep.all()) else Buckets(self.index[keep], self.count[keep])

    def having(self, count: Doubles) -> Buckets:
        """Replace the counts."""
        return Buckets(self.index, count)


NO_BUCKETS = Buckets(np.zeros(0, np.int64), np.zeros(0))


def buckets_at(first: int, counts: list[float] | Doubles) -> Buckets:
    """Return neighbouring buckets from the index `first` on."""
    values = np.asarray(counts, np.float64)
    return Buckets(np.arange(first, first + len(values), dtype=np.int64), values)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """An immutable histogram; `==` is identity, `arithmetic.equal` compares."""

    schema: int = 0
    count: float = 0.0
    sum: float = 0.0
    zero_threshold: float = 0.0
    zero_count: float = 0.0
    positive: Buckets = NO_BUCKETS
    negative: Buckets = NO_BUCKETS
    bounds: tuple[float, ...] = ()
    """Upper bounds of custom buckets, ascending, without +Inf."""
    hint: Hint = Hint.UNKNOWN

    @property
    def is_custom(self) -> bool:
        return self.schema == CUSTOM

    @property
    def is_stale(self) -> bool:
        """The marker that the series ended, which stands in the sum."""
        return int(np.float64(self.sum).view(np.uint64)) == STALE_BITS

    def with_hint(self, hint: Hint) -> Histogram:
        if hint == self.hint:
            return self
        return Histogram(
            self.schema, self.count, self.sum, self.zero_threshold, self.zero_count,
            self.positive, self.negative, self.bounds, hint,
        )  # fmt: skip


def compact(histogram: Histogram) -> Histogram:
    """Drop the buckets that count zero, except the zero bucket."""
    return replace(
        histogram, positive=histogram.positive.populated(), negative=histogram.negative.populated()
    )


def has_overflow(histogram: Histogram) -> bool:
    """Test whether any number of the histogram is infinite."""
    totals = (histogram.count, histogram.sum, histogram.zero_count)
    return bool(
        np.isinf(totals).any()
        or np.isinf(histogram.positive.count).any()
        or np.isinf(histogram.negative.count).any()
    )


_FACTORS = (math.nextafter(math.sqrt(2), 1), *(2.0 ** (0.5**digit) for digit in range(2, HIGHEST + 1)))
"""2^(1/2), 2^(1/4), … 2^(1/256) as Prometheus has them: the first is one digit in the last place low."""


def _fractions() -> Doubles:
    """Return 2^(i / 256 - 1), so that one exact power of two gives the bound.

    Prometheus multiplies one factor for each binary digit of i and rounds each time. The nearest doubles
    differ from that by up to four digits in the last place, which the API prints.
    """
    found = np.array([0.5])
    for factor in _FACTORS:
        found = np.stack((found, found * factor), axis=1).ravel()
    return found


_FRACTIONS = _fractions()
_LAST = 1024
"""The bucket that would end at 2^1024 ends at the largest number there is; the next one at infinity."""


def exponential_bounds(index: Int64s, schema: int) -> Doubles:
    """Return the distance from zero at which each bucket ends: schema 1, index 3 at 2^(3 / 2) = 2.83.

    >>> exponential_bounds(np.array([-1, 0, 2]), 0).tolist()
    [0.5, 1.0, 4.0]
    """
    if schema < 0:
        powers, is_last = index << -schema, (index << -schema) == _LAST
        fractions: Doubles = np.ones(len(index))
    else:
        part = (index & ((1 << schema) - 1)) << (HIGHEST - schema)
        fractions, powers = _FRACTIONS[part], (index >> schema) + 1
        is_last = (part == 0) & (powers == _LAST + 1)
    with np.errstate(over="ignore", under="ignore"):
        found = np.ldexp(fractions, np.clip(powers, -2000, 2000).astype(np.int32))
    return np.where(is_last, np.finfo(np.float64).max, found)


def custom_bounds(index: Int64s, bounds: tuple[float, ...]) -> Doubles:
    """Return the upper bound of each custom bucket: of bounds [5, 10], index 2 is +Inf, index -1 is -Inf."""
    framed = np.array((-np.inf, *bounds, np.inf))
    found: Doubles = framed[np.clip(index + 1, 0, len(framed) - 1)]
    return found


def ends(histogram: Histogram, index: Int64s) -> Doubles:
    """Return the ends of buckets, as distance from zero (custom: as they are)."""
    if histogram.is_custom:
        return custom_bounds(index, histogram.bounds)
    return exponential_bounds(index, histogram.schema)


@dataclass(frozen=True, slots=True)
class Bucket:
    lower: float
    upper: float
    lower_inclusive: bool
    upper_inclusive: bool
    count: float


def positive_buckets(histogram: Histogram) -> list[Bucket]:
    """Return positive buckets outwards from zero."""
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
    """Return negative buckets outwards from zero."""
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
    """Yield all buckets, ascending; one that reaches into the zero bucket is cut off there.

    negative [-2, -1) 1   zero [-0.5, 0.5] 4   positive (1, 2] 3
    """
    yield from (_cut(one, histogram) for one in reversed(negative_buckets(histogram)))
    yield from _zero(histogram)
    yield from (_cut(one, histogram) for one in positive_buckets(histogram))


def buckets_down(histogram: Histogram) -> Iterator[Bucket]:
    """Yield all buckets, descending."""
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
    """Cut the zero bucket of a histogram with one side only: it ends at zero on the other."""
    has_negative, has_positive = histogram.negative.size > 0, histogram.positive.size > 0
    if has_positive and not has_negative:
        return replace(bucket, lower=0.0)
    if has_negative and not has_positive:
        return replace(bucket, upper=0.0)
    return bucket
