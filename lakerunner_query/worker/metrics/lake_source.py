"""Segments of the lake as the source that evaluation reads samples from.

    {__name__="http_seconds_bucket", le="0.5"}

    which series tables say `http_seconds` -> rows of those series -> the classic series asked for

A histogram with explicit buckets answers by its bare name as a native histogram with custom buckets, but only
where the name was given exactly; a pattern that happens to match it does not mean that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lakerunner_query.promql.context import Answered
from lakerunner_query.protocol.answers import Trait
from lakerunner_query.protocol.units import RollupRef, SegmentRef
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.labels import SharedLabels
from lakerunner_query.vectors.vector import Labels, Series
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from lakerunner_query.windows.samples import Samples
from lakerunner_query.worker.metrics.classic_series import (
    LE,
    QUANTILE,
    QUANTILE_LABEL,
    SUFFIXES,
    Block,
    derived,
)
from lakerunner_query.worker.metrics.native_histograms import (
    BEFORE_MS,
    answering,
    hints_were_sent,
    histograms_at,
    kept,
    ordered,
    united_with,
    with_hints,
)
from lakerunner_query.worker.metrics.rollups import Numbered, RollupSource, may_derive
from lakerunner_query.worker.metrics.row_groups import DAMAGE, FLOAT, SUMMARIES, RowGroup
from lakerunner_query.worker.metrics.row_merge import DamagedGroupError, Rows, Runs, cut, join
from lakerunner_query.worker.metrics.segment_opener import Most, Reading, Selected, Selection, Shape
from lakerunner_query.worker.metrics.series_table import Numbering, SeriesTable
from lakerunner_query.worker.metrics.shards import Shard
from resources.arrays import Int64s
from resources.lake.columns import CHQ_HIST_COUNT, CHQ_HIST_COUNT_FLOAT, CHQ_HIST_SCHEMA
from resources.lake.series import NAME_LABEL

NS_PER_MS = 1_000_000
DISTRIBUTIONS = frozenset({CHQ_HIST_COUNT, CHQ_HIST_COUNT_FLOAT, CHQ_HIST_SCHEMA, SUMMARIES})
"""Columns that a file has if it has rows of histograms or summaries."""
NAMES = (*SUFFIXES, QUANTILE)
"""What stands behind a stored name in the names of its classic series."""


class LakeSource:
    """Samples of the segments of one unit of work, of all series or those of one shard."""

    def __init__(
        self,
        reading: Reading,
        segments: Sequence[SegmentRef],
        numbering: Numbering,
        rollups: Sequence[RollupRef] = (),
        most: Most | None = None,
        *,
        starts: bool = False,
        shard: Shard | None = None,
    ) -> None:
        if shard is not None and rollups:
            raise ValueError("rollups are of all series, not of one shard")
        self._reading = reading
        self._segments = segments
        self._numbering = numbering
        self._starts = starts
        self._shard = shard
        self.most = most or Most()
        self.traits = Trait.NOTHING
        """Of all that was selected so far."""
        self.rollups = RollupSource(reading, rollups, numbering, self._floats)

    def over_windows(self, function: Function, matchers: Sequence[Matcher], grid: Grid) -> Answered | None:
        return self.rollups.over_windows(function, matchers, grid) if self.rollups.rollups else None

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        """Stored series, and the classic series of those that match with another name."""
        tables = self._tables(from_ms, to_ms)
        keys = tuple(segment.key for segment, _ in tables)
        what = Selected(keys, tuple(matchers), from_ms, to_ms, self._starts, self._shard)
        known = self._reading.remembered(what)
        if known is None:
            known = Selection.of(*self._selected(tables, matchers, from_ms, to_ms))
            self._reading.remember(what, known)
        self.traits |= known.traits
        self.most.check_series(known.series.count)
        self.most.check_samples(len(known.series.time_ms))
        return known.series

    def series(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> set[Labels]:
        """Label sets alone; rows are read only of segments with histograms, whose buckets no table lists."""
        found: set[Labels] = set()
        with_rows: list[tuple[SegmentRef, SeriesTable]] = []
        for segment, table in self._tables(from_ms, to_ms):
            overlapping = table.overlapping(from_ms, to_ms)
            possible = any((table.matching(_stored_only(matchers), s) & overlapping).any() for s in NAMES)
            if possible and self._has_distributions(segment):
                with_rows.append((segment, table))
                continue
            wanted = np.flatnonzero(table.matching(matchers) & overlapping)
            found.update(table.labels(number) for number in wanted.tolist())
        if with_rows:
            found.update(self._selected(with_rows, matchers, from_ms, to_ms)[0].labels)
        return found

    def _tables(self, from_ms: int, to_ms: int) -> list[tuple[SegmentRef, SeriesTable]]:
        overlapping = [
            segment
            for segment in self._segments
            if segment.min_ns < (to_ms + 1) * NS_PER_MS and segment.max_ns > from_ms * NS_PER_MS
        ]
        return self._reading.tables(overlapping)

    def _has_distributions(self, segment: SegmentRef) -> bool:
        path = self._reading.paths([segment]).get(segment.segment_id)
        shape = None if path is None else self._reading.shape(segment, path)
        return shape is not None and bool(shape.columns & DISTRIBUTIONS)

    def _selected(
        self,
        tables: Sequence[tuple[SegmentRef, SeriesTable]],
        matchers: Sequence[Matcher],
        from_ms: int,
        to_ms: int,
    ) -> tuple[Series, Trait]:
        found, traits = self._stored(tables, matchers, from_ms, to_ms)
        own = [m for m in matchers if m.name in {LE, QUANTILE_LABEL}]
        blocks: list[Block] = []
        for suffix in NAMES:
            named = [(s, t) for s, t in tables if t.matching(_of_name(matchers), suffix).any()]
            if not named:
                continue
            rows, labels, _ = self._rows(
                named, _stored_only(matchers), suffix, from_ms, to_ms, only_derived=True
            )
            blocks += derived(rows, labels, suffix, own)
        blocks = [block for block in blocks if len(block.code)]
        if not blocks:
            return found, traits
        return united_with(found, blocks), traits | (Trait.UNITED if found.labels else Trait.NOTHING)

    def _floats(
        self, matchers: Sequence[Matcher], from_ms: int, to_ms: int, only: Int64s | None
    ) -> Numbered | None:
        """Samples for windows that rollups do not answer; None where there are others than floats."""
        tables = self._tables(from_ms, to_ms)
        if any(may_derive(table, matchers) and self._has_distributions(segment) for segment, table in tables):
            return None
        rows, _, numbers = self._rows(tables, matchers, "", from_ms, to_ms, only_derived=False, only=only)
        if rows.kind is not None and (rows.kind != FLOAT).any():
            return None
        samples = Samples(rows.offsets, rows.time_ms, rows.value, rows.is_delta)
        return Numbered(numbers, samples)

    def _stored(
        self,
        tables: Sequence[tuple[SegmentRef, SeriesTable]],
        matchers: Sequence[Matcher],
        from_ms: int,
        to_ms: int,
    ) -> tuple[Series, Trait]:
        rows, labels, _ = self._rows(tables, matchers, "", from_ms, to_ms, only_derived=False)
        keep, natives = answering(rows, exact=_names_exactly(matchers))
        traits = _traits(rows, is_native=natives is not None)
        are_hinted = Trait.HINTED | Trait.NATIVE in traits
        if are_hinted:
            earlier = from_ms - BEFORE_MS  # only where somebody speaks of resets: it is twice the reading
            tables = self._tables(earlier, to_ms)
            rows, labels, _ = self._rows(tables, matchers, "", earlier, to_ms, only_derived=False)
            keep, natives = answering(rows, exact=_names_exactly(matchers))
        histograms = None if natives is None else histograms_at(rows, natives)
        if keep is not None:
            rows = kept(rows, keep)
            histograms = None if histograms is None else histograms[keep]
        if histograms is not None and are_hinted:
            histograms = with_hints(histograms, rows.offsets)
            inside = rows.time_ms > from_ms
            rows, histograms = kept(rows, inside), histograms[inside]
        return ordered(rows, labels, histograms, starts=self._starts), traits

    def _rows(
        self,
        tables: Sequence[tuple[SegmentRef, SeriesTable]],
        matchers: Sequence[Matcher],
        suffix: str,
        from_ms: int,
        to_ms: int,
        *,
        only_derived: bool,
        only: Int64s | None = None,
    ) -> tuple[Rows, SharedLabels, Int64s]:
        """Rows of the matching series (of `only` these), their label sets in order, and their numbers."""
        while True:
            try:
                return self._rows_of_readable(
                    tables, matchers, suffix, from_ms, to_ms, only_derived=only_derived, only=only
                )
            except DamagedGroupError as damaged:
                self._reading.damaged(damaged.segment, str(damaged))

    def _rows_of_readable(
        self,
        tables: Sequence[tuple[SegmentRef, SeriesTable]],
        matchers: Sequence[Matcher],
        suffix: str,
        from_ms: int,
        to_ms: int,
        *,
        only_derived: bool,
        only: Int64s | None,
    ) -> tuple[Rows, SharedLabels, Int64s]:
        chosen: list[tuple[SegmentRef, SeriesTable, Int64s]] = []
        for segment, table in tables:
            if segment.segment_id in self._reading.missing:
                continue
            matching = table.matching(matchers, suffix) & table.overlapping(from_ms, to_ms)
            if self._shard is not None:
                matching &= self._shard.takes(table.families)
            wanted = np.flatnonzero(matching)
            if only is not None and len(wanted):
                wanted = wanted[np.isin(self._numbering.of(table, wanted), only)]
            self.most.check_series(len(wanted))
            if len(wanted):
                chosen.append((segment, table, wanted))
        paths = self._reading.paths([segment for segment, _, _ in chosen])
        parts: list[tuple[Runs, Int64s]] = []
        samples = 0
        for segment, table, wanted in chosen:
            if segment.segment_id not in paths:
                continue
            shape = self._reading.shape(segment, paths[segment.segment_id])
            if shape is None or (only_derived and not shape.columns & DISTRIBUTIONS):
                continue
            more = self._runs(segment, table, wanted, shape, paths, from_ms, to_ms)
            samples += sum(runs.rows for runs, _ in more)
            self.most.check_samples(samples)
            parts += more
        found = np.unique(np.concatenate([n for _, n in parts])) if parts else np.zeros(0, np.int64)
        order, labels = self._numbering.in_order(found)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        self.most.check_series(len(found))
        runs = [runs.of(rank[np.searchsorted(found, numbers)]) for runs, numbers in parts]
        return join(runs, len(found)), labels, found[order]

    def _runs(
        self,
        segment: SegmentRef,
        table: SeriesTable,
        wanted: Int64s,
        shape: Shape,
        paths: dict[str, Path],
        from_ms: int,
        to_ms: int,
    ) -> list[tuple[Runs, Int64s]]:
        path, starts = paths[segment.segment_id], shape.starts
        begin, end = table.row[wanted], table.row[wanted] + table.rows[wanted]
        first = np.searchsorted(starts, begin, "right") - 1
        last = np.searchsorted(starts, end, "left") - 1
        needed = np.unique(np.concatenate([first, last])).tolist()
        if (last - first > 1).any():
            needed = sorted(
                {n for a, b in zip(first.tolist(), last.tolist(), strict=True) for n in range(a, b + 1)}
            )
        groups = self._reading.groups(segment, path, shape, needed, starts=self._starts)
        if groups is None:
            return []
        numbers = self._numbering.of(table, wanted)
        found: list[tuple[Runs, Int64s]] = []
        for number in needed:
            here = np.flatnonzero((first <= number) & (last >= number))
            low = np.maximum(begin[here] - starts[number], 0)
            high = np.minimum(end[here], starts[number + 1]) - starts[number]
            at = wanted[here]
            part = Runs(
                groups[number], segment, path, number, here, low, high,
                table.first_ms[at], table.last_ms[at], table.base[at], table.exponent[at], None,
            )  # fmt: skip
            is_split = bool((first[here] < last[here]).any())
            inside = not is_split and bool((part.first_ms > from_ms).all() and (part.last_ms <= to_ms).all())
            part = self._cut(part, from_ms, to_ms, inside=inside)
            if len(part.codes):
                self._reading.rows_considered += part.rows
                found.append((part, numbers[part.codes]))
        return found

    def _cut(self, part: Runs, from_ms: int, to_ms: int, *, inside: bool) -> Runs:
        """Only what lies in `(from_ms, to_ms]`; `inside`: all does, so no time needs to be looked at."""
        if isinstance(part.group, RowGroup):
            return cut(part, part.group.time_ms, from_ms, to_ms)
        if inside:
            return part
        try:
            return cut(part, part.group.times_of(part.begin, part.end), from_ms, to_ms)
        except DAMAGE as error:
            raise DamagedGroupError(part.segment, str(error)) from error


def _traits(rows: Rows, *, is_native: bool) -> Trait:
    if hints_were_sent(rows):
        return Trait.HINTED | (Trait.NATIVE if is_native else Trait.NOTHING)
    return Trait.UNHINTED | Trait.NATIVE if is_native else Trait.NOTHING


def _stored_only(matchers: Sequence[Matcher]) -> list[Matcher]:
    """Those that the stored series decides."""
    return [matcher for matcher in matchers if matcher.name not in {LE, QUANTILE_LABEL}]


def _of_name(matchers: Sequence[Matcher]) -> list[Matcher]:
    return [matcher for matcher in matchers if matcher.name == NAME_LABEL]


def _names_exactly(matchers: Sequence[Matcher]) -> bool:
    return any(m.name == NAME_LABEL and m.op is MatchOp.EQUAL for m in matchers)
