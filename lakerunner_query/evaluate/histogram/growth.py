"""What a series of histograms grew by: the middle part of `rate`, `increase`, `delta`, `irate`, `idelta`.

    counts 4, 6, 1, 3    grew by 3 - 4 + 6 = 5: the third follows a reset

Nothing is extrapolated here. Start timestamps may tell of resets that the counts do not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from lakerunner_query.evaluate.histogram.arithmetic import add, reduce_resolution, scale, sub
from lakerunner_query.evaluate.histogram.model import Hint, Histogram, IncompatibleHistogramsError, compact
from lakerunner_query.evaluate.histogram.resets import detect_reset


class Note(Enum):
    """What the caller tells about the answer."""

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
    """Between the first and the last of at least two."""
    notes: set[Note] = set()
    last, start = histograms[-1], histograms[0]
    if is_counter:
        notes |= {Note.NOT_COUNTER for end in (start, last) if end.hint == Hint.GAUGE}
        if (reset_before is not None and reset_before[1]) or detect_reset(histograms[1], start):
            # Nothing of the first one counts then, so its layout must not matter.
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
            total = _with_resets(total, start, histograms, reset_before, notes)
        except IncompatibleHistogramsError:
            return MIXED
    return Growth(compact(total.with_hint(Hint.GAUGE)), frozenset(notes))


def _ends_differ(start: Histogram, last: Histogram) -> bool:
    return start.is_custom != last.is_custom


def _joint_schema(histograms: Sequence[Histogram], start: Histogram, is_counter: bool) -> int | None:
    """The lowest schema, None if some are custom and others not; a gauge looks at its ends only."""
    looked_at = [start, *(histograms[1:-1] if is_counter else ()), histograms[-1]]
    if len({one.is_custom for one in looked_at}) > 1:
        return None
    return min(one.schema for one in looked_at)


def _with_resets(
    total: Histogram,
    start: Histogram,
    histograms: Sequence[Histogram],
    reset_before: Sequence[bool] | None,
    notes: set[Note],
) -> Histogram:
    """What was counted before each reset was counted, too."""
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
    """Of the last two samples; after a reset the newer one is all that is known."""
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


def interpolated(
    first: Histogram, first_ms: int, second: Histogram, second_ms: int, at_ms: int, is_counter: bool
) -> Growth:
    """The histogram at a time between two samples; a counter that was reset between them began at zero."""
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
    """What resets took away on the way from `left` over `between` to `right`."""
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
