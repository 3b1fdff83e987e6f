"""The same question asked otherwise: with `@ time` at every selector an instant query says the same whenever
it is asked.

rate(x[5m]) at 10 m   ->   rate(x[5m] @ 600.000) at 0, 2 m, 100 m, …
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace

from lakerunner_query.promql.lang.ast import Call, Expr, Matrix, Selector, Subquery, walk
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import to_text

RANGE_CALLS = re.compile(r"(start|end|range|step)\(\)")
"""These say something else when asked over a range."""
_OF_THE_STEP = frozenset(
    {
        "days_in_month", "day_of_month", "day_of_week", "day_of_year", "hour", "minute", "month", "year",
        "predict_linear", "time", "timestamp", "start", "end", "range", "step",
    }
)  # fmt: skip
"""Functions that depend on when they are asked, whatever their selectors say."""


def at_variants(text: str, at_ms: int) -> list[tuple[str, int]]:
    """Texts and times that must give what `text` gives at `at_ms`; none if the query depends on the time."""
    try:
        expr = parse(text)
    except ValueError:
        return []
    except Exception as error:
        if type(error).__name__ == "PromParseError":
            return []
        raise
    if any(isinstance(one, Call) and one.function in _OF_THE_STEP for one in walk(expr)):
        return []
    pinned = to_text(_pinned(expr, at_ms))
    times = [-10 * at_ms, 0, at_ms // 5, at_ms, 10 * at_ms] if at_ms else [-1_000, 0, 1_000]
    return [(pinned, time_ms) for time_ms in times]


def _pinned(expr: Expr, at_ms: int) -> Expr:
    """With `@` where there is none; what is inside of a subquery keeps the subquery's times."""
    match expr:
        case Selector() | Subquery():
            if isinstance(expr.shift.at, int):
                return expr
            return replace(expr, shift=replace(expr.shift, at=at_ms))
        case Matrix(selector=selector):
            inner = _pinned(selector, at_ms)
            return replace(expr, selector=inner) if isinstance(inner, Selector) else expr
        case _:
            return _pinned_below(expr, at_ms)


def _pinned_below(expr: Expr, at_ms: int) -> Expr:
    changed: dict[str, object] = {}
    for one in fields(expr):
        value = getattr(expr, one.name)
        if isinstance(value, tuple) and value and all(is_dataclass(part) for part in value):
            changed[one.name] = tuple(_pinned(part, at_ms) for part in value)
        elif isinstance(value, Expr):
            changed[one.name] = _pinned(value, at_ms)
    return replace(expr, **changed)  # type: ignore[arg-type]
