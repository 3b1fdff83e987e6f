"""Sums, differences and multiples of histograms.

{schema 1, count 4} + {schema 0, count 3}   = {schema 0, count 7}
bounds [2, 4, 6]    + bounds [1, 2, 6]      = bounds [2, 6]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.evaluate.histogram.layout import (
    added,
    beyond,
    common_bounds,
    mapped,
    reduced,
    sparse,
)
from lakerunner_query.evaluate.histogram.model import (
    NO_BUCKETS,
    Hint,
    Histogram,
    IncompatibleHistogramsError,
)
from lakerunner_query.evaluate.histogram.zero import reconciled


@dataclass(frozen=True, slots=True)
class Combined:
    histogram: Histogram
    hint_conflict: bool
    """One was known to follow a reset, the other not to."""
    bounds_reconciled: bool
    """Custom bounds differed and were cut down to the common ones."""


def joint_hint(first: Hint, second: Hint) -> tuple[Hint, bool]:
    """The hint of a sum, and whether the two contradict each other."""
    if first == second:
        return first, False
    if Hint.GAUGE in (first, second):
        return Hint.GAUGE, False
    return Hint.UNKNOWN, Hint.UNKNOWN not in (first, second)


def check_compatible(first: Histogram, second: Histogram) -> None:
    if first.is_custom != second.is_custom:
        raise IncompatibleHistogramsError(first.schema, second.schema)


def add(first: Histogram, second: Histogram) -> Combined:
    return _combined(first, second, 1.0)


def sub(first: Histogram, second: Histogram) -> Combined:
    """The hint is that of a sum; the operator `-` of the language makes a gauge of it."""
    return _combined(first, second, -1.0)


def _combined(first: Histogram, second: Histogram, sign: float) -> Combined:
    check_compatible(first, second)
    hint, conflict = joint_hint(first.hint, second.hint)
    if first.is_custom:
        total, is_reconciled = _custom(first, second, sign), first.bounds != second.bounds
    else:
        total, is_reconciled = _exponential(first, second, sign), False
    count, sum_ = first.count + sign * second.count, first.sum + sign * second.sum
    return Combined(replace(total, count=count, sum=sum_, hint=hint), conflict, is_reconciled)


def _custom(first: Histogram, second: Histogram, sign: float) -> Histogram:
    if first.bounds == second.bounds:
        return replace(first, positive=added(first.positive, second.positive, sign))
    bounds = common_bounds(first.bounds, second.bounds)
    with np.errstate(all="ignore"):
        counts = mapped(first.positive, first.bounds, bounds)
        counts = counts + sign * mapped(second.positive, second.bounds, bounds)
    return replace(first, positive=sparse(counts), bounds=bounds)


def _exponential(first: Histogram, second: Histogram, sign: float) -> Histogram:
    first, zero_count = reconciled(first, second)
    schema, threshold = min(first.schema, second.schema), first.zero_threshold
    sides = [
        added(
            reduced(mine, first.schema, schema),
            beyond(reduced(other, second.schema, schema), schema, threshold),
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
    """All counts and the sum times `factor`; a negative factor makes a gauge."""
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
    """All counts and the sum by `divisor`; zero leaves no buckets but the zero bucket."""
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
    """The same observations in the wider buckets of a lower schema; of the hint nothing is known then."""
    if schema == histogram.schema:
        return histogram
    if histogram.is_custom or schema > histogram.schema:
        raise ValueError(f"schema {schema}: expected one below the histogram's {histogram.schema}")
    return replace(
        histogram,
        schema=schema,
        positive=reduced(histogram.positive, histogram.schema, schema),
        negative=reduced(histogram.negative, histogram.schema, schema),
        hint=Hint.UNKNOWN,
    )


def equal(first: Histogram, second: Histogram) -> bool:
    """Bit by bit the same numbers in the same buckets; hints do not count.

    A bucket that counts zero is told from one that is not there.
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
