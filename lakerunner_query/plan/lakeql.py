"""The plan of a LakeQL statement: which tables are read, in which interval, with which conditions.

    WITH slow AS (SELECT trace_id FROM spans WHERE duration_ns > 2e9)
    SELECT l.message FROM logs l JOIN slow ON l.trace_id = slow.trace_id WHERE l.timestamp > '2026-01-01'

    read 0: spans, duration_ns > 2e9, the default window      read 1: logs, from 2026-01-01 on

Conditions are found in WHERE and in ON of inner joins, and are handed down through subqueries and common
table expressions that are used once. They are hints: the statement that runs in the end still has them all,
so that a read may bring more rows than are needed, and never fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from lakerunner_query.errors import InvalidRequestError, ParseError
from lakerunner_query.lakeql.macros import Context, LakeQLError, position_of
from lakerunner_query.lakeql.statement import Kind, parse
from lakerunner_query.lakeql.tables import TABLES, LakeTable
from lakerunner_query.lakeql.views import VIEWS, LakeView
from lakerunner_query.lakeql.whitelist import LANGUAGE_FUNCTIONS, catalogue_name
from lakerunner_query.logql.lang.parser import parse_cached as parse_logql
from lakerunner_query.plan.lakeql_conditions import Interval, cuts_rows, hand_down, interval_of, terms_of
from lakerunner_query.plan.lakeql_scopes import Scope
from lakerunner_query.plan.lakeql_views import columns_used, view_query
from lakerunner_query.promql.lang.ast import Type
from lakerunner_query.promql.lang.check import type_of
from lakerunner_query.promql.lang.parser import parse_cached as parse_promql
from lakerunner_query.traceql.lang.parser import parse_cached as parse_traceql
from resources.lake.timecut import SECOND_NS, to_datetime

OPEN_NS = 2**62
"""End of an interval without an upper bound."""
QueryLanguage = Literal["promql", "logql", "traceql"]
Engine = Literal["auto", "local", "spark"]
READ = "lakeql_read"
"""Note at a node of FROM: the number of its read."""


@dataclass(frozen=True, slots=True)
class LakeQLRequest:
    """Parameters of a statement beside its text."""

    org: str
    start_ns: int = 0
    end_ns: int = 0
    """Interval of tables that the statement does not bound; 0: the default window, up to now."""
    timeout_s: float = 0.0
    """Seconds; 0: the limit."""
    parameters: tuple[object, ...] | None = ()
    """Values of $1, $2, …; None: they are not known yet, and stand for nulls."""
    max_rows: int = 0
    """Upper bound of the rows of the answer; 0: there is none."""
    now_ns: int = 0
    """Time of the query; 0: its arrival."""
    window_s: int = 3600
    """Width of the default window."""
    engine: Engine = "auto"
    """Place of what is left of the statement behind its scans; auto: Spark takes over what is too large."""
    keep: bool = False
    """True: Spark goes on when the caller leaves."""

    def at(self, now_ns: int, window_s: int) -> LakeQLRequest:
        return replace(self, now_ns=self.now_ns or now_ns, window_s=window_s)


@dataclass(frozen=True)
class TableRead:
    """A table in one place of the statement."""

    number: int
    table: LakeTable
    node: exp.Table
    alias: str
    conditions: tuple[exp.Expr, ...]
    """Conditions that every row must satisfy to matter, about this table alone."""
    start_ns: int
    end_ns: int
    terms: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class FunctionRead:
    """`promql()`, `logql()` or `traceql()` in FROM."""

    number: int
    node: exp.Table
    language: QueryLanguage
    text: str
    step: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class CatalogueRead:
    number: int
    node: exp.Table
    name: str


Read = TableRead | FunctionRead | CatalogueRead


@dataclass(frozen=True)
class LakePlan:
    """A statement and what it reads."""

    tree: exp.Query
    is_explained: bool
    reads: tuple[Read, ...]
    notices: tuple[str, ...]
    now_ns: int
    parameters: int

    @property
    def tables(self) -> list[TableRead]:
        return [one for one in self.reads if isinstance(one, TableRead)]


def plan_lakeql(text: str, request: LakeQLRequest) -> LakePlan:
    """Parse, check, and find the reads of a statement."""
    now_ns = request.now_ns
    end_ns = request.end_ns or now_ns
    start_ns = request.start_ns or end_ns - request.window_s * SECOND_NS
    if start_ns > end_ns:
        raise InvalidRequestError("the start of the interval lies behind its end")
    found = parse(text, Context(now_ns, start_ns, end_ns), request.parameters)
    finder = _Finder(text, found.tree, Interval(start_ns, request.end_ns or None))
    finder.visit(found.tree, ())
    reads = tuple(sorted(finder.reads, key=lambda one: one.number))
    notices = tuple(dict.fromkeys(finder.notices))
    return LakePlan(found.tree, found.kind is Kind.EXPLAIN, reads, notices, now_ns, found.parameters)


@dataclass
class _Finder:
    """Walks queries from the outside in, with the conditions that outer ones have on inner ones."""

    text: str
    tree: exp.Query
    window: Interval
    reads: list[Read] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def visit(self, query: exp.Expr, inherited: Sequence[exp.Expr]) -> None:
        if id(query) in self._seen:
            return
        self._seen.add(id(query))
        if isinstance(query, exp.Select):
            self._visit_select(query, inherited)
        elif isinstance(query, exp.SetOperation):
            self.visit(query.left, ())
            self.visit(query.right, ())
        elif isinstance(query, exp.Subquery):
            self.visit(query.this, inherited if not cuts_rows(query) else ())
        for nested in _nested_queries(query):
            self.visit(nested, ())

    def _visit_select(self, select: exp.Select, inherited: Sequence[exp.Expr]) -> None:
        scope = Scope.of(select)
        conditions = [*scope.conditions(), *inherited]
        for source in scope.sources:
            mine = [one for one in conditions if scope.may_push(one, source)]
            mine += [one for one in source.own if scope.concerns(one, source)]
            inner = source.query
            view = VIEWS.get(source.node.name.lower()) if isinstance(source.node, exp.Table) else None
            if view is not None and inner is None:
                self._expand(view, source.node, mine)
            elif isinstance(source.node, exp.Table) and inner is None:
                self._add(source.node, source.alias, tuple(mine))
            elif inner is not None:
                handed = [moved for one in mine if (moved := hand_down(one, inner)) is not None]
                self.visit(inner, handed if source.is_used_once else ())

    def _add(self, node: exp.Table, alias: str, conditions: tuple[exp.Expr, ...]) -> None:
        number = len(self.reads)
        name = _function(node) if isinstance(node.this, exp.Func) else ""
        if name and name not in LANGUAGE_FUNCTIONS:
            return  # DuckDB makes these rows
        node.meta[READ] = number
        interval = interval_of(conditions)
        if name:
            self.reads.append(self._function_read(number, node, name, interval))
        elif catalogue_name(node):
            self.reads.append(CatalogueRead(number, node, catalogue_name(node)))
        else:
            table = TABLES[node.name.lower()]
            start, end = self._with_window(interval)
            self._note_window(table.name, interval, start)
            terms = terms_of(table, conditions)
            self.reads.append(TableRead(number, table, node, alias, conditions, start, end, terms))

    def _expand(self, view: LakeView, node: exp.Expr, conditions: Sequence[exp.Expr]) -> None:
        """Put the query of a view in its place, and visit that."""
        interval, alias = interval_of(conditions), node.args.get("alias")
        start, end = self._with_window(interval)
        self._note_window(view.name, interval, start)
        bounds = Interval(start, None if end >= OPEN_NS else end)
        used = None if alias is not None and alias.columns else columns_used(self.tree, node.alias_or_name)
        query = view_query(view, used, bounds, conditions)
        named = alias.copy() if alias is not None else exp.TableAlias(this=exp.to_identifier(view.name))
        node.replace(exp.Subquery(this=query, alias=named, joins=node.args.get("joins")))
        handed = [moved for one in conditions if (moved := hand_down(one, query)) is not None]
        self.visit(query, handed)

    def _note_window(self, name: str, interval: Interval, start_ns: int) -> None:
        if interval.start_ns is None:
            since = to_datetime(start_ns).strftime("%Y-%m-%dT%H:%M:%SZ")
            self.notices.append(f"{name} has no lower bound on timestamp: it is read from {since} on")

    def _with_window(self, interval: Interval) -> tuple[int, int]:
        assert self.window.start_ns is not None  # noqa: S101 - it always has one
        if interval.start_ns is not None:
            return _indexed(interval.start_ns), _indexed(interval.end_ns)
        end = interval.within(Interval(None, self.window.end_ns)).end_ns
        return self.window.start_ns, _indexed(end)

    def _function_read(self, number: int, node: exp.Table, name: str, interval: Interval) -> FunctionRead:
        given = [one.name if isinstance(one, exp.Literal) else one.sql() for one in node.this.expressions]
        if not 1 <= len(given) <= 2 or not given[0]:
            raise LakeQLError(
                f"{name}() takes the text of a query and, where it is wanted, a step",
                position_of(node, self.text),
            )
        try:
            language = _language_of(name, given[0])
        except ParseError as error:
            raise LakeQLError(f"{name}(): {error.message}", position_of(node, self.text)) from error
        start, end = self._with_window(interval)
        self._note_window(f"{name}()", interval, start)
        step = given[1] if len(given) > 1 else ""
        return FunctionRead(number, node, language, given[0], step, start, end)


def _language_of(name: str, text: str) -> QueryLanguage:
    """Return the language of a table function, once the text is known to be a query of it."""
    if name == "promql":
        _check_promql(text)
        return "promql"
    if name == "logql":
        parse_logql(text)
        return "logql"
    parse_traceql(text)
    return "traceql"


def _check_promql(text: str) -> None:
    """Raise what is wrong with an expression that is evaluated at steps."""
    kind = type_of(parse_promql(text))
    if kind not in {Type.SCALAR, Type.VECTOR}:
        raise ParseError(f"expected a scalar or an instant vector at each step, found a {kind}")


def _indexed(ns: int | None) -> int:
    """Return a time as the index holds it: statements may name any number."""
    return OPEN_NS if ns is None else max(-OPEN_NS, min(ns, OPEN_NS))


def _function(node: exp.Table) -> str:
    inner = node.this
    return inner.name.lower() if isinstance(inner, exp.Anonymous) else inner.sql_name().lower()


def _nested_queries(query: exp.Expr) -> Iterator[exp.Expr]:
    """Yield queries inside expressions, and common table expressions that nothing was handed down to."""
    for one in query.walk():
        if one is not query and isinstance(one, exp.Select | exp.SetOperation):
            yield one
