"""Random statements of LakeQL from a grammar with types, each with one right answer.

What DuckDB leaves open is not asked: rows are cut only after an order by all columns or by a key, windows are
ordered by a key of the table or have frames by value.
"""

# ruff: noqa: E501 - pieces of statements stay whole
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.support.query.random_expressions import Expressions
from tests.support.query.random_tables import (
    ALIASES,
    BOOL,
    FLOAT,
    INT,
    KEYS,
    TABLES,
    TEXT,
    TIME,
    Columns,
    Query,
    Scope,
    Source,
)

IDS = ("trace_id", "span_id", "tid")


class Statements(Expressions):
    """The statements of one seed, one after the other."""

    def __init__(self, seed: int | str, tables: dict[str, Columns] = TABLES) -> None:
        super().__init__(seed, tables)

    def statement(self) -> Query:
        """One statement."""
        self._aliases = 0
        if self.rng.random() < 0.3:
            return self._with_ctes()
        return self._finished(self._query({}, 2))

    def _with_ctes(self) -> Query:
        ctes: dict[str, Query] = {}
        texts = []
        for _ in range(self.rng.randrange(1, 4)):
            name = self.rng.choice(("t", "u", "logs", "slow", "spans"))
            if name in ctes:
                continue
            inner = self._query(ctes, 1)
            named = f"{name} AS"
            if self.rng.random() < 0.2:
                names = [f"{name}{place}" for place in range(len(inner.columns))]
                named = f"{name} ({', '.join(names)}) AS"
                inner = replace(inner, columns=dict(zip(names, inner.columns.values(), strict=True)))
            texts.append(f"{named} {self.pick('', '', 'MATERIALIZED ')}({inner.sql})")
            ctes[name] = inner
        done = self._finished(self._query(ctes, 2, prefer_ctes=True))
        return replace(done, sql=f"WITH {', '.join(texts)} {done.sql}")

    def _finished(self, query: Query) -> Query:
        if query.is_total or self.rng.random() < 0.5:
            return query
        return self._ordered(query, with_limit=self.rng.random() < 0.7)

    def _ordered(self, query: Query, *, with_limit: bool) -> Query:
        order = self._total_order(len(query.columns))
        limit = self._limit() if with_limit else ""
        return replace(query, sql=f"{query.sql} ORDER BY {order}{limit}", is_total=True, is_small=True)

    def _limit(self) -> str:
        offset = f" OFFSET {self.rng.randrange(5)}" if self.rng.random() < 0.3 else ""
        return f" LIMIT {self.rng.choice((0, 1, 3, 10, 10, 50, 1000, 1000))}{offset}"

    def _total_order(self, count: int) -> str:
        return ", ".join(
            f"{place}{self.pick('', ' DESC', ' ASC')}{self.pick('', '', ' NULLS FIRST', ' NULLS LAST')}"
            for place in range(1, count + 1)
        )

    # Queries

    def _query(self, ctes: dict[str, Query], depth: int, *, prefer_ctes: bool = False) -> Query:
        if depth and self.rng.random() < 0.12:
            return self._set_operation(ctes, depth)
        scope = Scope(self._from(ctes, depth, prefer_ctes=prefer_ctes), None, ctes)
        return self._select(scope, depth)

    def _set_operation(self, ctes: dict[str, Query], depth: int) -> Query:
        types = [self.rng.choice((TEXT, INT, TIME, BOOL)) for _ in range(self.rng.randrange(1, 3))]
        sides = []
        for _ in range(self.rng.randrange(2, 4)):
            scope = Scope(self._from(ctes, 0), None, ctes)
            listed = ", ".join(f"{self.expr(kind, scope, 1)} AS c{n}" for n, kind in enumerate(types))
            side = f"SELECT {listed} FROM {self._from_sql(scope)}{self.where(scope, depth)}"
            if self.rng.random() < 0.2:
                side = f"({side} ORDER BY {self._total_order(len(types))}{self._limit()})"
            sides.append(side)
        kinds = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL", "UNION")
        if len(sides) == 3 and self.rng.random() < 0.5:
            sides = [sides[0], f"({sides[1]} {self.pick(*kinds)} {sides[2]})"]
        sql = f" {self.pick(*kinds)} ".join(sides)
        return Query(sql, {f"c{n}": kind for n, kind in enumerate(types)})

    def _from_sql(self, scope: Scope) -> str:
        return "".join(one.sql for one in scope.sources)

    def _from(self, ctes: dict[str, Query], depth: int, *, prefer_ctes: bool = False) -> list[Source]:
        sources = [self._source(ctes, depth, prefer_ctes=prefer_ctes)]
        joins = self.rng.choice((0, 0, 0, 0, 1, 1, 2, 3)) if depth else 0
        for _ in range(joins):
            self._join(sources, ctes, depth)
        return sources

    def _source(self, ctes: dict[str, Query], depth: int, *, prefer_ctes: bool = False) -> Source:
        roll = self.rng.random()
        if ctes and roll < (0.7 if prefer_ctes else 0.25):
            name = self.rng.choice(sorted(ctes))
            alias = self.alias() if self.rng.random() < 0.6 else name
            sql = name if alias == name else f"{name} {alias}"
            return Source(alias, sql, ctes[name].columns, (), ctes[name].is_small)
        if depth and 0.55 < roll < 0.7:
            inner = self._query(ctes, depth - 1)
            if self.rng.random() < 0.2 and not inner.is_total:
                inner = self._ordered(inner, with_limit=True)
            alias = self.alias("s")
            sql = f"({inner.sql}) {self.pick('', 'AS ')}{alias}"
            return Source(alias, sql, inner.columns, (), inner.is_small)
        return self._table(ctes)

    def _table(self, ctes: dict[str, Query]) -> Source:
        names = [one for one in ("logs", "logs", "logs", "spans", "spans", *self.tables) if one not in ctes]
        name = self.rng.choice(names)
        alias = self.alias() if self.rng.random() < 0.6 else name
        sql = name if alias == name else f"{name} {self.pick('', 'AS ')}{alias}"
        return Source(alias, sql, self.tables[name], KEYS[name])

    def _join(self, sources: list[Source], ctes: dict[str, Query], depth: int) -> None:
        roll = self.rng.random()
        if roll < 0.25:
            return self._join_small(sources, ctes)
        left = self.rng.choice(sources)
        right = self._source(ctes, depth - 1)
        if any(one.alias.lower() == right.alias.lower() for one in sources):
            return None
        shared = [name for name in IDS if name in left.columns and name in right.columns]
        narrow = [name for name in shared if left.columns[name] == right.columns[name]]
        if not narrow:
            return self._join_small(sources, ctes)
        name = self.rng.choice(narrow)
        on = f"{left.alias}.{name} = {right.alias}.{name}"
        if name == "tid":
            if "timestamp" not in left.columns or "timestamp" not in right.columns:
                return None
            on += f" AND {left.alias}.timestamp = {right.alias}.timestamp"
        elif len(sources) == 1 and self.rng.random() < 0.1 and "*" not in left.sql:
            sources[:] = [replace(left, key=(), columns=_without(left.columns, name))]
            others = _without(right.columns, name)
            sources.append(replace(right, sql=f" JOIN {right.sql} USING ({name})", key=(), columns=others))
            return None
        if self.rng.random() < 0.3:
            only = Scope([self.rng.choice((left, right))], None, ctes)
            on += f" AND {self.predicate(only, 0, qualified=True)}"
        self._add_joined(sources, right, on)
        return None

    def _add_joined(self, sources: list[Source], right: Source, on: str) -> None:
        kind = self.pick(
            "JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "JOIN", "LEFT JOIN", "SEMI JOIN",
            "ANTI JOIN",
        )  # fmt: skip
        if kind in {"SEMI JOIN", "ANTI JOIN"}:
            sources[-1] = replace(sources[-1], sql=f"{sources[-1].sql} {kind} {right.sql} ON {on}")
            return
        sources[:] = [replace(one, key=()) for one in sources]
        sources.append(replace(right, sql=f" {kind} {right.sql} ON {on}", key=()))

    def _join_small(self, sources: list[Source], ctes: dict[str, Query]) -> None:
        """Join a few rows: groups of a table, listed values, or one row."""
        left = self.rng.choice(sources)
        sources[:] = [replace(one, key=()) for one in sources]
        alias = self.alias("g")
        inner = self._table(ctes)
        scope = Scope([inner], None, ctes)
        sql, kind = self.aggregate(scope)
        where = self.where(scope, 0)
        columns = {"g_service": TEXT, "g_value": kind}
        if left.columns.get("timestamp") == TIME and self.rng.random() < 0.4:
            bucket = f"time_bucket(INTERVAL '30 minutes', {inner.alias}.timestamp)"
            query = f"SELECT {bucket} AS g_time, {sql} AS g_value FROM {inner.sql}{where} GROUP BY 1"
            on = f"time_bucket(INTERVAL '30 minutes', {left.alias}.timestamp) = {alias}.g_time"
            columns = {"g_time": TIME, "g_value": kind}
        elif left.columns.get("service_name") == TEXT and self.rng.random() < 0.7:
            query = f"SELECT {inner.alias}.service_name AS g_service, {sql} AS g_value FROM {inner.sql}{where} GROUP BY 1"
            on = f"{left.alias}.service_name = {alias}.g_service"
            if self.rng.random() < 0.3:
                query = "VALUES ('web', 1), ('search', 2), ('web', 3), (NULL, 4)"
                alias = f"{alias} (g_service, g_value)"
                columns = {"g_service": TEXT, "g_value": INT}
        else:
            query = f"SELECT 'one' AS g_service, {sql} AS g_value FROM {inner.sql}{where}"
            sources.append(Source(alias, f" CROSS JOIN ({query}) {alias}", columns))
            return
        kind = self.pick("JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN")
        name = alias.partition(" ")[0]
        sources.append(Source(name, f" {kind} ({query}) {alias} ON {on}", columns))

    def _select(self, scope: Scope, depth: int) -> Query:
        roll = self.rng.random()
        if roll < 0.5:
            return self._grouped(scope, depth)
        if scope.is_single and scope.sources[0].key:
            if roll < 0.62:
                return self._windowed(scope, depth)
            if roll < 0.68:
                return self._first_of_key(scope, depth)
        where, from_ = self.where(scope, depth), self._from_sql(scope)
        if roll > 0.93 and scope.is_single and "(" not in from_ and scope.sources[0].key:
            names = [name for name in scope.sources[0].columns if name.isidentifier()]
            columns = {name: scope.sources[0].columns[name] for name in names}
            return Query(f"SELECT {', '.join(names)} FROM {from_}{where}", columns)
        outputs = self._outputs(scope, depth)
        distinct = "DISTINCT " if self.rng.random() < 0.15 else ""
        listed = ", ".join(f"{sql} AS {name}" for name, sql, _ in outputs)
        return Query(
            f"SELECT {distinct}{listed} FROM {from_}{where}", {name: kind for name, _, kind in outputs}
        )

    def _first_of_key(self, scope: Scope, depth: int) -> Query:
        """The first rows in the order of a key, or the first of each group."""
        only = scope.sources[0]
        order = ", ".join(f"{only.alias}.{name}{self.pick('', ' DESC')}" for name in only.key)
        outputs = self._outputs(scope, 0)
        listed = ", ".join(f"{sql} AS c{place}" for place, (_, sql, _) in enumerate(outputs))
        columns = {f"c{place}": kind for place, (_, _, kind) in enumerate(outputs)}
        where = self.where(scope, depth)
        if self.rng.random() < 0.3:
            by = self.expr(TEXT, scope, 0, qualified=True)
            sql = f"SELECT DISTINCT ON ({by}) {listed} FROM {only.sql}{where} ORDER BY {by}, {order}"
        else:
            sql = f"SELECT {listed} FROM {only.sql}{where} ORDER BY {order}{self._limit()}"
        return Query(f"SELECT * FROM ({sql}) AS firsts", columns, is_small=True)

    def _outputs(self, scope: Scope, depth: int) -> list[tuple[str, str, str]]:
        found = []
        for name in self._names(self.rng.randrange(1, 5)):
            kind = self.kind()
            sql = self.expr(kind, scope, self.rng.randrange(2))
            if depth and self.rng.random() < 0.05:
                kind, sql = INT, self._scalar_subquery(scope)
            found.append((name, sql, kind))
        return found

    def _names(self, count: int) -> list[str]:
        if self.rng.random() < 0.25:
            return self.rng.sample(ALIASES, count)
        return [f"c{n}" for n in range(count)]

    def _scalar_subquery(self, scope: Scope) -> str:
        inner = self.plain_source(scope.ctes)
        inside = Scope([inner], None, scope.ctes)
        extra = ""
        outer = self.rng.choice(scope.sources)
        shared = [n for n in ("trace_id", "service_name") if n in inner.columns and n in outer.columns]
        if shared and self.rng.random() < 0.5:
            extra = f" WHERE {inner.alias}.{shared[0]} = {outer.alias}.{shared[0]}"
        return f"(SELECT {self.pick('count(*)', f'max({self.expr(INT, inside, 0, qualified=True)})')} FROM {inner.sql}{extra})"

    # Groups and windows

    def _grouped(self, scope: Scope, depth: int) -> Query:
        keys = [self._key(scope) for _ in range(self.rng.choice((0, 1, 1, 1, 2, 2, 3)))]
        keys = list({sql: (sql, kind) for sql, kind in keys}.values())
        listed = [*keys, *(self.aggregate(scope) for _ in range(self.rng.randrange(1, 4)))]
        group, extra = self._group_clause([sql for sql, _ in keys])
        listed += extra
        names = self._names(min(len(ALIASES), len(listed)))
        listed = listed[: len(names)]
        if group == "BY NAME":
            is_safe = all(name.startswith("c") for name in names)
            shown = names[: len(keys)] if is_safe else [str(place + 1) for place in range(len(keys))]
            group = f" GROUP BY {', '.join(shown)}"
        where, having = self.where(scope, depth), ""
        if keys and self.rng.random() < 0.25:
            having = f" HAVING {self._having(scope)}"
        shown_sql = ", ".join(f"{sql} AS {name}" for name, (sql, _) in zip(names, listed, strict=True))
        sql = f"SELECT {shown_sql} FROM {self._from_sql(scope)}{where}{group}{having}"
        return Query(sql, dict(zip(names, [kind for _, kind in listed], strict=True)), is_small=True)

    def _key(self, scope: Scope) -> tuple[str, str]:
        kind = self.rng.choice((TEXT, TEXT, TEXT, INT, BOOL, TIME))
        if kind == TIME:
            return self._bucket(scope), TIME
        return self.expr(kind, scope, self.rng.choice((0, 0, 1))), kind

    def _bucket(self, scope: Scope) -> str:
        column = self.expr(TIME, scope, 0)
        return self.pick(
            f"time_bucket(INTERVAL '{self.pick('5 minutes', '1 hour', '90 seconds')}', {column})",
            f"date_trunc('{self.pick('hour', 'minute')}', {column})",
        )

    def _group_clause(self, keys: Sequence[str]) -> tuple[str, list[tuple[str, str]]]:
        """A GROUP BY, and columns that only it makes possible."""
        if not keys:
            return "", []
        roll = self.rng.random()
        if roll < 0.3:
            return " GROUP BY " + ", ".join(str(n + 1) for n in range(len(keys))), []
        if roll < 0.42:
            return " GROUP BY ALL", []
        if roll < 0.52:
            return "BY NAME", []
        if roll < 0.68:
            listed, some = (
                ", ".join(keys),
                ", ".join(self.rng.sample(keys, self.rng.randrange(1, len(keys) + 1))),
            )
            clause = self.pick(
                f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({listed}), ({some}), ())"
            )
            flag = [(f"grouping({keys[0]})", INT)] if self.rng.random() < 0.5 else []
            return f" GROUP BY {clause}", flag
        ordered = f"row_number() OVER (ORDER BY {', '.join(keys)})"
        summed = "sum(count(*)) OVER ()"
        over = [(self.pick(ordered, summed), INT)] if self.rng.random() < 0.15 else []
        return " GROUP BY " + ", ".join(keys), over

    def _having(self, scope: Scope) -> str:
        return self.pick(
            f"count(*) > {self.rng.choice((0, 1, 5, 50))}",
            f"max({self.expr(INT, scope, 0)}) >= {self.rng.choice((0, 1, 9, 40))}",
            f"count({self.expr(TEXT, scope, 0)}) BETWEEN 1 AND 60",
            f"min({self.expr(TEXT, scope, 0)}) IS NOT NULL AND count(*) > 2",
            f"count(*) FILTER (WHERE {self.predicate(scope, 0)}) > 0",
        )

    def _windowed(self, scope: Scope, depth: int) -> Query:
        only = scope.sources[0]
        key = ", ".join(f"{only.alias}.{name}" for name in only.key)
        by = self.expr(self.rng.choice((TEXT, BOOL)), scope, 0)
        part = f"PARTITION BY {by} " if self.rng.random() < 0.7 else ""
        window = f"({part}ORDER BY {key}{self.pick('', ' DESC')})"
        kind = self.rng.choice((TEXT, INT))
        calls = self._window_calls(scope, part, key, window, kind)
        chosen = self.rng.sample(calls, self.rng.randrange(1, 4))
        plain = [(self.expr(k, scope, 0), k) for k in (TEXT, INT)]
        listed = [*plain, *chosen]
        names = [f"c{n}" for n in range(len(listed))]
        qualify = ""
        if self.rng.random() < 0.2:
            qualify = f" QUALIFY row_number() OVER {window} <= {self.rng.randrange(1, 5)}"
        columns = ", ".join(f"{sql} AS {name}" for name, (sql, _) in zip(names, listed, strict=True))
        named = ""
        if not qualify and window in columns and self.rng.random() < 0.3:
            columns, named = columns.replace(f"OVER {window}", "OVER w"), f" WINDOW w AS {window}"
        sql = f"SELECT {columns} FROM {self._from_sql(scope)}{self.where(scope, depth)}{named}{qualify}"
        return Query(sql, dict(zip(names, [k for _, k in listed], strict=True)))

    def _window_calls(
        self, scope: Scope, part: str, key: str, window: str, kind: str
    ) -> list[tuple[str, str]]:
        frame = self.pick(
            "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN 1 PRECEDING AND 3 FOLLOWING", "",
        )  # fmt: skip
        framed = f"({part}ORDER BY {key} {frame})"
        column = self.column(TIME, scope, qualified=True)
        around = f"INTERVAL {self.rng.randrange(1, 40)} MINUTE PRECEDING AND CURRENT ROW"
        by_time = f"({part}ORDER BY {column} RANGE BETWEEN {around})" if column else framed
        return [
            (f"row_number() OVER {window}", INT), (f"rank() OVER {window}", INT),
            (f"dense_rank() OVER {window}", INT), (f"ntile(4) OVER {window}", INT),
            (f"{self.pick('percent_rank', 'cume_dist')}() OVER {window}", FLOAT),
            (f"{self.pick('lag', 'lead')}({self.expr(kind, scope, 0)}) OVER {window}", kind),
            (f"{self.pick('lag', 'lead')}({self.expr(INT, scope, 0)}, 2, -1) OVER {window}", INT),
            (f"sum({self.expr(INT, scope, 0)}) OVER {framed}", INT),
            (f"avg({self.expr(INT, scope, 0)}) OVER {framed}", FLOAT),
            (f"count(*) OVER {framed}", INT),
            (f"count(*) FILTER (WHERE {self.predicate(scope, 0)}) OVER {framed}", INT),
            (f"{self.pick('sum', 'count', 'max')}({self.expr(INT, scope, 0)}) OVER {by_time}", INT),
            (f"{self.pick('first_value', 'last_value')}({self.expr(kind, scope, 0)}) OVER {framed}", kind),
            (f"nth_value({self.expr(kind, scope, 0)}, 2) OVER {framed}", kind),
            (f"max({self.expr(TEXT, scope, 0)}) OVER ({part})", TEXT),
        ]  # fmt: skip


def _without(columns: Columns, name: str) -> Columns:
    """Columns but for one that USING makes common."""
    return {one: kind for one, kind in columns.items() if one != name}
