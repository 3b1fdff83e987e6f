"""Work moves from the statement down to the scans: columns, conditions, limits and parts of aggregates.

    SELECT severity, avg(severity_number) FROM logs WHERE message LIKE '%took%' GROUP BY 1

    scan of logs    SELECT severity AS k0, SUM(…) AS a0, COUNT(…) AS a1 FROM rows WHERE … GROUP BY 1
    what is left    SELECT k0 AS severity, SUM(a0) / NULLIF(SUM(a1), 0) FROM scan_0 GROUP BY k0

Whatever does not fit stays in the statement, and the scan brings rows. Columns are chosen by name alone, so
that a scan may bring one too many; DuckDB resolves names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from lakerunner_query.lakeql.macros import DIALECT
from lakerunner_query.lakeql.statement import conjuncts
from lakerunner_query.lakeql.tables import TIMESTAMP, ColumnKeys, TableColumn
from lakerunner_query.plan.lakeql import READ, LakePlan, Read, TableRead
from lakerunner_query.plan.lakeql_attributes import Types
from lakerunner_query.plan.lakeql_conditions import equalities, grouping_keys
from lakerunner_query.plan.lakeql_facts import Fact, facts_of
from lakerunner_query.plan.lakeql_joins import IDS, KeyFinder, KeyFlow, take_hints
from lakerunner_query.plan.lakeql_parts import Split, is_aggregate, named
from lakerunner_query.plan.lakeql_scopes import Scope
from lakerunner_query.plan.lakeql_views import VIEW

MOST_ROWS = 100_000
"""Rows up to which a limit is worth handing down."""
MOST_KEYS = 10_000
"""Keys of one scan that another is narrowed by."""
Form = Literal["rows", "parts", "first rows", "keys"]


@dataclass(frozen=True, slots=True)
class Scan:
    """Work of the workers for one read of a table."""

    number: int
    read: TableRead
    form: Form
    columns: tuple[TableColumn, ...]
    sql: str
    keys: tuple[ColumnKeys, ...] = ()
    enough: int = 0
    """Rows after which no further unit is needed; 0: all are."""
    is_newest_first: bool = False
    places: Mapping[str, str] = field(default_factory=dict)
    """Names in the result of columns of the table that are there."""
    facts: tuple[Fact, ...] = ()
    """Columns of the result, where the index has them of whole segments."""

    @property
    def name(self) -> str:
        return scan_name(self.number)


@dataclass(frozen=True, slots=True)
class Bound:
    """Scans, and the statement over their results."""

    scans: tuple[Scan, ...]
    tree: exp.Query
    flows: tuple[KeyFlow, ...]

    @property
    def sql(self) -> str:
        return self.tree.sql(DIALECT)


def scan_name(number: int) -> str:
    return f"scan_{number}"


def with_scans(plan: LakePlan) -> exp.Query:
    """Return the statement as written, over relations named after the reads."""
    tree = plan.tree.copy()
    for node in _nodes(tree).values():
        _rename(node)
    return tree


def bind(
    plan: LakePlan,
    types: Mapping[int, Types],
    is_valid: Callable[[str, Sequence[TableColumn]], bool],
    *,
    in_parts: bool = True,
) -> Bound:
    """Split the statement; `is_valid` tells whether DuckDB can run a scan's SQL over such columns.

    Without `in_parts` scans bring rows, and conditions that they have all satisfied are left out behind them.
    """
    tree = plan.tree.copy()
    nodes = _nodes(tree)
    known = {id(nodes[number]): frozenset(each) for number, each in types.items() if number in nodes}
    flows = KeyFinder({id(nodes[one.number]): one.number for one in plan.tables}, known).flows(tree)
    hints = {id(one) for one in take_hints(tree)}
    views = {id(inner) for one in tree.walk() if VIEW in one.meta for inner in one.walk()}
    used, outside = _names_used(tree, frozenset()), _names_used(tree, frozenset(views))
    scans = []
    for read in plan.tables:
        node, columns = nodes[read.number], types[read.number]
        make = _Maker(read, node, columns, used if id(node) in views else outside, known)
        if id(make.select) in hints:
            scan = make.keys()
        else:
            scan = next(
                made
                for made in (
                    make.parts() if in_parts else None,
                    make.first_rows(),
                    make.rows(drop=not in_parts),
                )
                if made is not None
                and (made.scan.form == "rows" or is_valid(made.scan.sql, made.scan.columns))
            )
        scan.rewrite()
        scans.append(scan.scan)
    for number, node in nodes.items():
        if node.name != scan_name(number):
            _rename(node)
    return Bound(tuple(scans), tree, tuple(flows))


def _nodes(tree: exp.Query) -> dict[int, exp.Table]:
    return {one.meta[READ]: one for one in tree.find_all(exp.Table) if READ in one.meta}


def _rename(node: exp.Table) -> None:
    """Let a node of FROM name the result of its read; its own name stays as an alias."""
    inner = node.this
    name = node.alias or (inner.name if not isinstance(inner, exp.Func) else _function_name(inner))
    if not node.args.get("alias"):
        node.set("alias", exp.TableAlias(this=exp.to_identifier(name.lower())))
    node.set("this", exp.to_identifier(scan_name(node.meta[READ])))
    node.set("db", None)
    node.set("catalog", None)


def _function_name(node: exp.Func) -> str:
    return node.name if isinstance(node, exp.Anonymous) else node.sql_name()


@dataclass(frozen=True, slots=True)
class _Used:
    """Names of columns anywhere in a statement, and names of relations taken as a whole."""

    names: frozenset[str]
    relations: frozenset[str]


def _names_used(tree: exp.Query, views: frozenset[int]) -> _Used:
    """Collect names, but for those inside of views."""
    columns = [one for one in tree.find_all(exp.Column) if id(one) not in views]
    names = {one.name.lower() for one in columns}
    # `USING (a)` and fields of structs are identifiers alone
    names |= {one.name.lower() for join in tree.find_all(exp.Join) for one in join.args.get("using") or ()}
    names |= {one.table.lower() for one in columns if one.table}
    return _Used(frozenset(names), frozenset(one.name.lower() for one in columns if not one.table))


@dataclass(frozen=True, slots=True)
class _Made:
    scan: Scan
    rewrite: Callable[[], None]


@dataclass
class _Maker:
    """Makes the scan of one read, in each form."""

    read: TableRead
    node: exp.Table
    types: Types
    used: _Used
    known: dict[int, frozenset[str]]
    select: exp.Select | None = field(init=False)

    def __post_init__(self) -> None:
        select = self.node.find_ancestor(exp.Select)
        self.select = select
        self.lower = {name.lower(): name for name in self.types}

    def rows(self, *, drop: bool = False) -> _Made:
        """Bring the columns that the statement names, of rows that satisfy what is about them alone."""
        names = self._columns()
        chosen = ", ".join(_quoted(name) for name in names)
        sql = f"SELECT {chosen} FROM {self._from()}{_where(self._conditions())}"
        return _Made(self._scan("rows", names, sql), self._drop_conditions if drop else lambda: None)

    def _drop_conditions(self) -> None:
        """Take out of WHERE what every row of the scan satisfies."""
        where = self.select.args.get("where") if self.select is not None else None
        if self.select is None or where is None:
            return
        scope = Scope.of(self.select, self.known)
        source = next((one for one in scope.sources if one.node is self.node), None)
        done = {one.sql(DIALECT) for one in self._conditions()}
        left = [
            one
            for one in conjuncts(where)
            if source is None or not scope.may_push(one, source) or one.sql(DIALECT) not in done
        ]
        # no copies: tables of subqueries are renamed where they stand
        self.select.set("where", exp.Where(this=exp.and_(*left, copy=False)) if left else None)

    def keys(self) -> _Made:
        """Bring the values of the one column of a hint, up to one more than are of use."""
        assert self.select is not None  # noqa: S101 - hints are queries
        column = self.select.expressions[0]
        conditions, wanted = self._conditions(), MOST_KEYS + 1
        sql = f"SELECT DISTINCT {column.sql(DIALECT)} FROM {self._from()}{_where(conditions)} LIMIT {wanted}"
        names, shown = self._named_in([column, *conditions]), {column.name.lower(): column.name.lower()}
        return _Made(self._scan("keys", names, sql, enough=wanted, places=shown), lambda: None)

    def first_rows(self) -> _Made | None:
        """Bring no more rows than `LIMIT` leaves, in its order."""
        select = self.select
        if select is None or not self._is_alone(select) or self._has_aggregates(select):
            return None
        limit, offset = _count(select.args.get("limit")), _count(select.args.get("offset"))
        if limit is None or offset is None or not 0 < limit + offset <= MOST_ROWS:
            return None
        if select.args.get("distinct") or not self._takes_all(select):
            return None
        terms = self._order(select)
        if terms is None:
            return None
        names, wanted = self._columns(), limit + offset
        order = f" ORDER BY {', '.join(term.sql(DIALECT) for term in terms)}" if terms else ""
        chosen = ", ".join(_quoted(name) for name in names)
        sql = f"SELECT {chosen} FROM {self._from()}{_where(self._conditions())}{order} LIMIT {wanted}"
        by_time = bool(terms) and self._is_time(terms[0].this)
        scan = self._scan(
            "first rows", names, sql, enough=wanted if by_time or not terms else 0,
            newest=not terms or (by_time and bool(terms[0].args.get("desc"))),
        )  # fmt: skip
        return _Made(scan, lambda: None)

    def parts(self) -> _Made | None:
        """Bring one row for each group, with parts of its aggregates."""
        select = self.select
        if select is None or not self._is_alone(select) or not self._has_aggregates(select):
            return None
        keys = grouping_keys(select)
        if keys is None or select.args.get("distinct") or not self._takes_all(select):
            return None
        if not all(self._is_mine(key) for key in keys) or self._is_ambiguous(select):
            return None
        split = Split(keys, self.read.table.cut_by)
        rewritten = {
            name: [split.rewrite(one) for one in _listed(select.args.get(name))]
            for name in ("expressions", "having", "order")
        }
        aliases = {one.alias.lower() for one in select.expressions if one.alias}
        left = [column for each in rewritten.values() for one in each for column in one.find_all(exp.Column)]
        if split.failed or not all(one.name in split.names or one.name.lower() in aliases for one in left):
            return None
        if any(one.find(exp.Star) is not None for one in rewritten["expressions"]):
            return None
        chosen = ", ".join(f"{one.sql(DIALECT)} AS {name}" for name, one in split.columns())
        names = self._named_in([*(one for _, one in split.columns()), *self._conditions()])
        grouped = " GROUP BY " + ", ".join(str(place + 1) for place in range(len(keys))) if keys else ""
        sql = f"SELECT {chosen} FROM {self._from()}{_where(self._conditions())}{grouped}"

        def rewrite() -> None:
            outputs = [
                named(new, old) for new, old in zip(rewritten["expressions"], select.expressions, strict=True)
            ]
            select.set("expressions", outputs)
            for name, kind in (("having", exp.Having), ("order", exp.Order)):
                if select.args.get(name) is not None:
                    new = rewritten[name]
                    select.set(
                        name, exp.Order(expressions=new) if kind is exp.Order else exp.Having(this=new[0])
                    )
            select.set("where", None)
            columns = [exp.column(f"k{place}") for place in range(len(keys))]
            select.set("group", exp.Group(expressions=columns) if keys else None)
            self.node.set("alias", None)
            _rename(self.node)

        places = {key.name.lower(): f"k{n}" for n, key in enumerate(keys) if isinstance(key, exp.Column)}
        scan = self._scan("parts", names or [TIMESTAMP], sql, places=places)
        facts = () if keys else facts_of(split.partials.values(), self.read.table, self.read.conditions)
        return _Made(replace(scan, facts=facts), rewrite)

    def _scan(
        self, form: Form, names: Sequence[str], sql: str, *, enough: int = 0, newest: bool = False,
        places: Mapping[str, str] | None = None,
    ) -> Scan:  # fmt: skip
        columns = tuple(TableColumn(name, self.types[name]) for name in names)
        keys = [
            ColumnKeys(name, tuple(values))
            for name, values in equalities(self.read.conditions)
            if name in IDS and name in self.types
        ]
        shown = {name.lower(): name for name in names} if places is None else places
        return Scan(self.read.number, self.read, form, columns, sql, tuple(keys), enough, newest, shown)

    def _from(self) -> str:
        return f"rows AS {_quoted(self.read.alias)}"

    def _columns(self) -> list[str]:
        found = list(self.types) if self._takes_whole_rows() else [
            name for name in self.types if name.lower() in self.used.names
        ]  # fmt: skip
        return found or [TIMESTAMP]

    def _named_in(self, parts: Sequence[exp.Expr]) -> list[str]:
        """Return the columns of the table that expressions name."""
        needed = {column.name.lower() for one in parts for column in one.find_all(exp.Column)}
        return [name for name in self.types if name.lower() in needed]

    def _takes_whole_rows(self) -> bool:
        alias = self.read.alias.lower()
        if alias in self.used.relations and alias not in self.lower:
            return True
        if self.select is None:
            return False
        return any(not isinstance(one.parent, exp.Count) for one in self.select.find_all(exp.Star))

    def _conditions(self) -> list[exp.Expr]:
        """Return conditions whose columns this table has; others would not bind."""
        return [one for one in self.read.conditions if self._is_mine(one)]

    def _is_mine(self, node: exp.Expr) -> bool:
        return all(
            one.name.lower() in self.lower and one.table.lower() in {"", self.read.alias.lower()}
            for one in node.find_all(exp.Column)
        )

    def _is_alone(self, select: exp.Select) -> bool:
        """Tell whether the query reads this table and nothing else, row by row."""
        from_ = select.args.get("from_")
        if from_ is None or from_.this is not self.node or self.node.args.get("joins"):
            return False
        if any(select.args.get(key) for key in ("joins", "laterals", "qualify", "windows")):
            return False
        parts = [
            one
            for name in ("expressions", "where", "group", "having", "order")
            for one in _listed(select.args.get(name))
        ]
        return not any(one.find(exp.Query, exp.Window, exp.Unnest) for one in parts)

    def _has_aggregates(self, select: exp.Select) -> bool:
        if select.args.get("group") is not None or select.args.get("having") is not None:
            return True
        return any(is_aggregate(node) for one in select.expressions for node in one.walk())

    def _takes_all(self, select: exp.Select) -> bool:
        """Tell whether every condition of the query goes down with the scan."""
        scope = Scope.of(select, self.known)
        (source,) = scope.sources
        return all(
            scope.may_push(one, source) and self._is_mine(one) for one in conjuncts(select.args.get("where"))
        ) and (len(self._conditions()) == len(self.read.conditions))

    def _is_ambiguous(self, select: exp.Select) -> bool:
        """Tell whether an alias has the name of a column that it does not stand for."""
        return any(
            isinstance(one, exp.Alias)
            and one.alias.lower() in self.lower
            and not (isinstance(one.this, exp.Column) and one.this.name.lower() == one.alias.lower())
            for one in select.expressions
        )

    def _order(self, select: exp.Select) -> list[exp.Ordered] | None:
        """Return the terms of ORDER BY over columns of the table; None where they are of something else."""
        order = select.args.get("order")
        found = []
        named = {one.alias.lower(): one.this for one in select.expressions if isinstance(one, exp.Alias)}
        for term in order.expressions if order is not None else ():
            inner = term.this
            if isinstance(inner, exp.Literal):
                place = int(inner.name) if not inner.is_string else 0
                if not 0 < place <= len(select.expressions) or select.is_star:
                    return None
                inner = select.expressions[place - 1].unalias()
            elif isinstance(inner, exp.Column) and not inner.table and inner.name.lower() in named:
                inner = named[inner.name.lower()]
            if not self._is_mine(inner):
                return None
            copied = term.copy()
            copied.set("this", inner.copy())
            found.append(copied)
        return found

    def _is_time(self, node: exp.Expr) -> bool:
        return isinstance(node, exp.Column) and node.name.lower() in {TIMESTAMP, "tsns"}


def _listed(part: object) -> list[exp.Expr]:
    if part is None:
        return []
    if isinstance(part, list):
        return part
    if isinstance(part, exp.Having | exp.Where):
        return [part.this]
    return list(part.expressions) if isinstance(part, exp.Order | exp.Group) else []


def _count(node: exp.Expr | None) -> int | None:
    """Return the number of LIMIT or OFFSET; 0 for none, None for an expression."""
    if node is None:
        return 0
    value = node.expression if isinstance(node, exp.Limit | exp.Offset) else None
    if isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit():
        return int(value.name)
    return None


def _where(conditions: Sequence[exp.Expr]) -> str:
    texts = dict.fromkeys(f"({one.sql(DIALECT)})" for one in conditions)
    return f" WHERE {' AND '.join(texts)}" if texts else ""


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(DIALECT)


def driving_first(bound: Bound, reads: Sequence[Read]) -> list[Scan]:
    """Order scans so that hints come first, then those with more conditions."""
    weights = {one.number: len(one.conditions) for one in reads if isinstance(one, TableRead)}
    return sorted(bound.scans, key=lambda scan: (scan.form != "keys", -weights[scan.number], scan.number))
