"""Parser of LogQL: text to tree, with Loki's error messages.

    sum by (app) (rate({app=~".+"} |= "error" [5m])) / 2

The parser takes tokens only when it needs them and raises the first error. Length and depth are bounded, so
that hostile texts stay cheap and trees fit recursive readers. `check.py` has the rules beyond the grammar.
"""

from __future__ import annotations

from functools import lru_cache

from lakerunner_query.errors import InvalidQueryError, ParseError
from lakerunner_query.logql.lang.ast import (
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
from lakerunner_query.logql.lang.check import check_selectors, check_stages
from lakerunner_query.logql.lang.cursor import Cursor, selector
from lakerunner_query.logql.lang.lexer import END
from lakerunner_query.logql.lang.parser_metrics import expression
from lakerunner_query.syntax import Matcher, Task, unwind

MAX_LENGTH = 131_072
"""Bound of Loki."""
MAX_DEPTH = 250
"""Levels of the tree; a chain `a or b or c` has one per operator."""
_TASKS_PER_LEVEL = 5
"""Upper bound of the tasks that the parser needs for one level."""
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


def parse_expr(text: str) -> Expr:
    """Parse and check any query.

    >>> parse_expr('count_over_time({app="web"}[5m]) > 2').op
    '>'
    """
    bound_length(text)
    expr: Expr = unwind(_whole(Cursor(text)), bound_tasks)
    check_stages(expr)
    return expr


@lru_cache(32)
def parse_cached(text: str) -> Expr:
    """Parse through a cache: routing a query and running it both look at its tree."""
    return parse_expr(text)


def parse(text: str) -> LogQuery:
    """Parse a query that gives lines.

    >>> parse('{app="web"} |= "error"').stages[0].values
    ('error',)
    """
    expr = parse_cached(text)
    if not isinstance(expr, LogQuery):
        raise InvalidQueryError("a query for log lines was expected, this one gives samples", expr.position)
    return expr


def parse_selector(text: str) -> tuple[Matcher, ...]:
    """Parse `{…}` with nothing behind, as `match[]` takes it; `{}` is everything."""
    bound_length(text)
    cursor = Cursor(text)
    matchers = selector(cursor)
    cursor.expect(END)
    return matchers


def _whole(cursor: Cursor) -> Task[Expr]:
    expr: Expr = yield expression(cursor)
    if cursor.next.kind != END:
        raise cursor.unexpected()
    bound_depth(expr)
    if cursor.postponed is not None:
        raise cursor.postponed
    check_selectors(expr)
    return expr
