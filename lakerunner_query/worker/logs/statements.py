"""The statements of log queries. Text of a user is always a bound parameter, never part of the SQL.

Only integers of ours and quoted identifiers from segment footers are spelled into it. `contains` and
`regexp_matches` are named because DuckDB's `~` means something else in every release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakerunner_query.logql.lang.ast import LineFilter
from lakerunner_query.syntax import Matcher
from lakerunner_query.worker.logs.pushed import LINE, Conditions, Key, add_labels, add_lines, identifier
from lakerunner_query.worker.opening import Opened

ORDER = ("l.chq_tsns", "s.rank", "l.chq_object", "l.chq_position")
MAX_LISTED_STREAMS = 64
"""So many stream ids still prune row groups by their statistics; more are left to the join."""


@dataclass(frozen=True, slots=True)
class Question:
    """Rows of `[start_ns, end_ns)` in these files that meet conditions."""

    group: Sequence[Opened]
    start_ns: int
    end_ns: int
    lines: tuple[LineFilter, ...] = ()
    labels: tuple[Matcher, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    parameters: dict[str, object]


def rows(
    question: Question, columns: Iterable[str], *, order: str = "", limit: int | None = None
) -> Statement:
    """Times, ranks of streams, places in files and row ids, and these columns (`streams` is registered)."""
    conditions = _conditions(question)
    wanted = "".join(f", l.{identifier(name)}" for name in columns)
    ordered = f" ORDER BY {', '.join(f'{key} {order}' for key in ORDER)}" if order else ""
    limited = "" if limit is None else f" LIMIT {int(limit)}"
    sql = (  # only our integers and quoted identifiers are spelled in
        "SELECT l.chq_tsns, s.rank, l.filename AS scanned_file, l.file_row_number AS scanned_row, "  # noqa: S608
        f"l.chq_object, l.chq_position{wanted} FROM {_source(question)}"
        f"WHERE {' AND '.join(conditions.sql)}{ordered}{limited}"
    )
    return Statement(sql, conditions.parameters)


def counts(
    question: Question, by: Sequence[Key], width_ns: int, *, with_bytes: bool, of_streams: bool, limit: int
) -> Statement:
    """Lines, and where wanted their bytes, by bucket of time, stream and labels; some groups may be equal."""
    conditions = _conditions(question)
    first = question.start_ns
    keys = [f"(l.chq_tsns - {int(first)}) // {int(width_ns)} AS bucket"]
    keys += ["l.chq_stream_id AS stream"] if of_streams else []
    keys += [f"{key.column} AS r{number}" for number, key in enumerate(by)]
    shown = [f"{key.shown.format(f'r{number}')} AS k{number}" for number, key in enumerate(by)]
    size = f"sum(strlen({LINE}))::BIGINT" if with_bytes else "0::BIGINT"
    sql = (
        f"SELECT {', '.join(['*', *shown])} FROM ("  # noqa: S608
        f"SELECT {', '.join(keys)}, count(*) AS lines, {size} AS bytes FROM {_files(question)} "
        f"WHERE {' AND '.join(conditions.sql)} GROUP BY ALL LIMIT {int(limit)})"
    )
    return Statement(sql, conditions.parameters)


def _conditions(question: Question) -> Conditions:
    found = Conditions(parameters={"files": [str(one.path) for one in question.group]})
    found.sql += [f"l.chq_tsns >= {int(question.start_ns)}", f"l.chq_tsns < {int(question.end_ns)}"]
    ids = sorted({stream.stream_id for one in question.group for stream in one.streams})
    if not are_all_wanted(question.group):
        few = len(ids) <= MAX_LISTED_STREAMS
        listed = ", ".join(str(int(one)) for one in ids) if few else "SELECT stream_id FROM streams"
        found.sql.append(f"l.chq_stream_id IN ({listed})")
    add_labels(question.labels, question.group, found)
    add_lines(question.lines, found)
    return found


def streams_table(group: Sequence[Opened]) -> pa.Table:
    """`streams` of a statement that does not order by them."""
    ids = sorted({stream.stream_id for one in group for stream in one.streams})
    return pa.table({"stream_id": pa.array(ids, pa.int64())})


def are_all_wanted(group: Sequence[Opened]) -> bool:
    """Whether these files have rows of no other streams."""
    return all(sum(stream.rows for stream in one.streams) >= one.footer.rows for one in group)


def _source(question: Question) -> str:
    return f"{_files(question)} JOIN streams s ON l.chq_stream_id = s.stream_id "


def _files(question: Question) -> str:
    """A column that one of several files does not have reads as NULL."""
    together = ", union_by_name = true" if len(question.group) > 1 else ""
    return f"read_parquet($files{together}, filename = true, file_row_number = true) l"
