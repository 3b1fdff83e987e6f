"""A handover is a statement for Spark: scans for the workers' code, functions for DuckDB, SQL for Spark.

The query API writes it into the lake's scratch space, a `query-jobs` process reads it there. Types are named
as DuckDB names them.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from lakerunner_query.lakeql.tables import TableColumn
from lakerunner_query.plan.lakeql_spark_scalars import DuckFunction
from lakerunner_query.protocol.units import TableUnit

REPORTS, ERROR_FILE = "reports/", "error.json"
"""Names below the folder of an attempt: what units read, and the first error of the statement."""


class HandoverTable(msgspec.Struct, frozen=True):
    """A relation that Spark reads: the units of a scan, or rows that are there already."""

    name: str
    columns: tuple[TableColumn, ...]
    units: tuple[TableUnit, ...] = ()
    rows: bytes = b""
    """An Arrow stream; empty where units bring the rows."""


class Handover(msgspec.Struct, frozen=True):
    """Everything that a driver needs to know of one statement."""

    org: str
    sql: str
    """The statement in Spark's dialect over the tables' names."""
    tables: tuple[HandoverTable, ...]
    functions: tuple[DuckFunction, ...]
    schema: bytes
    """The Arrow schema of the answer, as an IPC message."""
    prefix: str
    """Random beginning of the names of tables and functions, which nothing else in the statement contains."""
    notices: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    """Segments that are missing already, with the reason."""

    def of_attempt(self, number: int) -> Handover:
        """Return the statement over names of its own: a lapsed attempt drops only its own tables."""
        prefix = f"{self.prefix}{number}_"
        renamed = [replace(one, name=one.name.replace(self.prefix, prefix)) for one in self.tables]
        functions = [replace(one, name=one.name.replace(self.prefix, prefix)) for one in self.functions]
        sql = self.sql.replace(self.prefix, prefix)
        sql = sql.replace(self.prefix.upper(), prefix.upper())  # names of functions are written in capitals
        return replace(self, sql=sql, tables=tuple(renamed), functions=tuple(functions))


class UnitDone(msgspec.Struct, frozen=True):
    """The report that a task leaves beside the result: what one unit read."""

    missing: tuple[tuple[str, str], ...] = ()
    counts: dict[str, int] = {}


class ResultPart(msgspec.Struct, frozen=True):
    """A Parquet file of the answer; parts follow each other in the order of the answer."""

    number: int
    key: str
    rows: int
    bytes: int


class HandoverResult(msgspec.Struct, frozen=True):
    """A result and where its parts lie; it stands in the job's row."""

    parts: tuple[ResultPart, ...]
    rows: int
    bytes: int
    missing: tuple[tuple[str, str], ...] = ()
    statistics: dict[str, int] = {}
