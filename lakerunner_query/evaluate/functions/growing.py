"""`rate`, `increase` and `delta` of one window of histograms."""

from __future__ import annotations

from collections.abc import Iterable

from lakerunner_query.evaluate.functions.messages import ADDITION, SUBTRACTION, Notes
from lakerunner_query.evaluate.functions.ranged import Mixture, Ranged
from lakerunner_query.histogram.arithmetic import add, scale
from lakerunner_query.histogram.growth import Growth, Note, growth
from lakerunner_query.histogram.model import Histogram, IncompatibleHistogramsError
from lakerunner_query.windows.edges import drawn_out
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.start_time_kernels import drawn_out_from_start, is_restart, overlaps

NOTHING = Growth(None)


def told(notes: Iterable[Note], name: str, to: Notes) -> None:
    for note in notes:
        match note:
            case Note.NOT_COUNTER:
                to.not_a_counter(name)
            case Note.NOT_GAUGE:
                to.not_a_gauge(name)
            case Note.MIXED_SCHEMAS:
                to.mixed_layouts(name)
            case Note.BOUNDS_SUBTRACTED:
                to.reconciled_bounds(SUBTRACTION)
            case Note.BOUNDS_ADDED:
                to.reconciled_bounds(ADDITION)


def grown(mixture: Mixture, function: Function, place: slice, until: int, windows: Ranged) -> Growth:
    """Of histograms only. One alone counts if counting began within the window."""
    histograms: list[Histogram] = list(mixture.histograms[place])
    is_counter = function != Function.DELTA
    found, notes = NOTHING, frozenset[Note]()
    if len(histograms) > 1:
        restarts = _restarts(mixture, place, windows.notes) if is_counter else None
        found = growth(histograms, is_counter, restarts)
        if found.histogram is None:
            return found
        notes = found.notes
    if not is_counter and found.histogram is None:
        return NOTHING
    total, factor = found.histogram, 1.0
    times, first = mixture.times[place], histograms[0]
    width = windows.windows.range
    count = total.count if total is not None else 0.0
    if is_counter:
        start = int(mixture.starts[place.start])
        is_known, factor, adds_first = drawn_out_from_start(
            times[0], times[-1], start, len(histograms) - 1, until, width, first.count, count
        )
        if not is_known:
            return NOTHING
        if adds_first and total is None:
            total = first
        elif adds_first and total is not None:
            try:
                joined = add(total, first)
            except IncompatibleHistogramsError:
                return Growth(None, notes | {Note.MIXED_SCHEMAS})
            total = joined.histogram
            notes |= {Note.BOUNDS_ADDED} if joined.bounds_reconciled else set()
    else:
        factor = drawn_out(times[0], times[-1], len(histograms), until, width, False, first.count, count)
    if function == Function.RATE:
        factor /= width / 1000
    return Growth(None if total is None else scale(total, factor), notes)


def _restarts(mixture: Mixture, place: slice, notes: Notes) -> list[bool]:
    """By sample: its start timestamp tells of a reset since the one before."""
    times, starts = mixture.times[place].tolist(), mixture.starts[place].tolist()
    pairs = list(zip(starts, times, starts[1:], times[1:], strict=False))
    if any(overlaps(start_before, before, start) for start_before, before, start, _ in pairs):
        notes.overlapping_starts(mixture.name)
    return [False, *(bool(is_restart(*pair)) for pair in pairs)]
