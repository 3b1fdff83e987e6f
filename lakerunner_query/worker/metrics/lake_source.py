"""`LakeSource` reads the samples of a selector from the segments of one unit.

    {__name__="http_seconds_bucket", le="0.5"}

    series tables with `http_seconds` -> rows of those series -> the classic series that match

A histogram with explicit buckets answers by its bare name as a native histogram with custom buckets, but only
where the name was given exactly; a pattern that happens to match it does not mean that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.promql.context import SourceAnswer
from lakerunner_query.promql.lang.functions import RESET_CONTEXT_MS
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
    SampleBlock,
    derive,
    merge_series,
)
from lakerunner_query.worker.metrics.native_histograms import (
    read_histograms,
    sent_hints,
    stored_samples,
)
from lakerunner_query.worker.metrics.rollups import NumberedSamples, RollupSource, may_derive
from lakerunner_query.worker.metrics.row_groups import FLOAT, SUMMARIES, UNREADABLE, FileLayout, RowGroup
from lakerunner_query.worker.metrics.row_merge import (
    DamagedGroupError,
    MergedRows,
    SeriesRuns,
    assemble,
    cut_to_range,
    filter_rows,
    merge_runs,
)
from lakerunner_query.worker.metrics.segment_opener import UnitReader
from lakerunner_query.worker.metrics.selections import CachedSelection, SelectionKey, SelectorLimits
from lakerunner_query.worker.metrics.series_table import SeriesNumbers, SeriesTable
from lakerunner_query.worker.metrics.shards import Shard
from lakerunner_query.worker.shared.segment_file import SegmentFile
from resources.arrays import Flags, Int64s
from resources.lake.columns import CHQ_HIST_COUNT, CHQ_HIST_COUNT_FLOAT, CHQ_HIST_SCHEMA
from resources.lake.series import NAME_LABEL

NS_PER_MS = 1_000_000
DISTRIBUTIONS = frozenset({CHQ_HIST_COUNT, CHQ_HIST_COUNT_FLOAT, CHQ_HIST_SCHEMA, SUMMARIES})
"""Columns, at least one of which a file with histograms or summaries has."""
NAMES = (*SUFFIXES, QUANTILE)
"""Suffixes of classic series behind the stored name."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Series of one segment, and the row groups that hold their rows."""

    file: SegmentFile
    layout: FileLayout
    table: SeriesTable
    series: Int64s
    begin: Int64s
    end: Int64s
    """Rows of each series in the file."""
    first: Int64s
    last: Int64s
    """Row groups of its first and last row."""
    groups: tuple[int, ...]

    @classmethod
    def of(cls, file: SegmentFile, layout: FileLayout, table: SeriesTable, series: Int64s) -> _Chosen:
        begin, end = table.row[series], table.row[series] + table.rows[series]
        first = np.searchsorted(layout.starts, begin, "right") - 1
        last = np.searchsorted(layout.starts, end, "left") - 1
        groups = np.unique(np.concatenate([first, last])).tolist()
        if (last - first > 1).any():
            groups = sorted(
                {n for a, b in zip(first.tolist(), last.tolist(), strict=True) for n in range(a, b + 1)}
            )
        return cls(file, layout, table, series, begin, end, first, last, tuple(groups))


class LakeSource:
    """Samples of one unit's segments, of all series or those of one shard."""

    def __init__(
        self,
        reader: UnitReader,
        segments: Sequence[SegmentRef],
        numbers: SeriesNumbers,
        rollups: Sequence[RollupRef] = (),
        limits: SelectorLimits | None = None,
        *,
        by_selector: Mapping[tuple[Matcher, ...], Sequence[SegmentRef]] | None = None,
        starts: bool = False,
        shard: Shard | None = None,
    ) -> None:
        if shard is not None and rollups:
            raise ValueError("rollups are of all series, not of one shard")
        self._reader = reader
        self._segments = segments
        self._by_selector = by_selector or {}
        """Segments that may hold what a selector matches; of others, such as those of `info`, all may."""
        self._numbers = numbers
        self._starts = starts
        self._shard = shard
        self._was_asked = False
        self.limits = limits or SelectorLimits()
        self.traits = Trait.NOTHING
        """Traits of all series that were selected so far."""
        self.rollups = RollupSource(reader, rollups, numbers, self._floats)

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        return self.rollups.over_windows(function, matchers, grid) if self.rollups.rollups else None

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        """Return stored series, and classic series that match with a suffix."""
        tables = self._tables(matchers, from_ms, to_ms)
        keys = tuple(segment.key for segment, _ in tables)
        key = SelectionKey(keys, tuple(matchers), from_ms, to_ms, self._starts, self._shard)
        found = self._reader.cached_selection(key)
        if found is None:
            found = CachedSelection.of(*self._select(tables, matchers, from_ms, to_ms))
            self._reader.cache_selection(key, found)
        self.traits |= found.traits
        self.limits.check_series(found.series.count)
        self.limits.check_samples(len(found.series.time_ms))
        return found.series

    def series(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> set[Labels]:
        """Return label sets alone; rows are read only of histograms, whose buckets no table lists."""
        found: set[Labels] = set()
        with_rows: list[tuple[SegmentRef, SeriesTable]] = []
        for segment, table in self._tables(matchers, from_ms, to_ms):
            overlapping = table.overlapping(from_ms, to_ms)
            possible = any((table.matching(_stored_only(matchers), s) & overlapping).any() for s in NAMES)
            if possible and self._has_distributions(segment):
                with_rows.append((segment, table))
                continue
            chosen = np.flatnonzero(table.matching(matchers) & overlapping)
            found.update(table.labels(number) for number in chosen.tolist())
        if with_rows:
            found.update(self._select(with_rows, matchers, from_ms, to_ms)[0].labels)
        return found

    def _tables(
        self, matchers: Sequence[Matcher], from_ms: int, to_ms: int
    ) -> list[tuple[SegmentRef, SeriesTable]]:
        overlapping = [
            segment
            for segment in self._by_selector.get(tuple(matchers), self._segments)
            if segment.min_ns < (to_ms + 1) * NS_PER_MS and segment.max_ns > from_ms * NS_PER_MS
        ]
        if not self._was_asked and len(self._by_selector) > 1:
            self._was_asked = True
            self._reader.expect(self._segments)  # those of the selectors that follow, too
        return self._reader.tables(overlapping)

    def _has_distributions(self, segment: SegmentRef) -> bool:
        layout = self._reader.layout(segment)
        return layout is not None and bool(layout.places.keys() & DISTRIBUTIONS)

    def _select(
        self,
        tables: Sequence[tuple[SegmentRef, SeriesTable]],
        matchers: Sequence[Matcher],
        from_ms: int,
        to_ms: int,
    ) -> tuple[Series, Trait]:
        found, traits = self._select_stored(tables, matchers, from_ms, to_ms)
        own = [m for m in matchers if m.name in {LE, QUANTILE_LABEL}]
        blocks: list[SampleBlock] = []
        for suffix in NAMES:
            named = [
                (segment, table)
                for segment, table in tables
                if table.matching(_name_matchers(matchers), suffix).any() and self._has_distributions(segment)
            ]
            if not named:
                continue
            rows, labels, _ = self._rows(
                named, _stored_only(matchers), suffix, from_ms, to_ms, only_derived=True
            )
            if rows.derives is not None:
                blocks += derive(rows, labels, suffix, own)
        blocks = [block for block in blocks if len(block.code)]
        if not blocks:
            return found, traits
        return merge_series(found, blocks), traits | (Trait.UNITED if found.labels else Trait.NOTHING)

    def _floats(
        self, matchers: Sequence[Matcher], from_ms: int, to_ms: int, only: Int64s | None
    ) -> NumberedSamples | None:
        """Return samples for windows that rollups do not answer; None where some are no floats."""
        tables = self._tables(matchers, from_ms, to_ms)
        if any(may_derive(table, matchers) and self._has_distributions(segment) for segment, table in tables):
            return None
        rows, _, numbers = self._rows(tables, matchers, "", from_ms, to_ms, only_derived=False, only=only)
        if rows.kind is not None and (rows.kind != FLOAT).any():
            return None
        samples = Samples(rows.offsets, rows.time_ms, rows.value, rows.is_delta)
        return NumberedSamples(numbers, samples)

    def _select_stored(
        self,
        tables: Sequence[tuple[SegmentRef, SeriesTable]],
        matchers: Sequence[Matcher],
        from_ms: int,
        to_ms: int,
    ) -> tuple[Series, Trait]:
        rows, labels, _ = self._rows(tables, matchers, "", from_ms, to_ms, only_derived=False)
        if rows.kind is None and not rows.groups:  # floats only, as nearly always
            return assemble(rows, labels, None, starts=self._starts), Trait.NOTHING
        keep, natives = stored_samples(rows, exact=_names_exactly(matchers))
        sent = np.zeros(0, np.bool_) if natives is None else sent_hints(rows, natives)
        traits = _traits(sent)
        if sent.any():  # it reads everything twice
            earlier = from_ms - RESET_CONTEXT_MS
            tables = self._tables(matchers, earlier, to_ms)
            rows, labels, _ = self._rows(tables, matchers, "", earlier, to_ms, only_derived=False)
            keep, natives = stored_samples(rows, exact=_names_exactly(matchers))
            sent = np.zeros(0, np.bool_) if natives is None else sent_hints(rows, natives)
        histograms, may_be_stale = None, True
        if natives is not None:
            histograms, may_be_stale = read_histograms(rows, natives, sent)
        if keep is not None:
            rows = filter_rows(rows, keep)
            histograms = None if histograms is None else histograms[keep]
        if sent.any():
            inside = rows.time_ms > from_ms
            rows = filter_rows(rows, inside)
            histograms = None if histograms is None else histograms[inside]
        series = assemble(rows, labels, histograms, starts=self._starts)
        return (series if may_be_stale else replace(series, are_real=True)), traits

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
    ) -> tuple[MergedRows, SharedLabels, Int64s]:
        """Read rows of matching series, of `only` these numbers; with label sets in order, and numbers."""
        while True:
            try:
                return self._read_rows(
                    tables, matchers, suffix, from_ms, to_ms, only_derived=only_derived, only=only
                )
            except DamagedGroupError as damaged:
                self._reader.lose(damaged.segment, damaged.error)

    def _read_rows(
        self,
        tables: Sequence[tuple[SegmentRef, SeriesTable]],
        matchers: Sequence[Matcher],
        suffix: str,
        from_ms: int,
        to_ms: int,
        *,
        only_derived: bool,
        only: Int64s | None,
    ) -> tuple[MergedRows, SharedLabels, Int64s]:
        chosen: list[tuple[SegmentRef, SeriesTable, Int64s]] = []
        for segment, table in tables:
            if segment.segment_id in self._reader.missing:
                continue
            matching = table.matching(matchers, suffix) & table.overlapping(from_ms, to_ms)
            if self._shard is not None:
                matching &= self._shard.takes(table.families)
            series = np.flatnonzero(matching)
            if only is not None and len(series):
                series = series[np.isin(self._numbers.of(table, series), only)]
            self.limits.check_series(len(series))
            if len(series):
                chosen.append((segment, table, series))
        parts: list[tuple[SeriesRuns, Int64s]] = []
        samples = 0
        for part in self._located(chosen, only_derived=only_derived):
            more = self._runs(part, from_ms, to_ms)
            samples += sum(runs.rows for runs, _ in more)
            self.limits.check_samples(samples)
            parts += more
        found = np.unique(np.concatenate([n for _, n in parts])) if parts else np.zeros(0, np.int64)
        order, labels = self._numbers.in_order(found)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        self.limits.check_series(len(found))
        runs = [runs.with_codes(rank[np.searchsorted(found, numbers)]) for runs, numbers in parts]
        return merge_runs(runs, len(found)), labels, found[order]

    def _located(
        self, chosen: Sequence[tuple[SegmentRef, SeriesTable, Int64s]], *, only_derived: bool
    ) -> list[_Chosen]:
        """Find the row groups of these series, and begin to fetch them, of all segments at once."""
        layouts = dict(self._reader.layouts([segment for segment, _, _ in chosen]))
        found: list[_Chosen] = []
        for segment, table, series in chosen:
            layout = layouts.get(segment)
            if layout is None or (only_derived and not layout.places.keys() & DISTRIBUTIONS):
                continue
            file = self._reader.file(segment)
            if file is not None:
                found.append(_Chosen.of(file, layout, table, series))
        self._reader.fetch_groups(
            ((one.file.segment, one.layout, one.groups) for one in found), starts=self._starts
        )
        return found

    def _runs(self, chosen: _Chosen, from_ms: int, to_ms: int) -> list[tuple[SeriesRuns, Int64s]]:
        layout, table, series = chosen.layout, chosen.table, chosen.series
        begin, end, first, last = chosen.begin, chosen.end, chosen.first, chosen.last
        numbers = self._numbers.of(table, series)
        found: list[tuple[SeriesRuns, Int64s]] = []
        for number in chosen.groups:
            group = self._reader.group(chosen.file.segment, layout, number, starts=self._starts)
            if group is None:
                return []
            here = np.flatnonzero((first <= number) & (last >= number))
            low = np.maximum(begin[here] - layout.starts[number], 0)
            high = np.minimum(end[here], layout.starts[number + 1]) - layout.starts[number]
            at = series[here]
            part = SeriesRuns(
                group, chosen.file, layout, number, here, low, high,
                table.first_ms[at], table.last_ms[at], table.base[at], table.exponent[at], None,
            )  # fmt: skip
            is_split = bool((first[here] < last[here]).any())
            inside = not is_split and bool((part.first_ms > from_ms).all() and (part.last_ms <= to_ms).all())
            part = self._cut(part, from_ms, to_ms, inside=inside)
            if len(part.codes):
                self._reader.rows_considered += part.rows
                found.append((part, numbers[part.codes]))
        return found

    def _cut(self, part: SeriesRuns, from_ms: int, to_ms: int, *, inside: bool) -> SeriesRuns:
        """Keep rows in `(from_ms, to_ms]`; `inside`: all are, so no time is decoded."""
        if isinstance(part.group, RowGroup):
            return cut_to_range(part, part.group.time_ms, from_ms, to_ms)
        if inside:
            return part
        try:
            times = part.group.times_of(part.file, part.begin, part.end)
        except UNREADABLE as error:
            raise DamagedGroupError(part.file, error) from error
        return cut_to_range(part, times, from_ms, to_ms)


def _traits(sent: Flags) -> Trait:
    """Return the traits of histograms, by whether each was sent with a hint."""
    if not len(sent):
        return Trait.NOTHING
    return Trait.NATIVE if sent.all() else Trait.NATIVE | Trait.UNHINTED


def _stored_only(matchers: Sequence[Matcher]) -> list[Matcher]:
    """Return the matchers that the stored series decides."""
    return [matcher for matcher in matchers if matcher.name not in {LE, QUANTILE_LABEL}]


def _name_matchers(matchers: Sequence[Matcher]) -> list[Matcher]:
    return [matcher for matcher in matchers if matcher.name == NAME_LABEL]


def _names_exactly(matchers: Sequence[Matcher]) -> bool:
    return any(m.name == NAME_LABEL and m.op is MatchOp.EQUAL for m in matchers)
