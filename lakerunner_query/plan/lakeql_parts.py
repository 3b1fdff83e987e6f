"""Aggregates are split into parts, one row for each group and unit, and merged.

    avg(x)              ->  SUM(x) AS a0, COUNT(x) AS a1              SUM(a0) / SUM(a1)
    count(DISTINCT x)   ->  LIST(DISTINCT x) AS a0                    distinct members of all lists
    count(DISTINCT (x, tsns))    ->  COUNT(DISTINCT (x, tsns)) AS a0  SUM(a0): units are disjoint in time
    approx_cardinality(x)        ->  the union of the part's sketches  the estimate of the union of these

An aggregate that has no such form is computed from rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot import exp

from lakerunner_query.lakeql.macros import DIALECT
from lakerunner_query.lakeql.sketches import UNION, cardinality_of, is_cardinality

_SAME = {
    "Min": "MIN", "Max": "MAX", "AnyValue": "ANY_VALUE", "LogicalAnd": "BOOL_AND", "LogicalOr": "BOOL_OR",
    "BitwiseAndAgg": "BIT_AND", "BitwiseOrAgg": "BIT_OR", "BitwiseXorAgg": "BIT_XOR",
}  # fmt: skip
"""Aggregates that are their own sums."""
_MOMENTS = (
    "LIST_REDUCE(LIST(STRUCT_PACK(n := {0}, m := {1}, s := {0} * {2})) FILTER (WHERE {0} > 0), LAMBDA x, y : "
    "STRUCT_PACK(n := x.n + y.n, m := x.m + (y.m - x.m) * y.n / (x.n + y.n), "
    "s := x.s + y.s + (y.m - x.m) * (y.m - x.m) * x.n * y.n / (x.n + y.n)))"
)
"""Count, mean and squared deviations of all parts, added up two by two so that nothing cancels out."""
_SPREADS = {
    "VariancePop": "({moments}).s / ({moments}).n",
    "Variance": "CASE WHEN ({moments}).n > 1 THEN ({moments}).s / (({moments}).n - 1) END",
    "StddevPop": "SQRT(({moments}).s / ({moments}).n)",
    "Stddev": "CASE WHEN ({moments}).n > 1 THEN SQRT(({moments}).s / (({moments}).n - 1)) END",
    "StddevSamp": "CASE WHEN ({moments}).n > 1 THEN SQRT(({moments}).s / (({moments}).n - 1)) END",
}
_COUNT = "COALESCE(LEN(LIST_DISTINCT(FLATTEN(LIST({part})))), 0)"
_LIST = (
    "CASE WHEN COUNT({part}) > 0 THEN LIST_CONCAT(LIST_DISTINCT(FLATTEN(LIST({part}))), "
    "CASE WHEN BOOL_OR(LEN({part}) > LIST_COUNT({part})) THEN [NULL] ELSE [] END) END"
)
"""Distinct members of the lists of all parts; `LIST_DISTINCT` drops nulls."""
HASHES = 4_096
"""Least hashes that are kept of distinct values: fewer are counted exactly, more within some 2 %."""
_DISTINCT = (
    "LIST_TRANSFORM([LIST_SLICE(LIST_SORT(LIST_DISTINCT(FLATTEN(LIST({part})))), 1, {most})], LAMBDA l : "
    "CASE WHEN LEN(l) < {most} THEN COALESCE(LEN(l), 0) "
    "ELSE CAST(({most} - 1) / (l[{most}] / 18446744073709551616.0) AS BIGINT) END)[1]"
)


LEVELS = (
    0.0, 0.0005, 0.001, 0.0025, 0.005, *(number / 200 for number in range(2, 199)),
    0.995, 0.9975, 0.999, 0.9995, 1.0,
)  # fmt: skip
"""Quantiles that a part tells, closer at the ends."""
_EDGES = (0.0, *((low + high) / 2 for low, high in pairwise(LEVELS)), 1.0)
_WEIGHTS = ", ".join(f"{high - low:.6f}" for low, high in pairwise(_EDGES))
_QUANTILE = (
    "LIST_TRANSFORM(LIST_TRANSFORM([LIST_SORT(FLATTEN(LIST(LIST_TRANSFORM(LIST_ZIP({points}, [{weights}]), "
    "LAMBDA z : STRUCT_PACK(v := z[1], w := z[2] * {count}))) FILTER (WHERE {count} > 0)))], LAMBDA e : "
    "STRUCT_PACK(e := e, t := {quantile} * LIST_SUM(LIST_TRANSFORM(e, LAMBDA x : x.w)))), LAMBDA s : "
    "LIST_REDUCE(s.e, LAMBDA a, x : CASE WHEN a.w >= s.t THEN a "
    "ELSE STRUCT_PACK(v := x.v, w := a.w + x.w) END).v)[1]"
)
"""Quantile of the points of all parts, each as heavy as the rows that it stands for."""


@dataclass
class Split:
    """Splits aggregates into parts of groups, and what makes one value of the parts."""

    keys: Sequence[exp.Expr]
    time: str
    """Column whose equal values are in one part; empty: there is none."""
    partials: dict[str, exp.Expr] = field(default_factory=dict)
    failed: bool = False

    @property
    def names(self) -> set[str]:
        return {f"k{place}" for place in range(len(self.keys))} | {
            f"a{place}" for place in range(len(self.partials))
        }

    def columns(self) -> list[tuple[str, exp.Expr]]:
        parts = enumerate(self.partials.values())
        return [(f"k{place}", key) for place, key in enumerate(self.keys)] + [
            (f"a{n}", one) for n, one in parts
        ]

    def rewrite(self, node: exp.Expr) -> exp.Expr:
        texts = [key.sql(DIALECT) for key in self.keys]

        def replace(one: exp.Expr) -> exp.Expr:
            if one.sql(DIALECT) in texts:
                return exp.column(f"k{texts.index(one.sql(DIALECT))}")
            if is_cardinality(one):
                united = exp.Anonymous(this=UNION, expressions=[one.expressions[0].copy()])
                return cardinality_of(exp.column(self._part(united)))
            if isinstance(one, exp.Filter | exp.AggFunc | exp.WithinGroup | exp.Order):
                return self._merged(one) if not isinstance(one, exp.Order) else one
            return one

        return node.copy().transform(replace)

    def _merged(self, node: exp.Expr) -> exp.Expr:
        inner = node.this if isinstance(node, exp.Filter) else node
        kind = type(inner).__name__
        given = inner.this

        def part(call: exp.Expr) -> str:
            """Return the column of a partial aggregate, with the FILTER of the whole."""
            whole = (
                exp.Filter(this=call, expression=node.expression.copy())
                if isinstance(node, exp.Filter)
                else call
            )
            return self._part(whole)

        if isinstance(given, exp.Distinct):
            if kind not in {"Count", "ArrayAgg"} or len(given.expressions) != 1:
                return self._fail(node)
            if kind == "Count" and self._has_time(given.expressions[0]):
                return _sql(f"CAST(COALESCE(SUM({part(inner.copy())}), 0) AS BIGINT)")
            members = part(exp.Anonymous(this="list", expressions=[given.copy()]))
            return _sql((_LIST if kind == "ArrayAgg" else _COUNT).format(part=members))
        if isinstance(given, exp.Order) or inner.args.get("order"):
            return self._fail(node)
        if kind == "Count":
            return _sql(f"CAST(COALESCE(SUM({part(inner.copy())}), 0) AS BIGINT)")
        if kind in {"Sum", "CountIf"}:  # DuckDB counts no rows as null here
            return _sql(f"SUM({part(inner.copy())})")
        if kind == "Avg":
            total, count = part(exp.Sum(this=given.copy())), part(exp.Count(this=given.copy()))
            return _sql(f"CAST(SUM({total}) AS DOUBLE) / NULLIF(CAST(SUM({count}) AS DOUBLE), 0)")
        if kind in _SPREADS:
            parts = [part(_call(name, given)) for name in ("COUNT", "AVG", "VAR_POP")]
            return _sql(_SPREADS[kind].format(moments=_MOMENTS.format(*parts)))
        if kind == "ApproxDistinct" and not inner.args.get("accuracy"):
            known = f"{given.sql(DIALECT)} IS NOT NULL"
            if isinstance(node, exp.Filter):
                known += f" AND ({node.expression.this.sql(DIALECT)})"
            hashes = f"LIST(DISTINCT HASH({given.sql(DIALECT)})) FILTER (WHERE {known})"
            least = self._part(_sql(f"LIST_SLICE(LIST_SORT({hashes}), 1, {HASHES})"))
            return _sql(_DISTINCT.format(part=least, most=HASHES))
        if kind == "ApproxQuantile" and isinstance(inner.args.get("quantile"), exp.Literal):
            levels = ", ".join(f"{level:g}" for level in LEVELS)
            points = part(_sql(f"APPROX_QUANTILE({given.sql(DIALECT)}, [{levels}])"))
            return _sql(
                _QUANTILE.format(
                    points=points, count=part(_call("COUNT", given)), weights=_WEIGHTS,
                    quantile=inner.args["quantile"].name,
                )
            )  # fmt: skip
        if kind in _SAME and not inner.args.get("expressions") and not inner.args.get("having_max"):
            return _sql(f"{_SAME[kind]}({part(inner.copy())})")
        return self._fail(node)

    def _has_time(self, given: exp.Expr) -> bool:
        """Tell whether equal values have equal times, so that no two units have the same."""
        return isinstance(given, exp.Tuple) and any(
            isinstance(one, exp.Column) and one.name.lower() == self.time for one in given.expressions
        )

    def _part(self, whole: exp.Expr) -> str:
        text = whole.sql(DIALECT)
        self.partials.setdefault(text, whole)
        return f"a{list(self.partials).index(text)}"

    def _fail(self, node: exp.Expr) -> exp.Expr:
        self.failed = True
        return node


def _call(name: str, given: exp.Expr) -> exp.Expr:
    return _sql(f"{name}({given.sql(DIALECT)})")


def _sql(text: str) -> exp.Expr:
    return exp.maybe_parse(text, dialect=DIALECT)


def named(new: exp.Expr, old: exp.Expr) -> exp.Expr:
    """Keep the name that the column had."""
    if isinstance(new, exp.Alias):
        return new
    name = old.name if isinstance(old, exp.Column) else old.sql(DIALECT).lower()
    return exp.alias_(new, name, quoted=True)


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc)
