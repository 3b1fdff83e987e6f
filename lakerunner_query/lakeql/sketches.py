"""`approx_cardinality(sketch)` unites stored HyperLogLog sketches and estimates what they counted.

    approx_cardinality(sketch)    ->  lake_cardinality(LIST(sketch))
    in parts                      ->  lake_union(LIST(sketch)) AS a0           lake_cardinality(LIST(a0))

Unions keep the greatest of each register, so that parts may be united in any order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType
from sqlglot import exp

from resources.duckdb import DuckSession
from resources.lake.cardinality import merge_sketches

SHOWN = "approx_cardinality"
CARDINALITY, UNION = "lake_cardinality", "lake_union"
"""Functions of a list of sketches that DuckDB is given: the estimate of their union, and the union itself."""
_REGISTERING = threading.Lock()


def cardinality_of(sketches: exp.Expr, condition: exp.Expr | None = None) -> exp.Expr:
    """Return the estimate of all sketches of a group that meet a condition."""
    return exp.Anonymous(this=CARDINALITY, expressions=[_listed(sketches, condition)])


def _listed(sketches: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    found: exp.Expr = exp.ArrayAgg(this=sketches.copy())
    if condition is not None:
        found = exp.Filter(this=found, expression=condition.copy())
    return found


def is_cardinality(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == CARDINALITY


def add_sketch_functions(session: DuckSession) -> None:
    """Add the functions to DuckDB, once for all cursors."""
    rows: list[tuple[str, Callable[[pa.Array], pa.Array], str]] = [
        (CARDINALITY, estimates, "DOUBLE"),
        (UNION, unions, "BLOB"),
    ]
    with _REGISTERING, session.cursor() as cursor:
        for name, work, returned in rows:
            known = cursor.execute("SELECT 1 FROM duckdb_functions() WHERE function_name = ?", [name])
            if not known.fetchall():
                cursor.create_function(
                    name, work, ["BLOB[]"], returned, type=PythonUDFType.ARROW,
                    null_handling=FunctionNullHandling.SPECIAL,
                )  # fmt: skip


def estimates(lists: pa.Array) -> pa.Array:
    """Return the estimate of each list's union, 0 without sketches."""
    found = [merge_sketches(each).get_estimate() if each else 0.0 for each in _members(lists)]
    return pa.array(found, pa.float64())


def unions(lists: pa.Array) -> pa.Array:
    """Return the union of each list, null without sketches."""
    found = [merge_sketches(each).serialize_compact() if each else None for each in _members(lists)]
    return pa.array(found, pa.binary())


def _members(lists: pa.Array) -> Iterator[list[bytes]]:
    for each in lists.to_pylist():
        yield [one for one in each or () if one is not None]
