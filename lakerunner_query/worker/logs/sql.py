"""What of a pipeline DuckDB does, exactly as the stages mean it; the rest is left to them.

    |= "took" | trace_id="4bf9…" | json | status="500"

    in SQL: contains(line, 'took') AND trace_id = …      left: | json | status="500"

A label filter can be pushed when all files of a statement keep the label in one column of text or of ids and
no stream has a label of that name. Filters on stored labels further behind become conditions too, but stay
where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakerunner_query.gotext.regexp import for_duckdb
from lakerunner_query.logql.lang.ast import LabelFilter, LabelMatch, LineFilter, Stage
from lakerunner_query.plan.rules.filters import stored_matches
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.worker.logs.labels import (
    EXTRACTED,
    OVERFLOWS,
    UNKNOWN,
    Source,
    as_hex,
    if_any,
    sources_of,
)
from lakerunner_query.worker.logs.segment_opener import Opened
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION, CHQ_STREAM_ID, CHQ_TSNS

LINE = "coalesce(l.log_message, '')"
ID_DIGITS = {"trace_id": 32, "span_id": 16}
TEXT = "string"


@dataclass(frozen=True, slots=True)
class Key:
    """What rows are grouped by, and the label's text made of it, once per group."""

    column: str
    shown: str
    """SQL, `{}` for the column."""
    source: Source


@dataclass(slots=True)
class Conditions:
    """SQL, and the texts of users in it as parameters."""

    sql: list[str] = field(default_factory=list)
    parameters: dict[str, object] = field(default_factory=dict)

    def bound(self, value: object) -> str:
        name = f"v{len(self.parameters)}"
        self.parameters[name] = value
        return f"${name}"


def split(stages: Sequence[Stage]) -> tuple[tuple[LineFilter, ...], tuple[Stage, ...]]:
    """The leading line filters that SQL has a function for, and what is left."""
    for number, stage in enumerate(stages):
        if not isinstance(stage, LineFilter) or stage.ips or stage.op.is_pattern:
            return tuple(s for s in stages[:number] if isinstance(s, LineFilter)), tuple(stages[number:])
    return tuple(s for s in stages if isinstance(s, LineFilter)), ()


def label_conditions(
    stages: Sequence[Stage], group: Sequence[Opened]
) -> tuple[tuple[Matcher, ...], tuple[Stage, ...]]:
    """Conditions on stored labels that SQL can tell, and the stages that are left to run."""
    pushed = tuple(one.matcher for one in stored_matches(stages) if is_pushable(one.matcher, group))
    first = 0
    while first < len(stages) and _is_told(stages[first], pushed):
        first += 1
    return pushed, tuple(stages[first:])


def is_pushable(matcher: Matcher, group: Sequence[Opened]) -> bool:
    """Whether `condition` says the same as the stage, in all of these files."""
    return bool(group) and column_of(matcher.name, group) is not None


def column_of(name: str, group: Sequence[Opened]) -> str | None:
    """SQL for the label's text, empty where a row has none; None where it is not that simple."""
    if name.endswith(EXTRACTED) or any(OVERFLOWS & one.footer.columns.keys() for one in group):
        return None
    if any(label == name for one in group for stream in one.streams for label, _ in stream.labels):
        return None
    source = _single_source(name, group)
    if source is None:
        return None
    kinds = {one.footer.columns.get(source.column, TEXT) for one in group}
    column = f"l.{identifier(source.column)}"
    if name == "detected_level":
        return f"coalesce(nullif({column}, ''), '{UNKNOWN}')" if kinds == {TEXT} else None
    if source.show is as_hex:
        zeros = "0" * ID_DIGITS[name]
        return f"coalesce(nullif(lower(hex({column})), '{zeros}'), '')"
    return f"coalesce({column}, '')" if kinds == {TEXT} else None


def _single_source(name: str, group: Sequence[Opened]) -> Source | None:
    """The one column that holds the label, in whatever files have it; nowhere does it hold another one."""
    told = [(one.footer, tuple(sources_of(one.footer, {name}))) for one in group]
    found = {sources for _, sources in told}
    one_each = {sources for sources in found if sources}
    if name == "detected_level" and len(found) > len(one_each):
        return None  # a row without a value has the label, a file without the column has not
    sources = next(iter(one_each), ())
    if not len(one_each) == len(sources) == 1:
        return None
    (source,) = sources
    has_another = any(not own and source.column in footer.columns for footer, own in told)
    return None if has_another else source


def key_of(name: str, group: Sequence[Opened]) -> Key | None:
    """Null where a row has none; None where it is not that simple."""
    if column_of(name, group) is None:
        return None
    source = next(found[0] for one in group if (found := sources_of(one.footer, {name})))
    column = f"l.{identifier(source.column)}"
    if name == "detected_level":
        return Key(column, f"coalesce(nullif({{}}, ''), '{UNKNOWN}')", source)
    if source.show is as_hex:
        return Key(column, f"nullif(lower(hex({{}})), '{'0' * ID_DIGITS[name]}')", source)
    return Key(column, "nullif({}, '')" if source.show is if_any else "{}", source)


def add_lines(filters: Sequence[LineFilter], conditions: Conditions) -> None:
    """`|= "a" or "b"` keeps lines with either; `!= "a" or "b"` drops lines with either."""
    for line in filters:
        function = "regexp_matches" if line.op.is_regex else "contains"
        values = (for_duckdb(value) if line.op.is_regex else value for value in line.values)
        either = " OR ".join(f"{function}({LINE}, {conditions.bound(value)})" for value in values)
        conditions.sql.append(f"NOT ({either})" if line.op.is_negative else f"({either})")


def add_labels(matchers: Sequence[Matcher], group: Sequence[Opened], conditions: Conditions) -> None:
    for matcher in matchers:
        column = column_of(matcher.name, group)
        if column is None:
            raise ValueError(f"{matcher.name} is in no single column")
        conditions.sql.append(_condition(matcher, column, group, conditions))


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _condition(matcher: Matcher, column: str, group: Sequence[Opened], conditions: Conditions) -> str:
    value = matcher.value
    if matcher.op is MatchOp.EQUAL and value:
        plain = _plain_equality(matcher, group, conditions)
        if plain is not None:
            return plain
    if matcher.op.is_regex:
        found = f"regexp_full_match({column}, {conditions.bound(for_duckdb(f'(?s:{value})'))})"
    else:
        found = f"{column} = {conditions.bound(value)}"
    return f"NOT {found}" if matcher.op.is_negative else found


def _plain_equality(matcher: Matcher, group: Sequence[Opened], conditions: Conditions) -> str | None:
    """On the column itself, so that statistics and bloom filters choose row groups."""
    name, value = matcher.name, matcher.value
    (source,) = next(found for one in group if (found := sources_of(one.footer, {name})))
    column = f"l.{identifier(source.column)}"
    if source.show is as_hex:
        digits = ID_DIGITS[name]
        if len(value) != digits or value.strip("0123456789abcdef") or not value.strip("0"):
            return "false"  # no id is spelled like this
        return f"{column} = {conditions.bound(bytes.fromhex(value))}"
    if name == "detected_level" and value == UNKNOWN:
        return None
    return f"{column} = {conditions.bound(value)}"


def _is_told(stage: Stage, pushed: Sequence[Matcher]) -> bool:
    return (
        isinstance(stage, LabelFilter)
        and isinstance(stage.condition, LabelMatch)
        and stage.condition.matcher in pushed
    )


# << The statements of log queries. Text of a user is always a bound parameter, never part of the SQL.
# <<
# << Only integers of ours and quoted identifiers from segment footers are spelled into it. `contains` and
# << `regexp_matches` are named because DuckDB's `~` means something else in every release.

ORDER = (f"l.{CHQ_TSNS}", "s.rank", f"l.{CHQ_OBJECT}", f"l.{CHQ_POSITION}")
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
        f"SELECT l.{CHQ_TSNS}, s.rank, l.filename AS scanned_file, l.file_row_number AS scanned_row, "  # noqa: S608
        f"l.{CHQ_OBJECT}, l.{CHQ_POSITION}{wanted} FROM {_source(question)}"
        f"WHERE {' AND '.join(conditions.sql)}{ordered}{limited}"
    )
    return Statement(sql, conditions.parameters)


def counts(
    question: Question, by: Sequence[Key], width_ns: int, *, with_bytes: bool, of_streams: bool, limit: int
) -> Statement:
    """Lines, and where wanted their bytes, by bucket of time, stream and labels; some groups may be equal."""
    conditions = _conditions(question)
    first = question.start_ns
    keys = [f"(l.{CHQ_TSNS} - {int(first)}) // {int(width_ns)} AS bucket"]
    keys += [f"l.{CHQ_STREAM_ID} AS stream"] if of_streams else []
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
    found.sql += [f"l.{CHQ_TSNS} >= {int(question.start_ns)}", f"l.{CHQ_TSNS} < {int(question.end_ns)}"]
    ids = sorted({stream.stream_id for one in question.group for stream in one.streams})
    if not are_all_wanted(question.group):
        few = len(ids) <= MAX_LISTED_STREAMS
        listed = ", ".join(str(int(one)) for one in ids) if few else "SELECT stream_id FROM streams"
        found.sql.append(f"l.{CHQ_STREAM_ID} IN ({listed})")
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
    return f"{_files(question)} JOIN streams s ON l.{CHQ_STREAM_ID} = s.stream_id "


def _files(question: Question) -> str:
    """A column that one of several files does not have reads as NULL."""
    together = ", union_by_name = true" if len(question.group) > 1 else ""
    return f"read_parquet($files{together}, filename = true, file_row_number = true) l"
