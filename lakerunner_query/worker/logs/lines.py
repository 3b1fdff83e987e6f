"""One unit of a log query on one worker: the stretches of time it consists of, until there are rows enough.

Repeats are dropped here where the API asks for it: they share an instant, and no other unit has that
instant. Work stops within milliseconds when the coordinator goes away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.logql.lang.ast import Stage
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.plan.logql import Nothing, Pipeline
from lakerunner_query.plan.optimise import improved
from lakerunner_query.plan.slices import RowSliceSizes, cut_slices
from lakerunner_query.protocol.units import ROWS, LogUnit, UnitReport
from lakerunner_query.worker.logs.late_materialisation import RANK, Candidates, Taken
from lakerunner_query.worker.logs.row_fetch import StreamRanks
from lakerunner_query.worker.logs.scan_intervals import (
    Read,
    Window,
    WindowSizes,
    report,
    reports_together,
    windows,
)
from lakerunner_query.worker.logs.segment_opener import Opened, OpenedSet, SegmentOpener, Selection
from lakerunner_query.worker.logs.stream_listing import selection
from resources.duckdb import Cancellation, DuckSession

# << A query's text as the pipeline that a worker runs, rewritten by the rules of the coordinator.


@lru_cache(256)
def planned(text: str) -> Pipeline:
    """Every unit of a query brings the same text."""
    return improved(parse(text)).pipeline


# << Which files of a unit can be scanned by one statement.
# <<
# << Two files cannot when a stream id means different label sets in them (ids are hashes), or when a
# << column holds
# << another type (an attribute sent as a number here and as text there): a union would show `true` as `1`.

Meaning = dict[str | int, object]


def groups(files: Iterable[Opened]) -> list[list[Opened]]:
    """As few groups as going through the files once gives; nearly always one."""
    found: list[tuple[Meaning, list[Opened]]] = []
    for file in files:
        meaning = _meaning(file)
        for known, members in found:
            if all(known.get(key, value) == value for key, value in meaning.items()):
                known.update(meaning)
                members.append(file)
                break
        else:
            found.append((meaning, [file]))
    return [members for _known, members in found]


def _meaning(file: Opened) -> Meaning:
    meaning: Meaning = {stream.stream_id: stream.labels for stream in file.streams}
    meaning.update(file.footer.columns)
    return meaning


# << What all log queries of a worker process share, and what to do about files that cannot be read.

DAMAGE = (duckdb.Error, pa.ArrowException, OSError)
"""What reading a damaged file may raise: for headers of pages DuckDB has no class of its own."""
NO_DAMAGE = (duckdb.OutOfMemoryException, duckdb.InterruptException)
"""Of those, what is not worth looking through the files for."""


@dataclass(frozen=True, slots=True)
class Shared:
    opener: SegmentOpener
    session: DuckSession
    cancellation: Cancellation


def discard_damaged(wanted: Selection, files: OpenedSet, shared: Shared) -> bool:
    """Read every file alone; True when at least one was at fault."""
    damaged = [(one, reason) for one in files.opened if (reason := damage(one, shared.cancellation))]
    for one, reason in damaged:
        shared.opener.replace_damaged(wanted, files, one, reason)
    return bool(damaged)


def damage(one: Opened, cancellation: Cancellation) -> str:
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


GROW_DISTINCT = 4


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
        if not wanted.needles:
            return self._scanned(unit, pipeline.stages, wanted, cancellation, self._sizes)
        return self._needles(unit, pipeline.stages, wanted, cancellation)

    def _needles(
        self, unit: LogUnit, stages: tuple[Stage, ...], wanted: Selection, cancellation: Cancellation
    ) -> tuple[pa.Table, UnitReport]:
        """Most segments do not hold the words; of the others, some after the other until there is enough."""
        segments, pruned = self._opener.worth_opening(unit.segments, wanted, cancellation)
        is_rare = 2 * len(segments) <= len(unit.segments)
        sizes = RowSliceSizes(first=1.0) if is_rare else RowSliceSizes()
        reports = [report(pruned, Read(), unit.start_ns, unit.end_ns)]
        parts, left = [ROWS.empty_table()], unit.limit
        for part in cut_slices(segments, unit.start_ns, unit.end_ns, reverse=unit.reverse, sizes=sizes):
            mine = msgspec.structs.replace(
                unit, segments=part.segments, start_ns=part.start_ns, end_ns=part.end_ns, limit=left
            )
            whole = WindowSizes(first=1.0) if is_rare else self._sizes
            rows, told = self._scanned(mine, stages, wanted, cancellation, whole)
            parts.append(rows)
            reports.append(told)
            left -= rows.num_rows
            if left <= 0:
                break
        return pa.concat_tables(parts), reports_together(reports, truncated=left <= 0)

    def _scanned(
        self,
        unit: LogUnit,
        stages: tuple[Stage, ...],
        wanted: Selection,
        cancellation: Cancellation,
        sizes: WindowSizes,
    ) -> tuple[pa.Table, UnitReport]:
        with self._opener.open(unit.segments, wanted, cancellation) as files:
            shared = Shared(self._opener, self._session, cancellation)
            scan = _Scan(unit, stages, wanted, files, shared, sizes)
            rows, truncated = scan.rows()
            return rows, report(files, scan.read, unit.start_ns, unit.end_ns, truncated=truncated)


@dataclass(frozen=True, slots=True)
class _Scan:
    unit: LogUnit
    stages: tuple[Stage, ...]
    wanted: Selection
    files: OpenedSet
    shared: Shared
    sizes: WindowSizes
    read: Read = field(default_factory=Read)

    def rows(self) -> tuple[pa.Table, bool]:
        """A file that turns out to be damaged is left out, named, and the rest scanned again."""
        while True:
            try:
                return self._until_enough()
            except NO_DAMAGE:
                raise
            except DAMAGE:
                if not discard_damaged(self.wanted, self.files, self.shared):
                    raise

    def _until_enough(self) -> tuple[pa.Table, bool]:
        unit, opened = self.unit, self.files.opened
        ranks = StreamRanks.of(stream for one in opened for stream in one.streams)
        parts: list[pa.Table] = [ROWS.empty_table()]
        left = unit.limit
        for window in windows(opened, unit.start_ns, unit.end_ns, self.sizes, reverse=unit.reverse):
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


def _ordered(parts: list[pa.Table], reverse: bool) -> pa.Table:
    """One part comes ordered from DuckDB; several (see grouping.py) are ordered together."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables(parts)
    direction = "descending" if reverse else "ascending"
    order = pc.sort_indices(rows, [(key, direction) for key in ("tsns", RANK, "object", "position")])
    return rows.take(order)
