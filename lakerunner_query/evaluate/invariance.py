"""Which parts of an expression are the same at every step: they are evaluated once.

sum(x @ 100) / x        sum(x @ 100) is, x is not
timestamp(x @ 100)      is not: some functions look at the time of evaluation themselves
"""

from __future__ import annotations

from lakerunner_query.lang.promql.ast import Call, Expr, Selector, Subquery, children

LOOK_AT_TIME = frozenset(
    {
        "days_in_month",
        "day_of_month",
        "day_of_week",
        "day_of_year",
        "hour",
        "minute",
        "month",
        "year",
        "predict_linear",
        "time",
        "timestamp",
    }
)


def invariant_parts(expr: Expr) -> frozenset[int]:
    """The ids of all expressions in it that are the same at every step."""
    found: set[int] = set()
    _look(expr, found)
    return frozenset(found)


def _look(expr: Expr, found: set[int]) -> None:
    below = children(expr)
    for child in below:
        _look(child, found)
    match expr:
        case Selector(shift=shift) | Subquery(shift=shift):
            is_invariant = shift.at is not None
        case Call(function=function) if function in LOOK_AT_TIME:
            is_invariant = False
        case _:
            is_invariant = all(id(child) in found for child in below)
    if is_invariant:
        found.add(id(expr))
