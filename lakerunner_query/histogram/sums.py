"""Compensated sums and means of many histograms keep what rounding loses.

    1, 1e100, 1, -1e100   plain sum 0, compensated sum 2

The mean is the sum by the count as long as the sum fits; then it goes on as a running mean. `grid_sums` does
the same for all steps at once where all histograms have one layout and nothing overflows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lakerunner_query.histogram.arithmetic import (
    add,
    check_compatible,
    coarser_index,
    common_bounds,
    divide,
    drop_within_zero,
    joint_hint,
    joint_index,
    on_index,
    place_in,
    reduce_buckets,
    scale,
    side,
    sparse_buckets,
    threshold_over,
    widen_zero,
)
from lakerunner_query.histogram.batch import Columns, Sheet, columns_of
from lakerunner_query.histogram.model import Buckets, Hint, Histogram, has_overflow
from lakerunner_query.vectors.vector import Objects
from resources.arrays import Doubles, Flags, Int64s


def plus(number: Doubles, total: Doubles, lost: Doubles) -> tuple[Doubles, Doubles]:
    """Add arrays as Neumaier does: return the totals, and all that rounding lost so far."""
    with np.errstate(all="ignore"):
        after = total + number
        gone = np.where(np.abs(total) >= np.abs(number), (total - after) + number, (number - after) + total)
        return after, np.where(np.isinf(after), 0.0, lost + gone)


def plus_one(number: float, total: float, lost: float) -> tuple[float, float]:
    after = total + number
    if np.isinf(after):
        return after, 0.0
    if abs(total) >= abs(number):
        return after, lost + ((total - after) + number)
    return after, lost + ((number - after) + total)


def _zeros_like(histogram: Histogram) -> Histogram:
    """Return a histogram of the same places that counts zero everywhere."""
    return replace(
        histogram,
        count=0.0,
        sum=0.0,
        zero_count=0.0,
        positive=histogram.positive.having(np.zeros(histogram.positive.size)),
        negative=histogram.negative.having(np.zeros(histogram.negative.size)),
    )


Pair = tuple[Histogram, Histogram]
"""A total, and the loss of its additions, on the same places."""


def _add_kept(total: Buckets, lost: Buckets, other: Buckets) -> tuple[Buckets, Buckets]:
    index = joint_index(total, other)
    at = np.searchsorted(index, other.index)
    totals, losses = on_index(total, index), on_index(lost, index)
    totals[at], losses[at] = plus(other.count, totals[at], losses[at])
    return Buckets(index, totals), Buckets(index, losses)


def _sum_by_place(place: Int64s, parts: list[Doubles]) -> tuple[Doubles, Doubles]:
    """Sum by place from zero on; parts of one bucket are added one after the other."""
    totals, losses = np.zeros(int(place.max(initial=-1)) + 1), np.zeros(int(place.max(initial=-1)) + 1)
    for i, to in enumerate(place.tolist()):
        for part in parts:
            totals[to], losses[to] = plus_one(float(part[i]), float(totals[to]), float(losses[to]))
    return totals, losses


def _reduce_pair(total: Buckets, lost: Buckets, schema: int, target: int) -> tuple[Buckets, Buckets]:
    if schema == target or not total.size:
        return total, lost
    index, place = np.unique(coarser_index(total.index, schema, target), return_inverse=True)
    totals, losses = _sum_by_place(place.ravel().astype(np.int64), [total.count, lost.count])
    return Buckets(index, totals), Buckets(index, losses)


def _widen_zero(total: Histogram, lost: Histogram, threshold: float) -> Pair:
    """Widen the zero bucket to at least this threshold, with compensated sums."""
    sides = (side(total.positive, total.schema), side(total.negative, total.schema))
    threshold = threshold_over(sides, threshold)
    zero, zero_lost = total.zero_count, lost.zero_count
    kept = []
    for one, mine, gone in zip(
        sides, (total.positive, total.negative), (lost.positive, lost.negative), strict=True
    ):
        inside = one.lower < threshold
        for number, loss in zip(mine.count[inside].tolist(), gone.count[inside].tolist(), strict=True):
            zero, zero_lost = plus_one(number, zero, zero_lost)
            zero, zero_lost = plus_one(loss, zero, zero_lost)
        keep = ~inside & ((mine.count != 0) | (gone.count != 0))
        kept.append(
            (Buckets(mine.index[keep], mine.count[keep]), Buckets(mine.index[keep], gone.count[keep]))
        )
    return (
        replace(total, zero_threshold=threshold, zero_count=zero, positive=kept[0][0], negative=kept[1][0]),
        replace(
            lost, zero_threshold=threshold, zero_count=zero_lost, positive=kept[0][1], negative=kept[1][1]
        ),
    )


def _plus_exponential(total: Histogram, lost: Histogram, other: Histogram) -> Pair:
    zero_count, threshold = other.zero_count, other.zero_threshold
    while threshold != total.zero_threshold:
        if total.zero_threshold > threshold:
            zero = widen_zero(other, total.zero_threshold)
            zero_count, threshold = zero.zero_count, zero.threshold
        if threshold > total.zero_threshold:
            total, lost = _widen_zero(total, lost, threshold)
    schema = min(total.schema, other.schema)
    sides = []
    for mine, gone, new in (
        (total.positive, lost.positive, other.positive),
        (total.negative, lost.negative, other.negative),
    ):
        coarser = _reduce_pair(mine, gone, total.schema, schema)
        sides.append(
            _add_kept(
                *coarser, drop_within_zero(reduce_buckets(new, other.schema, schema), schema, threshold)
            )
        )
    zero_total, zero_lost = plus_one(zero_count, total.zero_count, lost.zero_count)
    return (
        replace(total, schema=schema, zero_count=zero_total, positive=sides[0][0], negative=sides[1][0]),
        replace(lost, schema=schema, zero_count=zero_lost, positive=sides[0][1], negative=sides[1][1]),
    )


def _plus_custom(total: Histogram, lost: Histogram, other: Histogram) -> Pair:
    if total.bounds == other.bounds:
        kept, gone = _add_kept(total.positive, lost.positive, other.positive)
        return replace(total, positive=kept), replace(lost, positive=gone)
    bounds = common_bounds(total.bounds, other.bounds)
    size = len(bounds) + 1
    place = np.concatenate(
        (
            place_in(total.positive.index, total.bounds, bounds),
            place_in(lost.positive.index, total.bounds, bounds),
            place_in(other.positive.index, other.bounds, bounds),
        )
    )
    parts = np.concatenate((total.positive.count, lost.positive.count, other.positive.count))
    totals, losses = _sum_by_place(np.append(place, size - 1), [np.append(parts, 0.0)])
    kept = sparse_buckets(totals)
    return (
        replace(total, bounds=bounds, positive=kept),
        replace(lost, bounds=bounds, positive=Buckets(kept.index, losses[kept.index])),
    )


def plus_histogram(pair: Pair, other: Histogram) -> tuple[Pair, bool]:
    """Add one histogram to the total, and return whether custom bounds had to be cut down."""
    total, lost = pair
    check_compatible(total, other)
    is_reconciled = total.is_custom and total.bounds != other.bounds
    count, count_lost = plus_one(other.count, total.count, lost.count)
    sum_, sum_lost = plus_one(other.sum, total.sum, lost.sum)
    hint, _ = joint_hint(total.hint, other.hint)
    step = _plus_custom if total.is_custom else _plus_exponential
    total, lost = step(total, lost, other)
    return (
        replace(total, count=count, sum=sum_, hint=hint),
        replace(lost, count=count_lost, sum=sum_lost),
    ), is_reconciled


class KahanSum:
    """Compensated sum for `sum` and `sum_over_time`: `add` one after the other, then `result`.

    An addition may raise `IncompatibleHistogramsError`; the sum so far is then unchanged.
    """

    def __init__(self, first: Histogram) -> None:
        self._pair: Pair = (first, _zeros_like(first))
        self._hints = {first.hint}
        self.bounds_reconciled = False

    def add(self, other: Histogram) -> None:
        self._hints.add(other.hint)
        self._pair, is_reconciled = plus_histogram(self._pair, other)
        self.bounds_reconciled |= is_reconciled

    @property
    def hint_conflict(self) -> bool:
        """Some histograms were known to follow a reset, others not to."""
        return {Hint.RESET, Hint.NO_RESET} <= self._hints

    def result(self) -> Histogram:
        return add(*self._pair).histogram


class KahanMean:
    """Compensated mean for `avg` and `avg_over_time`, used like `KahanSum`."""

    def __init__(self, first: Histogram) -> None:
        self._pair: Pair = (first, _zeros_like(first))
        self._count = 1.0
        self._is_running = False
        self._hints = {first.hint}
        self.bounds_reconciled = False

    @property
    def hint_conflict(self) -> bool:
        return {Hint.RESET, Hint.NO_RESET} <= self._hints

    def add(self, other: Histogram) -> None:
        self._hints.add(other.hint)
        count = self._count + 1
        if not self._is_running:
            pair, is_reconciled = plus_histogram(self._pair, other)
            self.bounds_reconciled |= is_reconciled
            if not has_overflow(pair[0]):
                self._pair, self._count = pair, count
                return
            self._is_running = True
            self._pair = (divide(self._pair[0], count - 1), divide(self._pair[1], count - 1))
        share = (count - 1) / count
        scaled = (scale(self._pair[0], share), scale(self._pair[1], share))
        self._pair, is_reconciled = plus_histogram(scaled, divide(other, count))
        self.bounds_reconciled |= is_reconciled
        self._count = count

    def result(self) -> Histogram:
        mean, lost = self._pair
        if not self._is_running:
            mean, lost = divide(mean, self._count), divide(lost, self._count)
        return add(mean, lost).histogram


def grid_sums(cells: Objects, present: Flags, *, is_mean: bool) -> tuple[Objects, Flags] | None:
    """Sum (members, steps) cells, all histograms, by step, and flag steps where hints conflict.

    None where `KahanSum` and `KahanMean` have to do it: layouts differ, or something overflows.
    """
    members, steps = np.nonzero(present)
    columns = columns_of(cells[members, steps].tolist())
    if columns is None:
        return None
    sheet = columns.sheet
    numbers = _kahan_sums(sheet.numbers, members, steps, present.shape)
    if numbers is None:
        return None
    totals, lost = numbers
    if is_mean:
        by = present.sum(axis=0)[:, None].astype(np.float64)
        totals, lost = totals / by, lost / by
    listed = _listed(sheet, steps, present.shape[1])
    hints, conflicts = _hints(columns, steps, present.shape[1])
    found = Sheet(sheet.model, sheet.positive, sheet.negative, totals + lost, listed)
    return found.histograms(hints), conflicts


def _kahan_sums(
    numbers: Doubles, members: Int64s, steps: Int64s, shape: tuple[int, ...]
) -> tuple[Doubles, Doubles] | None:
    """Return totals by step and their losses; None if one is not finite, as order decides then."""
    totals, lost = np.zeros((shape[1], numbers.shape[1])), np.zeros((shape[1], numbers.shape[1]))
    begins = np.searchsorted(members, np.arange(shape[0] + 1))
    for member in range(shape[0]):
        rows = slice(int(begins[member]), int(begins[member + 1]))
        at = steps[rows]
        totals[at], lost[at] = plus(numbers[rows], totals[at], lost[at])
    return (totals, lost) if bool(np.isfinite(totals).all()) else None


def _listed(sheet: Sheet, steps: Int64s, count: int) -> Flags:
    found = np.zeros((count, sheet.is_listed.shape[1]), np.bool_)
    np.logical_or.at(found, steps, sheet.is_listed)
    return found


def _hints(columns: Columns, steps: Int64s, count: int) -> tuple[list[Hint], Flags]:
    has = {hint: np.bincount(steps, columns.hints == hint, minlength=count) > 0 for hint in Hint}
    joint = np.full(count, Hint.UNKNOWN, np.int8)
    for hint in (Hint.RESET, Hint.NO_RESET):
        others = np.logical_or.reduce([has[other] for other in Hint if other != hint])
        joint[has[hint] & ~others] = hint
    joint[has[Hint.GAUGE]] = Hint.GAUGE
    return [Hint(hint) for hint in joint.tolist()], has[Hint.RESET] & has[Hint.NO_RESET]
