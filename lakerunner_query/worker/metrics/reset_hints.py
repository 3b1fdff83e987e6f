"""What is known of resets between the histograms of a series, told from the histograms themselves.

Nobody stores with a histogram that it goes on from the one before; readers see it:

    10   20   5   7      unknown, no reset, unknown (it fell), no reset

A hint that was sent is kept where it says more: gauges, and resets that the counts do not show.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lakerunner_query.histogram.batch import columns_of
from lakerunner_query.histogram.growth import detect_reset
from lakerunner_query.histogram.kernels import any_fell
from lakerunner_query.histogram.model import Hint, Histogram
from lakerunner_query.vectors.vector import Objects
from resources.arrays import Int64s

BEFORE_MS = 300_000
"""So far before a window the histogram is looked for that its first one goes on from."""


def with_hints(histograms: Objects, offsets: Int64s) -> Objects:
    """The same, with what each says of the one before it in its series; None where a float stands."""
    found = histograms.copy()
    for begin, end in pairwise(offsets.tolist()):
        run: list[Histogram | None] = histograms[begin:end].tolist()
        at_once = _of_one_layout(run)
        if at_once is not None:
            found[begin:end] = at_once
            continue
        previous: Histogram | None = None
        for row, histogram in enumerate(run, begin):
            if histogram is None:
                previous = None
                continue
            hint = _hint(histogram, previous)
            found[row] = histogram.with_hint(hint)
            previous = None if hint is Hint.GAUGE else histogram
    return found


def _of_one_layout(run: list[Histogram | None]) -> Objects | None:
    """A whole series at once, if nothing is special about it; None if something is."""
    known = [one for one in run if one is not None and one.hint is not Hint.GAUGE]
    columns = columns_of(known) if known and len(known) == len(run) else None
    if columns is None:
        return None
    listed = columns.sheet.listed
    goes_on = ~any_fell(np.ascontiguousarray(columns.sheet.numbers)) & (columns.hints[1:] != Hint.RESET)
    for at in np.flatnonzero((listed[1:] != listed[:-1]).any(axis=1)).tolist():
        goes_on[at] = _hint(known[at + 1], known[at]) is Hint.NO_RESET
    hints = [Hint.UNKNOWN, *(Hint.NO_RESET if each else Hint.UNKNOWN for each in goes_on.tolist())]
    return columns.sheet.histograms(hints)


def _hint(histogram: Histogram, previous: Histogram | None) -> Hint:
    if histogram.hint is Hint.GAUGE:
        return Hint.GAUGE
    if previous is None or histogram.hint is Hint.RESET or not _same_layout(histogram, previous):
        return Hint.UNKNOWN
    return Hint.UNKNOWN if _fell(histogram, previous) else Hint.NO_RESET


def _fell(histogram: Histogram, previous: Histogram) -> bool:
    """Nearly always the same buckets count something, and comparing them is all there is to do."""
    if histogram.count < previous.count or histogram.zero_count < previous.zero_count:
        return True
    for now, before in (
        (histogram.positive, previous.positive),
        (histogram.negative, previous.negative),
    ):
        if now.size != before.size or not np.array_equal(now.index, before.index):
            return detect_reset(histogram.with_hint(Hint.UNKNOWN), previous)
        if now.size and (now.count < before.count).any():
            return True
    return False


def _same_layout(one: Histogram, other: Histogram) -> bool:
    return (one.schema, one.zero_threshold, one.bounds) == (other.schema, other.zero_threshold, other.bounds)
