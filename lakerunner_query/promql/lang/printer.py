"""The printer of PromQL: a tree as Prometheus writes it, in one line or indented.

    sum(rate(foo[1h30m]))by(job)      becomes      sum by (job) (rate(foo[1h30m]))

`parse(to_text(tree)) == tree`: parentheses are part of the tree, so none have to be found again.
"""

from __future__ import annotations

import re

from lakerunner_query.gotext import durations, numbers
from lakerunner_query.gotext.strconv import PROMQL
from lakerunner_query.promql.lang.ast import (
    OPERATIONS,
    Aggregate,
    Binary,
    Call,
    Cardinality,
    Duration,
    DurationCall,
    DurationExpr,
    DurationNumber,
    DurationOp,
    Edge,
    Expr,
    Matching,
    Matrix,
    Number,
    Paren,
    Selector,
    Shift,
    Subquery,
    Text,
    Unary,
    children,
)
from lakerunner_query.syntax import Matcher, MatchOp, Task, gather, unwind

_NAME = "__name__"
_PLAIN_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def to_text(expr: Expr) -> str:
    return unwind(_print(expr))


def _print(expr: Expr) -> Task[str]:
    below: list[str] = yield gather(map(_print, children(expr)))
    return own_text(expr, below)


def own_text(expr: Expr, below: list[str]) -> str:
    """Return the text of an expression whose `children` have these texts."""
    match expr:
        case Subquery():
            text = below[0] + subquery_suffix(expr)
        case Paren():
            text = f"({below[0]})"
        case Unary():
            text = expr.op + below[0]
        case Binary():
            text = f"{below[0]} {operator(expr)} {below[1]}"
        case Call():
            text = f"{expr.function}({', '.join(below)})"
        case Aggregate():
            text = f"{aggregator(expr)}({', '.join(below)})"
        case Number() | Text() | Selector() | Matrix():
            text = _leaf_text(expr)
    return text


def _leaf_text(expr: Number | Text | Selector | Matrix) -> str:
    match expr:
        case Number():
            return _number(expr)
        case Text():
            return PROMQL.quote(expr.value)
        case Selector():
            return selector_text(expr) + _at(expr.shift) + _reach(expr) + _offset(expr.shift)
        case Matrix():
            return selector_text(expr.selector) + range_suffix(expr)


def selector_text(expr: Selector) -> str:
    """Return name and matchers without modifiers."""
    shown = sorted(matcher_text(m) for m in expr.matchers if not _is_name(m, expr.name))
    return expr.name + (f"{{{','.join(shown)}}}" if shown or not expr.name else "")


def matcher_text(matcher: Matcher) -> str:
    return f"{_label(matcher.name)}{matcher.op}{PROMQL.quote(matcher.value)}"


def range_suffix(expr: Matrix) -> str:
    shift = expr.selector.shift
    return f"[{_duration(expr.range)}]{_reach(expr.selector)}{_at(shift)}{_offset(shift)}"


def subquery_suffix(expr: Subquery) -> str:
    step = "" if expr.step is None else _duration(expr.step)
    return f"[{_duration(expr.range)}:{step}]{_at(expr.shift)}{_offset(expr.shift)}"


def aggregator(expr: Aggregate) -> str:
    """Return everything before the parenthesis of the arguments."""
    if expr.without:
        return f"{expr.op} without ({_labels(expr.grouping)}) "
    return f"{expr.op} by ({_labels(expr.grouping)}) " if expr.grouping else expr.op


def operator(expr: Binary) -> str:
    """Return everything between the operands."""
    return_bool = " bool" if expr.return_bool else ""
    return f"{expr.op}{return_bool}{_matching(expr.matching) if expr.matching else ''}"


def _matching(matching: Matching) -> str:
    shown = ""
    is_grouped = matching.cardinality in {Cardinality.MANY_TO_ONE, Cardinality.ONE_TO_MANY}
    if matching.labels or matching.on or is_grouped:
        shown += f" {'on' if matching.on else 'ignoring'} ({_labels(matching.labels)})"
    if is_grouped:
        side = "left" if matching.cardinality == Cardinality.MANY_TO_ONE else "right"
        shown += f" group_{side} ({_labels(matching.include)})"
    left, right = matching.fill_left, matching.fill_right
    if left is not None and left == right:
        return f"{shown} fill ({numbers.format_float(left)})"
    shown += "" if left is None else f" fill_left ({numbers.format_float(left)})"
    return shown + ("" if right is None else f" fill_right ({numbers.format_float(right)})")


def _is_name(matcher: Matcher, name: str) -> bool:
    return matcher.name == _NAME and matcher.op == MatchOp.EQUAL and matcher.value == name != ""


def _labels(names: tuple[str, ...]) -> str:
    return ", ".join(map(_label, names))


def _label(name: str) -> str:
    return name if _PLAIN_LABEL.fullmatch(name) else PROMQL.quote(name)


def _number(expr: Number) -> str:
    return _seconds(expr.value) if expr.is_duration else numbers.format_float(expr.value, "f")


def _seconds(value: float) -> str:
    return durations.text(int(value * 1e9 / 1e6))


def _at(shift: Shift) -> str:
    if shift.at is None:
        return ""
    return f" @ {shift.at}()" if isinstance(shift.at, Edge) else f" @ {shift.at / 1000:.3f}"


def _offset(shift: Shift) -> str:
    if shift.offset == 0:
        return ""
    shown = _duration(shift.offset)
    # without parentheses only the first operand would belong to the offset
    return f" offset ({shown})" if _is_cut_short(shift.offset) else f" offset {shown}"


def _is_cut_short(offset: Duration) -> bool:
    operator_above = False
    while isinstance(offset, DurationCall) and offset.op in OPERATIONS:
        offset, operator_above = offset.arguments[0], True
    starts_in_parentheses = isinstance(offset, DurationCall) and offset.op == DurationOp.PAREN
    return operator_above and not starts_in_parentheses


def _reach(expr: Selector) -> str:
    return f" {expr.reach}" if expr.reach else ""


def _duration(duration: Duration) -> str:
    return durations.text(duration) if isinstance(duration, int) else unwind(_duration_text(duration))


def _duration_text(expr: DurationExpr) -> Task[str]:
    if isinstance(expr, DurationNumber):
        return _seconds(expr.seconds) if expr.is_duration else numbers.format_float(expr.seconds, "f")
    below: list[str] = yield gather(map(_duration_text, expr.arguments))
    match expr.op:
        case DurationOp.STEP | DurationOp.RANGE:
            return f"{expr.op}()"
        case DurationOp.MIN | DurationOp.MAX:
            return f"{expr.op}_of({below[0]}, {below[1]})"
        case DurationOp.NEGATE:
            return f"-{below[0]}"
        case DurationOp.PAREN:
            return f"({below[0]})"
    return f"{below[0]} {expr.op} {below[1]}"


MAX_LINE = 100
"""Upper bound of a line in bytes; longer expressions are split where possible."""
_INDENT = "  "


def pretty(expr: Expr) -> str:
    """Format a tree in lines of about a hundred characters, as `format_query` shows it.

    sum by (job) (
      rate(errors_total{...}[5m])
    )
    """
    return unwind(_Pretty(_texts(expr)).lines(expr, 0))


def _texts(expr: Expr) -> dict[int, str]:
    """Return the text in one line of each expression, by `id`."""
    found: dict[int, str] = {}
    waiting = [expr]
    order: list[Expr] = []
    while waiting:
        order.append(waiting.pop())
        waiting += children(order[-1])
    for one in reversed(order):
        found[id(one)] = own_text(one, [found[id(child)] for child in children(one)])
    return found


class _Pretty:
    def __init__(self, texts: dict[int, str]) -> None:
        self._texts = texts

    def lines(self, expr: Expr, level: int) -> Task[str]:
        indent = _INDENT * level
        text = self._texts[id(expr)]
        if isinstance(expr, Unary):
            operand: str = yield self.lines(expr.expr, level)
            return f"{indent}{expr.op}{operand.strip()}"
        if len(text.encode(errors="surrogateescape")) <= MAX_LINE:
            # Prometheus forgets the indentation of a short subquery
            return text if isinstance(expr, Subquery) else indent + text
        match expr:
            case Subquery():
                inner: str = yield self.lines(expr.expr, level)
                return inner + subquery_suffix(expr)
            case Binary():
                left: str = yield self.lines(expr.left, level + 1)
                right: str = yield self.lines(expr.right, level + 1)
                return f"{left}\n{indent}{operator(expr)}\n{right}"
            case Paren() | Call() | Aggregate():
                below: list[str] = yield gather(self.lines(child, level + 1) for child in children(expr))
                inner = ",\n".join(below)
                return f"{indent}{_head(expr)}(\n{inner}\n{indent})"
        return indent + text


def _head(expr: Paren | Call | Aggregate) -> str:
    match expr:
        case Paren():
            return ""
        case Call():
            return expr.function
        case Aggregate():
            return aggregator(expr)
