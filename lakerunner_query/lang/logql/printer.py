"""The canonical text of a tree: one line, what EXPLAIN shows and what equal queries have in common.

Parsing the printed text gives an equal tree (a property test holds this). Strings stand in double quotes,
parentheses only where the tree needs them.
"""

from __future__ import annotations

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
    SampleExpr,
    VectorAggregation,
    VectorOf,
)
from lakerunner_query.lang.logql.literals import duration_text, number_text
from lakerunner_query.lang.logql.parser_metrics import LEVEL_OF
from lakerunner_query.lang.logql.printer_stages import matcher_text, stage_text, unwrap_text
from lakerunner_query.lang.logql.strings import quote
from lakerunner_query.lang.matcher import Matcher
from lakerunner_query.lang.promql import durations

_MILLISECOND = 1_000_000


def print_query(expr: Expr) -> str:
    """One line, single spaces.

    >>> from lakerunner_query.lang.logql.parser import parse_expr
    >>> print_query(parse_expr('sum(rate({a="b",c!~`x`}|="e"or"f"[90m]))by(a)'))
    'sum by (a) (rate({a="b", c!~"x"} |= "e" or "f" [1h30m]))'
    """
    match expr:
        case LogQuery():
            text = log_query_text(expr)
        case RangeAggregation(range=ranged):
            text = f"{expr.op}({_parameter(expr.parameter)}{range_text(ranged)}){_behind(expr.grouping)}"
        case VectorAggregation(expr=inner):
            text = f"{head(expr)}({_parameter(expr.parameter)}{print_query(inner)})"
        case LabelReplace(expr=inner):
            text = f"label_replace({print_query(inner)}, {replacement_text(expr)})"
        case Literal():
            text = number_text(expr.value)
        case VectorOf():
            text = f"vector({number_text(expr.value)})"
        case Binary(left=left, right=right):
            first = _operand(left, encloses(expr, left, is_right=False))
            second = _operand(right, encloses(expr, right, is_right=True))
            text = f"{first} {operator_text(expr)} {second}"
    return text


def log_query_text(query: LogQuery) -> str:
    return " ".join((selector_text(query.matchers), *map(stage_text, query.stages)))


def selector_text(matchers: tuple[Matcher, ...]) -> str:
    return "{" + ", ".join(map(matcher_text, matchers)) + "}"


def range_text(ranged: LogRange) -> str:
    """A range with its query; the brackets stand behind the pipeline."""
    unwrap = "" if ranged.unwrap is None else f" {unwrap_text(ranged.unwrap)}"
    gap = " " if unwrap or ranged.query.stages else ""
    return f"{log_query_text(ranged.query)}{unwrap}{gap}{brackets_text(ranged)}"


def brackets_text(ranged: LogRange) -> str:
    offset = f" offset {duration_text(ranged.offset_ns)}" if ranged.offset_ns else ""
    return f"[{durations.text(ranged.range_ns // _MILLISECOND)}]{offset}"


def head(expr: VectorAggregation) -> str:
    return expr.op if expr.grouping is None else f"{expr.op} {grouping_text(expr.grouping)} "


def grouping_text(grouping: Grouping) -> str:
    return f"{'without' if grouping.without else 'by'} ({', '.join(grouping.labels)})"


def replacement_text(expr: LabelReplace) -> str:
    return ", ".join(map(quote, (expr.destination, expr.replacement, expr.source, expr.pattern)))


def operator_text(expr: Binary) -> str:
    """The operator with everything that stands between the operands."""
    modifiers = " bool" if expr.return_bool else ""
    return f"{expr.op}{modifiers}{_matching(expr.matching)}"


def encloses(parent: Binary, side: SampleExpr, *, is_right: bool) -> bool:
    """Whether an operand needs parentheses to stay one."""
    if not isinstance(side, Binary):
        return False
    groups_to_this_side = is_right == (parent.op == "^")
    above, below = LEVEL_OF[parent.op], LEVEL_OF[side.op]
    return below < above or (below == above and not groups_to_this_side)


def _operand(side: SampleExpr, is_enclosed: bool) -> str:
    text = print_query(side)
    return f"({text})" if is_enclosed else text


def _matching(matching: Matching) -> str:
    if matching == Matching():
        return ""
    text = f" {'on' if matching.on else 'ignoring'} ({', '.join(matching.labels)})"
    if matching.cardinality is Cardinality.ONE_TO_ONE:
        return text
    group = "group_left" if matching.cardinality is Cardinality.MANY_TO_ONE else "group_right"
    # the labels always, as a parenthesis of the right operand would be read as theirs
    return f"{text} {group} ({', '.join(matching.include)})"


def _parameter(value: float | None) -> str:
    return "" if value is None else f"{number_text(value)}, "


def _behind(grouping: Grouping | None) -> str:
    return "" if grouping is None else f" {grouping_text(grouping)}"
