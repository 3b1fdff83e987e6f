"""Tree to text: one line, shown by EXPLAIN and the same for queries that are equal.

The text is spelled as Loki spells it, except that parsing it always gives an equal tree (a property test
holds this): Loki's own text of `on ()` or of a small `vector` is another query.
"""

from __future__ import annotations

import math

from lakerunner_query.gotext import durations
from lakerunner_query.gotext.durations import duration_text
from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.logql.lang.ast import (
    Binary,
    Cardinality,
    Conversion,
    Expr,
    Grouping,
    LabelReplace,
    Literal,
    LogQuery,
    LogRange,
    Matching,
    RangeAggregation,
    Unwrap,
    VectorAggregation,
    VectorOf,
)
from lakerunner_query.logql.lang.conditions import matcher_text
from lakerunner_query.logql.lang.stages import stage_text
from lakerunner_query.syntax import Matcher

_MILLISECOND = 1_000_000


def print_query(expr: Expr) -> str:
    """Print an expression in one line.

    >>> from lakerunner_query.logql.lang.parser import parse_expr
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
            text = f"vector({_fixed_text(expr.value)})"
        case Binary():
            left, right = print_query(expr.left), print_query(expr.right)
            text = f"({left} {operator_text(expr, ',', is_open=right.startswith('('))} {right})"
    return text


def unwrap_text(unwrap: Unwrap) -> str:
    return " ".join((unwrapped_text(unwrap), *map(stage_text, unwrap.filters)))


def unwrapped_text(unwrap: Unwrap) -> str:
    """Print `unwrap` without the filters behind it."""
    if unwrap.conversion is Conversion.NONE:
        return f"| unwrap {unwrap.label}"
    return f"| unwrap {unwrap.conversion.value}({unwrap.label})"


def log_query_text(query: LogQuery) -> str:
    return " ".join((selector_text(query.matchers), *map(stage_text, query.stages)))


def selector_text(matchers: tuple[Matcher, ...]) -> str:
    return "{" + ", ".join(map(matcher_text, matchers)) + "}"


def brackets_text(ranged: LogRange) -> str:
    return f"[{durations.text(ranged.range_ns // _MILLISECOND)}]"


def head(expr: VectorAggregation, separator: str) -> str:
    """Print the name with the grouping in front of the parentheses."""
    return f"{expr.op} {grouping_text(expr.grouping, separator)}" if expr.grouping else expr.op


def grouping_text(grouping: Grouping, separator: str) -> str:
    return f"{'without' if grouping.without else 'by'} ({separator.join(grouping.labels)})"


def replacement(expr: LabelReplace) -> list[str]:
    """Print the arguments behind the first."""
    return [LOGQL.quote(text) for text in (expr.destination, expr.replacement, expr.source, expr.pattern)]


def operator_text(expr: Binary, separator: str, *, is_open: bool) -> str:
    """Print the operator with its modifiers; the right side may begin with a parenthesis."""
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


def _fixed_text(value: float) -> str:
    """Print a number with six decimals, or more if needed."""
    text = f"{value:f}"
    return text if float(text) == value else number_text(value)


def number_text(value: float) -> str:
    """Write a literal that reads back as this number; where there is none, the operation that gives it."""
    if math.isnan(value):
        return "(0 / 0)"
    if value == 0 and math.copysign(1, value) < 0:
        return "(0 * -1)"
    if math.isinf(value):
        return "(10 ^ 400)" if value > 0 else "(-10 ^ 401)"
    return format_float(value)
