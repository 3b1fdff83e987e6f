"""How long and how deep a query may be: hostile texts must stay cheap, and trees fit recursive readers."""

from __future__ import annotations

from collections.abc import Iterator

from lakerunner_query.lang.promql.ast import (
    NOWHERE,
    Duration,
    DurationCall,
    DurationExpr,
    DurationNumber,
    Expr,
    Matrix,
    Selector,
    Span,
    Subquery,
    children,
)
from lakerunner_query.lang.promql.cursor import Cursor
from lakerunner_query.lang.promql.positions import failure

MAX_LENGTH = 1 << 20
MAX_DEPTH = 500
"""A chain `a or b or c` is as deep as it has operators; duration expressions count too."""
_Node = Expr | DurationExpr
_TASKS_PER_LEVEL = 5
"""More than the parser ever needs for one level of the tree."""


def bound_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        reason = f"query is too long: {len(text)} characters, at most {MAX_LENGTH} are allowed"
        raise failure(text, reason, NOWHERE)


def bound_tasks(cursor: Cursor, waiting: int) -> None:
    if waiting > MAX_DEPTH * _TASKS_PER_LEVEL:
        raise _too_deep(cursor, cursor.next.span)


def bound_depth(cursor: Cursor, expr: Expr) -> None:
    level: list[_Node] = [expr]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _below(parent)]
        if not level:
            return
    raise _too_deep(cursor, level[0].span)


def _below(node: _Node) -> Iterator[_Node]:
    """Expressions and duration expressions directly below."""
    match node:
        case DurationCall():
            yield from node.arguments
        case Matrix():
            yield from _computed(node.range)
        case Subquery():
            yield from _computed(node.range, node.step, node.shift.offset)
        case Selector():
            yield from _computed(node.shift.offset)
    if not isinstance(node, DurationCall | DurationNumber):
        yield from children(node)


def _computed(*durations: Duration | None) -> Iterator[DurationExpr]:
    return (one for one in durations if isinstance(one, DurationCall | DurationNumber))


def _too_deep(cursor: Cursor, span: Span) -> Exception:
    return cursor.failure(f"expression is nested more than {MAX_DEPTH} levels deep", span)
