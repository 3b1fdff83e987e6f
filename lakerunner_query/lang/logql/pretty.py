"""Tree to text in lines of about a hundred characters, as `format_query` shows it.

sum by (app) (
  rate(
    {app=~".+"}
      |= "error" [5m]
  )
)
"""

from __future__ import annotations

from lakerunner_query.lang.logql.ast import (
    Binary,
    Expr,
    LabelReplace,
    LogQuery,
    RangeAggregation,
    VectorAggregation,
)
from lakerunner_query.lang.logql.literals import number_text
from lakerunner_query.lang.logql.printer import (
    brackets_text,
    encloses,
    grouping_text,
    head,
    operator_text,
    print_query,
    replacement_text,
    selector_text,
)
from lakerunner_query.lang.logql.printer_stages import stage_text, unwrap_text

MAX_LINE = 100
_INDENT = "  "


def pretty(expr: Expr, level: int = 0) -> str:
    """What fits in a line stays in one."""
    text = print_query(expr)
    indent = _INDENT * level
    if len(indent) + len(text) > MAX_LINE:
        text = _split(expr, level, text)
    return indent + text


def _split(expr: Expr, level: int, whole: str) -> str:
    """In several lines, of which the first is not indented yet; `whole` where it cannot be split."""
    indent = _INDENT * level
    match expr:
        case LogQuery():
            text = _stages(expr, level)
        case RangeAggregation():
            text = _range(expr, level)
        case VectorAggregation(expr=inner):
            parameter = "" if expr.parameter is None else f"{indent}{_INDENT}{expr.parameter},\n"
            text = f"{head(expr)}(\n{parameter}{pretty(inner, level + 1)}\n{indent})"
        case LabelReplace(expr=inner):
            below = f"{pretty(inner, level + 1)},\n{indent}{_INDENT}{replacement_text(expr)}"
            text = f"label_replace(\n{below}\n{indent})"
        case Binary():
            text = _binary(expr, level).removeprefix(indent)
        case _:
            text = whole
    return text


def _stages(query: LogQuery, level: int) -> str:
    behind = "\n" + _INDENT * (level + 1)
    return behind.join((selector_text(query.matchers), *map(stage_text, query.stages)))


def _range(expr: RangeAggregation, level: int) -> str:
    ranged, inside = expr.range, _INDENT * (level + 1)
    parameter = "" if expr.parameter is None else f"{inside}{number_text(expr.parameter)},\n"
    unwrap = "" if ranged.unwrap is None else f"\n{inside}{_INDENT}{unwrap_text(ranged.unwrap)}"
    grouping = "" if expr.grouping is None else f" {grouping_text(expr.grouping)}"
    below = f"{inside}{_stages(ranged.query, level + 1)}{unwrap} {brackets_text(ranged)}"
    return f"{expr.op}(\n{parameter}{below}\n{_INDENT * level}){grouping}"


def _binary(expr: Binary, level: int) -> str:
    indent = _INDENT * level
    sides = []
    for side, is_right in ((expr.left, False), (expr.right, True)):
        if encloses(expr, side, is_right=is_right):
            below = pretty(side, level + 2)
            sides.append(f"{indent}{_INDENT}(\n{below}\n{indent}{_INDENT})")
        else:
            sides.append(pretty(side, level + 1))
    return f"{sides[0]}\n{indent}{operator_text(expr)}\n{sides[1]}"
