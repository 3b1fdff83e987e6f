"""A desk is the DuckDB connection of one statement: a table for each scan, errors in the user's words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType

import duckdb
import pyarrow as pa
from sqlglot import exp

from lakerunner_query.coordinator.lakeql_scans import SLOW
from lakerunner_query.errors import (
    Position,
    QueryError,
    QueryTimeoutError,
    TooLargeError,
    TooManyQueriesError,
)
from lakerunner_query.fairness import FairTurns, QueueFullError
from lakerunner_query.lakeql.macros import DIALECT, LakeQLError, places_of, position_at
from lakerunner_query.lakeql.sketches import CARDINALITY, SHOWN
from lakerunner_query.lakeql.tables import TableColumn
from lakerunner_query.plan.lakeql_pushdown import MOST_KEYS, Scan
from resources.duckdb import DuckSession

BATCH_ROWS = 8_192
NOTHING = '"NULL"'
"""Type of a column of nulls alone."""
DESKS, MOST_WAITING = 4, 200
"""Statements that DuckDB works on at a time, and steps of one organisation that may wait for it."""
_NAMED = re.compile(
    r'(?:[Cc]olumn|field) (?:named )?"([^"]{1,200})"|with name "?([^" ]{1,200})"?|types \'(\w{1,60})\('
)
"""What an error of DuckDB is about: a column, a table or a function."""


class Desk:
    """The connection of one statement; one thread at a time uses it."""

    def __init__(self, open_session: Callable[[], DuckSession], text: str) -> None:
        """`open_session` is called by the first thread that works here: a first session takes a second."""
        self._text = text
        self._open_session = open_session
        self._opened = ExitStack()
        self._rows: tuple[TableColumn, ...] | None = None
        """Columns of the table `rows`, while it is there."""
        self._known: dict[tuple[str, tuple[TableColumn, ...]], list[tuple[str, str]] | None] = {}
        """Types of statements over `rows` with such columns."""

    @cached_property
    def _cursor(self) -> duckdb.DuckDBPyConnection:
        return self._opened.enter_context(self._open_session().cursor())

    @property
    def is_open(self) -> bool:
        return "_cursor" in vars(self)

    def close(self) -> None:
        self._opened.close()

    def interrupt(self) -> None:
        if self.is_open:
            self._cursor.interrupt()

    def create(self, name: str, columns: Sequence[TableColumn]) -> None:
        listed = ", ".join(f"{_quoted(one.name)} {one.type}" for one in columns)
        self._cursor.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({listed})")

    def create_as(self, scan: Scan) -> None:
        """Create the table of a scan's result, with the types that DuckDB gives it."""
        if scan.form in {"rows", "first rows"}:
            self.create(scan.name, scan.columns)
            return
        types = self._types_over_rows(scan.sql, scan.columns)
        if types is not None and all(kind != NOTHING for _, kind in types):
            self.create(scan.name, [TableColumn(*each) for each in types])
        else:  # no column can be declared as one of nulls alone
            self._cursor.execute(f"CREATE OR REPLACE TEMP TABLE {scan.name} AS {scan.sql}")

    def is_valid(self, sql: str, columns: Sequence[TableColumn]) -> bool:
        return self._types_over_rows(sql, columns) is not None

    def _types_over_rows(self, sql: str, columns: Sequence[TableColumn]) -> list[tuple[str, str]] | None:
        key = sql, tuple(columns)
        if self._rows != key[1]:
            self.create("rows", columns)
            self._rows = key[1]
        if key not in self._known:
            self._known[key] = self.types(sql)
        return self._known[key]

    def describe(self, tree: exp.Query) -> pa.Schema:
        """Return the columns of a statement over tables that are still empty."""
        with self._errors(tree):
            reader = self._cursor.sql(f"SELECT * FROM ({tree.sql(DIALECT)}) LIMIT 0").to_arrow_reader(1)
            with reader:
                return pa.schema([one.with_type(_readable(one.type)) for one in reader.schema])

    def types(self, sql: str) -> list[tuple[str, str]] | None:
        """Return names and types of a query's columns; None where it does not bind."""
        try:
            return [(row[0], row[1]) for row in self._cursor.execute(f"DESCRIBE {sql}").fetchall()]
        except duckdb.Error:
            return None

    def constant(self, sql: str) -> str | None:
        """Return the value of an expression without columns, as text."""
        rows = self._cursor.execute(f"SELECT CAST(({sql}) AS VARCHAR)").fetchall()
        return None if rows[0][0] is None else str(rows[0][0])

    def insert(self, name: str, table: pa.Table) -> None:
        self._cursor.register("incoming", table)
        try:
            self._cursor.execute(f"INSERT INTO {name} SELECT * FROM incoming")
        finally:
            self._cursor.unregister("incoming")

    def keys(self, name: str, column: str) -> tuple[str, ...] | None:
        """Return the distinct values of a column, None where there are too many."""
        rows = self._cursor.execute(
            f"SELECT DISTINCT {_quoted(column)} FROM {name} WHERE {_quoted(column)} IS NOT NULL "
            f"LIMIT {MOST_KEYS + 1}"
        ).fetchall()
        return None if len(rows) > MOST_KEYS else tuple(sorted(row[0] for row in rows))

    def execute(self, tree: exp.Query) -> tuple[pa.RecordBatchReader, list[pa.RecordBatch | None]]:
        """Return the result's reader, and what it brings first: all of a small result, and None behind it."""
        with self._errors(tree):
            reader = self._cursor.sql(tree.sql(DIALECT)).to_arrow_reader(BATCH_ROWS)
        first = next_batch(reader)
        is_small = first is not None and first.num_rows < BATCH_ROWS
        return reader, [first, next_batch(reader)] if is_small else [first]

    def _errors(self, tree: exp.Query) -> _Errors:
        return _Errors(self._text, tree)


class Desks:
    """Threads of all desks, which organisations share by the time that they used."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(DESKS + 1, thread_name_prefix="lakeql")
        self._turns = FairTurns(DESKS, waiting_per_org=MOST_WAITING)

    @asynccontextmanager
    async def turn(self, org: str, deadline: float) -> AsyncIterator[None]:
        """Run the block in the organisation's turn."""
        try:
            async with asyncio.timeout_at(deadline):
                turn = await self._turns.acquire(org)
        except TimeoutError as error:
            raise QueryTimeoutError(
                f"the statement waited for others until its time was up: {SLOW}"
            ) from error
        except QueueFullError as error:
            raise TooManyQueriesError(
                f"{MOST_WAITING} statements of this organisation are waiting: send fewer at a time"
            ) from error
        try:
            yield
        finally:
            turn.release()


def next_batch(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
    except OSError as error:  # Arrow's form of DuckDB's errors
        raise failure_of(error) from error


@dataclass(frozen=True, slots=True)
class _Errors:
    """Turns errors of DuckDB into those of the statement."""

    text: str
    tree: exp.Query

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, duckdb.OutOfMemoryException):
            raise TooLargeError(f"the statement needs more memory than it may have: {SLOW}") from error
        if isinstance(error, duckdb.InterruptException):
            return
        if isinstance(error, duckdb.Error):
            raise LakeQLError(_sentence(str(error)), self._place(str(error))) from error

    def _place(self, reason: str) -> Position | None:
        """Find what DuckDB names in the text of the user."""
        found = _NAMED.search(reason)
        name = next((one for one in found.groups() if one), "") if found else ""
        offset = next(places_of(name, self.text), None) if name else None
        return None if offset is None else position_at(offset, self.text)


def failure_of(error: OSError) -> QueryError:
    """Return what became of a statement that failed while its rows were read."""
    reason = str(error)
    if reason.startswith("INTERRUPT"):
        return QueryTimeoutError(f"the statement was stopped: {SLOW}")
    if reason.startswith("Out of Memory"):
        return TooLargeError(f"the statement needs more memory than it may have: {SLOW}")
    return LakeQLError(_sentence(reason))


def _sentence(reason: str) -> str:
    """
    >>> _sentence('Binder Error: column "x" not found!\\nCandidate bindings: "y"')
    'column "x" not found: there is "y"'
    """
    lines = reason.split("\nLINE ", 1)[0].split("\n")
    first = re.sub(r"^(?:[A-Z]\w{1,40} ){1,3}Error: ", "", lines[0]).rstrip("!. ")
    others = next(
        (one.partition(": ")[2].lstrip(": ") for one in lines if one.startswith("Candidate bindings: ")), ""
    )
    return _without_scans(f"{first}: there is {others}" if others else first)


def _without_scans(reason: str) -> str:
    return re.sub(r"\bscan_\d+\.", "", reason).replace(CARDINALITY, SHOWN)


def _readable(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column leaves: sums of integers fit 64 bits, or are an error."""
    if pa.types.is_null(kind):
        return pa.string()
    return pa.int64() if pa.types.is_decimal(kind) and (kind.precision, kind.scale) == (38, 0) else kind


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(DIALECT)


def duck_type(kind: pa.DataType) -> str:
    """Return DuckDB's name of an attribute's type.

    >>> duck_type(pa.int64())
    'BIGINT'
    """
    names = {
        pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN",
        pa.string(): "VARCHAR", pa.binary(): "BLOB", pa.timestamp("us"): "TIMESTAMP",
        pa.map_(pa.string(), pa.string()): "MAP(VARCHAR, VARCHAR)",
    }  # fmt: skip
    return names.get(kind, "VARCHAR")
