"""Narrow columns decide which rows of an interval pass; wide columns are read for those alone.

|= "took" | json | status="500"     newest first, limit 100

1  DuckDB: times and lines with "took", in order         other stages are left to the pipeline
2  stages up to the last filter, over batches of rows, until 100 pass, with the labels that filters need
3  all columns of those 100; all stages once more, for their labels
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.logql import pipeline
from lakerunner_query.logql.frame import Category, Column, LogFrame
from lakerunner_query.logql.lang.ast import Stage
from lakerunner_query.logql.lang.stages import row_of
from lakerunner_query.logql.pipeline import Demand, labels_before
from lakerunner_query.protocol.tables import ROWS
from lakerunner_query.protocol.units import LogUnit
from lakerunner_query.worker.logs.labels import columns_for
from lakerunner_query.worker.logs.line_search import LineSearch
from lakerunner_query.worker.logs.row_fetch import (
    MESSAGE,
    RowAddresses,
    StreamRanks,
    fetch_columns,
    frame_of,
    integers,
    scanned_rows,
)
from lakerunner_query.worker.logs.row_lookup import (
    FoundRows,
    find_rows_by_id,
    find_rows_by_label,
    find_rows_by_text,
)
from lakerunner_query.worker.logs.scan_intervals import (
    Wanted,
    chunks_to_read,
    fetch,
    fetch_ahead,
    rows_in_bytes,
)
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from lakerunner_query.worker.logs.sql import (
    RowQuery,
    columns_read,
    label_conditions,
    row_statement,
    split_line_filters,
)
from resources.arrays import Flags, Int64s
from resources.duckdb import Cancellation, DuckSession
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION, CHQ_TSNS

RANK = "rank"
EMPTY_OBJECT = "{}"
MAX_BYTES = 256 * 1024 * 1024
FIRST_BATCH, LARGEST_BATCH = 4096, 65_536
"""Rows that the stages get at once."""
STATEMENT_ROWS = 400_000
STATEMENT_BYTES = 128 * 1024 * 1024
"""Bounds of a statement's result."""
NO_LABELS = Demand(frozenset(), line=False)
EVERYTHING = Demand(None)
NO_ROWS = ROWS.empty_table().append_column(RANK, pa.array([], pa.int32()))


@dataclass(frozen=True, slots=True)
class RowPage:
    """The first rows that pass."""

    rows: pa.Table
    """Columns of `units.ROWS`, and the rank of each row's stream."""
    is_complete: bool
    """False: there may be more."""


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads rows of one group of files through the stages."""

    unit: LogUnit
    stages: tuple[Stage, ...]
    group: Sequence[OpenSegment]
    ranks: StreamRanks
    session: DuckSession
    cancellation: Cancellation

    def fetch_ahead(self, start_ns: int, end_ns: int) -> None:
        """Begin to fetch what the first statement of `first_rows` reads."""
        lines, rest = split_line_filters(self.stages)
        labels, rest = label_conditions(rest, self.group)
        query = RowQuery(self.group, start_ns, end_ns, lines, labels)
        last_filter = _last_filter(rest)
        names = labels_before(rest[: last_filter + 1], NO_LABELS)[0]
        footers = [one.footer for one in self.group]
        fetch_ahead(self._chunks(query, () if last_filter < 0 else [MESSAGE, *columns_for(footers, names)]))

    def first_rows(self, start_ns: int, end_ns: int, limit: int) -> RowPage:
        """Return the first rows that pass all stages, `limit` of them or a few more."""
        lines, rest = split_line_filters(self.stages)
        labels, rest = label_conditions(rest, self.group)
        query = RowQuery(self.group, start_ns, end_ns, lines, labels)
        few: FoundRows | None = None
        if labels:
            few = find_rows_by_id(query, self.ranks, self.cancellation, reverse=self.unit.reverse)
        if few is not None:
            return RowPage(self._materialise(few.rows, self.stages, is_wide=few.is_wide), True)
        last_filter = _last_filter(rest)
        if len(labels) == 1 and not lines and last_filter < 0:
            rows = find_rows_by_label(query, self.ranks, self.cancellation, reverse=self.unit.reverse)
            if rows is not None:
                page = self._materialise(rows.rows.slice(0, limit), self.stages, is_wide=rows.is_wide)
                return RowPage(page, rows.rows.num_rows <= limit)
        search = LineSearch.of(self.stages[: len(lines)]) if lines and not labels else None
        if search is not None:
            fetch(self._chunks(query, ()))
            found = find_rows_by_text(query, search, self.ranks, self.cancellation, reverse=self.unit.reverse)
            if found is not None:
                is_enough = last_filter < 0 and found.rows.num_rows > limit
                page = found.rows.slice(0, limit) if is_enough else found.rows
                return RowPage(self._materialise(page, rest, is_wide=found.is_wide), not is_enough)
        if last_filter < 0:
            narrow = self._read(query, [MESSAGE] if lines else [], limit)
            return RowPage(self._materialise(narrow, rest), narrow.num_rows < limit)
        passed, is_complete = self._passing(query, rest[: last_filter + 1], limit)
        return RowPage(self._materialise(passed, rest), is_complete)

    def _passing(self, query: RowQuery, stages: Sequence[Stage], limit: int) -> tuple[pa.Table, bool]:
        """Filter rows in order, batch after batch, until enough pass."""
        names = labels_before(stages, NO_LABELS)[0]
        footers = [one.footer for one in self.group]
        columns = [MESSAGE, *(name for name in columns_for(footers, names) if name != MESSAGE)]
        found: list[pa.Table] = []
        count = 0
        for batch in self._batches(query, columns):
            self.cancellation.check()
            passing = self._filter(batch, stages, names)
            found.append(batch.select(list(NARROW)).take(pa.array(passing)))
            count += len(passing)
            if count >= limit:
                return pa.concat_tables(found), False
        return pa.concat_tables(found) if found else self._read(query, [MESSAGE], 0), True

    def _batches(self, query: RowQuery, columns: Sequence[str]) -> Iterator[pa.Table]:
        size, largest = FIRST_BATCH, rows_in_bytes(self.group, STATEMENT_BYTES // 4, LARGEST_BATCH)
        for table in self._statement_results(query, columns):
            start = 0
            while start < table.num_rows:
                yield table.slice(start, size)
                start += size
                size = min(largest, size * 2)

    def _statement_results(self, query: RowQuery, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield all rows in order; each statement begins at the time where the one before ended."""
        limit, skipped = rows_in_bytes(self.group, STATEMENT_BYTES, STATEMENT_ROWS), 0
        while True:
            table = self._read(query, columns, limit)
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
            query = self._continue_at(query, last)

    def _continue_at(self, query: RowQuery, last_ns: int) -> RowQuery:
        """Continue at the last time, which may have more rows."""
        if self.unit.reverse:
            return replace(query, end_ns=last_ns + 1)
        return replace(query, start_ns=last_ns)

    def _filter(self, batch: pa.Table, stages: Sequence[Stage], names: frozenset[str] | None) -> Int64s:
        frame = _number_rows(frame_of(scanned_rows(batch, self.group, self.ranks), names))
        passed = pipeline.apply(frame, stages, NO_LABELS, self.unit.now_ns, self.cancellation.check)
        return _numbers(passed)

    def _materialise(self, narrow: pa.Table, stages: Sequence[Stage], *, is_wide: bool = False) -> pa.Table:
        """Read all columns of these rows, unless they are there, and run all stages for their labels."""
        if not narrow.num_rows:
            return NO_ROWS
        found = scanned_rows(narrow, self.group, self.ranks)
        if is_wide:
            _check_size(narrow)
        else:
            addresses = RowAddresses(found.files, integers(narrow, "scanned_row"))
            footers = [one.footer for one in self.group]
            unread = {MESSAGE, *columns_for(footers)}.difference(narrow.column_names)
            wide = fetch_columns(self.group, addresses, sorted(unread), self.cancellation)
            _check_size(wide)
            for name in wide.column_names:
                if name not in narrow.column_names:
                    narrow = narrow.append_column(name, wide.column(name))
            found = replace(found, rows=narrow)
        frame = _number_rows(frame_of(found, None))
        frame = pipeline.apply(frame, stages, EVERYTHING, self.unit.now_ns, self.cancellation.check)
        left = _numbers(frame)
        objects, positions = integers(narrow, CHQ_OBJECT)[left], integers(narrow, CHQ_POSITION)[left]
        return render_lines(frame, objects, positions).append_column(RANK, pa.array(found.ranks[left]))

    def _chunks(self, query: RowQuery, columns: Sequence[str]) -> Wanted:
        names = {*columns_read(query), CHQ_OBJECT, CHQ_POSITION, *columns}
        return chunks_to_read(self.group, names, query.start_ns, query.end_ns)

    def _read(self, query: RowQuery, columns: Sequence[str], limit: int) -> pa.Table:
        order = "DESC" if self.unit.reverse else "ASC"
        statement = row_statement(query, columns, order=order, limit=limit)
        streams = self.ranks.table(stream for one in self.group for stream in one.streams)
        fetch(self._chunks(query, columns))
        with self.session.cursor() as cursor:
            cursor.register("streams", streams)
            relation = cursor.sql(statement.sql, params=statement.parameters)
            found = self.cancellation.run(cursor, relation.to_arrow_table)
        _check_size(found)
        return found


def _last_filter(stages: Sequence[Stage]) -> int:
    """Return the place of the last stage that drops rows, -1 where none does."""
    return max((n for n, stage in enumerate(stages) if row_of(stage).drops_rows), default=-1)


NARROW = (CHQ_TSNS, "rank", "scanned_file", "scanned_row", CHQ_OBJECT, CHQ_POSITION, MESSAGE)


def _check_size(found: pa.Table) -> None:
    if found.nbytes > MAX_BYTES:
        raise LimitExceededError(
            f"{found.num_rows} rows are {found.nbytes >> 20} MiB, more than {MAX_BYTES >> 20} MiB: "
            "lower the limit, or narrow the time range or the filters"
        )


def _number_rows(frame: LogFrame) -> LogFrame:
    """Put the row number into each row's position, to find the row behind the stages."""
    return replace(frame, row_position=np.arange(frame.count, dtype=np.int64))


def _numbers(frame: LogFrame) -> Int64s:
    if frame.row_position is None:
        raise ValueError("a stage lost the numbers of rows")
    return frame.row_position


def render_lines(frame: LogFrame, objects: Int64s, positions: Int64s) -> pa.Table:
    """Render three JSON objects a row, by where its labels come from: stream, sent along, the line itself.

    {"app":"web"}   {"pod":"w-1"}   {"status":"500"}
    """
    columns = [
        pa.array(frame.tsns),
        json_objects(frame, Category.STREAM).dictionary_encode(),
        frame.line,
        json_objects(frame, Category.METADATA),
        json_objects(frame, Category.PARSED),
        pa.array(objects),
        pa.array(positions),
    ]
    return pa.table(dict(zip(ROWS.names, columns, strict=True))).cast(ROWS)


def json_objects(frame: LogFrame, category: Category) -> pa.StringArray:
    """Render one object per row, names sorted.

    Each label becomes an array of `"name":"value"` fragments, null where the row has none, rendered once per
    distinct value; Arrow joins them.
    """
    fragments = [
        _fragments(name, column, here)
        for name, column in sorted(frame.labels.items())
        if (here := _has_category(column, category)).any()
    ]
    if not fragments:
        return pa.repeat(pa.scalar(EMPTY_OBJECT, pa.string()), frame.count)
    # Arrow leaves out a row that has nulls only, hence an empty text that is always there
    begun = pa.repeat(pa.scalar("", pa.string()), frame.count)
    joined = pc.binary_join_element_wise(begun, *fragments, ",", null_handling="skip")
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), "}", "")


def _has_category(column: Column, category: Category) -> Flags:
    there: Flags = column.codes >= 0
    if isinstance(column.category, Category):
        return there if column.category is category else np.zeros(len(there), np.bool_)
    there &= np.equal(column.category, int(category))
    return there


def _fragments(name: str, column: Column, here: Flags) -> pa.StringArray:
    prefix = msgspec.json.encode(name) + b":"
    used, codes = np.unique(column.codes[here], return_inverse=True)
    texts = column.values.take(pa.array(used)).to_pylist()
    shown = pa.array([(prefix + msgspec.json.encode(one)).decode() for one in texts], pa.string())
    places = np.full(len(here), -1, np.int64)
    places[here] = codes
    return shown.take(pa.array(places, mask=~here))
