"""How long and how deep a query may be: hostile texts must stay cheap, and trees fit recursive readers."""

from __future__ import annotations

from lakerunner_query.errors import ParseError
from lakerunner_query.lang.logql.ast import (
    Binary,
    Expr,
    LabelAnd,
    LabelCondition,
    LabelFilter,
    LabelOr,
    LabelReplace,
    LogQuery,
    RangeAggregation,
    VectorAggregation,
)

MAX_LENGTH = 131_072
"""Loki's own bound."""
MAX_DEPTH = 250
"""A chain `a or b or c` is as deep as it has operators."""
_TASKS_PER_LEVEL = 5
"""More than the parser ever needs for one level of the tree."""
_Node = Expr | LabelCondition


def bound_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise ParseError(f"input size too long ({len(text)} > {MAX_LENGTH})")


def bound_tasks(waiting: int) -> None:
    if waiting > MAX_DEPTH * _TASKS_PER_LEVEL:
        raise _too_deep()


def bound_depth(expr: Expr) -> None:
    level: list[_Node] = [expr]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _below(parent)]
        if not level:
            return
    raise _too_deep()


def _below(node: _Node) -> tuple[_Node, ...]:
    match node:
        case LogQuery(stages=stages):
            return tuple(stage.condition for stage in stages if isinstance(stage, LabelFilter))
        case RangeAggregation(range=ranged):
            filters = ranged.unwrap.filters if ranged.unwrap else ()
            return ranged.query, *(one.condition for one in filters)
        case (
            Binary(left=left, right=right)
            | LabelAnd(left=left, right=right)
            | LabelOr(left=left, right=right)
        ):
            return left, right
        case VectorAggregation(expr=inner) | LabelReplace(expr=inner):
            return (inner,)
    return ()


def _too_deep() -> ParseError:
    return ParseError(f"expression is nested more than {MAX_DEPTH} levels deep")
