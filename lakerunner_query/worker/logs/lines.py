"""`LineScanner` answers a unit of a log query, interval after interval up to the limit.

Repeated rows are dropped here on demand: they share an instant, and no other unit has that instant. Work
stops within milliseconds when the coordinator hangs up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.logql.lang.ast import Stage
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.plan.logql import Nothing, Pipeline
from lakerunner_query.plan.optimise import improve_cached
from lakerunner_query.plan.slices import RowSliceSizes, Slice, cut_slices, first_few
from lakerunner_query.protocol.tables import ROWS
from lakerunner_query.protocol.units import LogUnit, SegmentRef, UnitReport
from lakerunner_query.worker.logs.late_materialisation import RANK, RowPage, RowReader
from lakerunner_query.worker.logs.row_fetch import StreamRanks
from lakerunner_query.worker.logs.scan_intervals import (
    IntervalSizes,
    Pace,
    ScanInterval,
    ScannedIntervals,
    merge_reports,
    scan_intervals,
    unit_report,
    with_next,
)
from lakerunner_query.worker.logs.segment_opener import (
    DAMAGE,
    NO_DAMAGE,
    OpenSegments,
    ScanResources,
    SegmentOpener,
    discard_damaged,
)
from lakerunner_query.worker.logs.sql import files_by_schema
from lakerunner_query.worker.logs.stream_filter import StreamFilter
from resources.duckdb import Cancellation, DuckSession

FOR_LINES = RowSliceSizes(growth=8.0)
"""Sizes of the parts whose segments are open at a time; intervals within them decide what is read."""
GROW_DISTINCT = 4
"""Factor by which more rows are read where repeats left too few."""


@lru_cache(256)
def parse_pipeline(text: str) -> Pipeline:
    """Parse and optimise the query, once for all units of it."""
    return improve_cached(parse(text)).pipeline


class LineScanner:
    """Answers units for log lines."""

    def __init__(
        self, opener: SegmentOpener, session: DuckSession, sizes: IntervalSizes | None = None
    ) -> None:
        self._opener = opener
        self._session = session
        self._sizes = sizes or IntervalSizes()

    def run(self, unit: LogUnit, cancellation: Cancellation) -> tuple[pa.Table, UnitReport]:
        """Return the rows of the unit in order, with the columns of `units.ROWS`."""
        pipeline = parse_pipeline(unit.text)
        if isinstance(pipeline, Nothing):
            return ROWS.empty_table(), UnitReport()
        stream_filter = StreamFilter.of(pipeline.source, unit.start_ns, unit.end_ns)
        if stream_filter.words:
            segments, pruned = self._opener.worth_opening(unit.segments, stream_filter, cancellation)
            report = unit_report(pruned, ScannedIntervals(), unit.start_ns, unit.end_ns)
            is_rare = 2 * len(segments) <= len(unit.segments)
            slices = RowSliceSizes(first=1.0) if is_rare else FOR_LINES
            pace = Pace(IntervalSizes(first=1.0) if is_rare else self._sizes, unit.limit)
            parts = cut_slices(segments, unit.start_ns, unit.end_ns, reverse=unit.reverse, sizes=slices)
            return self._scan_parts(unit, pipeline.stages, parts, stream_filter, pace, cancellation, [report])
        parts = first_few(unit.segments, unit.start_ns, unit.end_ns, reverse=unit.reverse)
        pace = Pace(self._sizes, unit.limit)
        return self._scan_parts(unit, pipeline.stages, parts, stream_filter, pace, cancellation, [])

    def _scan_parts(
        self,
        unit: LogUnit,
        stages: tuple[Stage, ...],
        slices: Iterable[Slice[SegmentRef]],
        stream_filter: StreamFilter,
        pace: Pace,
        cancellation: Cancellation,
        reports: list[UnitReport],
    ) -> tuple[pa.Table, UnitReport]:
        """Open and scan segments slice by slice until the limit is reached."""
        parts, left = [ROWS.empty_table()], unit.limit
        for part in slices:
            part_unit = msgspec.structs.replace(
                unit, segments=part.segments, start_ns=part.start_ns, end_ns=part.end_ns, limit=left
            )
            rows, report = self._scan(part_unit, stages, stream_filter, cancellation, pace)
            parts.append(rows)
            reports.append(report)
            left -= rows.num_rows
            if left <= 0:
                break
        return pa.concat_tables(parts), merge_reports(reports, truncated=left <= 0)

    def _scan(
        self,
        unit: LogUnit,
        stages: tuple[Stage, ...],
        stream_filter: StreamFilter,
        cancellation: Cancellation,
        pace: Pace,
    ) -> tuple[pa.Table, UnitReport]:
        """Return rows, and what was read."""
        with self._opener.open(unit.segments, stream_filter, cancellation) as files:
            resources = ScanResources(self._opener, self._session, cancellation)
            scan = _Scan(unit, stages, stream_filter, files, resources, pace)
            rows, truncated = scan.rows()
            return rows, unit_report(files, scan.scanned, unit.start_ns, unit.end_ns, truncated=truncated)


@dataclass(frozen=True, slots=True)
class _Scan:
    unit: LogUnit
    stages: tuple[Stage, ...]
    stream_filter: StreamFilter
    files: OpenSegments
    resources: ScanResources
    pace: Pace
    scanned: ScannedIntervals = field(default_factory=ScannedIntervals)

    def rows(self) -> tuple[pa.Table, bool]:
        """Scan all files; leave out damaged ones and scan the others again."""
        while True:
            try:
                return self._until_enough()
            except NO_DAMAGE:
                raise
            except DAMAGE:
                if not discard_damaged(self.stream_filter, self.files, self.resources):
                    raise

    def _until_enough(self) -> tuple[pa.Table, bool]:
        unit, opened = self.unit, self.files.opened
        ranks = StreamRanks.of(stream for one in opened for stream in one.streams)
        parts: list[pa.Table] = [ROWS.empty_table()]
        left = unit.limit
        intervals = scan_intervals(opened, unit.start_ns, unit.end_ns, self.pace, reverse=unit.reverse)
        for number, (interval, following) in enumerate(with_next(intervals)):
            self.resources.cancellation.check()
            self.scanned.add(interval)
            if number > 0 and following is not None:  # the first one is often enough
                for reader in self._readers(following, ranks):
                    reader.fetch_ahead(following.start_ns, following.end_ns)
            found = self._page(interval, ranks, left)
            self.pace.note(interval.rows, found.num_rows)
            parts.append(found)
            left -= found.num_rows
            if left <= 0:
                break
        return pa.concat_tables(parts), left <= 0

    def _page(self, interval: ScanInterval, ranks: StreamRanks, limit: int) -> pa.Table:
        """Return `limit` rows without repeats: a page is never short while there is more."""
        read_limit = limit
        while True:
            found = self._read(interval, ranks, read_limit)
            rows = drop_repeats(found.rows) if self.unit.distinct else found.rows
            if found.is_complete and not rows.num_rows:
                return ROWS.empty_table()
            if found.is_complete or rows.num_rows >= limit:
                return rows.slice(0, limit).select(ROWS.names).cast(ROWS)
            read_limit *= GROW_DISTINCT

    def _read(self, interval: ScanInterval, ranks: StreamRanks, limit: int) -> RowPage:
        readers = self._readers(interval, ranks)
        parts = [each.first_rows(interval.start_ns, interval.end_ns, limit) for each in readers]
        rows = _merge([part.rows for part in parts], self.unit.reverse)
        return RowPage(
            rows.slice(0, limit), all(part.is_complete for part in parts) and rows.num_rows <= limit
        )

    def _readers(self, interval: ScanInterval, ranks: StreamRanks) -> Iterator[RowReader]:
        session, cancellation = self.resources.session, self.resources.cancellation
        for group in files_by_schema(interval.files):
            yield RowReader(self.unit, self.stages, group, ranks, session, cancellation)


def drop_repeats(rows: pa.Table) -> pa.Table:
    """Keep the first of rows with equal (stream, time, line, metadata)."""
    if rows.num_rows < 2:
        return rows
    keys = ["tsns", "labels", "line", "metadata", "parsed"]
    plain = rows.select(keys).set_column(1, "labels", rows["labels"].cast(pa.string()))
    numbered = plain.append_column("row", pa.array(np.arange(rows.num_rows)))
    first = numbered.group_by(keys, use_threads=False).aggregate([("row", "min")])["row_min"]
    return rows.take(first.combine_chunks().sort())


def _merge(parts: list[pa.Table], reverse: bool) -> pa.Table:
    """Merge parts, each of which DuckDB has ordered."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables(parts)
    direction = "descending" if reverse else "ascending"
    order = pc.sort_indices(rows, [(key, direction) for key in ("tsns", RANK, "object", "position")])
    return rows.take(order)
