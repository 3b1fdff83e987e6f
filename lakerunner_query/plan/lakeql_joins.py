"""Keys flow between scans: rows of a join matter only with a key of the other side.

    WITH slow AS (SELECT trace_id FROM spans WHERE duration_ns > 2e9)      scan 0 has the trace ids,
    SELECT message FROM logs JOIN slow USING (trace_id)                    scan 1 reads their lines only

A column is followed through subqueries and common table expressions to the scan that it comes from. Keys may
come from any scan that holds all values of the column; they narrow a scan only where each of its rows that
the statement uses must pass the equality.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from lakerunner_query.lakeql.statement import conjuncts
from lakerunner_query.plan.lakeql_conditions import grouping_keys, lets_conditions_pass
from lakerunner_query.plan.lakeql_scopes import Scope, Source
from lakerunner_query.plan.lakeql_views import HINT

IDS = frozenset({"trace_id", "span_id", "parent_span_id"})
KEYS = IDS | {"service_name"}
"""Columns by whose values workers find rows."""


@dataclass(frozen=True, slots=True)
class KeyFlow:
    """Rows of one scan matter only with one of the values that a column of another scan has."""

    source: int
    """Number of the scan that has the keys."""
    source_column: str
    target: int
    column: str


@dataclass(frozen=True, slots=True)
class _Origin:
    """The column of a scan that a column of a query shows."""

    number: int
    column: str
    may_narrow: bool


@dataclass(frozen=True, slots=True)
class KeyFinder:
    """Finds the flows of keys in a statement; `numbers` are those of reads by the identity of nodes."""

    numbers: Mapping[int, int]
    known: dict[int, frozenset[str]]

    def flows(self, tree: exp.Query) -> list[KeyFlow]:
        found: dict[KeyFlow, None] = {}
        for select in tree.find_all(exp.Select):
            scope = Scope.of(select, self.known)
            for left, right, to_left in self._equal(scope):
                if left is None or right is None or left.number == right.number:
                    continue
                if right.may_narrow:
                    found[KeyFlow(left.number, left.column, right.number, right.column)] = None
                if left.may_narrow and to_left:
                    found[KeyFlow(right.number, right.column, left.number, left.column)] = None
        return [one for one in found if one.column in KEYS]

    def _equal(self, scope: Scope) -> Iterator[tuple[_Origin | None, _Origin | None, bool]]:
        """Yield origins that must be equal; False: rows of the first matter without an equal one, too."""
        for condition in scope.conditions():
            yield from self._sides(scope, condition, to_left=True)
            inner = condition.unnest()
            query = inner.args.get("query") if isinstance(inner, exp.In) else None
            if query is not None and isinstance(inner.this, exp.Column):
                yield self._output(query.unnest()), self._column(scope, inner.this), False
        joined = {id(one.node): one for one in scope.sources}
        for join in scope.joins():
            source, kind = joined[id(join.this)], _kind(join)
            if kind in {"LEFT", "SEMI", "ANTI"}:
                for condition in conjuncts(join.args.get("on")):
                    yield from self._sides(scope, condition, to_left=kind == "SEMI", last=source)
            if kind in {"", "INNER", "LEFT", "SEMI", "ANTI"}:
                for name in join.args.get("using") or ():
                    left = self._first_with(scope, name.name.lower(), source)
                    right = self._origin(source, name.name.lower(), may_narrow=True)
                    yield left, right, kind not in {"LEFT", "ANTI"}

    def _sides(
        self, scope: Scope, condition: exp.Expr, *, to_left: bool, last: Source | None = None
    ) -> Iterator[tuple[_Origin | None, _Origin | None, bool]]:
        """Yield the two columns of an equality; the one of `last`, the right side of a join, comes second."""
        inner = condition.unnest()
        if not isinstance(inner, exp.EQ):
            return
        left, right = inner.left.unnest(), inner.right.unnest()
        if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
            return
        if last is None:
            yield self._column(scope, left), self._column(scope, right), to_left
            return
        if scope.owner(left) is last:
            left, right = right, left
        if scope.owner(right) is last and scope.owner(left) is not last:
            name = right.name.lower()
            yield self._column(scope, left), self._origin(last, name, may_narrow=True), to_left

    def _column(self, scope: Scope, column: exp.Column) -> _Origin | None:
        source = scope.owner(column)
        if source is None:
            return None
        may_narrow = not source.is_nullable and not source.is_matched
        return self._origin(source, column.name.lower(), may_narrow=may_narrow)

    def _first_with(self, scope: Scope, name: str, before: Source) -> _Origin | None:
        """Return the origin of a column of `USING` on the left side; None where that is not certain."""
        place = next(n for n, one in enumerate(scope.sources) if one is before)
        earlier = scope.sources[:place]
        if any(one.names is None for one in earlier):
            return None
        having = [one for one in earlier if one.names is not None and name in one.names]
        if not having or any(one.is_nullable or one.is_matched for one in having):
            return None
        return self._origin(having[0], name, may_narrow=True)

    def _origin(self, source: Source, name: str, *, may_narrow: bool) -> _Origin | None:
        if id(source.node) in self.numbers:
            return _Origin(self.numbers[id(source.node)], name, may_narrow)
        query = source.query
        if not isinstance(query, exp.Select):
            return None
        return self._output(query, name, may_narrow=may_narrow and source.is_used_once)

    def _output(self, query: exp.Expr, name: str = "", *, may_narrow: bool = False) -> _Origin | None:
        """Return the origin of a column of a query's result; without a name of its only one."""
        if not isinstance(query, exp.Select):
            return None
        scope = Scope.of(query, self.known)
        column = _output_column(query, scope, name)
        if column is None:
            return None
        source = scope.owner(column)
        if source is None:
            return None
        is_open = lets_conditions_pass(query) and not source.is_nullable and not source.is_matched
        return self._origin(source, column.name.lower(), may_narrow=may_narrow and is_open)


def _output_column(query: exp.Select, scope: Scope, name: str) -> exp.Column | None:
    """Return the column that a query shows under a name, as it is."""
    outputs = query.expressions
    if query.is_star:
        is_all = len(outputs) == 1 and isinstance(outputs[0], exp.Star) and not any(outputs[0].args.values())
        return exp.column(name) if is_all and name and len(scope.sources) == 1 else None
    having = [one for one in outputs if one.alias_or_name.lower() == name] if name else outputs
    column = having[0].unalias() if len(having) == 1 else None
    if not isinstance(column, exp.Column):
        return None
    if query.args.get("group") is not None:
        keys = {one.sql() for one in grouping_keys(query) or ()}
        return column if column.sql() in keys else None
    return column


def _kind(join: exp.Join) -> str:
    if join.args.get("method"):
        return "OTHER"
    return str(join.args.get("side") or join.args.get("kind") or "").upper()


def take_hints(tree: exp.Query) -> list[exp.Expr]:
    """Take hints out of a statement; return their queries, which are scanned nevertheless."""
    found = []
    for hint in [one for one in tree.find_all(exp.In) if HINT in one.meta]:
        both = hint.parent
        if not isinstance(both, exp.And) or both.right is not hint:
            raise TypeError(f"a hint stands behind AND, not in {both!r}")
        both.replace(both.left)
        found.append(hint.args["query"].unnest())
    return found
