"""Rows of one stretch of time and one group of files: narrow columns decide, wide ones follow for the hits.

|= "took" | json | status="500"     newest first, 100 wanted

1  DuckDB: times and lines with "took", in order         only what SQL cannot tell is left to the stages
2  stages up to the last filter, over runs of rows, until 100 are left, with the labels that filters need
3  all columns of those 100; all stages once more, for their labels
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.logql import pipeline
from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.logql.lang.ast import LabelFilter, LineFilter, Stage
from lakerunner_query.logql.pipeline import Demand, wanted_by
from lakerunner_query.protocol.units import LogUnit
from lakerunner_query.worker.logs.labels import columns_for
from lakerunner_query.worker.logs.render_lines import rendered
from lakerunner_query.worker.logs.row_fetch import (
    MESSAGE,
    Places,
    StreamRanks,
    fetched,
    frame_of,
    integers,
    rows_with_id,
    scanned,
)
from lakerunner_query.worker.logs.scan_intervals import rows_within
from lakerunner_query.worker.logs.segment_opener import Opened
from lakerunner_query.worker.logs.sql import Question, label_conditions, rows, split
from resources.arrays import Int64s
from resources.duckdb import Cancellation, DuckSession
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION, CHQ_TSNS

RANK = "rank"
MAX_BYTES = 256 * 1024 * 1024
FIRST_RUN, LONGEST_RUN = 4096, 65_536
AT_ONCE = 400_000
BYTES_AT_ONCE = 128 * 1024 * 1024
"""Rows that wait for the stages."""
NO_LABELS = Demand(frozenset(), line=False)
EVERYTHING = Demand(None)


@dataclass(frozen=True, slots=True)
class Taken:
    rows: pa.Table
    """As `work.ROWS`, and the rank of each row's stream."""
    is_all: bool
    """There are no more."""


@dataclass(frozen=True, slots=True)
class Candidates:
    unit: LogUnit
    stages: tuple[Stage, ...]
    group: Sequence[Opened]
    ranks: StreamRanks
    session: DuckSession
    cancellation: Cancellation

    def taken(self, start_ns: int, end_ns: int, limit: int) -> Taken:
        """The first rows that pass all stages, `limit` of them or a few more."""
        lines, rest = split(self.stages)
        labels, rest = label_conditions(rest, self.group)
        question = Question(self.group, start_ns, end_ns, lines, labels)
        few = rows_with_id(question, self.ranks, self.cancellation, reverse=self.unit.reverse)
        if few is not None:
            return Taken(self._whole(few, self.stages), True)
        last_filter = max(
            (n for n, s in enumerate(rest) if isinstance(s, LineFilter | LabelFilter)), default=-1
        )
        if last_filter < 0:
            narrow = self._read(question, [MESSAGE] if lines else [], limit)
            return Taken(self._whole(narrow, rest), narrow.num_rows < limit)
        passed, is_all = self._passing(question, rest[: last_filter + 1], limit)
        return Taken(self._whole(passed, rest), is_all)

    def _passing(self, question: Question, stages: Sequence[Stage], limit: int) -> tuple[pa.Table, bool]:
        """Rows in order, run after run, until enough pass."""
        names = wanted_by(stages, NO_LABELS)[0]
        footers = [one.footer for one in self.group]
        columns = [MESSAGE, *(name for name in columns_for(footers, names) if name != MESSAGE)]
        found: list[pa.Table] = []
        count = 0
        for run in self._runs(question, columns):
            self.cancellation.check()
            passing = self._surviving(run, stages, names)
            found.append(run.select(list(NARROW)).take(pa.array(passing)))
            count += len(passing)
            if count >= limit:
                return pa.concat_tables(found), False
        return pa.concat_tables(found) if found else self._read(question, [MESSAGE], 0), True

    def _runs(self, question: Question, columns: Sequence[str]) -> Iterator[pa.Table]:
        size, longest = FIRST_RUN, rows_within(self.group, BYTES_AT_ONCE // 4, LONGEST_RUN)
        for table in self._portions(question, columns):
            start = 0
            while start < table.num_rows:
                yield table.slice(start, size)
                start += size
                size = min(longest, size * 2)

    def _portions(self, question: Question, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All rows in order, so many at a time: the next begin at the time where these end."""
        limit, skipped = rows_within(self.group, BYTES_AT_ONCE, AT_ONCE), 0
        while True:
            table = self._read(question, columns, limit)
            yield table.slice(skipped)
            if table.num_rows < limit:
                return
            times = integers(table, CHQ_TSNS)
            last = int(times[-1])
            repeated = int((times == last).sum())
            if repeated == limit:
                limit, skipped = limit * 2, limit  # all at one time
                continue
            skipped = repeated
            question = self._behind(question, last)

    def _behind(self, question: Question, last_ns: int) -> Question:
        """From the last time on, which may have more rows."""
        if self.unit.reverse:
            return replace(question, end_ns=last_ns + 1)
        return replace(question, start_ns=last_ns)

    def _surviving(self, run: pa.Table, stages: Sequence[Stage], names: frozenset[str] | None) -> Int64s:
        frame = _numbered(frame_of(scanned(run, self.group, self.ranks), names))
        passed = pipeline.apply(frame, stages, NO_LABELS, self.unit.now_ns, self.cancellation.check)
        return _numbers(passed)

    def _whole(self, narrow: pa.Table, stages: Sequence[Stage]) -> pa.Table:
        """All labels of these rows, behind all stages."""
        footers = [one.footer for one in self.group]
        found = scanned(narrow, self.group, self.ranks)
        if narrow.num_rows:
            places = Places(found.files, integers(narrow, "scanned_row"))
            unread = {MESSAGE, *columns_for(footers)}.difference(narrow.column_names)
            wide = fetched(self.group, places, sorted(unread), self.cancellation)
            _check_size(wide)
            for name in wide.column_names:
                if name not in narrow.column_names:
                    narrow = narrow.append_column(name, wide.column(name))
            found = replace(found, rows=narrow)
        frame = _numbered(frame_of(found, None))
        frame = pipeline.apply(frame, stages, EVERYTHING, self.unit.now_ns, self.cancellation.check)
        kept = _numbers(frame)
        objects, positions = integers(narrow, CHQ_OBJECT)[kept], integers(narrow, CHQ_POSITION)[kept]
        return rendered(frame, objects, positions).append_column(RANK, pa.array(found.ranks[kept]))

    def _read(self, question: Question, columns: Sequence[str], limit: int) -> pa.Table:
        order = "DESC" if self.unit.reverse else "ASC"
        statement = rows(question, columns, order=order, limit=limit)
        streams = self.ranks.table(stream for one in self.group for stream in one.streams)
        with self.session.cursor() as cursor:
            cursor.register("streams", streams)
            relation = cursor.sql(statement.sql, params=statement.parameters)
            found = self.cancellation.run(cursor, relation.to_arrow_table)
        _check_size(found)
        return found


NARROW = (CHQ_TSNS, "rank", "scanned_file", "scanned_row", CHQ_OBJECT, CHQ_POSITION, MESSAGE)


def _check_size(found: pa.Table) -> None:
    if found.nbytes > MAX_BYTES:
        raise LimitExceededError(
            f"{found.num_rows} rows are {found.nbytes >> 20} MiB, more than {MAX_BYTES >> 20} MiB: "
            "lower the limit, or narrow the time range or the filters"
        )


def _numbered(frame: LogFrame) -> LogFrame:
    """Rows carry their place through the stages instead of their id."""
    return replace(frame, row_position=np.arange(frame.count, dtype=np.int64))


def _numbers(frame: LogFrame) -> Int64s:
    if frame.row_position is None:
        raise ValueError("a stage lost the numbers of rows")
    return frame.row_position
