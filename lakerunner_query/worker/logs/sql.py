"""Line and label filters are pushed down to DuckDB where SQL means the same.

    |= "took" | trace_id="4bf9…" | json | status="500"

    in SQL: contains(line, 'took') AND trace_id = …      left: | json | status="500"

A label filter is pushed when all files of a statement keep the label in one column of text or of ids and no
stream has a label of that name. Filters on stored labels further behind become conditions too, but also stay
where they are.

Text of a user is always a bound parameter. Only integers of ours and quoted identifiers from segment footers
are spelled into statements. `contains` and `regexp_matches` are called by name because DuckDB's `~` means
something else in every release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakerunner_query.gotext.regexp import for_duckdb
from lakerunner_query.logql.lang.ast import Stage
from lakerunner_query.logql.lang.conditions import TextSearch
from lakerunner_query.logql.lang.stages import match_of, search_of
from lakerunner_query.plan.rules.filters import stored_matches
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.worker.logs.labels import (
    EXTRACTED,
    OVERFLOWS,
    UNKNOWN,
    Source,
    hex_texts,
    nonempty_texts,
    sources_of,
)
from lakerunner_query.worker.logs.row_fetch import MESSAGE
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION, CHQ_STREAM_ID, CHQ_TSNS

LINE = f"coalesce(l.{MESSAGE}, '')"
ID_DIGITS = {"trace_id": 32, "span_id": 16}
TEXT = "string"
Meanings = dict[str | int, object]
"""Types of columns by name, and label sets by stream id."""


@dataclass(frozen=True, slots=True)
class Key:
    """A column that rows are grouped by; the label's text is made of it once per group."""

    column: str
    text: str
    """SQL with `{}` for the column."""
    source: Source


@dataclass(slots=True)
class Conditions:
    """SQL conditions, with texts of users as parameters."""

    sql: list[str] = field(default_factory=list)
    parameters: dict[str, object] = field(default_factory=dict)

    def bind(self, value: object) -> str:
        name = f"v{len(self.parameters)}"
        self.parameters[name] = value
        return f"${name}"


def split_line_filters(stages: Sequence[Stage]) -> tuple[tuple[TextSearch, ...], tuple[Stage, ...]]:
    """Split off the leading line filters that SQL has a function for."""
    found: list[TextSearch] = []
    for stage in stages:
        search = search_of(stage)
        if search is None:
            break
        found.append(search)
    return tuple(found), tuple(stages[len(found) :])


def label_conditions(
    stages: Sequence[Stage], group: Sequence[OpenSegment]
) -> tuple[tuple[Matcher, ...], tuple[Stage, ...]]:
    """Return matchers that SQL evaluates, and the stages that are left to run."""
    pushed = tuple(one for one in stored_matches(stages) if is_pushable(one, group))
    first = 0
    while first < len(stages) and match_of(stages[first]) in pushed:
        first += 1
    return pushed, tuple(stages[first:])


def is_pushable(matcher: Matcher, group: Sequence[OpenSegment]) -> bool:
    """Tell whether SQL means the same as the stage, in all of these files."""
    return bool(group) and column_of(matcher.name, group) is not None


def column_of(name: str, group: Sequence[OpenSegment]) -> str | None:
    """Return SQL for the label's text, empty where a row has none; None where no single column has it."""
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
    if source.render is hex_texts:
        zeros = "0" * ID_DIGITS[name]
        return f"coalesce(nullif(lower(hex({column})), '{zeros}'), '')"
    return f"coalesce({column}, '')" if kinds == {TEXT} else None


def _single_source(name: str, group: Sequence[OpenSegment]) -> Source | None:
    """Return the column that holds this label, and no other one, in all files."""
    by_file = [(one.footer, tuple(sources_of(one.footer, {name}))) for one in group]
    found = {sources for _, sources in by_file}
    one_each = {sources for sources in found if sources}
    if name == "detected_level" and len(found) > len(one_each):
        return None  # a row without a value has the label, a file without the column has not
    sources = next(iter(one_each), ())
    if not len(one_each) == len(sources) == 1:
        return None
    (source,) = sources
    has_another = any(not own and source.column in footer.columns for footer, own in by_file)
    return None if has_another else source


def key_of(name: str, group: Sequence[OpenSegment]) -> Key | None:
    """Return the column of a label to group by; None where no single column has it."""
    if column_of(name, group) is None:
        return None
    source = next(found[0] for one in group if (found := sources_of(one.footer, {name})))
    column = f"l.{identifier(source.column)}"
    if name == "detected_level":
        return Key(column, f"coalesce(nullif({{}}, ''), '{UNKNOWN}')", source)
    if source.render is hex_texts:
        return Key(column, f"nullif(lower(hex({{}})), '{'0' * ID_DIGITS[name]}')", source)
    return Key(column, "nullif({}, '')" if source.render is nonempty_texts else "{}", source)


MOST_ALTERNATIVES = 64
"""Alternatives of one filter that stand as terms of their own: DuckDB plans n of them in n squared steps."""


def add_lines(filters: Sequence[TextSearch], conditions: Conditions) -> None:
    """Add line filters: `|= "a" or "b"` keeps lines with either, `!= "a" or "b"` drops lines with either."""
    for line in filters:
        function = "regexp_matches" if line.is_regex else "contains"
        values = [for_duckdb(value) if line.is_regex else value for value in line.values]
        if len(values) > MOST_ALTERNATIVES and not line.is_regex:
            either = f"list_bool_or(list_transform({conditions.bind(values)}, lambda x: contains({LINE}, x)))"
        else:
            if len(values) > MOST_ALTERNATIVES:
                values = ["|".join(f"(?:{value})" for value in values)]
            either = " OR ".join(f"{function}({LINE}, {conditions.bind(value)})" for value in values)
        conditions.sql.append(f"NOT ({either})" if line.is_negative else f"({either})")


def add_labels(matchers: Sequence[Matcher], group: Sequence[OpenSegment], conditions: Conditions) -> None:
    for matcher in matchers:
        column = column_of(matcher.name, group)
        if column is None:
            raise ValueError(f"{matcher.name} is in no single column")
        conditions.sql.append(_condition(matcher, column, group, conditions))


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _condition(matcher: Matcher, column: str, group: Sequence[OpenSegment], conditions: Conditions) -> str:
    value = matcher.value
    if matcher.op is MatchOp.EQUAL and value:
        plain = _plain_equality(matcher, group, conditions)
        if plain is not None:
            return plain
    if matcher.op.is_regex:
        found = f"regexp_full_match({column}, {conditions.bind(for_duckdb(f'(?s:{value})'))})"
    else:
        found = f"{column} = {conditions.bind(value)}"
    return f"NOT {found}" if matcher.op.is_negative else found


def _plain_equality(matcher: Matcher, group: Sequence[OpenSegment], conditions: Conditions) -> str | None:
    """Compare the column itself, so that statistics and bloom filters choose row groups."""
    name, value = matcher.name, matcher.value
    (source,) = next(found for one in group if (found := sources_of(one.footer, {name})))
    column = f"l.{identifier(source.column)}"
    if source.render is hex_texts:
        digits = ID_DIGITS[name]
        if len(value) != digits or value.strip("0123456789abcdef") or not value.strip("0"):
            return "false"  # no id is spelled like this
        return f"{column} = {conditions.bind(bytes.fromhex(value))}"
    if name == "detected_level" and value == UNKNOWN:
        return None
    return f"{column} = {conditions.bind(value)}"


ORDER = (f"l.{CHQ_TSNS}", "s.rank", f"l.{CHQ_OBJECT}", f"l.{CHQ_POSITION}")
MOST_RUNS = 16
"""Runs of matching row groups that a statement names."""
MAX_LISTED_STREAMS = 64
"""Stream ids up to this number prune row groups by their statistics; more are left to the join."""


@dataclass(frozen=True, slots=True)
class RowQuery:
    """Rows of `[start_ns, end_ns)` in these files that meet all conditions."""

    group: Sequence[OpenSegment]
    start_ns: int
    end_ns: int
    lines: tuple[TextSearch, ...] = ()
    labels: tuple[Matcher, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    parameters: dict[str, object]


def row_statement(
    query: RowQuery, columns: Iterable[str], *, order: str = "", limit: int | None = None
) -> Statement:
    """Select times, stream ranks, row addresses, row ids and these columns, joined with `streams`."""
    conditions = _conditions(query)
    selected = "".join(f", l.{identifier(name)}" for name in columns)
    ordered = f" ORDER BY {', '.join(f'{key} {order}' for key in ORDER)}" if order else ""
    limited = "" if limit is None else f" LIMIT {int(limit)}"
    sql = (  # only our integers and quoted identifiers are spelled in
        f"SELECT l.{CHQ_TSNS}, s.rank, l.filename AS scanned_file, l.file_row_number AS scanned_row, "  # noqa: S608
        f"l.{CHQ_OBJECT}, l.{CHQ_POSITION}{selected} FROM {_source(query)}"
        f"WHERE {' AND '.join(conditions.sql)}{ordered}{limited}"
    )
    return Statement(sql, conditions.parameters)


def count_statement(
    query: RowQuery, by: Sequence[Key], width_ns: int, *, with_bytes: bool, of_streams: bool, limit: int
) -> Statement:
    """Count lines, and on demand their bytes, by bucket, stream and labels; labels may repeat."""
    conditions = _conditions(query)
    first = query.start_ns
    keys = [f"(l.{CHQ_TSNS} - {int(first)}) // {int(width_ns)} AS bucket"]
    keys += [f"l.{CHQ_STREAM_ID} AS stream"] if of_streams else []
    keys += [f"{key.column} AS r{number}" for number, key in enumerate(by)]
    texts = [f"{key.text.format(f'r{number}')} AS k{number}" for number, key in enumerate(by)]
    size = f"sum(strlen({LINE}))::BIGINT" if with_bytes else "0::BIGINT"
    sql = (
        f"SELECT {', '.join(['*', *texts])} FROM ("  # noqa: S608
        f"SELECT {', '.join(keys)}, count(*) AS lines, {size} AS bytes FROM {_files(query)} "
        f"WHERE {' AND '.join(conditions.sql)} GROUP BY ALL LIMIT {int(limit)})"
    )
    return Statement(sql, conditions.parameters)


def columns_read(query: RowQuery, keys: Iterable[Key] = ()) -> set[str]:
    """Return the columns that conditions and groups of a statement need."""
    sources = [key.source.column for key in keys]
    for matcher in query.labels:
        for one in query.group:
            sources += [source.column for source in sources_of(one.footer, {matcher.name})]
    return {CHQ_TSNS, CHQ_STREAM_ID, *sources, *([MESSAGE] if query.lines else [])}


def _conditions(query: RowQuery) -> Conditions:
    found = Conditions(parameters={"files": [one.name for one in query.group]})
    found.sql += [f"l.{CHQ_TSNS} >= {int(query.start_ns)}", f"l.{CHQ_TSNS} < {int(query.end_ns)}"]
    ids = sorted({stream.stream_id for one in query.group for stream in one.streams})
    if not selects_all_streams(query.group):
        few = len(ids) <= MAX_LISTED_STREAMS
        listed = ", ".join(str(int(one)) for one in ids) if few else "SELECT stream_id FROM streams"
        found.sql.append(f"l.{CHQ_STREAM_ID} IN ({listed})")
        found.sql += _in_matching_groups(query)
    add_labels(query.labels, query.group, found)
    add_lines(query.lines, found)
    return found


def _in_matching_groups(query: RowQuery) -> list[str]:
    """Name the rows of matching row groups, by which DuckDB leaves out the others; none where that is long.

    Of several files each gets the rows of all: more than it needs, but never less.
    """
    runs = sorted(run for one in query.group for run in one.matching_rows(query.start_ns, query.end_ns))
    united: list[tuple[int, int]] = []
    for first, end in runs:
        if united and first <= united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], end)
        else:
            united.append((first, end))
    if not united or len(united) > MOST_RUNS:
        return []
    row = "l.file_row_number"
    return ["(" + " OR ".join(f"{row} >= {int(a)} AND {row} < {int(b)}" for a, b in united) + ")"]


def streams_table(group: Sequence[OpenSegment]) -> pa.Table:
    """Return the `streams` table of a statement that does not order by them."""
    ids = sorted({stream.stream_id for one in group for stream in one.streams})
    return pa.table({"stream_id": pa.array(ids, pa.int64())})


def selects_all_streams(group: Sequence[OpenSegment]) -> bool:
    """Tell whether these files have rows of selected streams only."""
    return all(sum(stream.rows for stream in one.streams) >= one.footer.rows for one in group)


def _source(query: RowQuery) -> str:
    return f"{_files(query)} JOIN streams s ON l.{CHQ_STREAM_ID} = s.stream_id "


def _files(query: RowQuery) -> str:
    """Return the table function; a column that one of several files lacks reads as NULL."""
    union = ", union_by_name = true" if len(query.group) > 1 else ""
    return f"read_parquet($files{union}, filename = true, file_row_number = true) l"


def files_by_schema(files: Iterable[OpenSegment]) -> list[list[OpenSegment]]:
    """Group files that one statement can scan; nearly always one group.

    Two files are apart where a stream id means different label sets in them (ids are hashes), or a column has
    another type (an attribute sent as a number here and as text there): a union would show `true` as `1`.
    """
    found: list[tuple[Meanings, list[OpenSegment]]] = []
    for file in files:
        meanings: Meanings = {stream.stream_id: stream.labels for stream in file.streams}
        meanings.update(file.footer.columns)
        for known, members in found:
            is_known = meanings.items() <= known.items()  # mostly, and told by one comparison
            if is_known or all(known.get(key, value) == value for key, value in meanings.items()):
                known.update(meanings)
                members.append(file)
                break
        else:
            found.append((meanings, [file]))
    return [members for _known, members in found]
