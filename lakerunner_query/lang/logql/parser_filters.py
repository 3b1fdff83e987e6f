"""Filters: `|= "a" or ip("10.0.0.0/8")` on the line, `| status >= 500 or level="error"` on labels."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from lakerunner_query.gotext.durations import byte_count, nanoseconds
from lakerunner_query.lang.logql.ast import (
    CompareOp,
    FilterOp,
    LabelAnd,
    LabelCompare,
    LabelCondition,
    LabelIp,
    LabelMatch,
    LabelOr,
    LineFilter,
    Unit,
)
from lakerunner_query.lang.logql.cursor import Cursor
from lakerunner_query.lang.logql.parser_numbers import literal
from lakerunner_query.lang.logql.parser_selector import check_regex
from lakerunner_query.lang.logql.tokens import BYTES, DURATION, IDENTIFIER, NUMBER, STRING, Token
from lakerunner_query.syntax import Matcher, MatchOp, Task

LINE_OPS = frozenset(FilterOp)
_EMPTY_IS_NOTHING = frozenset({FilterOp.CONTAINS, FilterOp.REGEX})
"""`|= "a" or ""` is `|= "a"` in Loki, though every line holds the empty text."""
_EMPTY_REGEX = re.compile(r"(?:\(\?[a-zA-Z]+\))*(?:\(\))?")
"""Dashboards rely on what Loki makes of an empty variable: `| pod=~""` lets everything through."""
_COMPARED = ("==", "!=", ">", ">=", "<", "<=", "=")
_NANOS = 1_000_000_000
_LEVELS = {"or": 1, "and": 2}


def line_filter(cursor: Cursor) -> LineFilter:
    operator = cursor.take()
    op = FilterOp(operator.kind)
    values: list[str] = []
    ips: list[str] = []
    _operand(cursor, values, ips)
    while cursor.take_if("or"):
        _operand(cursor, values, ips)
    if op in _EMPTY_IS_NOTHING and (ips or any(values)):
        values = [value for value in values if value]
    return LineFilter(op, tuple(values), tuple(ips), operator.position)


def _operand(cursor: Cursor, values: list[str], ips: list[str]) -> None:
    if cursor.next.kind == "ip":
        ips.append(_ip(cursor))
        return
    values.append(cursor.expect(STRING, "ip").text)


def _ip(cursor: Cursor) -> str:
    cursor.expect("ip")
    cursor.expect("(")
    pattern = cursor.expect(STRING)
    cursor.expect(")")
    return pattern.text


def condition(cursor: Cursor, floor: int = 1) -> Task[LabelCondition]:
    """`and` binds more than `or`.

    A comma, or nothing at all, also means `and`, between the one condition before and everything behind:
    `a or b, c or d` is `a or (b and (c or d))`, as in Loki.
    """
    left: LabelCondition = yield _single(cursor)
    if cursor.take_if(",") or cursor.next.kind in {IDENTIFIER, "("}:
        rest: LabelCondition = yield condition(cursor)
        return LabelAnd(left, rest)
    while _LEVELS.get(cursor.next.kind, 0) >= floor:
        word = cursor.take().kind
        right: LabelCondition = yield condition(cursor, _LEVELS[word] + 1)
        left = LabelAnd(left, right) if word == "and" else LabelOr(left, right)
    return left


def _single(cursor: Cursor) -> Task[LabelCondition]:
    if cursor.take_if("("):
        inner: LabelCondition = yield condition(cursor)
        cursor.close()
        return inner
    return _simple(cursor, cursor.expect(IDENTIFIER, "("))


def _simple(cursor: Cursor, name: Token) -> LabelCondition:
    operator = cursor.next
    if operator.kind in {"=~", "!~"}:
        cursor.take()
        pattern = cursor.expect(STRING)
        check_regex(pattern)
        if _EMPTY_REGEX.fullmatch(pattern.text):
            pattern = replace(pattern, text=".*")
        return _match(name, operator, pattern)
    if operator.kind not in _COMPARED:
        raise cursor.unexpected()
    cursor.take()
    if operator.kind in {"=", "!="}:
        if cursor.next.kind == "ip":
            return LabelIp(name.text, operator.kind == "!=", _ip(cursor), name.position)
        if cursor.next.kind == STRING:
            return _match(name, operator, cursor.take())
    return _comparison(cursor, name, CompareOp(operator.kind if operator.kind != "=" else "=="))


def _match(name: Token, operator: Token, value: Token) -> LabelMatch:
    return LabelMatch(Matcher(name.text, MatchOp(operator.kind), value.text, name.position))


_MEASURED: dict[str, tuple[Unit, Callable[[str], float]]] = {
    DURATION: (Unit.DURATION, lambda text: nanoseconds(text) / _NANOS),
    BYTES: (Unit.BYTES, lambda text: float(byte_count(text))),
}


def _comparison(cursor: Cursor, name: Token, op: CompareOp) -> LabelCompare:
    measured = cursor.take_if(DURATION, BYTES)
    if measured:
        unit, read = _MEASURED[measured.kind]
        return LabelCompare(name.text, op, read(measured.text), unit, name.position)
    if cursor.next.kind not in {NUMBER, "+", "-"}:
        raise cursor.unexpected()
    return LabelCompare(name.text, op, literal(cursor).value, Unit.NUMBER, name.position)
