"""Which parts of a metric query can be computed for some of the series at a time.

sum by (job) (rate(errors_total[5m])) / on (job) group_left max by (job) (up)

parts: rate(errors_total[5m]), up; a worker computes them for its shard of the series, and one computes the
rest when all shards are there. A part is a function of single series, so that shards only have to be put in
order of labels again.
"""

from __future__ import annotations

from lakerunner_query.promql.lang.ast import (
    Aggregate,
    Call,
    Expr,
    Matrix,
    Number,
    Paren,
    Reach,
    Selector,
    Subquery,
    Unary,
    children,
)

OF_WINDOWS = frozenset(
    {
        "rate", "increase", "delta", "irate", "idelta", "resets", "changes", "deriv", "predict_linear",
        "double_exponential_smoothing", "avg_over_time", "sum_over_time", "min_over_time", "max_over_time",
        "count_over_time", "present_over_time", "first_over_time", "last_over_time", "stddev_over_time",
        "stdvar_over_time", "quantile_over_time", "mad_over_time", "ts_of_first_over_time",
        "ts_of_last_over_time", "ts_of_max_over_time", "ts_of_min_over_time",
    }
)  # fmt: skip
"""Functions that look at the windows of one series at a time; `absent_over_time` looks at all."""
OF_SAMPLES = frozenset({"timestamp", "start_timestamp", "info"})
"""Functions that look at the samples of their selector themselves."""


def per_series(expr: Expr) -> tuple[Expr, ...] | None:
    """The parts, in order of the text; None where not all that is read lies inside of parts.

    None as well where a part is not aggregated: all of its series would travel, and nothing is gained.
    """
    found: list[Expr] = []
    waiting: list[tuple[Expr, bool]] = [(expr, False)]
    while waiting:
        one, is_aggregated = waiting.pop()
        if _is_part(one):
            if not is_aggregated:
                return None
            found.append(one)
        elif isinstance(one, Selector | Matrix | Subquery) or _looks_at_samples(one):
            return None
        else:
            is_aggregated = is_aggregated or isinstance(one, Aggregate)
            waiting += [(child, is_aggregated) for child in reversed(children(one))]
    return tuple(found) or None


def _is_part(expr: Expr) -> bool:
    match expr:
        case Selector(reach=reach):
            return reach is Reach.PLAIN
        case Call(function=function, arguments=arguments) if function in OF_WINDOWS:
            bare = [_bare(argument) for argument in arguments]
            windows = [one for one in bare if isinstance(one, Matrix)]
            are_known = all(isinstance(one, Matrix) or _is_literal(one) for one in bare)
            return are_known and len(windows) == 1 and windows[0].selector.reach is Reach.PLAIN
        case _:
            return False


def _looks_at_samples(expr: Expr) -> bool:
    match expr:
        case Call(function=function, arguments=arguments) if function in OF_SAMPLES:
            return function == "info" or any(isinstance(_bare(one), Selector) for one in arguments)
        case _:
            return False


def _is_literal(expr: Expr) -> bool:
    if isinstance(expr, Unary):
        return _is_literal(_bare(expr.expr))
    return isinstance(expr, Number)


def _bare(expr: Expr) -> Expr:
    while isinstance(expr, Paren):
        expr = expr.expr
    return expr
