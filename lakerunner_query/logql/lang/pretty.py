"""Tree to text in lines of about a hundred characters, for `format_query`.

    sum by (app)(
      rate(
        {app=~".+"}
          |= "error" [5m]
      )
    )

Unlike Loki's the text always parses to an equal tree: operands keep the parentheses they need.
"""

from __future__ import annotations

from lakerunner_query.gotext import durations
from lakerunner_query.gotext.durations import duration_text
from lakerunner_query.logql.lang.ast import (
    Binary,
    Expr,
    LabelReplace,
    LineFilter,
    Literal,
    LogQuery,
    LogRange,
    RangeAggregation,
    SampleExpr,
    VectorAggregation,
    VectorOf,
)
from lakerunner_query.logql.lang.parser_metrics import LEVEL_OF
from lakerunner_query.logql.lang.printer import (
    brackets_text,
    grouping_text,
    head,
    log_query_text,
    operator_text,
    parameter_text,
    print_query,
    replacement,
    selector_text,
    unwrapped_text,
)
from lakerunner_query.logql.lang.stages import stage_text

MAX_LINE = 100
_INDENT = "  "
_MILLISECOND = 1_000_000


def pretty(expr: Expr, level: int = 0) -> str:
    """Break what does not fit in a line."""
    text = print_query(expr)
    indent = _INDENT * level
    match expr:
        case _ if len(text) <= MAX_LINE:
            shown = indent + text
        case LogQuery():
            shown = _log_query(expr, level)
        case RangeAggregation(range=ranged, parameter=parameter):
            behind = f" {grouping_text(expr.grouping, ', ')}" if expr.grouping else ""
            shown = _call(expr.op, parameter, _range(ranged, level + 1), level) + behind
        case VectorAggregation(expr=inner, parameter=parameter):
            shown = _call(head(expr, ", "), parameter, pretty(inner, level + 1), level)
        case LabelReplace(expr=inner):
            arguments = ",\n".join(
                (pretty(inner, level + 1), *(_INDENT * (level + 1) + a for a in replacement(expr)))
            )
            shown = f"{indent}label_replace(\n{arguments}\n{indent})"
        case Binary():
            shown = _binary(expr, level)
        case Literal() | VectorOf():
            shown = indent + text
    return shown


def _call(name: str, parameter: float | None, inner: str, level: int) -> str:
    indent = _INDENT * level
    first = "" if parameter is None else f"{indent}{_INDENT}{parameter_text(parameter)},\n"
    return f"{indent}{name}(\n{first}{inner}\n{indent})"


def _log_query(query: LogQuery, level: int) -> str:
    text = log_query_text(query)
    if len(text) <= MAX_LINE:
        return _INDENT * level + text
    lines = [selector_text(query.matchers)]
    for before, stage in zip((None, *query.stages), query.stages, strict=False):
        if isinstance(before, LineFilter) and isinstance(stage, LineFilter):
            lines[-1] += f" {stage_text(stage)}"
        else:
            lines.append(_INDENT + stage_text(stage))
    return "\n".join(_INDENT * level + line for line in lines)


def _range(ranged: LogRange, level: int) -> str:
    text = _log_query(ranged.query, level)
    if ranged.unwrap is not None:
        stages = [unwrapped_text(ranged.unwrap), *map(stage_text, ranged.unwrap.filters)]
        text += "".join(f"\n{_INDENT * (level + 1)}{stage}" for stage in stages)
    return f"{text} {brackets_text(ranged)}{_offset(ranged.offset_ns)}"


def _offset(nanos: int) -> str:
    """Print `1d` rather than `24h0m0s`, which only whole and positive milliseconds can have."""
    if nanos <= 0 or nanos % _MILLISECOND:
        return f" offset {duration_text(nanos)}" if nanos else ""
    return f" offset {durations.text(nanos // _MILLISECOND)}"


def _binary(expr: Binary, level: int) -> str:
    indent = _INDENT * level
    left = _side(expr, expr.left, level + 1, is_right=False)
    right = _side(expr, expr.right, level + 1, is_right=True)
    operator = operator_text(expr, ", ", is_open=right.lstrip().startswith("("))
    return f"{left}\n{indent}{operator}\n{right}"


def _side(parent: Binary, side: SampleExpr, level: int, *, is_right: bool) -> str:
    text = pretty(side, level)
    is_split = "\n" in text
    if (
        not is_split
        or not isinstance(side, Binary)
        or not _needs_parentheses(parent, side, is_right=is_right)
    ):
        return text
    indent = _INDENT * level
    return f"{indent}(\n{pretty(side, level + 1)}\n{indent})"


def _needs_parentheses(parent: Binary, side: Binary, *, is_right: bool) -> bool:
    groups_to_this_side = is_right == (parent.op == "^")
    above, below = LEVEL_OF[parent.op], LEVEL_OF[side.op]
    return below < above or (below == above and not groups_to_this_side)
