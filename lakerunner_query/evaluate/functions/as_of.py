"""The time that the samples of an expression are of: evaluation times, moved by `@` and `offset`.

last_over_time((m offset 1m)[10m:1m] @ 180)  at any time  ->  2 min
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.lang.promql.ast import Expr, Selector, Shift, Subquery, children
from resources.arrays import Int64s


def as_of(expr: Expr, times_ms: Int64s) -> Int64s:
    """By the first selector, and the subqueries around it."""
    path = _to_selector(expr)
    for shift in path or ():
        if isinstance(shift.at, int):
            times_ms = np.full_like(times_ms, shift.at)
        if not isinstance(shift.offset, int):
            raise TypeError(f"offset {shift.offset}: expected milliseconds, as bound expressions have")
        times_ms = times_ms - shift.offset
    return times_ms


def _to_selector(expr: Expr) -> tuple[Shift, ...] | None:
    """Shifts from the outside in; None: there is no selector."""
    if isinstance(expr, Selector):
        return (expr.shift,)
    for child in children(expr):
        inner = _to_selector(child)
        if inner is not None:
            return (expr.shift, *inner) if isinstance(expr, Subquery) else inner
    return None
