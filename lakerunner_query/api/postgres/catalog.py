"""The catalog answers questions to pg_catalog and information_schema from tables in memory.

A question is parsed as PostgreSQL, every table and function in it is looked up in lists, and what DuckDB runs
is written anew from the tree; nothing of the client's text gets there. One locked-down DuckDB serves all;
columns of an organisation's tables are registered for one question only, so that nobody sees the labels of
others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa
from sqlglot import exp

from lakerunner_query.api.postgres.messages import CANCELLED, NOT_SUPPORTED, SqlError
from lakerunner_query.api.postgres.questions import (
    CatalogQuery,
    Names,
    may_be_question,
    read_question,
    replace_all,
)
from lakerunner_query.api.postgres.values import type_of
from lakerunner_query.api.postgres.variables import Variables
from lakerunner_query.errors import QueryError
from lakerunner_query.lakeql.views import RELATIONS
from lakerunner_query.plan.lakeql import LakeQLRequest
from resources.duckdb import Cancellation, CancelledQueryError, DuckLimits, DuckSession

FIRST_OID = 16_400
MEMORY_MB, QUESTION_S, MAX_ROWS = 128, 10.0, 100_000
COLUMNS_GOOD_S = 60.0
"""Seconds for which the columns of an organisation's tables are remembered."""
MAX_ORGS = 64
_SQL = Path(__file__).with_name("catalog.sql").read_text()
_COLUMNS_SQL = Path(__file__).with_name("catalog_columns.sql").read_text()
_TABLE_OIDS = {name: FIRST_OID + place for place, name in enumerate(RELATIONS)}


class Describes(Protocol):
    """The part of LakeQL that tells the columns of tables."""

    async def describe(self, text: str, request: LakeQLRequest) -> pa.Schema: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """A session of an organisation, with its variables."""

    org: str
    session: int
    variables: Variables


class Catalog:
    """The catalog of one process."""

    def __init__(self, lakeql: Describes, folder: Path) -> None:
        self._lakeql = lakeql
        self._folder = folder
        self._duck: DuckSession | None = None
        self._opening = asyncio.Lock()
        self._names = Names(frozenset(), frozenset())
        self._columns: dict[str, tuple[float, pa.Table]] = {}

    def close(self) -> None:
        if self._duck is not None:
            self._duck.close()
            self._duck = None

    async def question(self, text: str) -> CatalogQuery | None:
        """Return a statement that is for the catalog; None: it is not."""
        if not may_be_question(text):
            return None
        await self._open()
        return await asyncio.to_thread(read_question, text, self._names)

    async def _open(self) -> DuckSession:
        async with self._opening:
            if self._duck is None:
                self._duck = await asyncio.to_thread(self._build)
            return self._duck

    def _build(self) -> DuckSession:
        duck = DuckSession(DuckLimits(MEMORY_MB, 1, self._folder, ()))
        lake = {
            "oid": list(_TABLE_OIDS.values()),
            "name": list(RELATIONS),
            "comment": [table.meaning for table in RELATIONS.values()],
        }
        fixed = [
            (oid, number, column.meaning)
            for (name, oid) in _TABLE_OIDS.items()
            for number, column in enumerate(RELATIONS[name].columns, 1)
        ]
        with duck.cursor() as cursor:
            cursor.execute("CREATE TABLE lake_tables (oid BIGINT, name VARCHAR, comment VARCHAR)")
            cursor.executemany(
                "INSERT INTO lake_tables VALUES (?, ?, ?)", list(zip(*lake.values(), strict=True))
            )
            cursor.execute("CREATE TABLE lake_columns (table_oid BIGINT, number INTEGER, comment VARCHAR)")
            cursor.executemany("INSERT INTO lake_columns VALUES (?, ?, ?)", fixed)
            cursor.execute(_SQL)
            tables = cursor.execute("SELECT schema_name || '.' || table_name FROM duckdb_tables()").fetchall()
            macros = cursor.execute(
                "SELECT function_name FROM duckdb_functions() WHERE function_name LIKE 'pgf%'"
            )
            functions = macros.fetchall()
        self._names = Names(frozenset(name for (name,) in tables), frozenset(name for (name,) in functions))
        return duck

    # --- answers ------------------------------------------------------------------------------------------

    async def answer(
        self, query: CatalogQuery, caller: Caller, given: Sequence[object] = ()
    ) -> tuple[pa.Table, list[str]]:
        """Return rows, and notices about columns that are not known."""
        tables, notices = dict[str, pa.Table](), list[str]()
        if query.registered & {"lake_attributes", "lake_all_columns"}:
            columns, notices = await self._columns_of(caller.org)
            tables["lake_columns_now"] = columns
        everything = caller.variables.all()
        tables["settings"] = _settings(everything)
        tree = replace_all(query.tree, lambda node: _session_value(node, caller, everything))
        duck = await self._open()
        cancellation = Cancellation()
        work = asyncio.ensure_future(
            asyncio.to_thread(_run, duck, tree.sql("duckdb"), tables, list(given), cancellation)
        )
        try:
            async with asyncio.timeout(QUESTION_S):
                return await asyncio.shield(work), notices
        except TimeoutError:
            if work.done():
                raise
            raise SqlError(CANCELLED, f"a question to the catalog may take {QUESTION_S:g} s") from None
        finally:
            if not work.done():
                cancellation.cancel()
                await asyncio.wait({work})
                work.exception()

    async def schema(self, query: CatalogQuery, caller: Caller) -> pa.Schema:
        nothing = exp.select("*").from_(query.tree.copy().subquery("described")).limit(0)
        table, _ = await self.answer(
            CatalogQuery(nothing, query.types, query.registered), caller, (None,) * len(query.types)
        )
        return table.schema

    async def _columns_of(self, org: str) -> tuple[pa.Table, list[str]]:
        """Return the columns of all tables of an organisation, those of its labels among them."""
        checked_at, known = self._columns.get(org, (-COLUMNS_GOOD_S, None))
        if known is not None and time.monotonic() - checked_at < COLUMNS_GOOD_S:
            return known, []
        schemas: dict[str, pa.Schema | None] = {}
        unknown: dict[str, str] = {}
        request = LakeQLRequest(org, parameters=None)
        for name in RELATIONS:
            try:
                schemas[name] = await self._lakeql.describe(f"FROM {name}", request)
            except QueryError as error:
                schemas[name] = None
                unknown[name] = error.message
        found = _column_rows(schemas)
        if unknown:
            reason = next(iter(unknown.values()))
            return found, [f"listed without the columns of labels: {', '.join(unknown)} ({reason})"]
        if len(self._columns) >= MAX_ORGS:
            self._columns.clear()
        self._columns[org] = time.monotonic(), found
        return found, []


def _session_value(node: exp.Expr, caller: Caller, everything: Mapping[str, str]) -> exp.Expr:
    """Put in what only the session knows."""
    if not (isinstance(node, exp.Anonymous) and node.name == "session_value"):
        return node
    name, *given = node.expressions
    if name.name == "pg_backend_pid":
        return exp.Literal.number(caller.session)
    if name.name in {"current_database", "current_catalog"}:
        return exp.Literal.string("lake")
    if given and name.name == "current_setting" and not isinstance(given[0], exp.Literal):
        return exp.select("setting").from_("settings").where(exp.column("name").eq(given[0])).subquery()
    if not given or not isinstance(given[0], exp.Literal):
        raise SqlError(NOT_SUPPORTED, f"{name.name} takes the name of a variable as text")
    wanted = given[0].name.lower()
    everything = {name.lower(): value for name, value in everything.items()}
    if name.name == "set_config":
        if len(given) < 2 or not isinstance(given[1], exp.Literal):
            raise SqlError(NOT_SUPPORTED, "set_config takes its value as text")
        caller.variables.set(wanted, given[1].name)
        return exp.Literal.string(caller.variables.show(wanted))
    if wanted not in everything and len(given) == 1:
        raise SqlError("42704", f'unrecognized configuration parameter "{wanted}"')
    return exp.Literal.string(everything[wanted]) if wanted in everything else exp.Null()


_STATES: tuple[tuple[type[duckdb.Error], str], ...] = (
    (duckdb.OutOfMemoryException, "53200"),
    (duckdb.CatalogException, "42883"),
    (duckdb.BinderException, "42703"),
    (duckdb.ParserException, "42601"),
    (duckdb.ConversionException, "22P02"),
)


def _run(
    duck: DuckSession,
    sql: str,
    tables: Mapping[str, pa.Table],
    given: list[object],
    cancellation: Cancellation,
) -> pa.Table:
    with duck.cursor() as cursor:
        for name, table in tables.items():
            cursor.register(name, table)
        if "lake_columns_now" in tables:
            cursor.execute(_COLUMNS_SQL)
        try:
            return cancellation.run(cursor, lambda: _limited(cursor, sql, given))
        except CancelledQueryError as error:
            raise SqlError(CANCELLED, "canceling statement due to user request") from error
        except duckdb.Error as error:
            state = next((state for kind, state in _STATES if isinstance(error, kind)), "XX000")
            raise SqlError(state, f"catalog: {str(error).partition(chr(10))[0]}") from error


def _limited(cursor: duckdb.DuckDBPyConnection, sql: str, given: list[object]) -> pa.Table:
    numbered = {str(number): value for number, value in enumerate(given, 1)}
    batches, rows = list[pa.RecordBatch](), 0
    with cursor.sql(sql, params=numbered or None).to_arrow_reader(2048) as reader:
        for batch in reader:
            batches.append(batch)
            rows += batch.num_rows
            if rows > MAX_ROWS:
                raise SqlError("54000", f"an answer of the catalog has at most {MAX_ROWS} rows")
        return pa.Table.from_batches(batches, reader.schema)


def _settings(everything: Mapping[str, str]) -> pa.Table:
    """Return the rows of pg_settings."""
    names, values = list(everything), list(everything.values())
    same = {"unit": None, "category": "", "short_desc": "", "extra_desc": "", "context": "user"}
    same |= {"vartype": "string", "source": "default", "min_val": None, "max_val": None, "enumvals": None}
    rows = pa.table({"name": names, "setting": values, "boot_val": values, "reset_val": values})
    for name, value in same.items():
        rows = rows.append_column(name, pa.array([value] * len(names), pa.string()))
    return rows.append_column("pending_restart", pa.array([False] * len(names)))


def _column_rows(schemas: Mapping[str, pa.Schema | None]) -> pa.Table:
    rows = list(_each_column(schemas))
    names = ("table_oid", "table_name", "number", "name", "type_oid", "size")
    columns = zip(*rows, strict=True)
    return pa.table({name: list(column) for name, column in zip(names, columns, strict=True)})


def _each_column(schemas: Mapping[str, pa.Schema | None]) -> Iterator[tuple[int, str, int, str, int, int]]:
    for table, schema in schemas.items():
        if schema is None:
            columns = [(one.name, _FIXED_TYPES[one.type]) for one in RELATIONS[table].columns]
        else:
            columns = [(one.name, one.type) for one in schema]
        for number, (name, kind) in enumerate(columns, 1):
            shown = type_of(kind)
            yield _TABLE_OIDS[table], table, number, name, shown.oid, shown.size


_FIXED_TYPES = {
    "VARCHAR": pa.string(), "TIMESTAMP": pa.timestamp("us"), "BIGINT": pa.int64(), "INTEGER": pa.int32(),
    "DOUBLE": pa.float64(), "MAP(VARCHAR, VARCHAR)": pa.map_(pa.string(), pa.string()),
    "VARCHAR[]": pa.list_(pa.string()), "BLOB": pa.binary(),
}  # fmt: skip
