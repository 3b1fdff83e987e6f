"""Rows of stored series as the samples they are: which count, histograms among them, in order of labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.strconv import label_set
from lakerunner_query.vectors.vector import Labels, Objects, Series
from lakerunner_query.worker.metrics.derived import Block, united
from lakerunner_query.worker.metrics.joined import Rows
from lakerunner_query.worker.metrics.places import ranges
from lakerunner_query.worker.metrics.row_groups import FLOAT, HINT, HISTOGRAM
from resources.arrays import Int64s

NS_PER_MS = 1_000_000
SCHEMA = "chq_hist_schema"


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
