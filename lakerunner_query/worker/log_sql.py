"""The one statement of a log scan. Text of a user is always a bound parameter, never part of the SQL.

Only integers of ours and quoted identifiers from segment footers are spelled into it. `contains` and
`regexp_matches` are named because DuckDB's `~` means something else in every release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lakerunner_query.execute.work import LogUnit
from lakerunner_query.lang.logql.ast import LineFilter
from lakerunner_query.lang.regex import for_duckdb

ORDER = ("l.chq_tsns", "s.rank", "l.chq_object", "l.chq_position")
LINE = "coalesce(l.log_message, '')"
MAX_LISTED_STREAMS = 64
"""So many stream ids still prune row groups by their statistics; more are left to the join."""


@dataclass(slots=True)
class Statement:
    sql: str
    parameters: dict[str, object] = field(default_factory=dict)


def scan_statement(
    unit: LogUnit, files: Sequence[str], stream_ids: Sequence[int], columns: Iterable[str], limit: int
) -> Statement:
    """Rows of `unit`, best first, with the rank of their stream (table `streams` must be registered)."""
    found = Statement("", {"files": list(files)})
    conditions = [
        f"l.chq_tsns >= {int(unit.start_ns)}",
        f"l.chq_tsns < {int(unit.end_ns)}",
        *_stream_conditions(stream_ids),
        *(_line_condition(line, found) for line in unit.filters),
    ]
    direction = "DESC" if unit.reverse else "ASC"
    order = ", ".join(f"{key} {direction}" for key in ORDER)
    wanted = ", ".join(f"l.{identifier(name)}" for name in columns)
    found.sql = (  # only our integers and quoted identifiers are spelled in
        f"SELECT s.rank, l.filename AS scanned_file, {wanted} "  # noqa: S608
        "FROM read_parquet($files, union_by_name = true, filename = true) l "
        "JOIN streams s ON l.chq_stream_id = s.stream_id "
        f"WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT {int(limit)}"
    )
    return found


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _stream_conditions(stream_ids: Sequence[int]) -> list[str]:
    if len(stream_ids) > MAX_LISTED_STREAMS:
        return []
    return [f"l.chq_stream_id IN ({', '.join(str(int(one)) for one in stream_ids)})"]


def _line_condition(line: LineFilter, statement: Statement) -> str:
    """`|= "a" or "b"` keeps lines with either; `!= "a" or "b"` drops lines with either."""
    function = "regexp_matches" if line.op.is_regex else "contains"
    calls: list[str] = []
    for value in line.values:
        name = f"v{len(statement.parameters)}"
        statement.parameters[name] = for_duckdb(value) if line.op.is_regex else value
        calls.append(f"{function}({LINE}, ${name})")
    either = "(" + " OR ".join(calls) + ")"
    return f"NOT {either}" if line.op.is_negative else either
