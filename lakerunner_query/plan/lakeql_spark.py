"""A statement over scans becomes Spark's: Spark joins and groups, DuckDB computes scalars.

    SELECT k, round(sum(x) / 3, 2) FROM scan_0 GROUP BY k HAVING count(*) > 2

    SELECT `k`, lq_0(SUM(`x`)) FROM `scan_0` GROUP BY `k` HAVING COUNT(*) > 2

Parts of queries that are carried over stand in `_SELECT`, aggregates and window functions in
`lakeql_spark_functions`. Anything else is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from lakerunner_query.lakeql.macros import DIALECT
from lakerunner_query.lakeql.whitelist import cte_of
from lakerunner_query.plan.lakeql_parts import is_aggregate
from lakerunner_query.plan.lakeql_spark_functions import (
    AGGREGATES,
    WINDOW_FUNCTIONS,
    is_number,
    levels_are_plain,
)
from lakerunner_query.plan.lakeql_spark_scalars import (
    Around,
    DuckFunction,
    Scalars,
    Typing,
    refused,
)

_SELECT = frozenset({
    "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct",
    "qualify", "windows", "with_",
})  # fmt: skip
"""Parts of a SELECT that are carried over."""


@dataclass(frozen=True, slots=True)
class SparkStatement:
    """A statement of Spark and the functions that it calls."""

    sql: str
    functions: tuple[DuckFunction, ...]


def for_spark(tree: exp.Query, typing: Typing, prefix: str = "") -> SparkStatement:
    """Rewrite a statement, or raise what Spark is not trusted with.

    `prefix` goes before the names of scans and functions.
    """
    rewriter = _Rewriter(typing, prefix)
    made = rewriter.query(tree)
    return SparkStatement(made.sql("spark", identify=True), tuple(rewriter.functions.values()))


class _Rewriter(Scalars):
    """Rewrites queries, groups, windows and aggregates."""

    def query(self, query: exp.Expr) -> exp.Expr:
        if isinstance(query, exp.Select):
            return self._select(query)
        if isinstance(query, exp.Subquery):
            made = query.copy()
            made.set("this", self.query(query.this))
            self._with(query, made)
            return made
        if isinstance(query, exp.SetOperation):
            return self._set_operation(query)
        raise refused(f"{_spelled(query)} here")

    def _set_operation(self, query: exp.SetOperation) -> exp.Expr:
        if query.args.get("by_name"):
            raise refused("BY NAME")
        made = query.copy()
        made.set("this", self.query(query.left))
        made.set("expression", self.query(query.right))
        self._with(query, made)
        order = query.args.get("order")
        for term in order.expressions if order is not None else ():
            if not isinstance(term.this, exp.Column | exp.Literal):
                raise refused("an order by expressions behind UNION, INTERSECT or EXCEPT")
        return made

    def _with(self, query: exp.Expr, made: exp.Expr) -> None:
        with_ = query.args.get("with_")
        if with_ is None:
            return
        copied = with_.copy()
        for one, new in zip(with_.expressions, copied.expressions, strict=True):
            new.set("this", self.query(one.this))
            new.set("materialized", None)
            self._name_all(one.this, new)
        made.set("with_", copied)

    def _select(self, select: exp.Select) -> exp.Expr:
        odd = [key for key, value in select.args.items() if value and key not in _SELECT]
        if odd:
            raise refused(odd[0].upper())
        if isinstance(select.args.get("distinct"), exp.Distinct) and select.args["distinct"].args.get("on"):
            raise refused("DISTINCT ON")
        self._check_aliases(select)
        made = select.copy()
        rows = Around(select)
        self._with(select, made)
        self._sources(select, made, rows)
        group = self._group(select, rows)
        made.set("group", group)
        around = Around(select, self._keys(select, group, rows))
        if select.args.get("where") is not None:
            made.set("where", exp.Where(this=self.scalar(select.args["where"].this, rows)))
        made.set("expressions", [self._output(one, around) for one in select.expressions])
        if select.args.get("having") is not None:
            made.set("having", exp.Having(this=self.scalar(select.args["having"].this, around)))
        if select.args.get("windows"):
            named = [self._window_parts(one, one.copy(), around) for one in select.args["windows"]]
            made.set("windows", named)
        if select.args.get("order") is not None:
            made.set("order", exp.Order(expressions=self._terms(select.args["order"], around)))
        for name in ("limit", "offset"):
            node = select.args.get(name)
            if node is not None and not isinstance(node.expression, exp.Literal):
                raise refused(f"{name.upper()} by an expression")
        return self._qualified(select, made, around)

    def _qualified(self, select: exp.Select, made: exp.Select, around: Around) -> exp.Expr:
        """Spell QUALIFY as a condition around the query."""
        qualify = select.args.get("qualify")
        if qualify is None:
            return made
        if select.args.get("order") is not None or select.args.get("distinct") or select.args.get("limit"):
            raise refused("QUALIFY with ORDER BY, LIMIT or DISTINCT in the same query")
        made.set("qualify", None)
        made.append("expressions", exp.alias_(self.scalar(qualify.this, around), "lq_qualify", quoted=True))
        name = exp.column("lq_qualify", quoted=True)
        star = exp.Star(except_=[name.copy()])
        return exp.select(star).from_(made.subquery("lq_inner")).where(name)

    def _output(self, one: exp.Expr, around: Around) -> exp.Expr:
        if isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star)):
            star = one if isinstance(one, exp.Star) else one.this
            if any(value for value in star.args.values()):
                raise refused("* with EXCLUDE, REPLACE or RENAME")
            joins = around.select.args.get("joins") or ()
            if isinstance(one, exp.Star) and any(join.args.get("using") for join in joins):
                raise refused("* over a join with USING")
            return one.copy()
        if isinstance(one, exp.Alias):
            named = one.copy()
            named.set("this", self.scalar(one.this, around))
            return named
        made = self.scalar(one, around)
        if isinstance(made, exp.Column):
            return made
        name = self._name_of(one, around)
        return exp.alias_(made, name, quoted=True) if name else made

    def _name_of(self, one: exp.Expr, around: Around) -> str:
        """Return the name that DuckDB gives to an expression: an outer query may use it."""
        told = self.ask(around.select, one.sql(DIALECT))
        return told[-1][0] if told else ""

    def _sources(self, select: exp.Select, made: exp.Select, around: Around) -> None:
        from_ = select.args.get("from_")
        if from_ is not None:
            made.set("from_", exp.From(this=self._source(from_.this)))
        joins = []
        for join in select.args.get("joins") or ():
            if str(join.args.get("method") or "").upper() in {"ASOF", "POSITIONAL", "NATURAL"}:
                raise refused(f"{join.args['method']} JOIN")
            new = join.copy()
            new.set("this", self._source(join.this))
            if join.args.get("on") is not None:
                new.set("on", self.scalar(join.args["on"], around))
            joins.append(new)
        made.set("joins", joins or None)

    def _source(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Subquery):
            if any(node.args.get(key) for key in ("joins", "pivots", "sample")):
                raise refused("joins in parentheses")
            query = self.query(node)
            self._name_all(node.this, query)
            return query
        if not isinstance(node, exp.Table) or isinstance(node.this, exp.Func) or node.args.get("joins"):
            raise refused(f"{_spelled(node)} in FROM")
        made = node.copy()
        self._name_all(node, made)
        if cte_of(node) is None:
            made.set("this", exp.to_identifier(self.prefix + node.name))
        return made

    def _name_all(self, source: exp.Expr, made: exp.Expr) -> None:
        """Complete `AS t(a, b)`: Spark wants a name for each column, DuckDB leaves the others as they are."""
        alias = made.args.get("alias")
        if alias is None or not alias.args.get("columns"):
            return
        names = [name for name, _ in self.columns_of(source)]
        given = alias.args["columns"]
        rest = [exp.to_identifier(name, quoted=True) for name in names[len(given) :]]
        alias.set("columns", [*given, *rest])

    def _check_aliases(self, select: exp.Select) -> None:
        """Refuse a name that is a column and an alias of something else: it means one or the other."""
        aliases = {
            one.alias.lower()
            for one in select.expressions
            if isinstance(one, exp.Alias)
            and not (isinstance(one.this, exp.Column) and one.this.name.lower() == one.alias.lower())
        }
        names = ("where", "group", "having", "order", "qualify")
        parts = [select.args[name] for name in names if select.args.get(name) is not None]
        used = {
            column.name.lower() for part in (*parts, *select.expressions)
            for column in part.find_all(exp.Column) if not column.table
        }  # fmt: skip
        doubtful = aliases & used
        if not doubtful or select.args.get("from_") is None:
            return
        known = {name.lower() for name, _ in self.ask(select, "*", grouped=False) or ()}
        for name in sorted(doubtful & known):
            raise refused(f"{name}, which is a column and the name of something else: choose another name;")

    # ---- groups and windows ----------------------------------------------------------------------------

    def _group(self, select: exp.Select, around: Around) -> exp.Group | None:
        group = select.args.get("group")
        if group is None:
            return None
        if group.args.get("all"):
            places = [  # DuckDB leaves constants out
                place
                for place, one in enumerate(select.expressions, 1)
                if not _has_aggregate(one) and one.find(exp.Column) is not None
            ]
            if select.is_star:
                raise refused("GROUP BY ALL over *")
            return exp.Group(expressions=[exp.Literal.number(place) for place in places]) if places else None
        made: exp.Group = group.copy()
        for key in ("rollup", "cube", "grouping_sets"):
            for one in group.args.get(key) or ():
                if isinstance(one, exp.Expr):
                    _check_columns(one)
        new: list[exp.Expr] = []
        for one in group.expressions:
            if isinstance(one, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
                _check_columns(one)
                new.append(one.copy())
            else:
                new.append(one.copy() if isinstance(one, exp.Literal) else self.scalar(one, around))
        made.set("expressions", new)
        return made

    def _keys(self, select: exp.Select, group: exp.Group | None, around: Around) -> dict[str, exp.Expr]:
        """Return what the query is grouped by: in its expressions these stand for themselves."""
        found: dict[str, exp.Expr] = {}
        named = {one.alias.lower(): one.this for one in select.expressions if isinstance(one, exp.Alias)}
        for one in group.expressions if group is not None else ():
            origin: exp.Expr | None = None
            if isinstance(one, exp.Literal) and not one.is_string:
                place = int(one.name)
                if not 0 < place <= len(select.expressions) or select.is_star:
                    raise refused("GROUP BY a place of *")
                origin = select.expressions[place - 1].unalias()
            elif isinstance(one, exp.Column) and one.name.lower() in named:
                origin = named[one.name.lower()]
            if origin is not None and not isinstance(origin, exp.Column | exp.Literal):
                found[origin.sql(DIALECT)] = self.scalar(origin, around)
        original = select.args.get("group")
        for one in original.expressions if original is not None else ():
            if not isinstance(one, exp.Column | exp.Literal | exp.Rollup | exp.Cube | exp.GroupingSets):
                found[one.sql(DIALECT)] = self.scalar(one, around)
        return found

    def _terms(self, order: exp.Expr, around: Around) -> list[exp.Expr]:
        made = []
        for term in order.expressions:
            new = term.copy()
            new.set(
                "this",
                term.this.copy() if isinstance(term.this, exp.Literal) else self.scalar(term.this, around),
            )
            made.append(new)
        return made

    def _members(self, node: exp.Expr, rows: Around) -> exp.Expr:
        """Rewrite what stands behind DISTINCT: several columns are a row, which both count as one value."""
        if isinstance(node, exp.Tuple):
            return exp.Anonymous(
                this="struct", expressions=[self.scalar(one, rows) for one in node.expressions]
            )
        return self.scalar(node, rows)

    def _check_order(self, node: exp.Expr, rows: Around) -> None:
        """Refuse the least of structs and lists: Spark has nulls inside of them first, DuckDB last."""
        kind = self.type_of(node, rows)
        is_nested = kind.startswith(("STRUCT(", "MAP(")) or kind.endswith("]")
        if is_nested and not rows.is_of_view:  # in views they begin with what is never null
            raise refused(f"min() or max() of {kind}")

    def window(self, window: exp.Window, around: Around) -> exp.Expr:
        inner = window.this
        call = inner.this if isinstance(inner, exp.IgnoreNulls | exp.RespectNulls) else inner
        name = type(call).__name__
        if name in WINDOW_FUNCTIONS:
            function = call.copy()
            for key, value in call.args.items():
                if isinstance(value, exp.Expr):
                    function.set(key, self.scalar(value, around))
            if inner is not call:
                function = type(inner)(this=function)
        else:
            function = self.aggregate(inner, around)
        made = window.copy()
        made.set("this", function)
        return self._window_parts(window, made, around)

    def _window_parts(self, window: exp.Expr, made: exp.Expr, around: Around) -> exp.Expr:
        made.set(
            "partition_by",
            [self.scalar(one, around) for one in window.args.get("partition_by") or ()] or None,
        )
        if window.args.get("order") is not None:
            made.set("order", exp.Order(expressions=self._terms(window.args["order"], around)))
        spec = window.args.get("spec")
        if spec is not None:
            bounds = [spec.args.get("start"), spec.args.get("end")]
            if str(spec.args.get("kind") or "").upper() not in {"ROWS", "RANGE"} or spec.args.get("exclude"):
                raise refused("a frame of GROUPS, or with EXCLUDE,")
            if any(isinstance(one, exp.Expr) and not isinstance(one, exp.Literal) for one in bounds):
                raise refused("a frame whose bounds are expressions")
        return made

    def aggregate(self, node: exp.Expr, around: Around) -> exp.Expr:
        rows = Around(around.select)
        if isinstance(node, exp.Filter):
            if isinstance(node.this, exp.ArrayAgg):
                raise refused("list() with FILTER")
            made = node.copy()
            made.set("this", self.aggregate(node.this, around))
            made.set("expression", exp.Where(this=self.scalar(node.expression.this, rows)))
            return made
        call = (
            node.this if isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.AnyValue) else node
        )
        row = AGGREGATES.get(type(call).__name__)
        if row is None or call.args.get("order") or not levels_are_plain(call):
            raise refused(_function_name(call))
        given = call.this
        if isinstance(given, exp.Star) or given is None:
            return call.copy()
        distinct = isinstance(given, exp.Distinct)
        if isinstance(call, exp.ArrayAgg) and not distinct:
            raise refused("list() without DISTINCT")
        if distinct and len(given.expressions) != 1:
            raise refused("DISTINCT over several columns")
        inner = given.expressions[0] if distinct else given
        if isinstance(inner, exp.Order | exp.HavingMax | exp.Limit):
            raise refused(f"{_function_name(call)} with an order")
        if row.is_numeric and not is_number(self.type_of(inner, rows)):
            raise refused(f"{_function_name(call)} of {self.type_of(inner, rows)}")
        if isinstance(call, exp.Min | exp.Max):
            self._check_order(inner, rows)
        made_of = self._members(inner, rows) if distinct else self.scalar(inner, rows)
        copied = call.copy()
        if row.second:
            copied.set(row.second, self.scalar(call.args[row.second], rows))
        return row.build(copied, exp.Distinct(expressions=[made_of]) if distinct else made_of)


def _has_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Window | exp.Subquery):
        return False
    return is_aggregate(node) or any(_has_aggregate(child) for child in node.iter_expressions())


def _check_columns(node: exp.Expr) -> None:
    for one in node.walk():
        if not isinstance(
            one,
            exp.Column | exp.Identifier | exp.Tuple | exp.Paren | exp.Rollup | exp.Cube | exp.GroupingSets,
        ):
            raise refused("ROLLUP, CUBE or GROUPING SETS over expressions")


def _function_name(node: exp.Expr) -> str:
    name = node.name if isinstance(node, exp.Anonymous) else getattr(node, "sql_name", node.key.upper)()
    return f"{name.lower()}()"


def _spelled(node: exp.Expr) -> str:
    return _function_name(node.this) if isinstance(node, exp.Table) else type(node).__name__.upper()
