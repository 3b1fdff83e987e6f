"""A statement may read `rows` and its own CTEs; DuckDB has the quantiles of rollups as a function.

The check is the second one: coordinators white-list what users write. Segments of other organisations may be
in the same folder, and DuckDB would read them.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from duckdb.func import FunctionNullHandling, PythonUDFType

from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.lakeql.sketches import add_sketch_functions
from lakerunner_query.worker.tables.columns import QUANTILE_FUNCTION, QUANTILES
from resources.duckdb import DuckSession
from resources.lake import rollup_columns as rollups
from resources.lake.ddsketch import merged_quantiles
from resources.lake.few_samples import POINT_COLUMNS, sketch_points

ROWS = "rows"
"""The relation that a statement reads."""
TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series"})
"""Table functions that a statement may call: they read nothing."""
RELATIONS = frozenset({
    "BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EMPTY", "EXPRESSION_LIST", "PIVOT",
})  # fmt: skip
_NAME = re.compile(r"[a-z0-9_]+")
_REGISTERING = threading.Lock()


def check_statement(cursor: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse a statement that is no query, or reads anything but `rows` and its own CTEs."""
    ((text,),) = cursor.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    parsed = json.loads(text)
    if parsed["error"]:
        raise InvalidRequestError(f"not a query: {parsed['error_message']}")
    if len(parsed["statements"]) != 1:
        raise InvalidRequestError("expected one statement")
    nodes = list(_nodes(parsed))
    ctes = {entry["key"].lower() for one in nodes if "cte_map" in one for entry in one["cte_map"]["map"]}
    if any(not _NAME.fullmatch(name) for name in ctes):
        raise InvalidRequestError("a CTE of a unit has the name of a file")
    for node in nodes:
        kind = node.get("type")
        if kind == "BASE_TABLE" and (
            node["table_name"].lower() not in {ROWS, *ctes} or node["schema_name"] or node["catalog_name"]
        ):
            raise InvalidRequestError(f"a unit reads {ROWS}, not {node['table_name']}")
        if kind == "TABLE_FUNCTION" and node["function"]["function_name"].lower() not in TABLE_FUNCTIONS:
            raise InvalidRequestError(f"a unit may not call {node['function']['function_name']}")
        if "sample" in node and "alias" in node and kind not in RELATIONS:
            raise InvalidRequestError(f"a unit may not read a {kind}")


def _nodes(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _nodes(each)
    elif isinstance(value, list):
        for each in value:
            yield from _nodes(each)


def add_functions(session: DuckSession) -> None:
    """Add the quantiles of rollups and unions of sketches to DuckDB, once for all cursors."""
    add_sketch_functions(session)
    kinds: list[Any] = ["BIGINT", *["DOUBLE"] * 5, "BIGINT", "BLOB"]
    with _REGISTERING, session.cursor() as cursor:
        known = cursor.execute(
            "SELECT count(*) FROM duckdb_functions() WHERE function_name = ?", [QUANTILE_FUNCTION]
        )
        if known.fetchall() == [(0,)]:
            cursor.create_function(
                QUANTILE_FUNCTION,
                rollup_quantiles,
                kinds,
                "DOUBLE[]",
                type=PythonUDFType.ARROW,
                null_handling=FunctionNullHandling.SPECIAL,
            )


def rollup_quantiles(
    count: pa.Array, first: pa.Array, prev: pa.Array, last: pa.Array, total: pa.Array, rest: pa.Array,
    changes: pa.Array, sketch: pa.Array,
) -> pa.Array:  # fmt: skip
    """Return the quantiles of each row, null where it has no finite sample."""
    sketches = _whole(sketch)
    columns = {
        rollups.COUNT: count, rollups.FIRST: first, rollups.PREV: prev, rollups.LAST: last,
        rollups.SUM: total, rollups.SUM_C: rest, rollups.CHANGES: changes, rollups.SKETCH: sketches,
    }  # fmt: skip
    points = sketch_points(pa.table({name: columns[name] for name in POINT_COLUMNS}))
    rows = len(sketches)
    found = merged_quantiles(sketches, np.arange(rows), rows, QUANTILES, points).ravel()
    values = pa.array(found, mask=np.isnan(found))
    return pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32) * len(QUANTILES), values)


def _whole(column: pa.Array) -> pa.Array:
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pc.cast(found, pa.binary()) if pa.types.is_large_binary(found.type) else found
