"""A view in FROM becomes its query, with bounds and conditions handed inside.

    FROM traces WHERE root_service_name = 'web' AND timestamp >= …

    FROM (SELECT of_trace_id AS trace_id, … FROM (
            SELECT trace_id AS of_trace_id, … FROM spans
            WHERE tsns >= … AND trace_id IN (SELECT trace_id FROM spans WHERE service_name = 'web' AND …)
            GROUP BY trace_id HAVING MIN(tsns) >= …)) AS traces

Columns that nothing names are left out. The `IN` is a hint: it names groups that may matter, and is left out
where they are many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlglot
from sqlglot import exp

from lakerunner_query.lakeql.constants import is_constant
from lakerunner_query.lakeql.macros import DIALECT
from lakerunner_query.lakeql.views import LakeView
from lakerunner_query.plan.lakeql_conditions import Interval

HINT = "lakeql_hint"
"""Note at an `IN` that only narrows what is read: every row that matters satisfies it."""
VIEW = "lakeql_view"
"""Note at the query of a view."""
OF_GROUP = "of_"
"""Prefix of what an inner query computes: an alias with the name of a column would hide that."""
_REJECT_NULL = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.ILike, exp.In)


def view_query(
    view: LakeView, used: frozenset[str] | None, interval: Interval, conditions: Sequence[exp.Expr]
) -> exp.Select:
    """Return the query of a view; `used` are the columns that are asked for, None: all.

    The interval bounds the times of the groups.
    """
    names = [name for name in view.expressions if used is None or name in used or name == view.key]
    columns = ", ".join(f"{view.expressions[name]} AS {OF_GROUP}{name}" for name in names)
    shown = ", ".join(f"{OF_GROUP}{name} AS {name}" for name in names)
    wide, table = _wider(interval, view.margin_ns), f"lake.{view.table.name}"  # no name of a WITH
    where = " AND ".join([f"{view.key} IS NOT NULL", *_bounds("tsns", wide)])
    witness = " AND ".join(_witnesses(view, conditions))
    if witness:
        inner = f"SELECT {view.key} FROM {table} WHERE {where} AND {witness}"
        where += f" AND {view.key} IN ({inner})"
    having = " AND ".join(_bounds("MIN(tsns)", interval))
    made = sqlglot.parse_one(
        f"SELECT {shown} FROM (SELECT {columns} FROM {table} WHERE {where} "
        f"GROUP BY {view.key} HAVING {having}) AS {OF_GROUP}groups",
        read=DIALECT,
    )
    assert isinstance(made, exp.Select)  # noqa: S101 - our own text
    for one in made.walk():
        one.meta.clear()  # its places are not those of the statement
    made.meta[VIEW] = True
    for hint in made.find_all(exp.In):
        if isinstance(hint.args.get("query"), exp.Query):
            hint.meta[HINT] = True
    return made


def columns_used(tree: exp.Query, alias: str) -> frozenset[str] | None:
    """Return the names of columns anywhere in a statement; None where it may want all of a relation."""
    joins = list(tree.find_all(exp.Join))
    if any(not isinstance(one.parent, exp.Count) for one in tree.find_all(exp.Star)):
        return None
    if any(str(one.args.get("method") or "").upper() == "NATURAL" for one in joins):
        return None
    columns = list(tree.find_all(exp.Column))
    names = {one.name.lower() for one in columns}
    if alias.lower() in names:  # whole rows
        return None
    names |= {one.table.lower() for one in columns if one.table}  # fields of structs
    return frozenset(names | {one.name.lower() for join in joins for one in join.args.get("using") or ()})


def _wider(interval: Interval, margin_ns: int) -> Interval:
    start, end = interval.start_ns, interval.end_ns
    return Interval(None if start is None else start - margin_ns, None if end is None else end + margin_ns)


def _bounds(time: str, interval: Interval) -> Iterator[str]:
    if interval.start_ns is not None:
        yield f"{time} >= {interval.start_ns}"
    if interval.end_ns is not None:
        yield f"{time} <= {interval.end_ns}"


def _witnesses(view: LakeView, conditions: Sequence[exp.Expr]) -> Iterator[str]:
    """Yield what one row of each group that matters must satisfy: its root, else one of its members."""
    plain = [one.unnest() for one in conditions]
    rooted = [one for one in plain if _is_about(one, view.rooted)]
    if rooted:
        yield view.is_root
        yield from (_renamed(one, view.rooted).sql(DIALECT) for one in rooted)
        return
    members = [(name, found) for one in plain for name in view.members if (found := _member_of(one, name))]
    counts = [sql for one in plain for name, sql in view.counted.items() if _is_positive(one, name)]
    if members:
        name, found = members[0]
        yield f"{view.members[name]} = {found.sql(DIALECT)}"
    elif counts:
        yield counts[0]


def _renamed(condition: exp.Expr, names: Mapping[str, str]) -> exp.Expr:
    return condition.copy().transform(
        lambda one: exp.column(names[one.name.lower()]) if isinstance(one, exp.Column) else one
    )


def _is_positive(condition: exp.Expr, name: str) -> bool:
    """Tell whether a condition wants a count above zero."""
    if not isinstance(condition, exp.GT | exp.GTE) or not isinstance(condition.this, exp.Column):
        return False
    bound = condition.expression
    least = 1 if isinstance(condition, exp.GTE) else 0
    is_number = isinstance(bound, exp.Literal) and not bound.is_string and bound.name.isdigit()
    return condition.this.name.lower() == name and is_number and int(bound.name) >= least


def _is_about(condition: exp.Expr, columns: Mapping[str, str]) -> bool:
    """Tell whether a condition compares one of these columns with constants, and fails where it is null."""
    column = condition.this
    if not isinstance(condition, _REJECT_NULL) or not isinstance(column, exp.Column):
        return False
    others = [condition.expression] if isinstance(condition, exp.Binary) else condition.expressions
    return (
        column.name.lower() in columns
        and bool(others)
        and all(isinstance(one, exp.Expr) and is_constant(one) for one in others)
    )


def _member_of(condition: exp.Expr, name: str) -> exp.Expr | None:
    """Return the text that a condition wants among the members of a list."""
    if isinstance(condition, exp.ArrayContains):
        of, member = condition.this, condition.expression
    elif isinstance(condition, exp.EQ) and isinstance(condition.expression, exp.Any):
        of, member = condition.expression.this.unnest(), condition.this
    else:
        return None
    is_it = isinstance(of, exp.Column) and of.name.lower() == name
    return member if is_it and isinstance(member, exp.Literal) and member.is_string else None
