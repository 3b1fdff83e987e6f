"""The canonical text of a tree: one line, what EXPLAIN shows and what equal queries have in common.

Spelled as Loki spells it, but that parsing it always gives an equal tree (a property test holds this): Loki's
own text of `on ()` or of a small `vector` is another query.
"""

from __future__ import annotations

from lakerunner_query.gotext import durations
from lakerunner_query.gotext.durations import duration_text, number_text
from lakerunner_query.gotext.strconv import quote_logql
from lakerunner_query.lang.logql.ast import (
    Binary,
    Cardinality,
    Expr,
    Grouping,
    LabelReplace,
    Literal,
    LogQuery,
    LogRange,
    Matching,
    RangeAggregation,
    VectorAggregation,
    VectorOf,
)
from lakerunner_query.lang.logql.printer_stages import matcher_text, stage_text, unwrap_text
from lakerunner_query.syntax import Matcher

_MILLISECOND = 1_000_000


def print_query(expr: Expr) -> str:
    """One line.

    >>> from lakerunner_query.lang.logql.parser import parse_expr
    >>> print_query(parse_expr('sum(rate({a="b",c!~`x`}|="e"or"f"[90m]))by(a)'))
    'sum by (a)(rate({a="b", c!~"x"} |= "e" or "f"[1h30m]))'
    """
    match expr:
        case LogQuery():
            text = log_query_text(expr)
        case RangeAggregation(range=ranged):
            text = f"{expr.op}({_parameter(expr.parameter)}{_range(ranged)}){_behind(expr.grouping)}"
        case VectorAggregation(expr=inner):
            text = f"{head(expr, ',')}({_parameter(expr.parameter)}{print_query(inner)})"
        case LabelReplace(expr=inner):
            text = f"label_replace({','.join((print_query(inner), *replacement(expr)))})"
        case Literal():
            text = number_text(expr.value)
        case VectorOf():
            text = f"vector({_fixed(expr.value)})"
        case Binary():
            left, right = print_query(expr.left), print_query(expr.right)
            text = f"({left} {operator_text(expr, ',', is_open=right.startswith('('))} {right})"
    return text


def log_query_text(query: LogQuery) -> str:
    return " ".join((selector_text(query.matchers), *map(stage_text, query.stages)))


def selector_text(matchers: tuple[Matcher, ...]) -> str:
    return "{" + ", ".join(map(matcher_text, matchers)) + "}"


def brackets_text(ranged: LogRange) -> str:
    return f"[{durations.text(ranged.range_ns // _MILLISECOND)}]"


def head(expr: VectorAggregation, separator: str) -> str:
    """The name with the grouping in front of the parentheses."""
    return f"{expr.op} {grouping_text(expr.grouping, separator)}" if expr.grouping else expr.op


def grouping_text(grouping: Grouping, separator: str) -> str:
    return f"{'without' if grouping.without else 'by'} ({separator.join(grouping.labels)})"


def replacement(expr: LabelReplace) -> list[str]:
    """The arguments behind the first."""
    return [quote_logql(text) for text in (expr.destination, expr.replacement, expr.source, expr.pattern)]


def operator_text(expr: Binary, separator: str, *, is_open: bool) -> str:
    """The operator with what stands in front of the right side, which may begin with a parenthesis."""
    modifiers = " bool" if expr.return_bool else ""
    matching = expr.matching
    if matching == Matching():
        return f"{expr.op}{modifiers}"
    modifiers += f" {'on' if matching.on else 'ignoring'} ({separator.join(matching.labels)})"
    if matching.cardinality is Cardinality.ONE_TO_ONE:
        return f"{expr.op}{modifiers}"
    group = "group_left" if matching.cardinality is Cardinality.MANY_TO_ONE else "group_right"
    # without labels the parenthesis of the right side would be read as theirs
    include = f" ({separator.join(matching.include)})" if matching.include or is_open else ""
    return f"{expr.op}{modifiers} {group}{include}"


def _range(ranged: LogRange) -> str:
    unwrap = "" if ranged.unwrap is None else f" {unwrap_text(ranged.unwrap)}"
    offset = f" offset {duration_text(ranged.offset_ns)}" if ranged.offset_ns else ""
    return f"{log_query_text(ranged.query)}{unwrap}{brackets_text(ranged)}{offset}"


def _parameter(value: float | None) -> str:
    return "" if value is None else f"{parameter_text(value)},"


def parameter_text(value: float) -> str:
    return str(value) if isinstance(value, int) else number_text(value)


def _behind(grouping: Grouping | None) -> str:
    return "" if grouping is None else f" {grouping_text(grouping, ',')}"


def _fixed(value: float) -> str:
    """With six places, unless more are needed."""
    text = f"{value:f}"
    return text if float(text) == value else number_text(value)
