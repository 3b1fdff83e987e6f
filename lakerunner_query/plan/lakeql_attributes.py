"""Attributes and labels are resolved once workers have told the columns: by OTLP names, or to null.

"http.route"    ->  attr_http_route
attr_seldom     ->  NULL, if no segment of the interval has it; so is any other column of a metric
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from lakerunner_query.lakeql.whitelist import names_like
from lakerunner_query.plan.lakeql import LakePlan
from lakerunner_query.plan.lakeql_scopes import Scope

_ATTRIBUTE = re.compile(r"(attr|resource|scope)_\w+$")
Types = Mapping[str, str]
"""Columns of a table, in order, with their types."""


def spell_dotted(plan: LakePlan, types: Mapping[int, Types]) -> None:
    """Replace OTLP's names of attributes by those of their columns, in the statement of this query.

    `"http.route"` becomes `attr_http_route`, or else `resource_http_route`, whichever a table has.
    """
    known = {name.lower() for each in types.values() for name in each}
    roots = [plan.tree, *(one for read in plan.tables for one in read.conditions)]
    for column in [one for root in roots for one in root.find_all(exp.Column)]:
        name = column.name.lower()
        if "." not in name or name in known:
            continue
        flat = re.sub(r"[^a-z0-9]", "_", name)
        names = (prefix + flat for prefix in ("attr_", "resource_", "scope_", ""))
        found = next((one for one in names if one in known), "attr_" + flat)
        select = column.parent
        column.set("this", exp.to_identifier(found))
        if isinstance(select, exp.Select):  # its column keeps the name that was asked for
            column.replace(exp.alias_(column.copy(), name, quoted=True))


def without_absent(plan: LakePlan, types: Mapping[int, Types]) -> list[str]:
    """Put null for attributes, and labels of metrics, that no segment has; return sentences about them.

    Which of them there are depends on what was sent lately, so that none is unknown. A metric has nothing
    but labels beside its fixed columns: any name may be one, and those that are spelled alike are told.
    """
    known = {id(read.node): frozenset(name.lower() for name in types[read.number]) for read in plan.tables}
    labelled = {id(read.node) for read in plan.tables if read.table.in_milliseconds}
    columns = list(plan.tree.find_all(exp.Column))
    aliased = [_is_alias(column) for column in columns]
    names: dict[str, None] = {}
    for column, is_alias in zip(columns, aliased, strict=True):
        name = column.name.lower()
        owners = () if is_alias else _tables_without(column, known)
        is_label = not labelled.isdisjoint(owners)
        if not owners or not (is_label or _ATTRIBUTE.match(name)):
            continue
        names[name] = None
        _name_groups(column.find_ancestor(exp.Select))
        nothing: exp.Expr = exp.cast(exp.null(), "VARCHAR") if is_label else exp.null()
        if isinstance(column.parent, exp.Select):
            nothing = exp.alias_(nothing, name, quoted=True)
        elif isinstance(column.parent, exp.Ordered) or _is_distinct_on(column):
            nothing = exp.cast(nothing, "VARCHAR")  # DuckDB takes no literal there
        column.replace(nothing)
    listed = sorted(set().union(*known.values()))
    return [f"no segment in the interval has {name}: it is null{_alike(name, listed)}" for name in names]


def _alike(name: str, known: list[str]) -> str:
    alike = names_like(name, known)
    return f"; did you mean {alike}?" if alike else ""


def _is_alias(column: exp.Column) -> bool:
    """Tell whether a name is one that the query around it, or a lambda, gives to something else."""
    name, select = column.name.lower(), column.find_ancestor(exp.Select)
    if column.table or select is None:
        return False
    function = column.find_ancestor(exp.Lambda, exp.Select)
    while isinstance(function, exp.Lambda):
        if any(one.name.lower() == name for one in function.expressions):
            return True
        function = function.find_ancestor(exp.Lambda, exp.Select)
    return any(
        isinstance(one, exp.Alias)
        and one.alias.lower() == name
        and all(inside is not column for inside in one.find_all(exp.Column))
        for one in select.expressions
    )


def _is_distinct_on(column: exp.Column) -> bool:
    return isinstance(column.parent, exp.Tuple) and isinstance(column.parent.parent, exp.Distinct)


def _name_groups(select: exp.Select | None) -> None:
    """Spell GROUP BY ALL as places: it leaves constants out, and an attribute that is null is none."""
    group = select.args.get("group") if select is not None else None
    if select is None or group is None or not group.args.get("all") or select.is_star:
        return
    if any(one.find(exp.Query) is not None for one in select.expressions):
        return
    places = [
        exp.Literal.number(place)
        for place, one in enumerate(select.expressions, 1)
        if one.find(exp.Column) is not None and one.find(exp.AggFunc) is None
    ]
    select.set("group", exp.Group(expressions=places) if places else None)


def _tables_without(column: exp.Column, known: dict[int, frozenset[str]]) -> tuple[int, ...]:
    """Return the tables that a column may be of, in its query or those around it, if none of them has it."""
    name, select = column.name.lower(), column.find_ancestor(exp.Select)
    found: list[int] = []
    while select is not None:
        for source in Scope.of(select, known).sources:
            is_named = not column.table or source.alias.lower() == column.table.lower()
            if is_named and (source.names is None or name in source.names):
                return ()
            if is_named and id(source.node) in known:
                found.append(id(source.node))
        if found and column.table:
            break
        around = select.find_ancestor(exp.Select, exp.From, exp.Join, exp.CTE)
        select = around if isinstance(around, exp.Select) else None  # nothing of outside is seen in FROM
    return tuple(found)
