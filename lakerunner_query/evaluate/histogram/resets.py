"""Whether a counter began anew between two histograms of a series.

count 5, [1, 1, 3]  after  count 4, [1, 2, 1]   yes: the second bucket went down
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lakerunner_query.evaluate.histogram.columns import columns_of
from lakerunner_query.evaluate.histogram.falling import any_fell
from lakerunner_query.evaluate.histogram.layout import beyond, common_bounds, mapped, reduced
from lakerunner_query.evaluate.histogram.model import NO_BUCKETS, Buckets, Hint, Histogram
from lakerunner_query.evaluate.histogram.sheets import SUM
from lakerunner_query.evaluate.histogram.zero import widened
from lakerunner_query.windows.functions import STALE_BITS


def detect_reset(current: Histogram, previous: Histogram) -> bool:
    """By the hint where it says so, else by any count that went down.

    A finer schema or a narrower zero bucket comes only with a reset; a coarser one is compared on the
    coarser layout. The sum may go down without a reset.
    """
    if current.hint in (Hint.RESET, Hint.NO_RESET):
        return current.hint == Hint.RESET
    if current.count < previous.count:
        return True
    if current.is_custom and (not previous.is_custom or current.bounds != previous.bounds):
        return not previous.is_custom or _custom_fell(current, previous)
    if current.schema > previous.schema or current.zero_threshold < previous.zero_threshold:
        return True
    return _zero_fell(current, previous) or _any_fell(current, previous)


def _custom_fell(current: Histogram, previous: Histogram) -> bool:
    bounds = common_bounds(current.bounds, previous.bounds)
    now = mapped(current.positive, current.bounds, bounds)
    before = mapped(previous.positive, previous.bounds, bounds)
    return bool((now < before).any())


def _zero_fell(current: Histogram, previous: Histogram) -> bool:
    zero = widened(previous, current.zero_threshold)
    return zero.threshold != current.zero_threshold or current.zero_count < zero.zero_count


def _any_fell(current: Histogram, previous: Histogram) -> bool:
    sides = ((current.positive, previous.positive), (current.negative, previous.negative))
    return any(
        _fell(_outside(now, current, current), _outside(before, previous, current)) for now, before in sides
    )


def _outside(buckets: Buckets, owner: Histogram, target: Histogram) -> Buckets:
    """One side of `owner` on the layout of `target`, without what is in the zero bucket there."""
    if target.is_custom:
        return buckets
    return beyond(reduced(buckets, owner.schema, target.schema), target.schema, target.zero_threshold)


def _fell(now: Buckets, before: Buckets) -> bool:
    """Whether a bucket went down, or one that counted something is not there any more."""
    if not before.size:
        return False
    if not now.size:
        return bool((before.count != 0).any())
    at = np.minimum(np.searchsorted(now.index, before.index), now.size - 1)
    is_there = now.index[at] == before.index
    fell = np.where(is_there, now.count[at] < before.count, before.count != 0)
    return bool(fell.any())


def _found_at_once(histograms: Sequence[Histogram | None]) -> list[Histogram | None] | None:
    """None where layouts differ, or some are missing, stale or gauges."""
    known = [one for one in histograms if one is not None and one.hint != Hint.GAUGE]
    columns = columns_of(known) if known and len(known) == len(histograms) else None
    if columns is None or (columns.sheet.numbers[:, SUM].view(np.int64) == STALE_BITS).any():
        return None
    listed = columns.sheet.listed
    fell = any_fell(np.ascontiguousarray(columns.sheet.numbers))
    for at in np.flatnonzero((listed[1:] != listed[:-1]).any(axis=1)).tolist():
        fell[at] = detect_reset(known[at + 1].with_hint(Hint.UNKNOWN), known[at])
    hints = columns.hints.copy()
    hints[1:] = np.where(hints[1:] == Hint.UNKNOWN, np.where(fell, Hint.RESET, Hint.NO_RESET), hints[1:])
    found: list[Histogram | None] = [*known]
    for at in np.flatnonzero(hints != columns.hints).tolist():
        found[at] = known[at].with_hint(Hint(int(hints[at])))
    return found


def with_found_hints(
    histograms: Sequence[Histogram | None], *, are_whole: bool = False
) -> list[Histogram | None]:
    """A series read one sample after the other, its unknown hints replaced by what is found.

    This is how `histogram_count`, `histogram_sum` and `histogram_avg` read their selectors. What is None
    or stale is passed over. Gauges are known by their hint, and of them only count and sum are read unless
    they have to be whole: whether one fell is told by its count alone then.
    """
    at_once = _found_at_once(histograms)
    if at_once is not None:
        return at_once
    found: list[Histogram | None] = []
    previous: Histogram | None = None
    for histogram in histograms:
        if histogram is None or histogram.is_stale:
            found.append(histogram)
            continue
        hint = histogram.hint
        if hint == Hint.UNKNOWN and previous is not None:
            hint = Hint.RESET if detect_reset(histogram, previous) else Hint.NO_RESET
        known = histogram.with_hint(hint)
        if hint == Hint.GAUGE and not are_whole:
            known = replace(known, zero_count=0.0, positive=NO_BUCKETS, negative=NO_BUCKETS)
        found.append(known)
        previous = histogram
    return found
