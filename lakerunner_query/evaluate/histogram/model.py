"""Native histograms as PromQL computes with them: all counts are floats, buckets are sparse.

    schema 0, positive buckets at 0 and 1, zero bucket of width 0.001

    count 7   sum 9.5   zero 2 in [-0.001, 0.001]   (0.5, 1] -> 1   (1, 2] -> 4

A bucket that is listed with a count of zero is not the same as one that is not listed: equality and the
assumptions about the zero bucket see the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from lakerunner_query.windows.functions import STALE_BITS
from resources.arrays import Doubles, Int64s

CUSTOM = -53
"""The schema of histograms that bring their own bounds."""
LOWEST, HIGHEST = -4, 8
"""Exponential schemas: a power of two is cut into 2^schema buckets."""


class Hint(IntEnum):
    """What is known of a reset between this histogram and the one before it in its series."""

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
    """One side: which buckets, ascending by distance from zero, and their counts."""

    index: Int64s
    """Exponential: bucket i ends at 2^(i / 2^schema); custom: at `bounds[i]`."""
    count: Doubles

    @property
    def size(self) -> int:
        return len(self.index)

    def populated(self) -> Buckets:
        """Without buckets that count zero."""
        keep = self.count != 0
        return self if bool(keep.all()) else Buckets(self.index[keep], self.count[keep])

    def having(self, count: Doubles) -> Buckets:
        """The same places, other counts."""
        return Buckets(self.index, count)


NO_BUCKETS = Buckets(np.zeros(0, np.int64), np.zeros(0))


def buckets_at(first: int, counts: list[float] | Doubles) -> Buckets:
    """Neighbouring buckets from the index `first` on."""
    values = np.asarray(counts, np.float64)
    return Buckets(np.arange(first, first + len(values), dtype=np.int64), values)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Never changed in place; `==` is identity, `equality.equal` compares."""

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
        """The marker that the series ended: a histogram of which only the sum says anything."""
        return int(np.float64(self.sum).view(np.uint64)) == STALE_BITS

    def with_hint(self, hint: Hint) -> Histogram:
        if hint == self.hint:
            return self
        return Histogram(
            self.schema, self.count, self.sum, self.zero_threshold, self.zero_count,
            self.positive, self.negative, self.bounds, hint,
        )  # fmt: skip


STALE = Histogram(sum=float(np.uint64(STALE_BITS).view(np.float64)))


def compact(histogram: Histogram) -> Histogram:
    """Without buckets that count zero, except the zero bucket."""
    return replace(
        histogram, positive=histogram.positive.populated(), negative=histogram.negative.populated()
    )


def has_overflow(histogram: Histogram) -> bool:
    """Whether any number in it is infinite."""
    totals = (histogram.count, histogram.sum, histogram.zero_count)
    return bool(
        np.isinf(totals).any()
        or np.isinf(histogram.positive.count).any()
        or np.isinf(histogram.negative.count).any()
    )
