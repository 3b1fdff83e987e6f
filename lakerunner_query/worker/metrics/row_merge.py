"""Rows of many row groups are merged to one sample per series and millisecond.

    segment A: series 0 at 1 2 3, series 1 at 1 2        0: 1 2 3 4 5
    segment B: series 0 at 4 5                      ->   1: 1 2

Runs that do not overlap in time are laid behind each other, which is nearly always so; only where they do are
rows sorted. Of several samples of one millisecond the one with the greatest nanoseconds counts, a real one
before a stale marker, then the one with the greatest row id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_query.vectors.vector import Labels, Objects, Series
from lakerunner_query.worker.metrics.row_groups import UNREADABLE, FileLayout, RowGroup, is_stale, read_order
from lakerunner_query.worker.metrics.series_table import expand_runs
from lakerunner_query.worker.parquet.run_kernels import copy_runs, cut_runs, place_times
from lakerunner_query.worker.parquet.scaled_groups import ScaledGroup
from lakerunner_query.worker.shared.segment_file import SegmentFile
from resources.arrays import Bytes, Doubles, Flags, Int32s, Int64s
from resources.kernel import Integer

NS_PER_MS = 1_000_000


class DamagedGroupError(ValueError):
    """A row group could not be read when its values were decoded."""

    def __init__(self, file: SegmentFile, error: Exception) -> None:
        super().__init__(str(error))
        self.segment = file.segment
        self.error = error


@dataclass(frozen=True, slots=True)
class SeriesRuns:
    """Rows of some series in one row group: series `codes[i]` has rows `[begin[i], end[i])`."""

    group: RowGroup | ScaledGroup
    file: SegmentFile
    layout: FileLayout
    number: int
    codes: Int64s
    begin: Int64s
    end: Int64s
    first_ms: Int64s
    last_ms: Int64s
    """Times of the last rows."""
    base: Int64s
    exponent: Int32s
    times: Int64s | None
    """Times by row of the group; None where they are still to be decoded."""

    @property
    def rows(self) -> int:
        return int((self.end - self.begin).sum())

    def with_codes(self, codes: Int64s) -> SeriesRuns:
        return replace(self, codes=codes)


@dataclass(frozen=True, slots=True)
class MergedRows:
    """Rows by series and time; `offsets` has one entry per series and one more."""

    offsets: Int64s
    time_ms: Int64s
    value: Doubles
    kind: Bytes | None
    is_delta: Flags | None
    derives: Bytes | None
    start_ns: Int64s | None
    others: pa.Table | None
    """Columns of histograms and summaries."""
    place: Int64s | None
    """Index into `others`, by row."""
    groups: tuple[tuple[int, RowGroup], ...] = ()
    """Row groups with histograms, and their first rows in `others`."""

    @property
    def series(self) -> Int64s:
        found: Int64s = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return found


def cut_to_range(runs: SeriesRuns, times: Int64s, from_ms: int, to_ms: int) -> SeriesRuns:
    """Keep rows in `(from_ms, to_ms]`; runs without any are left out."""
    begin, end = runs.begin.copy(), runs.end.copy()
    cut_runs(times, begin, end, from_ms, to_ms)
    keep = end > begin
    begin, end = begin[keep], end[keep]
    return replace(
        runs, codes=runs.codes[keep], begin=begin, end=end, first_ms=times[begin], last_ms=times[end - 1],
        base=runs.base[keep], exponent=runs.exponent[keep], times=times,
    )  # fmt: skip


def merge_runs(parts: Sequence[SeriesRuns], count: int) -> MergedRows:
    """Merge all rows of `count` series; rows are sorted only where runs overlap."""
    parts = [part for part in parts if len(part.codes)]
    if not parts:
        none = np.zeros(0, np.int64)
        return MergedRows(
            np.zeros(count + 1, np.int64), none, np.zeros(0), None, None, None, None, None, None
        )
    codes = np.concatenate([part.codes for part in parts])
    sizes = np.concatenate([part.end - part.begin for part in parts])
    first = np.concatenate([part.first_ms for part in parts])
    last = np.concatenate([part.last_ms for part in parts])
    order = np.lexsort((first, codes))
    target = np.empty(len(order), np.int64)
    target[order] = np.concatenate(([0], np.cumsum(sizes[order])[:-1]))
    offsets = np.zeros(count + 1, np.int64)
    np.add.at(offsets, codes + 1, sizes)
    np.cumsum(offsets, out=offsets)
    same = codes[order][1:] == codes[order][:-1]
    overlap = bool((same & (first[order][1:] <= last[order][:-1])).any())
    rows, repeats = _concatenate(parts, offsets, target)
    return _sort(rows, parts, target) if overlap or repeats else rows


def _concatenate(parts: Sequence[SeriesRuns], offsets: Int64s, target: Int64s) -> tuple[MergedRows, int]:
    """Lay runs behind each other; return how many rows do not come after the one before in their run."""
    total = int(offsets[-1])
    repeats: Integer = 0
    groups = [part.group for part in parts if isinstance(part.group, RowGroup)]
    time_ms, value = np.empty(total, np.int64), np.empty(total, np.float64)
    kind = np.zeros(total, np.uint8) if any(g.kind is not None for g in groups) else None
    is_delta = np.zeros(total, np.bool_) if any(g.is_delta is not None for g in groups) else None
    derives = np.zeros(total, np.uint8) if any(g.derives is not None for g in groups) else None
    start_ns = np.zeros(total, np.int64) if any(g.start_ns is not None for g in groups) else None
    place = np.full(total, -1, np.int64) if derives is not None else None
    tables: list[pa.Table] = []
    with_others: list[tuple[int, RowGroup]] = []
    before = at = 0
    for part in parts:
        group, to = part.group, target[at : at + len(part.codes)]
        at += len(part.codes)
        if isinstance(group, ScaledGroup):
            repeats += _decode_to(group, part, to, time_ms, value)
            continue
        repeats += place_times(group.time_ms, 0, part.begin, part.end, to, time_ms)
        copy_runs(group.value, part.begin, part.end, to, value)
        if kind is not None and group.kind is not None:
            copy_runs(group.kind, part.begin, part.end, to, kind)
        if is_delta is not None and group.is_delta is not None:
            copy_runs(group.is_delta, part.begin, part.end, to, is_delta)
        if derives is not None and group.derives is not None:
            copy_runs(group.derives, part.begin, part.end, to, derives)
        if start_ns is not None and group.start_ns is not None:
            copy_runs(group.start_ns, part.begin, part.end, to, start_ns)
        if place is not None and group.others is not None:
            copy_runs(np.arange(before, before + len(group.time_ms)), part.begin, part.end, to, place)
            tables.append(group.others)
            with_others.append((before, group))
            before += group.others.num_rows
    others = pa.concat_tables(tables, promote_options="permissive") if tables else None
    rows = MergedRows(
        offsets, time_ms, value, kind, is_delta, derives, start_ns, others, place, tuple(with_others)
    )
    return rows, int(repeats)


def _decode_to(group: ScaledGroup, part: SeriesRuns, to: Int64s, time_ms: Int64s, value: Doubles) -> int:
    try:
        group.values_to(part.file, part.begin, part.end, to, part.base, part.exponent, value)
        if part.times is not None:
            return int(place_times(part.times, 0, part.begin, part.end, to, time_ms))
        return group.times_to(part.file, part.begin, part.end, to, time_ms)
    except UNREADABLE as error:
        raise DamagedGroupError(part.file, error) from error


def _sort(rows: MergedRows, parts: Sequence[SeriesRuns], target: Int64s) -> MergedRows:
    exact, objects, positions = _row_order(parts, target, len(rows.time_ms))
    real = ~is_stale(rows.value) if rows.kind is None else ~(is_stale(rows.value) & (rows.kind == 0))
    series = rows.series
    order = np.lexsort((positions, objects, real, exact, rows.time_ms, series))
    codes, times = series[order], rows.time_ms[order]
    keep = np.ones(len(order), np.bool_)
    keep[:-1] = (codes[1:] != codes[:-1]) | (times[1:] != times[:-1])
    chosen = order[keep]
    offsets = np.zeros_like(rows.offsets)
    np.add.at(offsets, codes[keep] + 1, 1)
    np.cumsum(offsets, out=offsets)

    def take(column: npt.NDArray[np.generic] | None) -> npt.NDArray[np.generic] | None:
        return None if column is None else column[chosen]

    return MergedRows(
        offsets,
        rows.time_ms[chosen],
        rows.value[chosen],
        take(rows.kind),  # type: ignore[arg-type]
        take(rows.is_delta),  # type: ignore[arg-type]
        take(rows.derives),  # type: ignore[arg-type]
        take(rows.start_ns),  # type: ignore[arg-type]
        rows.others,
        take(rows.place),  # type: ignore[arg-type]
        rows.groups,
    )


def _row_order(parts: Sequence[SeriesRuns], target: Int64s, total: int) -> tuple[Int64s, Int64s, Int64s]:
    """Read the columns that order samples of one millisecond."""
    found = tuple(np.empty(total, np.int64) for _ in range(3))
    at = 0
    for part in parts:
        to = target[at : at + len(part.codes)]
        at += len(part.codes)
        try:
            columns = read_order(part.file, part.layout, part.number)
        except UNREADABLE as error:
            raise DamagedGroupError(part.file, error) from error
        for column, out in zip(columns, found, strict=True):
            copy_runs(column, part.begin, part.end, to, out)
    return found[0], found[1], found[2]


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
