"""Results of SQL are compared: as multisets unless their order is fixed, numbers within a tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

TOLERANCE = 1e-9


def run_plain(database: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    return database.sql(sql).to_arrow_table()


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [[plain(value, column.type) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value without what the two sides may write differently: order of maps, zone, width of integers."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return tuple(sorted((key, plain(each, kind.item_type)) for key, each in value))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return tuple(plain(each, kind.value_type) for each in value)
    if pa.types.is_struct(kind):
        return tuple((one.name, plain(value[one.name], one.type)) for one in kind)
    if isinstance(value, Decimal):
        value = int(value) if kind.scale == 0 else float(value)
    elif isinstance(value, datetime) and value.tzinfo:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return value


def kind_of(kind: pa.DataType) -> str:
    """The class of a type; one value must not be a number here and a text there."""
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_list(kind):
        return f"list of {kind_of(kind.value_type)}"
    return str(kind)


def difference(
    found: pa.Table, wanted: pa.Table, *, ordered: bool = False, tolerance: float = TOLERANCE
) -> str:
    """What is not the same, empty if nothing."""
    kinds = [[kind_of(one.type) for one in table.schema] for table in (found, wanted)]
    if kinds[0] != kinds[1]:
        return f"types {kinds[0]} instead of {kinds[1]}"
    if found.schema.names != wanted.schema.names and found.num_columns != wanted.num_columns:
        return f"columns {found.schema.names} instead of {wanted.schema.names}"
    return row_difference(rows_of(found), rows_of(wanted), ordered=ordered, tolerance=tolerance)


def row_difference(
    mine: Sequence[tuple[Any, ...]],
    theirs: Sequence[tuple[Any, ...]],
    *,
    ordered: bool = False,
    tolerance: float = TOLERANCE,
) -> str:
    if len(mine) != len(theirs):
        return f"{len(mine)} rows instead of {len(theirs)}: {_first(mine)} instead of {_first(theirs)}"
    if not ordered:
        mine, theirs = sorted(mine, key=_order), sorted(theirs, key=_order)
    for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if not same(one, other, tolerance):
            return f"row {number}: {one} instead of {other}"
    return ""


def _first(rows: Sequence[tuple[Any, ...]]) -> str:
    return f"{rows[0]}, …" if rows else "none"


def _order(row: tuple[Any, ...]) -> Any:
    """A key for sorting: numbers rounded, so that neighbours stay neighbours, then all their digits."""
    return _rank(row, 6), _rank(row, 17)


def _rank(value: Any, digits: int) -> Any:
    if value is None:
        return (0,)
    if isinstance(value, tuple):
        return (5, tuple(_rank(each, digits) for each in value))
    if isinstance(value, float) and math.isnan(value):
        return (2, 0)
    if isinstance(value, bool | int | float):
        return (
            1,
            float(f"{value:.{digits}g}") if isinstance(value, float) and math.isfinite(value) else value,
        )
    return (3, type(value).__name__, str(value))


def same(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other, [tolerance] * len(one)))
    if isinstance(one, float) or isinstance(other, float):
        if not isinstance(one, float | int) or not isinstance(other, float | int):
            return False
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance) or one == other
    return bool(one == other)
