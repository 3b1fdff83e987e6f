"""Functions of LakeQL and macros of Grafana are spelled with functions of DuckDB.

matches(message, 'disk full')    ->  regexp_matches(…) AND regexp_matches(…)
$__timeGroup(timestamp, '5m')    ->  time_bucket(INTERVAL '5 minutes', timestamp)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlglot import exp

from lakerunner_query.errors import ParseError, Position
from lakerunner_query.lakeql import sketches
from resources.lake.timecut import SECOND_NS

DIALECT = "duckdb"
MACRO = "___"
"""Spelling of `$__`, so that a macro is a name like others."""
NOW = frozenset({
    "now", "current_timestamp", "current_localtimestamp", "get_current_timestamp", "transaction_timestamp",
    "localtimestamp",
})  # fmt: skip
TODAY = frozenset({"current_date", "today"})


class LakeQLError(ParseError):
    """The text is no LakeQL; the message ends in no stop and names what to do."""


@dataclass(frozen=True, slots=True)
class Context:
    """Times that a statement is read with."""

    now_ns: int
    start_ns: int
    end_ns: int
    """Interval of the request, for macros and for tables without bounds."""


def position_of(node: exp.Expr, text: str) -> Position | None:
    """Return the place of the first name in a node, by its offset in the text."""
    starts = [one.meta["start"] for one in node.walk() if "start" in one.meta]
    return position_at(min(starts), text) if starts else None


def position_at(offset: int, text: str) -> Position:
    """
    >>> str(position_at(5, "ab\\ncdef"))
    'line 2, col 3'
    """
    before = text[:offset]
    return Position(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def places_of(word: str, text: str) -> Iterator[int]:
    """Yield the places of a whole word, in any case.

    >>> list(places_of("a", "b.A, ab, a"))
    [2, 9]
    """
    wanted, where, at = word.lower(), text.lower(), -1
    while (at := where.find(wanted, at + 1)) >= 0:
        around = where[max(0, at - 1) : at], where[at + len(wanted) : at + len(wanted) + 1]
        if not any(one.isalnum() or one == "_" for one in around):
            yield at


def timestamp(moment: datetime) -> exp.Expr:
    return exp.cast(exp.Literal.string(moment.isoformat(sep=" ")), "TIMESTAMP")


def time_literal(ns: int) -> exp.Expr:
    """Return a `TIMESTAMP` of these nanoseconds, cut to microseconds."""
    return timestamp(datetime(1970, 1, 1) + timedelta(microseconds=ns // 1000))  # noqa: DTZ001 - UTC throughout


def replace_functions(tree: exp.Query, now_ns: int, text: str) -> exp.Query:
    """Put in the time of the query, and spell functions of LakeQL with those of DuckDB."""

    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter) and _function_name(node.this) == sketches.SHOWN:
            return _cardinality(node.this, node.expression.this, text)
        if isinstance(node, exp.Window) and _function_name(node.this) == sketches.SHOWN:
            raise LakeQLError(f"{sketches.SHOWN}() is no window function", position_of(node, text))
        name = _function_name(node)
        given = list(node.expressions) if isinstance(node, exp.Anonymous) else []
        match name, given:
            case _ if name in NOW:
                return time_literal(now_ns)
            case _ if name in TODAY:
                return exp.cast(time_literal(now_ns), "DATE")
            case (("matches" | "matches_any" | "matches_term"), [column, words]):
                return _word_search(name, column, words, text)
            case "date_bin", [width, column]:
                return exp.Anonymous(this="time_bucket", expressions=[_interval(width, None), column])
            case "date_bin", [width, column, origin]:
                return exp.Anonymous(this="time_bucket", expressions=[_interval(width, None), column, origin])
            case "histogram", [column, exp.Interval() as width]:
                return exp.Anonymous(this="time_bucket", expressions=[width, column])
            case "approx_topk", [_, _]:
                return exp.Anonymous(this="approx_top_k", expressions=given)
            case sketches.SHOWN, _:
                return _cardinality(node, None, text)
        return node

    found = tree.transform(replace)
    assert isinstance(found, exp.Query)  # noqa: S101 - a query stays one
    return found


def _cardinality(call: exp.Expr, condition: exp.Expr | None, text: str) -> exp.Expr:
    if len(call.expressions) != 1:
        raise LakeQLError(f"{sketches.SHOWN}() takes one column of sketches", position_of(call, text))
    return sketches.cardinality_of(call.expressions[0], condition)


def _word_search(name: str, column: exp.Expr, words: exp.Expr, text: str) -> exp.Expr:
    """Search whole words, in any case: all of them, any, or one term as it is."""
    if not (isinstance(words, exp.Literal) and words.is_string and words.name.strip()):
        raise LakeQLError(f"{name}() takes a column and a text of words", position_of(column, text))
    terms = [words.name] if name == "matches_term" else words.name.split()
    found: list[exp.Expr] = []
    for term in terms:
        pattern = rf"(?i)(^|[^\pL\pN_]){re.escape(term)}($|[^\pL\pN_])"
        search = [column.copy(), exp.Literal.string(pattern)]
        found.append(exp.Anonymous(this="regexp_matches", expressions=search))
    return exp.paren(exp.or_(*found) if name == "matches_any" else exp.and_(*found))


def _function_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def replace_macros(tree: exp.Query, context: Context, text: str) -> exp.Query:
    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Anonymous) and node.name.startswith(MACRO):
            return _macro(node, context, text)
        if isinstance(node, exp.Column) and node.name.startswith(MACRO):
            return _macro(node, context, text)
        return node

    found = tree.transform(replace)
    assert isinstance(found, exp.Query)  # noqa: S101 - a query stays one
    return found


def _macro(node: exp.Expr, context: Context, text: str) -> exp.Expr:
    name, given = node.name[len(MACRO) :].lower(), list(node.expressions)
    start, end = time_literal(context.start_ns), time_literal(context.end_ns)
    seconds = (
        exp.Literal.number(context.start_ns // SECOND_NS),
        exp.Literal.number(context.end_ns // SECOND_NS),
    )
    match name, given:
        case "timefilter", [column]:
            return exp.paren(exp.Between(this=column, low=start, high=end))
        case "unixepochfilter", [column]:
            return exp.paren(exp.Between(this=column, low=seconds[0], high=seconds[1]))
        case "timefrom", []:
            return start
        case "timeto", []:
            return end
        case "unixepochfrom", []:
            return seconds[0]
        case "unixepochto", []:
            return seconds[1]
        case (("timegroup" | "timegroupalias"), [column, width, *_]):
            bucket = exp.Anonymous(this="time_bucket", expressions=[_interval(width, context), column])
            return exp.alias_(bucket, "time") if name == "timegroupalias" else bucket
        case "time", [column]:
            return exp.alias_(column, "time")
        case "interval", []:
            return _interval(None, context)
        case "interval_ms", []:
            return exp.Literal.number(_step_s(context) * 1000)
    raise LakeQLError(f"the macro $__{name} is not known, or takes other arguments", position_of(node, text))


def _interval(width: exp.Expr | None, context: Context | None) -> exp.Expr:
    """Return the interval of `'5m'`, `INTERVAL '5 minutes'` or, by default, of the width of a point."""
    if context is not None and (
        width is None or (isinstance(width, exp.Column) and width.name.lower().endswith("interval"))
    ):
        return exp.Interval(this=exp.Literal.string(str(_step_s(context))), unit=exp.var("SECOND"))
    units = {"s": "SECOND", "m": "MINUTE", "h": "HOUR", "d": "DAY", "w": "WEEK"}
    found = re.fullmatch(r"(\d+)([smhdw])", width.name) if isinstance(width, exp.Literal) else None
    if found is None or width is None:
        return width or exp.null()
    return exp.Interval(this=exp.Literal.string(found[1]), unit=exp.var(units[found[2]]))


def _step_s(context: Context) -> int:
    """Return the seconds of a point if there are some thousand."""
    return max(1, (context.end_ns - context.start_ns) // SECOND_NS // 1000)
