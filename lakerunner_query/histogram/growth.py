"""Growth of a series of histograms, for `rate`, `increase`, `delta`, `irate` and `idelta`.

    counts 4, 6, 1, 3    grew by 3 - 4 + 6 = 5: the third follows a reset

Nothing is extrapolated here. Start times may tell of resets that the counts do not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from lakerunner_query.histogram.arithmetic import (
    add,
    common_bounds,
    drop_within_zero,
    map_counts,
    reduce_buckets,
    reduce_resolution,
    scale,
    sub,
    widen_zero,
)
from lakerunner_query.histogram.batch import SUM, columns_of
from lakerunner_query.histogram.batch_kernels import find_drops
from lakerunner_query.histogram.model import (
    NO_BUCKETS,
    Buckets,
    Hint,
    Histogram,
    IncompatibleHistogramsError,
    compact,
)
from lakerunner_query.windows.functions import STALE_BITS
from resources.arrays import Int64s


def detect_reset(current: Histogram, previous: Histogram) -> bool:
    """Test for a reset between two histograms of a series: by the hint, else by any count that went down.

        count 5, [1, 1, 3]  after  count 4, [1, 2, 1]   yes: the second bucket went down

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
    now = map_counts(current.positive, current.bounds, bounds)
    before = map_counts(previous.positive, previous.bounds, bounds)
    return bool((now < before).any())


def _zero_fell(current: Histogram, previous: Histogram) -> bool:
    zero = widen_zero(previous, current.zero_threshold)
    return zero.threshold != current.zero_threshold or current.zero_count < zero.zero_count


def _any_fell(current: Histogram, previous: Histogram) -> bool:
    sides = ((current.positive, previous.positive), (current.negative, previous.negative))
    return any(
        _fell(_outside(now, current, current), _outside(before, previous, current)) for now, before in sides
    )


def _outside(buckets: Buckets, owner: Histogram, target: Histogram) -> Buckets:
    """Put one side of `owner` on the layout of `target`, without the buckets in the zero bucket there."""
    if target.is_custom:
        return buckets
    return drop_within_zero(
        reduce_buckets(buckets, owner.schema, target.schema), target.schema, target.zero_threshold
    )


def _fell(now: Buckets, before: Buckets) -> bool:
    """Test whether a bucket went down, or one that counted something is gone."""
    if not before.size:
        return False
    if not now.size:
        return bool((before.count != 0).any())
    at = np.minimum(np.searchsorted(now.index, before.index), now.size - 1)
    is_there = now.index[at] == before.index
    fell = np.where(is_there, now.count[at] < before.count, before.count != 0)
    return bool(fell.any())


def _find_hints_at_once(
    histograms: Sequence[Histogram | None], times: Int64s, within: int
) -> list[Histogram | None] | None:
    """Return None where layouts differ, or some are missing, stale or gauges."""
    known = [one for one in histograms if one is not None and one.hint != Hint.GAUGE]
    columns = columns_of(known) if known and len(known) == len(histograms) else None
    if columns is None or (columns.sheet.numbers[:, SUM].view(np.int64) == STALE_BITS).any():
        return None
    listed = columns.sheet.is_listed
    fell = find_drops(np.ascontiguousarray(columns.sheet.numbers))
    for at in np.flatnonzero((listed[1:] != listed[:-1]).any(axis=1)).tolist():
        fell[at] = detect_reset(known[at + 1].with_hint(Hint.UNKNOWN), known[at])
    hints = columns.hints.copy()
    is_open = (hints[1:] == Hint.UNKNOWN) & (np.diff(times) <= within)
    hints[1:] = np.where(is_open, np.where(fell, Hint.RESET, Hint.NO_RESET), hints[1:])
    found: list[Histogram | None] = [*known]
    for at in np.flatnonzero(hints != columns.hints).tolist():
        found[at] = known[at].with_hint(Hint(int(hints[at])))
    return found


def find_hints(
    histograms: Sequence[Histogram | None], times: Int64s, within: int, *, are_whole: bool = False
) -> list[Histogram | None]:
    """Replace unknown hints by the resets found between neighbours that lie `within` this time.

    `histogram_count`, `histogram_sum` and `histogram_avg` read their selectors this way. None and stale
    markers are passed over. Of gauges only count and sum are read unless `are_whole`: then their count alone
    tells whether one fell.
    """
    at_once = _find_hints_at_once(histograms, times, within)
    if at_once is not None:
        return at_once
    found: list[Histogram | None] = []
    previous: Histogram | None = None
    seen_at = 0
    for histogram, time in zip(histograms, times.tolist(), strict=True):
        if histogram is None or histogram.is_stale:
            found.append(histogram)
            continue
        hint = histogram.hint
        if hint == Hint.UNKNOWN and previous is not None and time - seen_at <= within:
            hint = Hint.RESET if detect_reset(histogram, previous) else Hint.NO_RESET
        known = histogram.with_hint(hint)
        if hint == Hint.GAUGE and not are_whole:
            known = replace(known, zero_count=0.0, positive=NO_BUCKETS, negative=NO_BUCKETS)
        found.append(known)
        previous, seen_at = histogram, time
    return found


class Note(Enum):
    """An annotation of the answer."""

    NOT_COUNTER = "a gauge where a counter is expected"
    NOT_GAUGE = "a counter where a gauge is expected"
    MIXED_SCHEMAS = "exponential and custom buckets together: no answer"
    BOUNDS_SUBTRACTED = "custom bounds were cut down to the common ones in a subtraction"
    BOUNDS_ADDED = "custom bounds were cut down to the common ones in an addition"


@dataclass(frozen=True, slots=True)
class Growth:
    histogram: Histogram | None
    notes: frozenset[Note] = frozenset()


MIXED = Growth(None, frozenset({Note.MIXED_SCHEMAS}))


def growth(
    histograms: Sequence[Histogram], is_counter: bool, reset_before: Sequence[bool] | None = None
) -> Growth:
    """Return the growth between the first and the last of at least two."""
    notes: set[Note] = set()
    last, start = histograms[-1], histograms[0]
    if is_counter:
        notes |= {Note.NOT_COUNTER for end in (start, last) if end.hint == Hint.GAUGE}
        if (reset_before is not None and reset_before[1]) or detect_reset(histograms[1], start):
            # the first one does not count then, so its layout must not matter
            start = Histogram(schema=histograms[1].schema, bounds=histograms[1].bounds)
    schema = _joint_schema(histograms, start, is_counter)
    if schema is None:
        return Growth(
            None, frozenset(notes | {Note.MIXED_SCHEMAS}) if _ends_differ(start, last) else MIXED.notes
        )
    if is_counter:
        notes |= {Note.NOT_COUNTER for one in histograms[1:-1] if one.hint == Hint.GAUGE}
    elif any(end.hint != Hint.GAUGE for end in (histograms[0], last)):
        notes.add(Note.NOT_GAUGE)
    first_step = sub(reduce_resolution(last, schema), start)
    notes |= {Note.BOUNDS_SUBTRACTED} if first_step.bounds_reconciled else set()
    total = first_step.histogram
    if is_counter:
        try:
            total = _add_resets(total, start, histograms, reset_before, notes)
        except IncompatibleHistogramsError:
            return MIXED
    return Growth(compact(total.with_hint(Hint.GAUGE)), frozenset(notes))


def _ends_differ(start: Histogram, last: Histogram) -> bool:
    return start.is_custom != last.is_custom


def _joint_schema(histograms: Sequence[Histogram], start: Histogram, is_counter: bool) -> int | None:
    """Return the lowest schema, None if some are custom and others not; a gauge looks at its ends only."""
    looked_at = [start, *(histograms[1:-1] if is_counter else ()), histograms[-1]]
    if len({one.is_custom for one in looked_at}) > 1:
        return None
    return min(one.schema for one in looked_at)


def _add_resets(
    total: Histogram,
    start: Histogram,
    histograms: Sequence[Histogram],
    reset_before: Sequence[bool] | None,
    notes: set[Note],
) -> Histogram:
    """Add the histogram before each reset."""
    previous = start
    for place, current in enumerate(histograms[1:], start=1):
        is_known = reset_before is not None and reset_before[place]
        if is_known or detect_reset(current, previous):
            step = add(total, previous)
            total = step.histogram
            notes |= {Note.BOUNDS_ADDED} if step.bounds_reconciled else set()
        previous = current
    return total


def step_growth(previous: Histogram, current: Histogram, is_counter: bool) -> Growth:
    """Return the growth between the last two samples; after a reset it is the newer one."""
    notes: set[Note] = set()
    hints = {previous.hint, current.hint}
    if is_counter and Hint.GAUGE in hints:
        notes.add(Note.NOT_COUNTER)
    if not is_counter and hints != {Hint.GAUGE}:
        notes.add(Note.NOT_GAUGE)
    found = current
    if not is_counter or not detect_reset(current, previous):
        try:
            step = sub(current, previous)
        except IncompatibleHistogramsError:
            return Growth(None, frozenset(notes | {Note.MIXED_SCHEMAS}))
        notes |= {Note.BOUNDS_SUBTRACTED} if step.bounds_reconciled else set()
        found = step.histogram
    return Growth(compact(found.with_hint(Hint.GAUGE)), frozenset(notes))


def interpolate(
    first: Histogram, first_ms: int, second: Histogram, second_ms: int, at_ms: int, is_counter: bool
) -> Growth:
    """Return the histogram at a time between two samples; a counter reset between them began at zero."""
    if at_ms == first_ms:
        return Growth(first)
    if at_ms == second_ms:
        return Growth(second)
    part = (at_ms - first_ms) / (second_ms - first_ms)
    if is_counter and detect_reset(second, first):
        return Growth(scale(second, part))
    try:
        grown = sub(second, first)
        found = add(scale(grown.histogram, part), first)
    except IncompatibleHistogramsError:
        return MIXED
    notes = {Note.BOUNDS_SUBTRACTED} if grown.bounds_reconciled else set()
    notes |= {Note.BOUNDS_ADDED} if found.bounds_reconciled else set()
    return Growth(found.histogram, frozenset(notes))


def reset_correction(between: Sequence[Histogram], left: Histogram, right: Histogram) -> Growth:
    """Return what resets took away between `left` and `right`."""
    notes: set[Note] = set()
    total: Histogram | None = None
    previous = left
    for current in (*between, right):
        if detect_reset(current, previous):
            if total is None:
                total = previous
            else:
                try:
                    step = add(total, previous)
                except IncompatibleHistogramsError:
                    return Growth(None, frozenset(notes | {Note.MIXED_SCHEMAS}))
                total = step.histogram
                notes |= {Note.BOUNDS_ADDED} if step.bounds_reconciled else set()
        previous = current
    return Growth(total, frozenset(notes))
