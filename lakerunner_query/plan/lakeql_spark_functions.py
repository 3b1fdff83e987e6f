"""Aggregates and window functions that Spark computes as DuckDB does; what is not in the table is refused.

    list(DISTINCT x)   ->  array_agg of structs, which keeps a null
    any_value(x)       ->  any_value(x, true)        the first value that is not null
    avg(x)             ->  avg(CAST(x AS DOUBLE))
    count_if(c)        ->  sum(CASE WHEN c THEN 1 ELSE 0 END), which is null without rows, as in DuckDB
    median(x)          ->  percentile(x, 0.5)        exact, between two values their mean

Every row is tried on a real Spark: `tests/integration/test_lakeql_on_spark.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

NUMBERS = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "FLOAT",
    "DOUBLE",
})  # fmt: skip
Build = Callable[[exp.Expr, exp.Expr], exp.Expr]
"""Makes Spark's aggregate of DuckDB's and of its rewritten argument."""


def is_number(kind: str) -> bool:
    return kind in NUMBERS or kind.startswith("DECIMAL")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A row of the table."""

    build: Build
    is_numeric: bool = True
    """True where the argument must be a number."""
    second: str = ""
    """Name of the argument beside the first one that is an expression, too."""


def _same(call: exp.Expr, given: exp.Expr) -> exp.Expr:
    made = call.copy()
    made.set("this", given)
    return made


def _call(name: str, *given: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(given))


def _level(call: exp.Expr) -> exp.Expr:
    found = call.args.get("quantile") or call.args.get("expression")
    return found.copy() if isinstance(found, exp.Literal) else exp.null()


def _count_if(_: exp.Expr, given: exp.Expr) -> exp.Expr:
    one = exp.Case().when(given, exp.Literal.number(1)).else_(exp.Literal.number(0))
    return exp.Sum(this=one)


AGGREGATES: dict[str, Aggregate] = {
    "Count": Aggregate(_same, is_numeric=False),
    "Sum": Aggregate(_same),
    "Min": Aggregate(_same, is_numeric=False),
    "Max": Aggregate(_same, is_numeric=False),
    "Avg": Aggregate(lambda _, given: exp.Avg(this=exp.cast(given, "DOUBLE"))),
    "AnyValue": Aggregate(lambda _, given: _call("any_value", given, exp.true()), is_numeric=False),
    "LogicalAnd": Aggregate(lambda _, given: _call("bool_and", given), is_numeric=False),
    "LogicalOr": Aggregate(lambda _, given: _call("bool_or", given), is_numeric=False),
    "BitwiseAndAgg": Aggregate(lambda _, given: _call("bit_and", given)),
    "BitwiseOrAgg": Aggregate(lambda _, given: _call("bit_or", given)),
    "BitwiseXorAgg": Aggregate(lambda _, given: _call("bit_xor", given)),
    "CountIf": Aggregate(_count_if, is_numeric=False),
    "Stddev": Aggregate(lambda _, given: _call("stddev_samp", given)),
    "StddevSamp": Aggregate(lambda _, given: _call("stddev_samp", given)),
    "StddevPop": Aggregate(lambda _, given: _call("stddev_pop", given)),
    "Variance": Aggregate(lambda _, given: _call("var_samp", given)),
    "VariancePop": Aggregate(lambda _, given: _call("var_pop", given)),
    "Corr": Aggregate(_same, second="expression"),
    "CovarPop": Aggregate(_same, second="expression"),
    "CovarSamp": Aggregate(_same, second="expression"),
    "ArgMax": Aggregate(
        lambda call, given: _call("max_by", given.copy(), _unless_null(given, call.expression)),
        is_numeric=False, second="expression",
    ),
    "ArgMin": Aggregate(
        lambda call, given: _call("min_by", given.copy(), _unless_null(given, call.expression)),
        is_numeric=False, second="expression",
    ),
    "Median": Aggregate(lambda _, given: _call("percentile", given, exp.Literal.number("0.5"))),
    "PercentileCont": Aggregate(lambda call, given: _call("percentile", given, _level(call))),
    "ApproxQuantile": Aggregate(
        lambda call, given: _call("percentile_approx", given, _level(call), exp.Literal.number(10_000))
    ),
    "ArrayAgg": Aggregate(lambda _, given: _distinct_list(given), is_numeric=False),
    "ApproxDistinct": Aggregate(
        lambda _, given: exp.Count(this=exp.Distinct(expressions=[given])), is_numeric=False
    ),
}  # fmt: skip
WINDOW_FUNCTIONS = frozenset({
    "RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist", "Ntile", "Lag", "Lead", "FirstValue",
    "LastValue", "NthValue",
})  # fmt: skip
"""Functions that stand above a window only."""


def _unless_null(given: exp.Expr, order: exp.Expr) -> exp.Expr:
    """Leave out rows without a value: DuckDB passes over them, Spark does not."""
    return exp.Case().when(given.copy().is_(exp.null()).not_(), order.copy())


def _distinct_list(given: exp.Expr) -> exp.Expr:
    """List distinct values, nulls among them: Spark leaves those out unless they stand in a struct."""
    value = given.expressions[0] if isinstance(given, exp.Distinct) else given
    packed = _call("array_agg", exp.Distinct(expressions=[_call("struct", exp.alias_(value, "v"))]))
    field = exp.Dot(this=exp.to_identifier("e"), expression=exp.to_identifier("v"))
    values = _call("transform", packed, exp.Lambda(this=field, expressions=[exp.to_identifier("e")]))
    some = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
    return exp.Case().when(some, values)


def levels_are_plain(call: exp.Expr) -> bool:
    """Tell whether a quantile has one level that is a number."""
    if type(call).__name__ not in {"PercentileCont", "ApproxQuantile"}:
        return True
    return isinstance(_level(call), exp.Literal) and not _level(call).is_string
