"""Histogram rows become samples of native histograms, with reset hints derived from their neighbours.

Nobody stores with a histogram that it continues the one before it; readers derive it from the counts:

    10   20   5   7      unknown, no reset, unknown (it fell), no reset

A hint that was sent is kept where it says more: gauges, and resets that the counts do not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lakerunner_query.histogram.batch import (
    SUM,
    Columns,
    Sheet,
    SheetRows,
    columns_of,
    hints_of,
    join_sheets,
)
from lakerunner_query.histogram.batch_kernels import find_drops
from lakerunner_query.histogram.growth import detect_reset
from lakerunner_query.histogram.model import Hint, Histogram
from lakerunner_query.vectors.vector import Objects
from lakerunner_query.windows.functions import STALE_BITS
from lakerunner_query.worker.metrics.row_groups import FLOAT, HINT, HISTOGRAM, RowGroup
from lakerunner_query.worker.metrics.row_merge import MergedRows
from resources.arrays import Flags, Int8s, Int64s
from resources.lake.columns import CHQ_HIST_SCHEMA

LOOK_BACK_MS = 300_000
"""Time before a window in which the histogram is found that its first one continues."""


def with_reset_hints(histograms: Objects, offsets: Int64s) -> Objects:
    """Set the hint of each histogram from the one before it in its series; None stands for a float."""
    found = histograms.copy()
    for begin, end in pairwise(offsets.tolist()):
        run: list[Histogram | None] = histograms[begin:end].tolist()
        hinted = _hint_whole_series(run)
        if hinted is not None:
            found[begin:end] = hinted
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


def _hint_whole_series(run: list[Histogram | None]) -> Objects | None:
    """Set the hints of a series at once; None where floats, gauges or several layouts are in it."""
    known = [one for one in run if one is not None and one.hint is not Hint.GAUGE]
    columns = columns_of(known) if known and len(known) == len(run) else None
    if columns is None:
        return None
    listed = columns.sheet.is_listed
    continues = ~find_drops(np.ascontiguousarray(columns.sheet.numbers)) & (columns.hints[1:] != Hint.RESET)
    for at in np.flatnonzero((listed[1:] != listed[:-1]).any(axis=1)).tolist():
        continues[at] = _hint(known[at + 1], known[at]) is Hint.NO_RESET
    hints = [Hint.UNKNOWN, *(Hint.NO_RESET if each else Hint.UNKNOWN for each in continues.tolist())]
    return columns.sheet.histograms(hints)


def _hint(histogram: Histogram, previous: Histogram | None) -> Hint:
    if histogram.hint is Hint.GAUGE:
        return Hint.GAUGE
    if previous is None or histogram.hint is Hint.RESET or not _same_layout(histogram, previous):
        return Hint.UNKNOWN
    return Hint.UNKNOWN if _fell(histogram, previous) else Hint.NO_RESET


def _fell(histogram: Histogram, previous: Histogram) -> bool:
    """Tell whether a count fell; nearly always the same buckets are populated and simply compared."""
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


def stored_samples(rows: MergedRows, *, exact: bool) -> tuple[Flags | None, Int64s | None]:
    """Flag rows that are samples of the stored name; list the histograms among them.

    A histogram with explicit buckets is one only where the name was given exactly.
    """
    if rows.kind is None:
        return None, None
    keep = rows.kind == FLOAT
    at = np.flatnonzero(rows.kind == HISTOGRAM)
    if not len(at) or rows.others is None or rows.place is None:
        return keep, None
    if not exact:
        at = at[_have_schema(rows.others, rows.place[at])]
    keep[at] = True
    return keep, at


def histograms_at(rows: MergedRows, at: Int64s) -> Objects:
    """Return the histograms of these rows by row, None elsewhere."""
    histograms = np.full(len(rows.time_ms), None, object)
    for here, group, places in _by_group(rows, at):
        histograms[here] = group.histograms(places)
    return histograms


def histograms_together(rows: MergedRows, at: Int64s, *, with_hints: bool) -> tuple[Objects, bool] | None:
    """Read rows that all are histograms at once, with derived hints if wanted.

    Return them, and whether a stale marker is among them; None where layouts differ or there are gauges.
    """
    columns = _columns(rows, at) if len(at) == len(rows.time_ms) else None
    if columns is None:
        return None
    sheet, hints = columns.sheet, columns.hints
    if with_hints:
        if (hints == Hint.GAUGE).any():
            return None
        hints = _hints(columns, rows.offsets)
    sums = np.ascontiguousarray(sheet.numbers[:, SUM])
    return sheet.histograms(hints_of(hints)), bool((sums.view(np.int64) == STALE_BITS).any())


def _columns(rows: MergedRows, at: Int64s) -> Columns | None:
    sheets: list[Sheet] = []
    codes, places = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    hints = np.zeros(len(at), np.int8)
    for here, group, chosen in _by_group(rows, at):
        found = group.sheet(chosen)
        if found is None:
            return None
        codes[here], places[here] = len(sheets), np.arange(len(here))
        sheets.append(found[0])
        hints[here] = found[1]
    sheet = join_sheets(SheetRows(sheets, codes, places)) if sheets else None
    return None if sheet is None else Columns(sheet, hints)


def _hints(columns: Columns, offsets: Int64s) -> Int8s:
    """Tell of each histogram whether it continues the one before it in its series."""
    sheet, hints = columns.sheet, columns.hints
    continues = np.zeros(len(hints), np.bool_)
    continues[1:] = ~find_drops(np.ascontiguousarray(sheet.numbers)) & (hints[1:] != Hint.RESET)
    changes = np.flatnonzero((sheet.is_listed[1:] != sheet.is_listed[:-1]).any(axis=1)) + 1
    begins = offsets[:-1][np.diff(offsets) > 0]
    for row in np.setdiff1d(changes, begins).tolist():
        now, before = sheet.histogram(row, Hint(hints[row])), sheet.histogram(row - 1, Hint.UNKNOWN)
        continues[row] = _hint(now, before) is Hint.NO_RESET
    continues[begins] = False
    return np.where(continues, np.int8(Hint.NO_RESET), np.int8(Hint.UNKNOWN))


def _by_group(rows: MergedRows, at: Int64s) -> Iterator[tuple[Int64s, RowGroup, Int64s]]:
    """Yield rows that lie in one row group, the group, and where they are in it."""
    if rows.place is None:
        return
    places = rows.place[at]
    for begin, group in rows.groups:
        inside = np.flatnonzero((places >= begin) & (places < begin + len(group.time_ms)))
        if len(inside):
            yield at[inside], group, places[inside] - begin


def has_sent_hints(rows: MergedRows) -> bool:
    return any(group.others is not None and HINT in group.others.column_names for _, group in rows.groups)


def _have_schema(others: pa.Table, places: Int64s) -> Flags:
    """Flag histograms with exponential buckets."""
    if CHQ_HIST_SCHEMA not in others.column_names:
        return np.zeros(len(places), np.bool_)
    valid = others.column(CHQ_HIST_SCHEMA).combine_chunks().is_valid().to_numpy(zero_copy_only=False)
    found: Flags = valid[places]
    return found
