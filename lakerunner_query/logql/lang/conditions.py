"""Filters of a pipeline: `|= "a" or ip("10.0.0.0/8")` on lines, `| status >= 500 or level="error"` on labels.

Both are parsed, printed and checked here; `stages.py` lists them among the other stages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from lakerunner_query.gotext import numbers
from lakerunner_query.gotext.durations import byte_count, duration_text, nanoseconds, size_text
from lakerunner_query.gotext.regexp import complaint
from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.logql.lang.ast import (
    CompareOp,
    FilterOp,
    LabelAnd,
    LabelCompare,
    LabelCondition,
    LabelFilter,
    LabelIp,
    LabelMatch,
    LabelOr,
    LineFilter,
    Unit,
)
from lakerunner_query.logql.lang.cursor import Cursor, check_regex, literal
from lakerunner_query.logql.lang.lexer import BYTES, DURATION, IDENTIFIER, NUMBER, STRING, Token
from lakerunner_query.logql.lang.patterns import InvalidAddressError, bounds, check_filter
from lakerunner_query.syntax import Matcher, MatchOp, Task

LINE_OPS = frozenset(FilterOp)
_EMPTY_IS_NOTHING = frozenset({FilterOp.CONTAINS, FilterOp.REGEX})
"""Operators of which Loki ignores empty operands: `|= "a" or ""` is `|= "a"`."""
_EMPTY_REGEX = re.compile(r"(?:\(\?[a-zA-Z]++\))*+(?:\(\))?")
"""Regexes that Loki takes for an empty dashboard variable: `| pod=~""` lets everything through."""
_COMPARED = ("==", "!=", ">", ">=", "<", "<=", "=")
_NANOS = 1_000_000_000
_LEVELS = {"or": 1, "and": 2}
_WITH_ADDRESSES = frozenset({FilterOp.CONTAINS, FilterOp.NOT_CONTAINS})


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A line filter that databases have a function for: texts or regexes, no addresses, no patterns."""

    values: tuple[str, ...]
    """Alternatives."""
    is_regex: bool
    is_negative: bool


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


def label_filter(cursor: Cursor) -> Task[LabelFilter]:
    if cursor.next.kind not in {IDENTIFIER, "("}:
        raise cursor.unexpected()
    start = cursor.next
    parsed: LabelCondition = yield condition(cursor)
    return LabelFilter(parsed, start.position)


def condition(cursor: Cursor, floor: int = 1) -> Task[LabelCondition]:
    """Parse conditions; `and` binds more than `or`.

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


_MEASURES: dict[str, tuple[Unit, Callable[[str], float]]] = {
    DURATION: (Unit.DURATION, lambda text: nanoseconds(text) / _NANOS),
    BYTES: (Unit.BYTES, lambda text: float(byte_count(text))),
}


def _comparison(cursor: Cursor, name: Token, op: CompareOp) -> LabelCompare:
    measure = cursor.take_if(DURATION, BYTES)
    if measure:
        unit, read = _MEASURES[measure.kind]
        return LabelCompare(name.text, op, read(measure.text), unit, name.position)
    if cursor.next.kind not in {NUMBER, "+", "-"}:
        raise cursor.unexpected()
    return LabelCompare(name.text, op, literal(cursor).value, Unit.NUMBER, name.position)


def line_filter_text(line: LineFilter) -> str:
    operands = (*map(LOGQL.quote, line.values), *map(_ip_text, line.ips))
    return f"{line.op.value} {' or '.join(operands)}"


def matcher_text(matcher: Matcher) -> str:
    return f"{matcher.name}{matcher.op.value}{LOGQL.quote(matcher.value)}"


def condition_text(parsed: LabelCondition) -> str:
    match parsed:
        case LabelMatch():
            text = matcher_text(parsed.matcher)
        case LabelIp():
            text = f"{parsed.name}{'!=' if parsed.negative else '='}{_ip_text(parsed.pattern)}"
        case LabelCompare():
            text = f"{parsed.name}{parsed.op.value}{_measure_text(parsed)}"
        case LabelAnd(left=left, right=right):
            text = f"( {condition_text(left)} , {condition_text(right)} )"
        case LabelOr(left=left, right=right):
            text = f"( {condition_text(left)} or {condition_text(right)} )"
    return text


def _measure_text(compare: LabelCompare) -> str:
    match compare.unit:
        case Unit.DURATION:
            return duration_text(round(Fraction(compare.value) * _NANOS))
        case Unit.BYTES:
            return size_text(int(compare.value))
        case Unit.NUMBER:
            return numbers.format_float(compare.value, "f")


def _ip_text(pattern: str) -> str:
    return f"ip({LOGQL.quote(pattern)})"


def line_filter_fault(line: LineFilter) -> str:
    """Return why the filter cannot work, or nothing."""
    if line.ips and line.op not in _WITH_ADDRESSES:
        return "ip: invalid operation"
    if line.op.is_pattern:
        for pattern in line.values:
            check_filter(pattern)
    reasons = map(complaint, line.values if line.op.is_regex else ())
    return next(filter(None, reasons), "") or next(filter(None, map(_address_fault, line.ips)), "")


def condition_fault(parsed: LabelCondition) -> str:
    """Return why the condition cannot work, or nothing."""
    waiting = [parsed]
    while waiting:
        match waiting.pop():
            case LabelAnd(left=left, right=right) | LabelOr(left=left, right=right):
                waiting += (right, left)
            case LabelIp(pattern=pattern):
                if reason := _address_fault(pattern):
                    return reason
    return ""


def _address_fault(pattern: str) -> str:
    try:
        bounds(pattern)
    except InvalidAddressError:
        return f"ip: invalid pattern: {LOGQL.quote(pattern)}"
    return ""


def text_search(line: LineFilter) -> TextSearch | None:
    if line.ips or line.op.is_pattern:
        return None
    return TextSearch(line.values, line.op.is_regex, line.op.is_negative)


def names_in(parsed: LabelCondition) -> Iterator[str]:
    """Yield the labels that the condition names.

    Comparisons of numbers look for an error, too; its label is never left out.
    """
    match parsed:
        case LabelMatch(matcher):
            yield matcher.name
        case LabelCompare(name) | LabelIp(name):
            yield name
        case LabelAnd(left, right) | LabelOr(left, right):
            yield from names_in(left)
            yield from names_in(right)


def compares_values(parsed: LabelCondition) -> bool:
    """Tell if a value may be none that can be compared, which marks its row with an error."""
    match parsed:
        case LabelAnd(left, right) | LabelOr(left, right):
            return compares_values(left) or compares_values(right)
    return isinstance(parsed, LabelCompare | LabelIp)


def conjuncts(parsed: LabelCondition) -> Iterator[LabelCondition]:
    """Yield the conditions that all have to hold."""
    if isinstance(parsed, LabelAnd):
        yield from conjuncts(parsed.left)
        yield from conjuncts(parsed.right)
    else:
        yield parsed
