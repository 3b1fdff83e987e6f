"""Scalar expressions of a statement that Spark runs stay DuckDB's: Spark calls them as functions.

    round(sum(x) / 3, 2)    ->  lq_0(SUM(`x`)), and lq_0(a0 HUGEINT) = round(a0 / 3, 2)

So no function of DuckDB is ever replaced by one of Spark that is nearly the same. Native to Spark are
columns, literals, AND, OR, NOT, IS NULL, and comparisons of values that need no conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
from sqlglot import exp

from lakerunner_query.errors import QueryError
from lakerunner_query.lakeql.macros import DIALECT
from lakerunner_query.lakeql.sketches import SHOWN, is_cardinality
from lakerunner_query.plan.lakeql_parts import is_aggregate
from lakerunner_query.plan.lakeql_spark_functions import is_number
from lakerunner_query.plan.lakeql_views import VIEW

FUNCTION = "lq_"
"""Prefix of functions that DuckDB computes."""
NOTHING = '"NULL"'
"""DuckDB's name for the type of a null that nothing gives another type."""
_ATOMS = frozenset({"BOOLEAN", "VARCHAR", "TIMESTAMP", "DATE", "BLOB"})
_COMPARISONS = exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE | exp.NullSafeEQ | exp.NullSafeNEQ
_SPARK_TYPES = {
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "VARCHAR": "STRING",
    "HUGEINT": "DECIMAL(38, 0)",
    "BLOB": "BINARY",
}


class NotForSparkError(QueryError):
    """The statement, or this part of it, is not handed over to Spark."""

    status = 400
    code = "not_for_spark"


class DuckFunction(msgspec.Struct, frozen=True):
    """A scalar expression in DuckDB's dialect over arguments `a0`, `a1`, …"""

    name: str
    sql: str
    arguments: tuple[str, ...]
    """Types of the arguments."""
    result: str


@dataclass(frozen=True, slots=True)
class Typing:
    """DuckDB, asked about expressions over tables that are still empty."""

    types: Callable[[str], list[tuple[str, str]] | None]
    """Names and types of the columns of a query; None where it does not bind."""
    text: Callable[[str], str | None]
    """The value of a constant expression, as text."""


@dataclass(frozen=True)
class Around:
    """The query that an expression stands in."""

    select: exp.Select
    keys: dict[str, exp.Expr] = field(default_factory=dict)
    """Rewritten expressions of GROUP BY, by their text."""

    @property
    def is_of_view(self) -> bool:
        """True inside of the query that stands for a view: its structs are known."""
        node: exp.Expr | None = self.select
        while node is not None and VIEW not in node.meta:
            node = node.parent
        return node is not None


@dataclass
class Scalars:
    """Rewrites expressions; what is above rows is left to the methods of `lakeql_spark`."""

    typing: Typing
    prefix: str = ""
    functions: dict[tuple[str, tuple[str, ...]], DuckFunction] = field(default_factory=dict)
    _types: dict[str, list[tuple[str, str]] | None] = field(default_factory=dict)

    def query(self, query: exp.Expr) -> exp.Expr:
        raise NotImplementedError

    def window(self, window: exp.Window, around: Around) -> exp.Expr:
        raise NotImplementedError

    def aggregate(self, node: exp.Expr, around: Around) -> exp.Expr:
        raise NotImplementedError

    def scalar(self, node: exp.Expr, around: Around) -> exp.Expr:
        """Rewrite an expression: Spark's own as far as it is trusted, DuckDB's function otherwise."""
        key = around.keys.get(node.sql(DIALECT)) if around.keys else None
        if key is not None:
            return key.copy()
        if is_cardinality(node):
            raise refused(f"{SHOWN}()")
        if isinstance(node, exp.Paren):
            return exp.Paren(this=self.scalar(node.this, around))
        if isinstance(node, exp.Column | exp.Boolean | exp.Null | exp.Literal):
            return node.copy()
        if isinstance(node, exp.And | exp.Or):
            return type(node)(this=self.scalar(node.left, around), expression=self.scalar(node.right, around))
        if isinstance(node, exp.Not):
            return exp.Not(this=self.scalar(node.this, around))
        if isinstance(node, exp.Window):
            return self.window(node, around)
        if is_aggregate(node) or isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls):
            return self.aggregate(node, around)
        if isinstance(node, exp.Subquery):
            return self.query(node)
        if isinstance(node, exp.Exists):
            return exp.Exists(this=self.query(node.this))
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return exp.Is(this=self.scalar(node.this, around), expression=exp.null())
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            query = node.args["query"]
            return exp.In(this=self.scalar(node.this, around), query=self.query(query))
        return self._compared(node, around) or self._by_duckdb(node, around)

    def _compared(self, node: exp.Expr, around: Around) -> exp.Expr | None:
        """Return a comparison of values that need no conversion; None for all else."""
        if isinstance(node, _COMPARISONS):
            parts = [node.this, node.expression]
        elif isinstance(node, exp.Between) and not node.args.get("symmetric"):
            parts = [node.this, node.args["low"], node.args["high"]]
        elif isinstance(node, exp.In) and node.expressions and not node.args.get("unnest"):
            parts = [node.this, *node.expressions]
        else:
            return None
        types = self._types_of(parts, around)
        is_same = types is not None and len(set(types)) == 1 and types[0] in _ATOMS
        if types is None or not (is_same or all(map(is_number, types))):
            return None
        made = node.copy()
        new = [self.scalar(one, around) for one in parts]
        made.set("this", new[0])
        if isinstance(node, exp.Between):
            made.set("low", new[1])
            made.set("high", new[2])
        elif isinstance(node, exp.In):
            made.set("expressions", new[1:])
        else:
            made.set("expression", new[1])
        return made

    def _by_duckdb(self, node: exp.Expr, around: Around) -> exp.Expr:
        if node.find(exp.Unnest, exp.Explode) is not None:
            raise refused("unnest()")
        leaves: dict[str, exp.Expr] = {}
        for leaf in _leaves(node, around):
            leaves.setdefault(leaf.sql(DIALECT), leaf)
        if not leaves:
            return self._constant(node, around)
        types = self._types_of([*leaves.values(), node], around)
        if types is None:
            raise refused(f"{node.sql(DIALECT)[:80]}, whose type is not known,")
        for kind in types:
            _check_type(kind, around)
        texts = list(leaves)

        def replaced(one: exp.Expr) -> exp.Expr:
            if isinstance(one, exp.Identifier):  # a field of a struct, which may have the name of a column
                return one
            text = one.sql(DIALECT)
            return exp.column(f"a{texts.index(text)}") if text in leaves else one

        sql = node.copy().transform(replaced).sql(DIALECT)
        key = sql, tuple(types)
        function = self.functions.setdefault(
            key,
            DuckFunction(f"{self.prefix}{FUNCTION}{len(self.functions)}", sql, tuple(types[:-1]), types[-1]),
        )
        given = [self.scalar(leaf, around) for leaf in leaves.values()]
        return exp.Anonymous(this=function.name, expressions=given)

    def _constant(self, node: exp.Expr, around: Around) -> exp.Expr:
        types = self._types_of([node], around)
        if types is None:
            raise refused(f"{node.sql(DIALECT)[:80]}")
        if types[0] == NOTHING:
            return exp.null()
        _check_type(types[0], around)
        if types[0] not in _SPARK_TYPES and not is_number(types[0]) and types[0] not in _ATOMS:
            raise refused(f"a constant of {types[0]}")
        text = self.typing.text(node.sql(DIALECT))
        value = exp.null() if text is None else exp.Literal.string(text)
        return exp.Cast(
            this=value, to=exp.DataType.build(_SPARK_TYPES.get(types[0], types[0]), dialect="spark")
        )

    # ---- types --------------------------------------------------------------------------------------------

    def type_of(self, node: exp.Expr, around: Around) -> str:
        types = self._types_of([node], around)
        return types[0] if types else "an unknown type"

    def _types_of(self, nodes: Sequence[exp.Expr], around: Around) -> list[str] | None:
        """Return the types of expressions, of the query or those around it; None where one has none."""
        listed = ", ".join(f"({node.sql(DIALECT)})" for node in nodes)
        found = self.ask(around.select, listed)
        if found is not None:
            return [kind for _, kind in found[-len(nodes) :]]
        if len(nodes) > 1:
            each = [self._types_of([node], around) for node in nodes]
            return None if any(one is None for one in each) else [one[0] for one in each if one]
        outer = around.select.find_ancestor(exp.Select)
        return None if outer is None else self._types_of(nodes, Around(outer))

    def ask(self, select: exp.Select, listed: str, *, grouped: bool = True) -> list[tuple[str, str]] | None:
        """Ask for types in the query's FROM, else also behind its own columns, grouped as it is."""
        ctes = ", ".join(_visible(select))
        with_ = f"WITH {ctes} " if ctes else ""
        parts = [select.args.get("from_"), *(select.args.get("joins") or ())]
        sources = " ".join(map(_source, parts))
        found = self._cached(f"{with_}SELECT {listed} {sources}")
        if found is not None or not grouped:
            return found
        own = ", ".join(one.sql(DIALECT) for one in select.expressions)
        group = select.args.get("group")
        windows = select.args.get("windows")
        behind = group.sql(DIALECT) if group is not None else ""
        if windows:
            behind += " WINDOW " + ", ".join(one.sql(DIALECT) for one in windows)
        return self._cached(f"{with_}SELECT {own}, {listed} {sources} {behind}")

    def columns_of(self, source: exp.Expr) -> list[tuple[str, str]]:
        """Return names and types of all columns of a table, or of a query."""
        ctes = ", ".join(_visible(source))
        plain = source.copy()
        plain.set("alias", None)
        text = plain.sql(DIALECT) if isinstance(source, exp.Table) else f"({plain.sql(DIALECT)})"
        found = self._cached(f"{f'WITH {ctes} ' if ctes else ''}SELECT * FROM {text}")
        if found is None:
            raise refused(f"{source.sql(DIALECT)[:80]}, whose columns are not known,")
        return found

    def _cached(self, text: str) -> list[tuple[str, str]] | None:
        if text not in self._types:
            self._types[text] = self.typing.types(text)
        return self._types[text]


def _source(node: exp.Expr | None) -> str:
    """Return a part of FROM in which the columns of all sides can be named."""
    if isinstance(node, exp.Join) and str(node.args.get("kind") or "").upper() in {"SEMI", "ANTI"}:
        node = node.copy()
        node.set("kind", None)
    return "" if node is None else node.sql(DIALECT)


def _visible(select: exp.Expr) -> list[str]:
    """Return the common table expressions that a query may name, in order."""
    found: list[list[str]] = []
    child: exp.Expr | None = None
    node: exp.Expr | None = select
    while node is not None:
        with_ = node.args.get("with_") if isinstance(node, exp.Query) else None
        if with_ is not None and child is not with_:
            found.append([one.sql(DIALECT) for one in with_.expressions])
        if isinstance(node, exp.With):
            before = []
            for one in node.expressions:
                if one is child:
                    break
                before.append(one.sql(DIALECT))
            found.append(before)
        child, node = node, node.parent
    return [text for each in reversed(found) for text in each]


def _leaves(node: exp.Expr, around: Around) -> Iterator[exp.Expr]:
    """Yield the parts of an expression that are Spark's: columns, groups, aggregates, subqueries."""
    if node.sql(DIALECT) in around.keys or isinstance(
        node, exp.Column | exp.Window | exp.Filter | exp.WithinGroup | exp.Subquery | exp.Exists
    ):
        yield node
        return
    if is_aggregate(node) or (isinstance(node, exp.In) and node.args.get("query") is not None):
        yield node
        return
    for child in node.iter_expressions():
        yield from _leaves(child, around)


def _check_type(kind: str, around: Around) -> None:
    inner = kind.removesuffix("[]")
    if inner.startswith("STRUCT(") and around.is_of_view:
        return
    if inner not in _ATOMS and not is_number(inner) and inner != "MAP(VARCHAR, VARCHAR)":
        raise refused(f"a value of type {kind}")


def refused(what: str) -> NotForSparkError:
    return NotForSparkError(f"{what} is not handed over to Spark")
