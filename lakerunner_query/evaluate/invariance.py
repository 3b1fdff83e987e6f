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


def is_invariant(expr: Expr) -> bool:
    match expr:
        case Selector(shift=shift) | Subquery(shift=shift):
            return shift.at is not None
        case Call(function=function) if function in LOOK_AT_TIME:
            return False
        case _:
            return all(is_invariant(child) for child in children(expr))
