"""A `SELECT` is a scope: its columns belong to sources, and conditions to the source that they are about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from lakerunner_query.lakeql.statement import conjuncts
from lakerunner_query.lakeql.views import RELATIONS, VIEWS
from lakerunner_query.lakeql.whitelist import catalogue_name, cte_of
from lakerunner_query.plan.lakeql_conditions import is_plain


@dataclass(frozen=True, eq=False)
class Source:
    """One entry of FROM or JOIN."""

    alias: str
    node: exp.Expr
    query: exp.Expr | None
    """The query that it stands for; None: a table or function."""
    names: frozenset[str] | None
    """Its columns as far as the statement tells; None: they are not known."""
    is_nullable: bool
    """True where an outer join may put nulls for its rows."""
    is_matched: bool
    """True where its rows are chosen by more than equality: conditions must not come first."""
    is_used_once: bool
    own: tuple[exp.Expr, ...] = ()
    """Conditions of a LEFT or SEMI JOIN on this side."""


@dataclass(frozen=True)
class Scope:
    """A `SELECT` and the sources that its columns come from."""

    select: exp.Select
    sources: tuple[Source, ...]
    known: dict[int, frozenset[str]] = field(default_factory=dict)
    """Columns of tables by the identity of their node, once workers have told them."""

    @classmethod
    def of(cls, select: exp.Select, known: dict[int, frozenset[str]] | None = None) -> Scope:
        from_ = select.args.get("from_")
        if from_ is None:
            return cls(select, ())
        sources = [_source(from_.this, known)]
        for join in _joins(select):
            side, kind = (str(join.args.get(key) or "").upper() for key in ("side", "kind"))
            method = str(join.args.get("method") or "").upper()
            if side in {"RIGHT", "FULL"}:
                sources = [replace(one, is_nullable=True) for one in sources]
            own: tuple[exp.Expr, ...] = ()
            if (side == "LEFT" or kind == "SEMI") and method != "ASOF":
                own = tuple(conjuncts(join.args.get("on")))
            sources.append(
                replace(
                    _source(join.this, known),
                    is_nullable=side in {"LEFT", "FULL"},
                    is_matched=method == "ASOF" or kind == "ANTI",
                    own=own,
                )
            )
        return cls(select, tuple(sources), known or {})

    def joins(self) -> list[exp.Join]:
        return _joins(self.select)

    def conditions(self) -> list[exp.Expr]:
        """Return conditions on rows of the join: of WHERE, and of inner joins."""
        found = list(conjuncts(self.select.args.get("where")))
        for join in self.select.args.get("joins") or ():
            if (
                not join.args.get("side")
                and not join.args.get("method")
                and str(join.args.get("kind") or "INNER").upper() in {"INNER", "CROSS"}
            ):
                found += conjuncts(join.args.get("on"))
        return found

    def may_push(self, condition: exp.Expr, source: Source) -> bool:
        return not source.is_nullable and not source.is_matched and self.concerns(condition, source)

    def concerns(self, condition: exp.Expr, source: Source) -> bool:
        """Tell whether a condition is about columns of this source alone."""
        columns = list(condition.find_all(exp.Column))
        if not columns or source.is_matched or not is_plain(condition):
            return False
        return all(self.owner(column) is source for column in columns)

    def owner(self, column: exp.Column) -> Source | None:
        """Return the source of a column, None where it cannot be told."""
        if column.args.get("db") or column.args.get("catalog"):
            return None
        if column.table:
            named = [one for one in self.sources if one.alias.lower() == column.table.lower()]
            return named[0] if len(named) == 1 else None
        name = column.name.lower()
        if name in self._computed:
            return None
        if len(self.sources) == 1:
            (only,) = self.sources
            return only if only.names is None or name in only.names else None
        if any(one.names is None for one in self.sources):
            return None
        having = [one for one in self.sources if one.names is not None and name in one.names]
        return having[0] if len(having) == 1 else None

    @property
    def _computed(self) -> set[str]:
        """Return aliases of this query that stand for something else than the column of that name."""
        return {
            one.alias.lower()
            for one in self.select.expressions
            if isinstance(one, exp.Alias)
            and not (isinstance(one.this, exp.Column) and one.this.name.lower() == one.alias.lower())
        }


def _joins(select: exp.Select) -> list[exp.Join]:
    first = select.args["from_"].this if select.args.get("from_") is not None else None
    inside = first.args.get("joins") if first is not None else None
    return [*(inside or ()), *(select.args.get("joins") or ())]


def _source(node: exp.Expr, known: dict[int, frozenset[str]] | None) -> Source:
    alias = node.alias_or_name
    if isinstance(node, exp.Table):
        cte = cte_of(node)
        if cte is not None:
            inner = cte.this
            names = None if cte.args["alias"].columns else _names(inner)
            uses = _uses(cte)
            query = None if cte.args["alias"].columns else inner
            return Source(alias, node, query or exp.Null(), names, False, False, uses == 1)
        if known and id(node) in known:
            return Source(alias, node, None, known[id(node)], False, False, True)
        is_lake = not isinstance(node.this, exp.Func) and not catalogue_name(node)
        fixed = frozenset(one.name for one in RELATIONS[node.name.lower()].columns) if is_lake else None
        has_more = known is None and is_lake and node.name.lower() not in VIEWS
        return Source(alias, node, None, None if has_more else fixed, False, False, True)
    if isinstance(node, exp.Subquery):
        has_names = bool(node.args.get("alias") and node.args["alias"].columns)
        query = exp.Null() if has_names else node.this
        return Source(alias, node, query, None if has_names else _names(node.this), False, False, True)
    return Source(alias, node, exp.Null(), None, False, False, True)


def _names(query: exp.Expr) -> frozenset[str] | None:
    if not isinstance(query, exp.Query) or query.is_star:
        return None
    return frozenset(name.lower() for name in query.named_selects)


def _uses(cte: exp.CTE) -> int:
    root = cte.root()
    return sum(cte_of(one) is cte for one in root.find_all(exp.Table))
