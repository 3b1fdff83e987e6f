"""DuckDB evaluates constant expressions: they mean what they mean in the statement."""

from __future__ import annotations

import threading
from functools import cache

import duckdb
from sqlglot import exp

NS_PER_US = 1_000
_lock = threading.Lock()


def is_constant(node: exp.Expr) -> bool:
    return not any(
        isinstance(one, exp.Column | exp.Query | exp.AggFunc | exp.Window | exp.Parameter | exp.Star)
        for one in node.walk()
    )


def time_of(node: exp.Expr) -> int | None:
    """Evaluate a time to microseconds since 1970; None where it is no time, or null.

    >>> time_of(exp.maybe_parse("'1970-01-01 00:00:01'::TIMESTAMP + INTERVAL 1 SECOND", dialect="duckdb"))
    2000000
    """
    return _number(f"epoch_us(CAST({node.sql('duckdb')} AS TIMESTAMP))")


def integer_of(node: exp.Expr) -> int | None:
    return _number(f"CAST({node.sql('duckdb')} AS HUGEINT)")


def type_of(node: exp.Expr) -> str:
    """Return DuckDB's name of a constant's type; empty where it has none.

    >>> type_of(exp.maybe_parse("5 - 0.5", dialect="duckdb"))
    'DECIMAL(12,1)'
    """
    with _lock:
        try:
            row = _session().execute(f"SELECT typeof({node.sql('duckdb')})").fetchone()
        except duckdb.Error:
            return ""
    return "" if row is None else str(row[0])


def _number(sql: str) -> int | None:
    with _lock:
        try:
            row = _session().execute(f"SELECT {sql}").fetchone()
        except duckdb.Error:
            return None  # the statement itself will say what is wrong with it
    return None if row is None or row[0] is None else int(row[0])


@cache
def _session() -> duckdb.DuckDBPyConnection:
    session = duckdb.connect()
    for setting in (
        "memory_limit = '64MB'", "threads = 1", "TimeZone = 'UTC'", "python_enable_replacements = false",
        "enable_external_access = false", "lock_configuration = true",
    ):  # fmt: skip
        session.execute(f"SET {setting}")
    return session
