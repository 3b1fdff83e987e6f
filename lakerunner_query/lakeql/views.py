"""Views are tables computed from the rows of another one: `traces` from `spans`.

    FROM traces t   ->   FROM (SELECT trace_id, MIN(tsns) AS tsns, … FROM spans GROUP BY trace_id) AS t

A row of `traces` is a whole trace, so that spans are read beyond the interval that traces begin in. A span
that was sent twice counts once: units of a scan are disjoint in time, and both have the same start.

>>> VIEWS["traces"].column("services").type
'VARCHAR[]'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakerunner_query.lakeql.tables import (
    BIGINT,
    TABLES,
    TEXT,
    TIME,
    TIMESTAMP,
    LakeColumn,
    LakeTable,
)
from resources.lake.timecut import SECOND_NS

TEXT_LIST = "VARCHAR[]"
MARGIN_NS = 1800 * SECOND_NS
"""Spans are read from so long before the interval that traces begin in to so long behind it."""


@dataclass(frozen=True, slots=True)
class LakeView:
    """A table whose rows are groups of rows of another one."""

    name: str
    meaning: str
    table: LakeTable
    key: str
    """Column of the table that rows are grouped by."""
    columns: tuple[LakeColumn, ...]
    expressions: Mapping[str, str]
    """SQL of each column over the rows of a group."""
    is_root: str
    """Condition on the rows that may be the root of their group."""
    rooted: Mapping[str, str]
    """Columns that show a column of the root."""
    members: Mapping[str, str]
    """Columns that list the values of a column of all rows."""
    counted: Mapping[str, str]
    """Columns that count rows, with the condition on these."""
    margin_ns: int
    """Time around the interval of groups in which their rows are looked for."""

    def column(self, name: str) -> LakeColumn:
        return next(one for one in self.columns if one.name == name)


_IS_ROOT, _IS_ERROR = "parent_span_id IS NULL", "status_code = 'error'"
_ROOT = (
    "MIN(STRUCT_PACK(at := tsns, no_id := span_id IS NULL, id := span_id, service_name := service_name, "
    f"name := name)) FILTER (WHERE {_IS_ROOT})"
)
"""The first root; one without an id comes behind others of its time, wherever an engine has nulls."""
_END = "MAX(GREATEST(tsns, COALESCE(end_tsns, tsns)))"
_SPAN = "DISTINCT (span_id, kind, tsns)"
_TRACES = {
    LakeColumn(TIMESTAMP, TIME, "start of the first span, UTC, in microseconds"): "MIN(timestamp)",
    LakeColumn("organization_id", TEXT, "organisation"): "MIN(organization_id)",
    LakeColumn("trace_id", TEXT, "trace, in hex"): "trace_id",
    LakeColumn("tsns", BIGINT, "start of the first span, ns since 1970"): "MIN(tsns)",
    LakeColumn("end_tsns", BIGINT, "end of the last span, ns since 1970"): _END,
    LakeColumn("duration_ns", BIGINT, "end minus start"): (
        f"TRY_CAST(CAST({_END} AS HUGEINT) - MIN(tsns) AS BIGINT)"
    ),
    LakeColumn("root_service_name", TEXT, "service of the root; null if there is none"): (
        f"STRUCT_EXTRACT({_ROOT}, 'service_name')"
    ),
    LakeColumn("root_name", TEXT, "name of the root; null if there is none"): (
        f"STRUCT_EXTRACT({_ROOT}, 'name')"
    ),
    LakeColumn("span_count", BIGINT, "spans"): f"COUNT({_SPAN})",
    LakeColumn("error_count", BIGINT, "spans whose status is `error`"): (
        f"COUNT({_SPAN}) FILTER (WHERE {_IS_ERROR})"
    ),
    LakeColumn(
        "services", TEXT_LIST, "services of its spans, sorted"
    ): "LIST_SORT(LIST(DISTINCT service_name))",
}
VIEWS: dict[str, LakeView] = {
    "traces": LakeView(
        name="traces",
        meaning="whole traces, summed up from their spans",
        table=TABLES["spans"],
        key="trace_id",
        columns=tuple(_TRACES),
        expressions={column.name: sql for column, sql in _TRACES.items()},
        is_root=_IS_ROOT,
        rooted={"root_service_name": "service_name", "root_name": "name"},
        members={"services": "service_name"},
        counted={"error_count": _IS_ERROR},
        margin_ns=MARGIN_NS,
    )
}
RELATIONS: dict[str, LakeTable | LakeView] = {**TABLES, **VIEWS}
"""All that a statement may name in FROM, beside functions and the catalogue."""
