"""Histogram rows become samples of native histograms, with reset hints derived from their neighbours.

Nobody stores with a histogram that it continues the one before it; readers derive it from the counts:

    10   20   5   7      unknown, no reset, unknown (it fell), no reset

A hint that was sent is kept where it says more: gauges, and resets that the counts do not show. Each hint
follows from its sample, the one before and their times alone, so that it is the same however a query is cut.
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
from lakerunner_query.promql.lang.functions import RESET_CONTEXT_MS
from lakerunner_query.vectors.vector import Objects
from lakerunner_query.windows.functions import STALE_BITS
from lakerunner_query.worker.metrics.row_groups import FLOAT, HISTOGRAM, RowGroup
from lakerunner_query.worker.metrics.row_merge import MergedRows
from resources.arrays import Flags, Int8s, Int64s
from resources.lake.columns import CHQ_HIST_SCHEMA


def read_histograms(rows: MergedRows, at: Int64s, sent: Flags) -> tuple[Objects, bool]:
    """Read the histograms of these rows; return them by row, and whether one may be a stale marker.

    Where hints were sent they are replaced by those derived from neighbours.
    """
    together = histograms_together(rows, at, sent)
    if together is not None:
        return together
    found = histograms_at(rows, at)
    if sent.any():
        is_sent = np.zeros(len(found), np.bool_)
        is_sent[at] = sent
        found = with_reset_hints(found, rows.offsets, rows.time_ms, is_sent)
    return found, True


def with_reset_hints(histograms: Objects, offsets: Int64s, times: Int64s, derive: Flags) -> Objects:
    """Derive hints from the histogram before in the series, if it is near; None stands for a float."""
    found = histograms.copy()
    for begin, end in pairwise(offsets.tolist()):
        run: list[Histogram | None] = histograms[begin:end].tolist()
        is_near = np.diff(times[begin:end], prepend=times[begin:end][:1]) <= RESET_CONTEXT_MS
        hinted = _hint_whole_series(run, derive[begin:end], is_near)
        if hinted is not None:
            found[begin:end] = hinted
            continue
        previous: Histogram | None = None
        seen_at = 0
        for row, histogram in enumerate(run, begin):
            if histogram is None:
                previous = None
                continue
            if previous is not None and times[row] - seen_at > RESET_CONTEXT_MS:
                previous = None
            if derive[row]:
                found[row] = histogram.with_hint(_hint(histogram, previous))
            previous, seen_at = None if histogram.hint is Hint.GAUGE else histogram, times[row]
    return found


def _hint_whole_series(run: list[Histogram | None], derive: Flags, is_near: Flags) -> Objects | None:
    """Derive the hints of a series at once; None where floats, gauges or several layouts are in it."""
    known = [one for one in run if one is not None and one.hint is not Hint.GAUGE]
    columns = columns_of(known) if known and len(known) == len(run) else None
    if columns is None:
        return None
    continues = _continues(columns, is_near, np.zeros(1, np.int64))
    return columns.sheet.histograms(hints_of(np.where(derive, _as_hints(continues), columns.hints)))


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


def histograms_together(rows: MergedRows, at: Int64s, sent: Flags) -> tuple[Objects, bool] | None:
    """Read rows that all are histograms at once; derive the hints of those that were sent with one.

    Return them, and whether a stale marker is among them; None where layouts differ or there are gauges.
    """
    columns = _columns(rows, at) if len(at) == len(rows.time_ms) else None
    if columns is None:
        return None
    sheet, hints = columns.sheet, columns.hints
    if sent.any():
        if (hints == Hint.GAUGE).any():
            return None
        is_near = np.diff(rows.time_ms, prepend=rows.time_ms[:1]) <= RESET_CONTEXT_MS
        begins = rows.offsets[:-1][np.diff(rows.offsets) > 0]
        hints = np.where(sent, _as_hints(_continues(columns, is_near, begins)), hints)
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


def _continues(columns: Columns, is_near: Flags, begins: Int64s) -> Flags:
    """Flag histograms that continue the one before them in their series; these rows begin series."""
    sheet, hints = columns.sheet, columns.hints
    found = np.zeros(len(hints), np.bool_)
    found[1:] = ~find_drops(np.ascontiguousarray(sheet.numbers)) & (hints[1:] != Hint.RESET)
    changes = np.flatnonzero((sheet.is_listed[1:] != sheet.is_listed[:-1]).any(axis=1)) + 1
    for row in np.setdiff1d(changes, begins).tolist():
        now, before = sheet.histogram(row, Hint(hints[row])), sheet.histogram(row - 1, Hint.UNKNOWN)
        found[row] = _hint(now, before) is Hint.NO_RESET
    found &= is_near
    found[begins] = False
    return found


def _as_hints(continues: Flags) -> Int8s:
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


def sent_hints(rows: MergedRows, at: Int64s) -> Flags:
    """Flag histograms whose sender said something of resets, if only that it does not know."""
    found = np.zeros(len(at), np.bool_)
    for here, group, places in _by_group(rows, at):
        found[np.searchsorted(at, here)] = group.sends_hints(places)
    return found


def _have_schema(others: pa.Table, places: Int64s) -> Flags:
    """Flag histograms with exponential buckets."""
    if CHQ_HIST_SCHEMA not in others.column_names:
        return np.zeros(len(places), np.bool_)
    valid = others.column(CHQ_HIST_SCHEMA).combine_chunks().is_valid().to_numpy(zero_copy_only=False)
    found: Flags = valid[places]
    return found
