"""`TableScanner` answers a unit of LakeQL: one statement over the rows of segments, run by DuckDB.

    WITH rows AS (SELECT … FROM read_parquet([…]) r JOIN labels s ON s.id = r.stream WHERE …
                  UNION ALL …)                         segments with equal expressions are one `read_parquet`
    SELECT * FROM (the statement of the unit)

Conditions of the statement reach the Parquet reader through the projection. A segment that proves damaged is
left out and declared missing, and the others answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.errors import EvaluationError, InvalidRequestError, TooLargeError
from lakerunner_query.lakeql.tables import TABLES, TEXT, LakeTable, TableColumn
from lakerunner_query.protocol.units import SegmentRef, TableUnit, UnitReport
from lakerunner_query.worker.metrics.row_groups import UNREADABLE
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.metrics.series_table import SeriesTable
from lakerunner_query.worker.shared.lru import ByteLru
from lakerunner_query.worker.tables.columns import (
    IDS,
    RowShape,
    identifier,
    label_of,
    literal,
)
from lakerunner_query.worker.tables.functions import ROWS, add_functions, check_statement
from lakerunner_query.worker.tables.labels import LabelRelation, label_relations
from lakerunner_query.worker.tables.pruning import (
    ConditionFinder,
    groups_of_series,
    groups_with_ids,
    id_keys,
    ids_of,
    matching_series,
    row_ranges,
)
from lakerunner_query.worker.tables.segments import (
    OpenTable,
    TableOpener,
    TableReader,
    TimeBounds,
    id_column,
)
from resources.arrays import Flags
from resources.duckdb import Cancellation, DuckSession

BATCH_ROWS = 16_384
AHEAD_BYTES = 256 << 20
"""Bytes that are requested of the object store before DuckDB asks for them."""
MOST_LISTED = 64
"""Values of a condition that stand in the statement; more are a table."""
MOST_ALONE, MOST_RANGES = 64, 16
"""Segments that are read one by one because some of their row groups are not, and runs of those of each."""
ROW_ERRORS = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)
"""Errors of the statement with the rows that it met, unless a file is damaged."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """SQL for the rows of a segment."""

    selected: str
    conditions: tuple[str, ...]
    stored: Mapping[str, pa.DataType]
    """Stored columns that are read, with their types: the same SQL means another thing for another type."""
    labels: Mapping[str, str]
    rows: tuple[tuple[int, int], ...] = ()
    """Rows that may be in the answer; none: all."""


@dataclass(frozen=True, slots=True)
class Part:
    """Segments that one `read_parquet` scans."""

    shape: _Shape
    files: list[OpenTable]
    labels: LabelRelation | None

    def sql(self, number: int, table: LakeTable) -> str:
        names = ", ".join(literal(one.name) for one in self.files)
        by_row = self.labels is not None and self.labels.by_row
        rows = ", file_row_number = true" if by_row or self.shape.rows else ""
        source = f"read_parquet([{names}]{rows}) r"
        if self.labels is not None:
            source += f" JOIN {label_table(number)} s ON s.id = r.{identifier(id_column(table))}"
        if by_row:
            source += " AND r.file_row_number >= s.first_row AND r.file_row_number < s.end_row"
        conditions = list(self.shape.conditions)
        if self.shape.rows:
            row = "r.file_row_number"
            ranges = (f"{row} >= {first} AND {row} < {behind}" for first, behind in self.shape.rows)
            conditions.append(f"({' OR '.join(ranges)})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {self.shape.selected} FROM {source}{where}"  # noqa: S608 - literals are quoted


@dataclass(slots=True)
class Statement:
    """SQL of a unit, and the relations that it names beside files."""

    sql: str
    relations: dict[str, pa.Table] = field(default_factory=dict)


@dataclass(slots=True)
class Scanned:
    """Row groups and rows that a unit reads."""

    row_groups: int = 0
    row_groups_read: int = 0
    rows: int = 0
    bytes: int = 0
    skipped: int = 0
    without_words: int = 0


class TableScanner:
    """Answers units of LakeQL."""

    def __init__(self, opener: MetricOpener, session: DuckSession) -> None:
        self.opener = TableOpener(opener)
        self._session = session
        self._checked: ByteLru[str, bool] = ByteLru(1024)
        """Statements that were found to read `rows` only."""
        self._finder = ConditionFinder(session)
        add_functions(session)

    def run(self, unit: TableUnit, cancellation: Cancellation) -> tuple[pa.Table, UnitReport]:
        """Return the result of the unit's statement; its order is only good under a limit."""
        table = TABLES.get(unit.table)
        if table is None:
            raise InvalidRequestError(f"no table {unit.table}: expected one of {', '.join(TABLES)}")
        self._check(unit.sql)
        with self.opener.open_unit(cancellation) as reader:
            return _Scan(unit, table, reader, self._session, self._finder, cancellation).run()

    def _check(self, sql: str) -> None:
        if self._checked.get(sql) is None:
            with self._session.cursor() as cursor:
                check_statement(cursor, sql)
            self._checked.put(sql, True)


@dataclass(slots=True)
class _Scan:
    unit: TableUnit
    table: LakeTable
    reader: TableReader
    session: DuckSession
    finder: ConditionFinder
    cancellation: Cancellation
    scanned: Scanned = field(default_factory=Scanned)
    ahead: int = 0
    """Bytes that were requested before DuckDB asked for them."""

    def run(self) -> tuple[pa.Table, UnitReport]:
        while True:
            self.scanned = Scanned()
            parts = self._parts()
            statement = self._statement(parts)
            try:
                return self._execute(statement), self._report()
            except (duckdb.OutOfMemoryException, duckdb.InterruptException, duckdb.BinderException):
                raise
            except (duckdb.Error, *UNREADABLE) as error:
                if not self._discard_damaged(parts, error):
                    if isinstance(error, ROW_ERRORS):
                        raise EvaluationError(str(error).splitlines()[0]) from error
                    raise

    def _parts(self) -> list[Part]:
        """Open segments, and group them by how their columns are read."""
        times = TimeBounds.of(self.table, self.unit.start_ns, self.unit.end_ns)
        segments = [one for one in self.unit.segments if times.overlap(one) and self._may_hold_keys(one)]
        segments = [one for one in segments if one.segment_id not in self.reader.reader.missing]
        opened = self.reader.open(segments)
        groups: dict[tuple[object, ...], tuple[_Shape, list[OpenTable]]] = {}
        alone = 0
        for one, flags in self._with_groups(opened, times):
            shape = self._shape(one, times)
            if not flags.all() and (times.groups_of(one.footer) & ~flags).any() and alone < MOST_ALONE:
                ranges = row_ranges(one.footer.layout.starts, flags)
                if len(ranges) <= MOST_RANGES:  # DuckDB reads the row groups of these rows only
                    alone += 1
                    shape = replace(shape, rows=tuple(ranges))
            stored, alone_as = tuple(shape.stored.items()), one.name if shape.rows else ""
            key = shape.selected, shape.conditions, stored, alone_as
            groups.setdefault(key, (shape, []))[1].append(one)
            self._fetch_ahead(one, flags, shape.stored)
        found: list[Part] = []
        for shape, files in groups.values():
            for relation, members in label_relations(self.table, shape.labels, files, self.reader):
                found.append(Part(shape, members, relation))
        return found

    def _with_groups(
        self, opened: Sequence[OpenTable], times: TimeBounds
    ) -> Iterator[tuple[OpenTable, Flags]]:
        """Yield segments with the row groups that may have rows of the answer; others are counted."""
        conditions = self.finder.of(self.table, self.unit)
        has_keys = any(label_of(self.table, one.column) is not None for one in self.unit.keys)
        tables: dict[str, SeriesTable] = {}
        chosen: dict[int, Flags] = {}
        if conditions is not None or has_keys:
            tables = self.reader.labels(self.table, [one.segment for one in opened])
            chosen = matching_series(self.table, self.unit, conditions, tables.values(), self.session)
        for one in opened:
            flags = times.groups_of(one.footer)
            series = tables.get(one.segment.segment_id)
            if series is not None:
                flags = flags & groups_of_series(self.table, one, series, chosen[id(series)], times)
            elif one.segment.segment_id in self.reader.reader.missing:
                continue
            for column, ids in id_keys(self.table, self.unit):
                flags = groups_with_ids(one, column, ids, flags)
            self._count(one, flags)
            if flags.any():
                yield one, flags

    def _expressions(self, shape: RowShape) -> tuple[str, list[str]]:
        columns = self.unit.columns
        selected = [f"{shape.expression(one)} AS {identifier(one.name)}" for one in columns]
        return ", ".join(selected) or "1 AS one", self._keys(shape)

    def _shape(self, one: OpenTable, times: TimeBounds) -> _Shape:
        shape = RowShape(self.table, self.unit.org, one.footer, times, has_old=one.segment.min_ns < 0)
        selected, conditions = self._expressions(shape)
        if not times.cover(one.segment):
            column = shape.read(times.column)
            conditions = [f"{column} >= {times.first}", f"{column} <= {times.last}", *conditions]
        stored = {name: one.footer.types[name] for name in sorted(shape.stored)}
        return _Shape(selected, tuple(conditions), stored, shape.labels)

    def _keys(self, shape: RowShape) -> list[str]:
        """Return conditions that columns have one of their keys; of ids on the stored bytes."""
        found: list[str] = []
        columns = {one.name: one for one in self.unit.columns}
        for number, keys in enumerate(self.unit.keys):
            place = IDS[self.table.signal].get(keys.column)
            if place is None:
                listed = [literal(value) for value in keys.values]
                value = shape.expression(columns.get(keys.column, TableColumn(keys.column, TEXT)))
            else:
                listed = [f"'{_escaped(raw)}'::BLOB" for raw in ids_of(keys.values, place[1])]
                value = shape.read(place[0], "CAST(NULL AS BLOB)")
            if not listed:
                found.append("false")
            elif len(listed) > MOST_LISTED:
                found.append(f"{value} IN (SELECT value FROM {key_table(number)})")  # noqa: S608
            else:
                found.append(
                    f"{value} = {listed[0]}" if len(listed) == 1 else f"{value} IN ({', '.join(listed)})"
                )
        return found

    def _may_hold_keys(self, segment: SegmentRef) -> bool:
        """Ask the token bloom for ids; other keys are not words that it knows."""
        for _, ids in id_keys(self.table, self.unit):
            if not self.reader.may_hold(segment, [each.hex() for each in ids]):
                self.scanned.without_words += 1
                return False
        return True

    def _count(self, one: OpenTable, flags: Flags) -> None:
        rows = int(np.diff(one.footer.layout.starts)[flags].sum())
        self.scanned.row_groups += len(flags)
        self.scanned.row_groups_read += int(flags.sum())
        self.scanned.rows += rows
        self.scanned.bytes += one.segment.bytes * rows // max(1, one.footer.rows)
        self.scanned.skipped += not flags.any()

    def _fetch_ahead(self, one: OpenTable, flags: Flags, stored: Iterable[str]) -> None:
        """Begin to fetch what DuckDB will read, up to a bound: it reads on by itself."""
        reader, layout = self.reader.reader, one.footer.layout
        if reader.shared.segments.is_local or self.ahead > AHEAD_BYTES:
            return
        numbers = np.flatnonzero(flags).tolist()
        ranges = [each for number in numbers for each in layout.chunks(number, stored)]
        self.ahead += sum(end - begin for begin, end in ranges)
        reader.fetch(one.segment, ranges)

    def _statement(self, parts: Sequence[Part]) -> Statement:
        found = Statement("")
        selects = [part.sql(number, self.table) for number, part in enumerate(parts)]
        for number, part in enumerate(parts):
            if part.labels is not None:
                found.relations[label_table(number)] = part.labels.table
        for number, keys in enumerate(self.unit.keys):
            place = IDS[self.table.signal].get(keys.column)
            values = pa.array(keys.values, pa.string())
            if place is not None:
                values = pa.array(ids_of(keys.values, place[1]), pa.binary())
            found.relations[key_table(number)] = pa.table({"value": values.unique()})
        if not selects:
            nothing = [f"CAST(NULL AS {one.type}) AS {identifier(one.name)}" for one in self.unit.columns]
            selects = [f"SELECT {', '.join(nothing) or '1 AS one'} WHERE false"]
        rows = " UNION ALL ".join(selects)
        found.sql = f"WITH {ROWS} AS NOT MATERIALIZED ({rows})\nSELECT * FROM (\n{self.unit.sql}\n)"
        return found

    def _execute(self, statement: Statement) -> pa.Table:
        with self.session.cursor() as cursor:
            for name, relation in statement.relations.items():
                cursor.register(name, relation)
            return self.cancellation.run(cursor, lambda: self._collect(cursor, statement.sql))

    def _collect(self, cursor: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
        """Read the result batch by batch, up to the bound of the answer."""
        size, batches = 0, []
        with cursor.sql(sql).to_arrow_reader(BATCH_ROWS) as reader:
            for batch in reader:
                self.cancellation.check()
                size += batch.nbytes
                if 0 < self.unit.max_bytes < size:
                    raise TooLargeError(
                        f"a part of {self.table.name} answers with over {self.unit.max_bytes >> 20} MiB: "
                        "select fewer columns, aggregate, add a limit, or narrow the time range"
                    )
                batches.append(batch)
            return pa.Table.from_batches(batches, reader.schema)

    def _discard_damaged(self, parts: Sequence[Part], error: BaseException) -> bool:
        """Declare damaged files missing; True where at least one is damaged."""
        lost = 0
        for one, reason in list(self._damaged(parts, error)):
            self.reader.lose(one.segment, reason)
            lost += 1
        return lost > 0

    def _damaged(
        self, parts: Sequence[Part], error: BaseException
    ) -> Iterator[tuple[OpenTable, BaseException]]:
        failed = [one for part in parts for one in part.files if one.file.failure is not None]
        if failed:
            yield from ((one, error) for one in failed)
            return
        if isinstance(error, ROW_ERRORS[:2]):
            return  # a file does not cause them
        for part in parts:
            for one in part.files:
                found = self._damage(one, part.shape.stored)
                if found is not None:
                    yield one, found

    def _damage(self, one: OpenTable, stored: Iterable[str]) -> BaseException | None:
        """Decode the columns that a scan reads; return the error, None where there is none."""
        times = TimeBounds.of(self.table, self.unit.start_ns, self.unit.end_ns)
        try:
            with pq.ParquetFile(one.file.source()) as file:
                for number in np.flatnonzero(times.groups_of(one.footer)).tolist():
                    for name in stored:
                        self.cancellation.check()
                        file.read_row_group(number, columns=[name], use_threads=False).validate(full=True)
        except UNREADABLE as error:
            return error
        return None

    def _report(self) -> UnitReport:
        reader, scanned = self.reader.reader, self.scanned
        return UnitReport(
            missing=tuple(reader.missing.values()),
            segments_opened=len(reader.opened),
            segments_skipped=scanned.skipped,
            segments_without_words=scanned.without_words,
            row_groups=scanned.row_groups,
            row_groups_read=scanned.row_groups_read,
            rows_considered=scanned.rows,
            bytes_considered=scanned.bytes,
            bytes_fetched=reader.meter.bytes,
            requests=reader.meter.requests,
        )


def label_table(number: int) -> str:
    return f"lake_labels_{number}"


def key_table(number: int) -> str:
    return f"lake_keys_{number}"


def _escaped(raw: bytes) -> str:
    return "".join(f"\\x{byte:02X}" for byte in raw)
