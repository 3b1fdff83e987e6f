"""A statement that is bound to its tables becomes one for Spark: scans, functions of DuckDB, Spark's SQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

import pyarrow as pa
from sqlglot import exp

from lakerunner_query.coordinator import lakeql_scans
from lakerunner_query.coordinator.lakeql_desk import Desk
from lakerunner_query.coordinator.lakeql_scans import SPARK_BYTES, SPARK_SIZES, LakeQuery, scan_units
from lakerunner_query.lakeql.tables import TIMESTAMP, TableColumn
from lakerunner_query.plan.lakeql_attributes import Types
from lakerunner_query.plan.lakeql_pushdown import Bound, bind, scan_name
from lakerunner_query.plan.lakeql_spark import for_spark
from lakerunner_query.plan.lakeql_spark_scalars import NotForSparkError, Typing
from lakerunner_query.protocol.handover import Handover, HandoverTable
from lakerunner_query.protocol.units import Missing

_WIDTHS = {"VARCHAR": 16, "BLOB": 16, "BOOLEAN": 1, "INTEGER": 4}
OTHER_WIDTH, MAP_WIDTH = 8, 64
_TIMES = frozenset({TIMESTAMP, "tsns"})


def make_handover(
    query: LakeQuery,
    desk: Desk,
    types: Mapping[int, Types],
    sources: Mapping[int, pa.Table],
    answer: pa.Schema,
    notices: tuple[str, ...],
    missing: Mapping[str, Missing],
) -> Handover:
    """Split the statement for Spark; tables of the desk lose their rows."""
    bound = bind(query.plan, types, desk.is_valid, in_parts=False)
    for scan in bound.scans:
        desk.create_as(scan)
    _check_functions(bound.tree)
    prefix = f"q{uuid.uuid4().hex[:16]}_"
    made = for_spark(bound.tree, Typing(desk.types, desk.constant), prefix)
    for one in answer:
        if pa.types.is_interval(one.type) or pa.types.is_struct(one.type) or pa.types.is_time(one.type):
            raise NotForSparkError(f"the column {one.name} of type {one.type} is not handed over to Spark")
    return Handover(
        query.request.org,
        made.sql,
        tuple(_tables(query, bound, desk, sources, prefix)),
        made.functions,
        answer.serialize().to_pybytes(),
        prefix,
        notices,
        tuple((one.segment_id, one.reason) for one in missing.values()),
    )


def _tables(
    query: LakeQuery, bound: Bound, desk: Desk, sources: Mapping[int, pa.Table], prefix: str
) -> Iterator[HandoverTable]:
    segments = dict(zip((read.number for read in query.plan.tables), query.segments, strict=True))
    for scan in bound.scans:
        if scan.form == "keys":  # a hint for the query workers: no part of the statement
            continue
        units = scan_units(query, scan, segments[scan.number], (), SPARK_SIZES, SPARK_BYTES)
        yield HandoverTable(prefix + scan.name, _columns(desk, scan.name), tuple(units))
    for number, rows in sources.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        name = scan_name(number)
        yield HandoverTable(prefix + name, _columns(desk, name), (), sink.getvalue().to_pybytes())


def _columns(desk: Desk, name: str) -> tuple[TableColumn, ...]:
    found = desk.types(f"SELECT * FROM {name}")
    assert found is not None  # noqa: S101 - the table was made a moment ago
    return tuple(TableColumn(*each) for each in found)


def _check_functions(tree: exp.Query) -> None:
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Func):
            raise NotForSparkError(f"{table.this.sql_name().lower()}() in FROM is not handed over to Spark")


def brings_too_much(query: LakeQuery, bound: Bound) -> bool:
    """Tell whether the rows of a scan without conditions are certainly too many to be held here."""
    segments = dict(zip((read.number for read in query.plan.tables), query.segments, strict=True))
    for scan in bound.scans:
        named = {column.name.lower() for one in scan.read.conditions for column in one.find_all(exp.Column)}
        if scan.form != "rows" or scan.keys or not named <= _TIMES:
            continue
        width = sum(
            MAP_WIDTH if one.type.startswith("MAP") else _WIDTHS.get(one.type, OTHER_WIDTH)
            for one in scan.columns
        )
        if width * sum(one.rows for one in segments[scan.number]) > lakeql_scans.MOST_BYTES:
            return True
    return False
