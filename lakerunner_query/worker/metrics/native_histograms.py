"""Rows of stored series as the samples they are: which count, histograms among them, in order of labels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.strconv import label_set
from lakerunner_query.histogram.batch import columns_of
from lakerunner_query.histogram.growth import detect_reset
from lakerunner_query.histogram.kernels import any_fell
from lakerunner_query.histogram.model import Hint, Histogram
from lakerunner_query.vectors.vector import Labels, Objects, Series
from lakerunner_query.worker.metrics.classic_series import Block, united
from lakerunner_query.worker.metrics.row_groups import FLOAT, HINT, HISTOGRAM
from lakerunner_query.worker.metrics.row_merge import Rows
from lakerunner_query.worker.metrics.series_table import ranges
from resources.arrays import Int64s
from resources.lake.columns import CHQ_HIST_SCHEMA

# << What is known of resets between the histograms of a series, told from the histograms themselves.
# <<
# << Nobody stores with a histogram that it goes on from the one before; readers see it:
# <<
# <<     10   20   5   7      unknown, no reset, unknown (it fell), no reset
# <<
# << A hint that was sent is kept where it says more: gauges, and resets that the counts do not show.

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


NS_PER_MS = 1_000_000
SCHEMA = CHQ_HIST_SCHEMA


def answering(rows: Rows, *, exact: bool) -> tuple[npt.NDArray[np.bool_] | None, Int64s | None]:
    """Which rows are samples of the stored name itself, and which of them are histograms, if any is there."""
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


def histograms_at(rows: Rows, at: Int64s) -> Objects:
    """By row: these are histograms, the others None."""
    histograms = np.full(len(rows.time_ms), None, object)
    if rows.place is None:
        return histograms
    for begin, group in rows.groups:
        here = at[(rows.place[at] >= begin) & (rows.place[at] < begin + len(group.time_ms))]
        if len(here):
            histograms[here] = group.histograms(rows.place[here] - begin)
    return histograms


def hints_were_sent(rows: Rows) -> bool:
    return any(group.others is not None and HINT in group.others.column_names for _, group in rows.groups)


def _have_schema(others: pa.Table, places: Int64s) -> npt.NDArray[np.bool_]:
    """Explicit buckets have none: they are native histograms by their exact name only."""
    if SCHEMA not in others.column_names:
        return np.zeros(len(places), np.bool_)
    valid = others.column(SCHEMA).combine_chunks().is_valid().to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.bool_] = valid[places]
    return found


def kept(rows: Rows, keep: npt.NDArray[np.bool_]) -> Rows:
    counts = np.concatenate(([0], np.cumsum(keep)))
    return Rows(
        counts[rows.offsets],
        rows.time_ms[keep],
        rows.value[keep],
        None if rows.kind is None else rows.kind[keep],
        None if rows.is_delta is None else rows.is_delta[keep],
        None,
        None if rows.start_ns is None else rows.start_ns[keep],
        None,
        None,
    )


def ordered(rows: Rows, labels: list[Labels], histograms: Objects | None, *, starts: bool) -> Series:
    """Series without any row left out; the labels are in order."""
    sizes = np.diff(rows.offsets)
    chosen = np.flatnonzero(sizes)
    start_ms = rows.start_ns // NS_PER_MS if starts and rows.start_ns is not None else None
    if len(chosen) == len(labels):
        return Series(labels, rows.offsets, rows.time_ms, rows.value, histograms, rows.is_delta, start_ms)
    offsets = np.concatenate(([0], np.cumsum(sizes[chosen]))).astype(np.int64)
    index = ranges(rows.offsets[chosen], sizes[chosen])
    return Series(
        [labels[place] for place in chosen.tolist()],
        offsets,
        rows.time_ms[index],
        rows.value[index],
        None if histograms is None else histograms[index],
        None if rows.is_delta is None else rows.is_delta[index],
        None if start_ms is None else start_ms[index],
    )


def united_with(found: Series, blocks: list[Block]) -> Series:
    """Stored and derived series together."""
    more = united(blocks)
    if not found.labels:
        return more
    if found.histograms is None:
        codes = np.repeat(np.arange(found.count), np.diff(found.offsets))
        stored = Block(found.labels, codes, found.time_ms, found.value, found.is_delta)
        return united([*blocks, stored])
    clash = set(found.labels) & set(more.labels)
    if clash:
        at = next(iter(clash))
        raise EvaluationError(
            f"{label_set(at)}: stored as samples, and a classic series of a stored histogram too: "
            "name the metric exactly, or leave one of them out by its labels"
        )
    return _side_by_side(found, more)


def _side_by_side(first: Series, second: Series) -> Series:
    labels = [*first.labels, *second.labels]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    sizes = np.concatenate([np.diff(first.offsets), np.diff(second.offsets)])
    begins = np.concatenate([first.offsets[:-1], second.offsets[:-1] + len(first.time_ms)])
    chosen = np.array(order, np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes[chosen]))).astype(np.int64)
    index = ranges(begins[chosen], sizes[chosen])

    def both(
        a: npt.NDArray[np.generic] | None, b: npt.NDArray[np.generic] | None, nothing: object
    ) -> npt.NDArray[np.generic] | None:
        if a is None and b is None:
            return None
        kind = a.dtype if a is not None else b.dtype  # type: ignore[union-attr]
        left = np.full(len(first.time_ms), nothing, kind) if a is None else a
        right = np.full(len(second.time_ms), nothing, kind) if b is None else b
        return np.concatenate([left, right])[index]

    return Series(
        [labels[place] for place in order],
        offsets,
        np.concatenate([first.time_ms, second.time_ms])[index],
        np.concatenate([first.value, second.value])[index],
        both(first.histograms, second.histograms, None),  # type: ignore[arg-type]
        both(first.is_delta, second.is_delta, False),  # type: ignore[arg-type]
        both(first.start_ms, second.start_ms, 0),  # type: ignore[arg-type]
    )
