"""`@`, `offset`, `anchored` and `smoothed` behind an expression, and what they may stand behind."""

from __future__ import annotations

import math
from dataclasses import replace

from lakerunner_query.lang.promql.ast import (
    Duration,
    Edge,
    Expr,
    Matrix,
    Reach,
    Selector,
    Shift,
    Span,
    Subquery,
)
from lakerunner_query.lang.promql.cursor import Cursor

Shifted = Selector | Matrix | Subquery
_SHIFTABLE = "an instant vector selector or range vector selector or a subquery"


def with_offset(cursor: Cursor, expr: Expr, offset: Duration, end: int) -> Expr:
    if not isinstance(expr, Shifted):
        raise cursor.failure(f"offset modifier must be preceded by {_SHIFTABLE}", expr.span)
    shift = _shift_of(expr)
    if shift.offset != 0:
        raise cursor.failure("offset may not be set multiple times", expr.span)
    return _with_shift(expr, replace(shift, offset=offset), end)


def with_time(cursor: Cursor, expr: Expr, seconds: float, end: int) -> Expr:
    if not abs(seconds) < 2.0**63:
        shown = "NaN" if math.isnan(seconds) else f"{seconds:+f}" if math.isinf(seconds) else f"{seconds:f}"
        reason = f"timestamp out of bounds for @ modifier: {shown.replace('inf', 'Inf')}"
        raise cursor.failure(reason, expr.span)
    milliseconds = int(math.copysign(math.floor(abs(seconds) * 1000 + 0.5), seconds))
    return with_at(cursor, expr, milliseconds, end)


def with_at(cursor: Cursor, expr: Expr, at: int | Edge, end: int) -> Expr:
    if not isinstance(expr, Shifted):
        raise cursor.failure(f"@ modifier must be preceded by {_SHIFTABLE}", expr.span)
    shift = _shift_of(expr)
    if shift.at is not None:
        raise cursor.failure("@ <timestamp> may not be set multiple times", expr.span)
    return _with_shift(expr, replace(shift, at=at), end)


def with_reach(cursor: Cursor, expr: Expr, reach: Reach, is_enabled: bool) -> Expr:
    if not is_enabled:
        raise cursor.failure(f"{reach} modifier is experimental and not enabled", expr.span)
    selector = expr.selector if isinstance(expr, Matrix) else expr
    if not isinstance(selector, Selector):
        problem = "is not supported for subqueries" if isinstance(expr, Subquery) else "not implemented"
        raise cursor.failure(f"{reach} modifier {problem}", expr.span)
    if selector.reach not in {Reach.PLAIN, reach}:
        raise cursor.failure("anchored and smoothed modifiers cannot be used together", expr.span)
    reaching = replace(selector, reach=reach)
    return replace(expr, selector=reaching) if isinstance(expr, Matrix) else reaching


def matrix(cursor: Cursor, expr: Expr, length: Duration, brackets: Span) -> Matrix:
    if not isinstance(expr, Selector):
        raise cursor.failure("ranges only allowed for vector selectors", brackets)
    if expr.shift.offset != 0:
        raise cursor.failure("no offset modifiers allowed before range", brackets)
    if expr.shift.at is not None:
        raise cursor.failure("no @ modifiers allowed before range", brackets)
    return Matrix(expr, length, Span(expr.span.start, brackets.end))


def _shift_of(expr: Shifted) -> Shift:
    return expr.selector.shift if isinstance(expr, Matrix) else expr.shift


def _with_shift(expr: Shifted, shift: Shift, end: int) -> Expr:
    span = Span(expr.span.start, end)
    if isinstance(expr, Matrix):
        return replace(expr, selector=replace(expr.selector, shift=shift), span=span)
    return replace(expr, shift=shift, span=span)
