"""Merged rows and derived samples are assembled to `Series`, in order of labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.strconv import label_set
from lakerunner_query.vectors.vector import Labels, Objects, Series
from lakerunner_query.worker.metrics.classic_series import SampleBlock
from lakerunner_query.worker.metrics.row_groups import is_stale
from lakerunner_query.worker.metrics.row_merge import MergedRows
from lakerunner_query.worker.metrics.series_table import expand_runs
from resources.arrays import Flags

NS_PER_MS = 1_000_000


def filter_rows(rows: MergedRows, keep: Flags) -> MergedRows:
    """Keep these rows, without their columns of histograms."""
    counts = np.concatenate(([0], np.cumsum(keep)))
    return MergedRows(
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


def assemble(rows: MergedRows, labels: list[Labels], histograms: Objects | None, *, starts: bool) -> Series:
    """Make series of all rows, and leave out those without rows; the labels are in order."""
    sizes = np.diff(rows.offsets)
    chosen = np.flatnonzero(sizes)
    start_ms = rows.start_ns // NS_PER_MS if starts and rows.start_ns is not None else None
    if len(chosen) == len(labels):
        return Series(labels, rows.offsets, rows.time_ms, rows.value, histograms, rows.is_delta, start_ms)
    offsets = np.concatenate(([0], np.cumsum(sizes[chosen]))).astype(np.int64)
    index = expand_runs(rows.offsets[chosen], sizes[chosen])
    return Series(
        [labels[place] for place in chosen.tolist()],
        offsets,
        rows.time_ms[index],
        rows.value[index],
        None if histograms is None else histograms[index],
        None if rows.is_delta is None else rows.is_delta[index],
        None if start_ms is None else start_ms[index],
    )


def merge_blocks(blocks: Sequence[SampleBlock]) -> Series:
    """Make one series per label set; of two samples of one millisecond the later block's counts."""
    names = sorted({labels for block in blocks for labels in block.labels})
    codes = {labels: code for code, labels in enumerate(names)}
    series = np.concatenate(
        [np.array([codes[labels] for labels in b.labels], np.int64)[b.code] for b in blocks if len(b.code)]
        or [np.zeros(0, np.int64)]
    )
    time_ms = np.concatenate([block.time_ms for block in blocks])
    value = np.concatenate([block.value for block in blocks])
    deltas = any(block.is_delta is not None for block in blocks)
    is_delta = np.concatenate(
        [np.zeros(len(b.code), np.bool_) if b.is_delta is None else b.is_delta for b in blocks]
    )
    order = np.lexsort((~is_stale(value), time_ms, series))  # stable: real behind stale, later behind earlier
    series, time_ms = series[order], time_ms[order]
    keep = np.ones(len(order), np.bool_)
    keep[:-1] = (series[1:] != series[:-1]) | (time_ms[1:] != time_ms[:-1])
    offsets = np.zeros(len(names) + 1, np.int64)
    np.add.at(offsets, series[keep] + 1, 1)
    return Series(
        names,
        np.cumsum(offsets),
        time_ms[keep],
        value[order][keep],
        is_delta=is_delta[order][keep] if deltas else None,
    )


def merge_series(stored: Series, blocks: list[SampleBlock]) -> Series:
    """Merge stored and derived series."""
    derived = merge_blocks(blocks)
    if not stored.labels:
        return derived
    if stored.histograms is None:
        codes = np.repeat(np.arange(stored.count), np.diff(stored.offsets))
        block = SampleBlock(stored.labels, codes, stored.time_ms, stored.value, stored.is_delta)
        return merge_blocks([*blocks, block])
    clash = set(stored.labels) & set(derived.labels)
    if clash:
        at = next(iter(clash))
        raise EvaluationError(
            f"{label_set(at)}: stored as samples, and a classic series of a stored histogram too: "
            "name the metric exactly, or leave one of them out by its labels"
        )
    return _concatenate(stored, derived)


def _concatenate(first: Series, second: Series) -> Series:
    labels = [*first.labels, *second.labels]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    sizes = np.concatenate([np.diff(first.offsets), np.diff(second.offsets)])
    begins = np.concatenate([first.offsets[:-1], second.offsets[:-1] + len(first.time_ms)])
    chosen = np.array(order, np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes[chosen]))).astype(np.int64)
    index = expand_runs(begins[chosen], sizes[chosen])

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
