"""Histograms are added, subtracted and scaled on a common layout.

{schema 1, count 4} + {schema 0, count 3}   = {schema 0, count 7}
bounds [2, 4, 6]    + bounds [1, 2, 6]      = bounds [2, 6]

schema 1: [1:3, 2:1, 3:5]       as schema 0: [1:4, 2:5]
bounds [1, 2, 3]: [2, 3, 4, 1]  as bounds [2]: [5, 5]

The zero bucket is made wide enough for both; a threshold inside of a populated bucket moves on to its end:

threshold 0.001, zero 2, (0.5, 1] 3   widened to 0.7:   threshold 1, zero 5
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.histogram.model import (
    NO_BUCKETS,
    Buckets,
    Hint,
    Histogram,
    IncompatibleHistogramsError,
    compact,
    exponential_bounds,
)
from resources.arrays import Doubles, Int64s


def coarser_index(index: Int64s, schema: int, target: int) -> Int64s:
    """Return the buckets of schema `target` that hold these ones."""
    return ((index - 1) >> (schema - target)) + 1


def reduce_buckets(buckets: Buckets, schema: int, target: int) -> Buckets:
    """Put the observations into the fewer buckets of schema `target`."""
    if schema == target or not buckets.size:
        return buckets
    wide = coarser_index(buckets.index, schema, target)
    starts = np.flatnonzero(np.concatenate(([True], wide[1:] != wide[:-1])))
    return Buckets(wide[starts], np.add.reduceat(buckets.count, starts))


def drop_within_zero(buckets: Buckets, schema: int, threshold: float) -> Buckets:
    """Drop the buckets that end within the zero bucket."""
    if threshold == 0 or not buckets.size:
        return buckets
    keep = exponential_bounds(buckets.index, schema) > threshold
    return buckets if bool(keep.all()) else Buckets(buckets.index[keep], buckets.count[keep])


def on_index(buckets: Buckets, index: Int64s) -> Doubles:
    """Return the counts at these places, which include all of the buckets'."""
    found = np.zeros(len(index))
    found[np.searchsorted(index, buckets.index)] = buckets.count
    return found


def joint_index(first: Buckets, second: Buckets) -> Int64s:
    """Return all places that either has."""
    if first.size == second.size and bool((first.index == second.index).all()):
        return first.index
    return np.union1d(first.index, second.index)


def add_buckets(first: Buckets, second: Buckets, sign: float = 1.0) -> Buckets:
    """Return `first + sign * second`, with places that only one has even if they count zero."""
    if not second.size:
        return first
    index = joint_index(first, second)
    with np.errstate(all="ignore"):
        return Buckets(index, on_index(first, index) + sign * on_index(second, index))


def common_bounds(first: tuple[float, ...], second: tuple[float, ...]) -> tuple[float, ...]:
    """Return the bounds that both have.

    >>> common_bounds((2.0, 4.0, 6.0), (1.0, 2.0, 6.0))
    (2.0, 6.0)
    """
    known = set(second)
    return tuple(bound for bound in first if bound in known)


def place_in(index: Int64s, bounds: tuple[float, ...], target: tuple[float, ...]) -> Int64s:
    """Return the buckets of `target` that hold these of `bounds`, among which are all of `target`."""
    upper = np.array((*bounds, np.inf))[np.minimum(index, len(bounds))]
    return np.searchsorted(np.array(target), upper, side="left").astype(np.int64)


def map_counts(buckets: Buckets, bounds: tuple[float, ...], target: tuple[float, ...]) -> Doubles:
    """Return the counts of all buckets of `target`, the one to infinity last."""
    found = np.zeros(len(target) + 1)
    np.add.at(found, place_in(buckets.index, bounds, target), buckets.count)
    return found


def sparse_buckets(counts: Doubles) -> Buckets:
    """Return the buckets that count something, of all from index 0 on."""
    index = np.flatnonzero(counts != 0)
    return Buckets(index, counts[index]) if len(index) else NO_BUCKETS


@dataclass(frozen=True, slots=True)
class Side:
    """Buckets of one side with their edges, as distance from zero."""

    lower: Doubles
    upper: Doubles
    count: Doubles


def side(buckets: Buckets, schema: int) -> Side:
    edge = exponential_bounds(buckets.index, schema)
    return Side(exponential_bounds(buckets.index - 1, schema), edge, buckets.count)


def threshold_over(sides: tuple[Side, Side], threshold: float) -> float:
    """Return the lowest threshold, from this one on, that cuts no populated bucket."""
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
class ZeroBucket:
    zero_count: float
    threshold: float


def widen_zero(histogram: Histogram, threshold: float) -> ZeroBucket:
    """Return the zero bucket with a threshold of at least this one.

    The order of additions is that of Prometheus: outwards, the positive side first.
    """
    if threshold == histogram.zero_threshold:
        return ZeroBucket(histogram.zero_count, threshold)
    if threshold < histogram.zero_threshold:
        raise ValueError(f"threshold {threshold}: expected at least {histogram.zero_threshold}")
    sides = (side(histogram.positive, histogram.schema), side(histogram.negative, histogram.schema))
    threshold = threshold_over(sides, threshold)
    count = histogram.zero_count
    for one in sides:
        for inside in one.count[one.lower < threshold].tolist():
            count += inside
    return ZeroBucket(count, threshold)


def set_zero(histogram: Histogram, zero: ZeroBucket) -> Histogram:
    """Set the wider zero bucket, and drop the buckets within it."""
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


def align_zero(first: Histogram, second: Histogram) -> tuple[Histogram, float]:
    """Return the first with a zero bucket that fits both, and the second's count in that bucket."""
    zero = ZeroBucket(second.zero_count, second.zero_threshold)
    while zero.threshold != first.zero_threshold:
        if first.zero_threshold > zero.threshold:
            zero = widen_zero(second, first.zero_threshold)
        if zero.threshold > first.zero_threshold:
            first = set_zero(first, widen_zero(first, zero.threshold))
    return first, zero.zero_count


@dataclass(frozen=True, slots=True)
class HistogramSum:
    histogram: Histogram
    hint_conflict: bool
    """One is known to follow a reset, the other not to."""
    bounds_reconciled: bool
    """Custom bounds differed and were cut down to the common ones."""


def joint_hint(first: Hint, second: Hint) -> tuple[Hint, bool]:
    """Return the hint of a sum, and whether the two contradict each other."""
    if first == second:
        return first, False
    if Hint.GAUGE in (first, second):
        return Hint.GAUGE, False
    return Hint.UNKNOWN, Hint.UNKNOWN not in (first, second)


def check_compatible(first: Histogram, second: Histogram) -> None:
    if first.is_custom != second.is_custom:
        raise IncompatibleHistogramsError(first.schema, second.schema)


def add(first: Histogram, second: Histogram) -> HistogramSum:
    return _add(first, second, 1.0)


def sub(first: Histogram, second: Histogram) -> HistogramSum:
    """Subtract; the hint is that of a sum, and the operator `-` of the language makes a gauge of it."""
    return _add(first, second, -1.0)


def _add(first: Histogram, second: Histogram, sign: float) -> HistogramSum:
    check_compatible(first, second)
    hint, conflict = joint_hint(first.hint, second.hint)
    if first.is_custom:
        total, is_reconciled = _add_custom(first, second, sign), first.bounds != second.bounds
    else:
        total, is_reconciled = _add_exponential(first, second, sign), False
    count, sum_ = first.count + sign * second.count, first.sum + sign * second.sum
    return HistogramSum(replace(total, count=count, sum=sum_, hint=hint), conflict, is_reconciled)


def _add_custom(first: Histogram, second: Histogram, sign: float) -> Histogram:
    if first.bounds == second.bounds:
        return replace(first, positive=add_buckets(first.positive, second.positive, sign))
    bounds = common_bounds(first.bounds, second.bounds)
    with np.errstate(all="ignore"):
        counts = map_counts(first.positive, first.bounds, bounds)
        counts = counts + sign * map_counts(second.positive, second.bounds, bounds)
    return replace(first, positive=sparse_buckets(counts), bounds=bounds)


def _add_exponential(first: Histogram, second: Histogram, sign: float) -> Histogram:
    first, zero_count = align_zero(first, second)
    schema, threshold = min(first.schema, second.schema), first.zero_threshold
    sides = [
        add_buckets(
            reduce_buckets(mine, first.schema, schema),
            drop_within_zero(reduce_buckets(other, second.schema, schema), schema, threshold),
            sign,
        )
        for mine, other in ((first.positive, second.positive), (first.negative, second.negative))
    ]
    return replace(
        first,
        schema=schema,
        zero_count=first.zero_count + sign * zero_count,
        positive=sides[0],
        negative=sides[1],
    )


def scale(histogram: Histogram, factor: float) -> Histogram:
    """Multiply all counts and the sum; a negative factor makes a gauge."""
    with np.errstate(all="ignore"):
        return replace(
            histogram,
            count=histogram.count * factor,
            sum=histogram.sum * factor,
            zero_count=histogram.zero_count * factor,
            positive=histogram.positive.having(histogram.positive.count * factor),
            negative=histogram.negative.having(histogram.negative.count * factor),
            hint=Hint.GAUGE if factor < 0 else histogram.hint,
        )


def negate(histogram: Histogram) -> Histogram:
    return scale(histogram, -1.0)


def divide(histogram: Histogram, divisor: float) -> Histogram:
    """Divide all counts and the sum; zero leaves no buckets but the zero bucket."""
    by = np.float64(divisor)
    with np.errstate(all="ignore"):
        totals = replace(
            histogram,
            count=float(np.float64(histogram.count) / by),
            sum=float(np.float64(histogram.sum) / by),
            zero_count=float(np.float64(histogram.zero_count) / by),
        )
        if divisor == 0:
            return replace(totals, positive=NO_BUCKETS, negative=NO_BUCKETS)
        return replace(
            totals,
            positive=histogram.positive.having(histogram.positive.count / by),
            negative=histogram.negative.having(histogram.negative.count / by),
            hint=Hint.GAUGE if divisor < 0 else histogram.hint,
        )


def reduce_resolution(histogram: Histogram, schema: int) -> Histogram:
    """Put the observations into the wider buckets of a lower schema; the hint is unknown then."""
    if schema == histogram.schema:
        return histogram
    if histogram.is_custom or schema > histogram.schema:
        raise ValueError(f"schema {schema}: expected one below the histogram's {histogram.schema}")
    return replace(
        histogram,
        schema=schema,
        positive=reduce_buckets(histogram.positive, histogram.schema, schema),
        negative=reduce_buckets(histogram.negative, histogram.schema, schema),
        hint=Hint.UNKNOWN,
    )


def equal(first: Histogram, second: Histogram) -> bool:
    """Test for the same buckets with the same bits of numbers; hints do not count.

    A bucket that counts zero differs from one that is not listed.
    """
    return (
        first.schema == second.schema
        and first.bounds == second.bounds
        and first.zero_threshold == second.zero_threshold
        and _bits(first) == _bits(second)
        and all(
            mine.size == other.size
            and bool((mine.index == other.index).all())
            and mine.count.tobytes() == other.count.tobytes()
            for mine, other in ((first.positive, second.positive), (first.negative, second.negative))
        )
    )


def _bits(histogram: Histogram) -> bytes:
    return np.array([histogram.count, histogram.sum, histogram.zero_count]).tobytes()
