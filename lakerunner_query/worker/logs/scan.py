"""One unit of a log query on one worker: the stretches of time it consists of, until there are rows enough.

Repeats are dropped here where the API asks for it: they share an instant, and no other unit has that
instant. Work stops within milliseconds when the coordinator goes away.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.execute.work import ROWS, LogUnit, UnitReport
from lakerunner_query.lang.logql.ast import Stage
from lakerunner_query.plan.logical import Nothing, ReadStreams
from lakerunner_query.worker.blooms import Needles
from lakerunner_query.worker.logs.candidates import RANK, Candidates, Taken
from lakerunner_query.worker.logs.grouping import groups
from lakerunner_query.worker.logs.planned import planned
from lakerunner_query.worker.logs.stream_ranks import StreamRanks
from lakerunner_query.worker.logs.windows import Window, WindowSizes, wanted_groups, windows
from lakerunner_query.worker.opening import Opened, OpenedSet, SegmentOpener
from lakerunner_query.worker.selection import Selection
from resources.duckdb import Cancellation, DuckSession

GROW_DISTINCT = 4
DAMAGE = (
    duckdb.IOException,
    duckdb.InvalidInputException,
    duckdb.SerializationException,
    pa.ArrowException,
    OSError,
)


class LogScanner:
    """Everything a worker process shares between scans."""

    def __init__(self, opener: SegmentOpener, session: DuckSession, sizes: WindowSizes | None = None) -> None:
        self._opener = opener
        self._session = session
        self._sizes = sizes or WindowSizes()

    def run(self, unit: LogUnit, cancellation: Cancellation) -> tuple[pa.Table, UnitReport]:
        """The rows of the unit in order, as `work.ROWS`."""
        pipeline = planned(unit.text)
        if isinstance(pipeline, Nothing):
            return ROWS.empty_table(), UnitReport()
        wanted = selection(pipeline.source, unit.start_ns, unit.end_ns)
        with self._opener.open(unit.segments, wanted, cancellation) as files:
            shared = Shared(self._opener, self._session, cancellation, self._sizes)
            scan = _Scan(unit, pipeline.stages, wanted, files, shared)
            rows, truncated = scan.rows()
            return rows, report(files, scan.read, unit.start_ns, unit.end_ns, truncated=truncated)


def selection(source: ReadStreams, start_ns: int, end_ns: int) -> Selection:
    needles = tuple(map(Needles.of, source.words))
    return Selection(source.matchers, start_ns, end_ns, source.narrowing, needles)


@dataclass(frozen=True, slots=True)
class Shared:
    opener: SegmentOpener
    session: DuckSession
    cancellation: Cancellation
    sizes: WindowSizes


@dataclass(slots=True)
class Read:
    """What was scanned, by segment: from when to when."""

    by_segment: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, window: Window) -> None:
        for one in window.files:
            self.by_segment.setdefault(one.segment.segment_id, []).append((window.start_ns, window.end_ns))


@dataclass(frozen=True, slots=True)
class _Scan:
    unit: LogUnit
    stages: tuple[Stage, ...]
    wanted: Selection
    files: OpenedSet
    shared: Shared
    read: Read = field(default_factory=Read)

    def rows(self) -> tuple[pa.Table, bool]:
        """A file that turns out to be damaged is left out, named, and the rest scanned again."""
        while True:
            try:
                return self._until_enough()
            except DAMAGE:
                if not discard_damaged(self.wanted, self.files, self.shared):
                    raise

    def _until_enough(self) -> tuple[pa.Table, bool]:
        unit, opened = self.unit, self.files.opened
        ranks = StreamRanks.of(stream for one in opened for stream in one.streams)
        parts: list[pa.Table] = [ROWS.empty_table()]
        left = unit.limit
        for window in windows(opened, unit.start_ns, unit.end_ns, self.shared.sizes, reverse=unit.reverse):
            self.shared.cancellation.check()
            self.read.add(window)
            found = self._window(window, ranks, left)
            parts.append(found)
            left -= found.num_rows
            if left <= 0:
                break
        return pa.concat_tables(parts), left <= 0

    def _window(self, window: Window, ranks: StreamRanks, limit: int) -> pa.Table:
        """`limit` rows after dropping repeats, so that a page is never short while there is more."""
        asked = limit
        while True:
            found = self._taken(window, ranks, asked)
            rows = without_repeats(found.rows) if self.unit.distinct else found.rows
            if found.is_all or rows.num_rows >= limit:
                return rows.slice(0, limit).select(ROWS.names).cast(ROWS)
            asked *= GROW_DISTINCT

    def _taken(self, window: Window, ranks: StreamRanks, limit: int) -> Taken:
        parts = [
            Candidates(self.unit, self.stages, group, ranks, self.shared.session, self.shared.cancellation)
            .taken(window.start_ns, window.end_ns, limit)
            for group in groups(window.files)
        ]  # fmt: skip
        rows = _ordered([part.rows for part in parts], self.unit.reverse)
        return Taken(rows.slice(0, limit), all(part.is_all for part in parts) and rows.num_rows <= limit)


def without_repeats(rows: pa.Table) -> pa.Table:
    """The first of rows with equal (stream, time, line, metadata)."""
    keys = ["tsns", "labels", "line", "metadata", "parsed"]
    plain = rows.select(keys).set_column(1, "labels", rows["labels"].cast(pa.string()))
    numbered = plain.append_column("row", pa.array(np.arange(rows.num_rows)))
    kept = numbered.group_by(keys, use_threads=False).aggregate([("row", "min")])["row_min"]
    return rows.take(kept.combine_chunks().sort())


def report(
    files: OpenedSet, read: Read, start_ns: int, end_ns: int, *, truncated: bool = False
) -> UnitReport:
    """What it took; rows and bytes are those of row groups that were read."""
    groups_read = rows = size = 0
    for one in files.opened:
        wanted = np.zeros(len(one.footer.groups.min_ns), np.bool_)
        for first, behind in read.by_segment.get(one.segment.segment_id, ()):
            wanted |= wanted_groups(one, max(first, start_ns), min(behind, end_ns))
        own = int(np.diff(one.footer.groups.first)[wanted].sum())
        groups_read += int(wanted.sum())
        rows += own
        size += one.segment.bytes * own // max(1, one.footer.rows)
    return UnitReport(
        missing=tuple(files.missing),
        segments_opened=len(files.opened),
        segments_skipped=files.skipped,
        segments_without_words=files.without_words,
        row_groups=sum(len(one.footer.groups.min_ns) for one in files.opened),
        row_groups_read=groups_read,
        rows_considered=rows,
        bytes_considered=size,
        bytes_fetched=sum(one.fetched for one in files.opened),
        truncated=truncated,
    )


def discard_damaged(wanted: Selection, files: OpenedSet, shared: Shared) -> bool:
    """Read every file alone; True when at least one was at fault."""
    damaged = [(one, reason) for one in files.opened if (reason := _damage(one, shared.cancellation))]
    for one, reason in damaged:
        shared.opener.replace_damaged(wanted, files, one, reason)
    return bool(damaged)


def _damage(one: Opened, cancellation: Cancellation) -> str:
    """What is wrong with a file, every column of which is decoded; empty: nothing."""
    try:
        with pq.ParquetFile(one.path) as file:
            for number in range(file.num_row_groups):
                for name in one.footer.columns:
                    cancellation.check()
                    file.read_row_group(number, columns=[name], use_threads=False).validate(full=True)
    except (pa.ArrowException, OSError) as error:
        return str(error).splitlines()[0]
    return ""


def _ordered(parts: list[pa.Table], reverse: bool) -> pa.Table:
    """One part comes ordered from DuckDB; several (see grouping.py) are ordered together."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables(parts)
    direction = "descending" if reverse else "ascending"
    order = pc.sort_indices(rows, [(key, direction) for key in ("tsns", RANK, "object", "position")])
    return rows.take(order)
