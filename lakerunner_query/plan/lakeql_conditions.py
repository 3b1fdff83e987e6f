"""Conditions tell which times and segments matter, and are handed down through queries.

    time_bucket(INTERVAL '1 minute', timestamp) >= '2026-01-01'    ->  from 2026-01-01 on
    service_name IN ('web', 'api')                                 ->  terms of two services

A condition on the result of a query becomes one on what the query reads where no row is cut in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from lakerunner_query.lakeql.constants import NS_PER_US, integer_of, is_constant, time_of, type_of
from lakerunner_query.lakeql.tables import TIMESTAMP, LakeTable
from resources.lake.terms import alternatives

MOST_VALUES = 1_000
"""Values of an `IN` that are asked of the index."""
TIMES = (TIMESTAMP, "tsns")
_MIRRORED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}
_TIME_TYPES = frozenset({"TIMESTAMP", "DATE", "TIMESTAMP WITH TIME ZONE"})
_INTEGERS = frozenset({"INTEGER", "BIGINT", "HUGEINT"})
"""Types of constants with which times are compared as they are."""
_BUCKETS = frozenset({"time_bucket", "date_trunc", "timestamptrunc", "timestamp_trunc", "date_bin"})
"""Functions whose value is never above their time."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Event times, both ends included; None: no bound was found."""

    start_ns: int | None = None
    end_ns: int | None = None

    def within(self, other: Interval) -> Interval:
        starts = [one for one in (self.start_ns, other.start_ns) if one is not None]
        ends = [one for one in (self.end_ns, other.end_ns) if one is not None]
        return Interval(max(starts, default=None), min(ends, default=None))


def interval_of(conditions: Sequence[exp.Expr]) -> Interval:
    """Find the bounds of time among conditions."""
    found = Interval()
    for one in conditions:
        found = found.within(_bounds(one))
    return found


def is_interval(condition: exp.Expr) -> bool:
    """Tell whether a condition says no more than the bounds of time that are found in it."""
    inner = condition.unnest()
    parts = _both_bounds(inner)
    if parts is not None:
        return all(map(is_interval, parts))
    compared = _comparison(inner)
    if compared is None:
        return False
    _, column, bound = compared
    if not isinstance(column, exp.Column) or _bounds(inner) == Interval():
        return False
    is_text = isinstance(bound, exp.Literal) and bound.is_string
    exact = _TIME_TYPES if column.name.lower() == TIMESTAMP else _INTEGERS
    return (is_text and exact is _TIME_TYPES) or type_of(bound) in exact


def _both_bounds(inner: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """Return two conditions of which one is made; None where it is not."""
    if isinstance(inner, exp.And):
        return inner.left, inner.right
    if isinstance(inner, exp.Between) and not inner.args.get("symmetric"):
        compared, low, high = (inner.args[key].copy() for key in ("this", "low", "high"))  # keep their parent
        return exp.GTE(this=compared, expression=low), exp.LTE(this=compared.copy(), expression=high)
    return None


def _comparison(inner: exp.Expr) -> tuple[type[exp.Expr], exp.Expr, exp.Expr] | None:
    """Return operator, column and constant, the column on the left; None for all else."""
    if type(inner) not in _MIRRORED:
        return None
    kind: type[exp.Expr] = type(inner)
    column, bound = inner.this.unnest(), inner.expression
    if is_constant(column) and not is_constant(bound):
        kind, column, bound = _MIRRORED[kind], bound.unnest(), inner.this
    return (kind, column, bound) if is_constant(bound) else None


def _bounds(condition: exp.Expr) -> Interval:
    inner = condition.unnest()
    parts = _both_bounds(inner)
    if parts is not None:
        return _bounds(parts[0]).within(_bounds(parts[1]))
    compared = _comparison(inner)
    if compared is None:
        return Interval()
    kind, column, bound = compared
    bucketed = _bucket_of(column)
    name = (bucketed or column).name.lower()
    if not isinstance(bucketed or column, exp.Column) or name not in TIMES:
        return Interval()
    at = time_of(bound) if name == TIMESTAMP else integer_of(bound)
    if at is None:
        return Interval()
    found = _interval(kind, at, NS_PER_US if name == TIMESTAMP else 1)
    return Interval(found.start_ns, None) if bucketed is not None else found


def _interval(kind: type[exp.Expr], at: int, unit_ns: int) -> Interval:
    """Return the nanoseconds of times in a coarser unit."""
    first, behind = at * unit_ns, (at + 1) * unit_ns
    choices: dict[type[exp.Expr], Interval] = {
        exp.GT: Interval(behind, None),
        exp.GTE: Interval(first, None),
        exp.LT: Interval(None, first - 1),
        exp.LTE: Interval(None, behind - 1),
        exp.EQ: Interval(first, behind - 1),
    }
    return choices[kind]


def _bucket_of(node: exp.Expr) -> exp.Column | None:
    """Return the time of `time_bucket(width, timestamp)`, which is never below it; one without an origin."""
    if not isinstance(node, exp.Func):
        return None
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.sql_name().lower()
    columns = list(node.find_all(exp.Column))
    if name not in _BUCKETS or len(columns) != 1 or node.find(exp.Query):
        return None
    return columns[0] if columns[0].parent is node else None


def terms_of(table: LakeTable, conditions: Sequence[exp.Expr]) -> tuple[tuple[int, ...], ...]:
    """Return index terms of which a segment with such rows has at least one, for each equality."""
    fields = {one.name: one.term for one in table.columns if one.term}
    found = []
    for name, values in equalities(conditions):
        if name in fields and "" not in values:
            found.append(tuple(alternatives(fields[name], values)))
    return tuple(found)


def equalities(conditions: Sequence[exp.Expr]) -> Iterator[tuple[str, list[str]]]:
    """Yield columns and the texts of which a row must have one."""
    for one in conditions:
        inner = one.unnest()
        if isinstance(inner, exp.EQ):
            for column, value in ((inner.left, inner.right), (inner.right, inner.left)):
                if isinstance(column, exp.Column) and isinstance(value, exp.Literal) and value.is_string:
                    yield column.name.lower(), [value.name]
        elif isinstance(inner, exp.In) and isinstance(inner.this, exp.Column) and inner.expressions:
            values = inner.expressions
            is_text = all(isinstance(each, exp.Literal) and each.is_string for each in values)
            if is_text and len(values) <= MOST_VALUES:
                yield inner.this.name.lower(), [each.name for each in values]


def is_plain(condition: exp.Expr) -> bool:
    return not any(isinstance(one, exp.Query | exp.AggFunc | exp.Window) for one in condition.walk())


def cuts_rows(query: exp.Expr) -> bool:
    return any(query.args.get(key) for key in ("limit", "offset", "with_"))


def lets_conditions_pass(query: exp.Select) -> bool:
    """Tell whether rows may be left out before a query that leaves them out of its result."""
    if cuts_rows(query) or any(query.args.get(key) for key in ("qualify", "windows")):
        return False
    distinct = query.args.get("distinct")
    return query.find(exp.Window) is None and not (distinct is not None and distinct.args.get("on"))


def hand_down(condition: exp.Expr, inner: exp.Expr) -> exp.Expr | None:
    """Rewrite a condition on the result of a query to one on what it reads; None where that is unsound."""
    if not isinstance(inner, exp.Select) or not lets_conditions_pass(inner):
        return None
    outputs = {one.alias_or_name.lower(): one.unalias() for one in inner.expressions}
    grouped = inner.args.get("group") is not None or any(
        one.find(exp.AggFunc) is not None for one in inner.expressions
    )
    keys = {one.sql() for one in grouping_keys(inner) or ()}

    def of_inner(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        found: exp.Expr | None = outputs.get(node.name.lower())
        if found is None or isinstance(found, exp.Star) or not is_plain(found):
            raise LookupError
        if grouped and found.sql() not in keys:
            raise LookupError
        return found.copy()

    if any(isinstance(one, exp.Star) for one in inner.expressions):
        return None
    try:
        return condition.copy().transform(of_inner)
    except LookupError:
        return None


def grouping_keys(select: exp.Select) -> list[exp.Expr] | None:
    """Return the expressions that rows are grouped by; None for grouping sets."""
    group = select.args.get("group")
    if group is None:
        return []
    if any(group.args.get(key) for key in ("grouping_sets", "cube", "rollup", "totals")):
        return None
    if group.args.get("all"):
        plain = [one.unalias() for one in select.expressions if one.find(exp.AggFunc) is None]
        return [one for one in plain if not is_constant(one)]  # as DuckDB does
    named = {one.alias.lower(): one.this for one in select.expressions if isinstance(one, exp.Alias)}
    found = []
    for one in group.expressions:
        if isinstance(one, exp.Literal) and not one.is_string:
            place = int(one.name)
            if not 0 < place <= len(select.expressions):
                return None
            found.append(select.expressions[place - 1].unalias())
        elif isinstance(one, exp.Column) and not one.table and one.name.lower() in named:
            found.append(named[one.name.lower()])
        else:
            found.append(one)
    return found
