"""What may stand in a pipeline behind `|`: parsers, formats, label filters, `keep` and `drop`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from lakerunner_query.errors import InvalidQueryError
from lakerunner_query.gotext.durations import byte_count, nanoseconds
from lakerunner_query.gotext.regexp import InvalidCapturesError, check_captures
from lakerunner_query.logql.lang.ast import (
    Assign,
    CompareOp,
    Decolorize,
    Drop,
    Extraction,
    FilterOp,
    Json,
    Keep,
    LabelAnd,
    LabelCompare,
    LabelCondition,
    LabelFilter,
    LabelFormat,
    LabelIp,
    LabelMatch,
    LabelOr,
    LineFilter,
    LineFormat,
    Logfmt,
    Pattern,
    Regexp,
    Rename,
    Stage,
    Unit,
    Unpack,
)
from lakerunner_query.logql.lang.cursor import MATCH_OPS, Cursor, check_regex, literal, matcher_of
from lakerunner_query.logql.lang.lexer import BYTES, DURATION, FLAG, IDENTIFIER, NUMBER, STRING, Token
from lakerunner_query.logql.lang.patterns import InvalidPatternError, check_parser, key_of, steps_of
from lakerunner_query.syntax import Matcher, MatchOp, Task

# << Filters: `|= "a" or ip("10.0.0.0/8")` on the line, `| status >= 500 or level="error"` on labels.

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


def stage(cursor: Cursor) -> Task[Stage]:
    """The stage whose `|` has been taken."""
    read = _STAGES.get(cursor.next.kind)
    if read is not None:
        return read(cursor, cursor.take())
    filtered: LabelFilter = yield label_filter(cursor)
    return filtered


def label_filter(cursor: Cursor) -> Task[LabelFilter]:
    if cursor.next.kind not in {IDENTIFIER, "("}:
        raise cursor.unexpected()
    start = cursor.next
    found: LabelCondition = yield condition(cursor)
    return LabelFilter(found, start.position)


def _json(cursor: Cursor, word: Token) -> Stage:
    return Json(_extractions(cursor, steps_of), word.position)


def _logfmt(cursor: Cursor, word: Token) -> Stage:
    flags: set[str] = set()
    while flag := cursor.take_if(FLAG):
        flags.add(flag.text)
    extractions = _extractions(cursor, key_of)
    return Logfmt(extractions, "--strict" in flags, "--keep-empty" in flags, word.position)


def _extractions(
    cursor: Cursor, taken_apart: Callable[[str], tuple[str | int, ...]]
) -> tuple[Extraction, ...]:
    if cursor.next.kind != IDENTIFIER:
        return ()
    found = [_extraction(cursor, taken_apart)]
    while cursor.take_if(","):
        found.append(_extraction(cursor, taken_apart))
    return tuple(found)


def _extraction(cursor: Cursor, taken_apart: Callable[[str], tuple[str | int, ...]]) -> Extraction:
    name = cursor.expect(IDENTIFIER)
    expression = cursor.expect(STRING) if cursor.take_if("=") else name
    return Extraction(name.text, expression.text, taken_apart(expression.text), name.position)


def _regexp(cursor: Cursor, word: Token) -> Stage:
    pattern = cursor.expect(STRING)
    try:
        check_captures(pattern.text)
    except InvalidCapturesError as error:
        raise InvalidQueryError(f"invalid regexp parser: {error}", pattern.position) from error
    return Regexp(pattern.text, word.position)


def _pattern(cursor: Cursor, word: Token) -> Stage:
    pattern = cursor.expect(STRING)
    try:
        check_parser(pattern.text)
    except InvalidPatternError as error:
        raise InvalidQueryError(f"invalid pattern parser: {error}", pattern.position) from error
    return Pattern(pattern.text, word.position)


def _unpack(_: Cursor, word: Token) -> Stage:
    return Unpack(word.position)


def _decolorize(_: Cursor, word: Token) -> Stage:
    return Decolorize(word.position)


def _line_format(cursor: Cursor, word: Token) -> Stage:
    return LineFormat(cursor.expect(STRING).text, word.position)


def _label_format(cursor: Cursor, word: Token) -> Stage:
    operations = [_operation(cursor)]
    while cursor.take_if(","):
        operations.append(_operation(cursor))
    return LabelFormat(tuple(operations), word.position)


def _operation(cursor: Cursor) -> Rename | Assign:
    name = cursor.expect(IDENTIFIER)
    cursor.expect("=")
    value = cursor.expect(IDENTIFIER, STRING)
    return Rename(name.text, value.text) if value.kind == IDENTIFIER else Assign(name.text, value.text)


def _keep(cursor: Cursor, word: Token) -> Stage:
    return Keep(_named(cursor), word.position)


def _drop(cursor: Cursor, word: Token) -> Stage:
    return Drop(_named(cursor), word.position)


def _named(cursor: Cursor) -> tuple[str | Matcher, ...]:
    found = [_name_or_matcher(cursor)]
    while cursor.take_if(","):
        found.append(_name_or_matcher(cursor))
    return tuple(found)


def _name_or_matcher(cursor: Cursor) -> str | Matcher:
    name = cursor.expect(IDENTIFIER)
    return matcher_of(cursor, name) if cursor.next.kind in MATCH_OPS else name.text


_STAGES: dict[str, Callable[[Cursor, Token], Stage]] = {
    "json": _json,
    "logfmt": _logfmt,
    "regexp": _regexp,
    "pattern": _pattern,
    "unpack": _unpack,
    "decolorize": _decolorize,
    "line_format": _line_format,
    "label_format": _label_format,
    "keep": _keep,
    "drop": _drop,
}
