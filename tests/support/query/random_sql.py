"""Random statements of LakeQL from a grammar with types, each with one right answer.

What DuckDB leaves open is not asked: rows are cut only after an order by all columns, windows are ordered by a
key of the table, aggregates that pick a row have an order. Sums of floats are rounded where they decide.
"""

# ruff: noqa: E501 - pieces of statements stay whole
from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

TEXT, INT, FLOAT, BOOL, TIME = "text", "int", "float", "bool", "time"
BIG = "big"
"""Integers that are not added up: they would leave 64 bits."""
LOGS = {
    "timestamp": TIME, "tsns": BIG, "service_name": TEXT, "severity": TEXT, "level": TEXT,
    "severity_number": INT, "message": TEXT, "trace_id": TEXT, "span_id": TEXT, "attr_http_route": TEXT,
    "attr_bytes": INT, "attr_ratio": FLOAT, "attr_ok": BOOL, "attr_id": INT, "resource_host_name": TEXT,
    "resource_service_namespace": TEXT, "fingerprint": BIG, "organization_id": TEXT,
}  # fmt: skip
SPANS = {
    "timestamp": TIME, "tsns": BIG, "end_tsns": BIG, "duration_ns": INT, "service_name": TEXT, "name": TEXT,
    "kind": TEXT, "status_code": TEXT, "trace_id": TEXT, "span_id": TEXT, "parent_span_id": TEXT,
    "attr_http_status_code": INT, "attr_db_system": TEXT, "resource_host_name": TEXT,
}  # fmt: skip
METRICS = {
    "timestamp": TIME, "metric_name": TEXT, "metric_type": TEXT, "temporality": TEXT, "tid": BIG,
    "value": FLOAT, "count": INT, "sum": FLOAT, "service_name": TEXT,
}  # fmt: skip
ROLLED = {
    "timestamp": TIME, "metric_name": TEXT, "tid": BIG, "count": INT, "sum": FLOAT, "min": FLOAT,
    "max": FLOAT, "avg": FLOAT, "first": FLOAT, "last": FLOAT, "service_name": TEXT,
}  # fmt: skip
TABLES = {"logs": LOGS, "spans": SPANS, "metrics": METRICS, "metrics_5m": ROLLED, "metrics_1h": ROLLED}
KEYS = {
    "logs": ("tsns", "message", "attr_id", "span_id"), "spans": ("span_id",),
    "metrics": ("tid", "timestamp"), "metrics_5m": ("tid", "timestamp"), "metrics_1h": ("tid", "timestamp"),
}  # fmt: skip
VALUES = {
    "service_name": ("web", "payments", "checkout", "search", "nobody"),
    "severity": ("INFO", "ERROR", "WARN", "DEBUG", "FATAL", "info"),
    "level": ("INFO", "ERROR"),
    "attr_http_route": ("/", "/cart", "/it''s", "/ünïcode", ""),
    "kind": ("server", "client", "internal"),
    "status_code": ("unset", "ok", "error"),
    "metric_name": ("queue_depth_ratio", "requests_total", "latency_seconds"),
    "name": ("GET /cart", "POST /", "GET /it''s"),
    "resource_host_name": ("host-0", "host-1", "host-2"),
    "attr_db_system": ("pg", "redis"),
}
WORDS = ("took", "failed", "Café", "100", "quote", "a_b", "e", " ", "%")
INTS = (0, 1, 2, 5, 9, 13, 17, 40, 200, 404, 500, 1000, -3)
FLOATS = ("0", "0.5", "1.25", "-2.5", "2e9", "0.0", "3", "-1.5", "1e10")
ALIASES = ("n", "service_name", "severity", "timestamp", "x", "value", "Total", "message", "trace_id", "name")


@dataclass(frozen=True)
class Source:
    """A relation in FROM with the types of its columns, and columns that tell its rows apart."""

    alias: str
    sql: str
    columns: dict[str, str]
    key: tuple[str, ...] = ()
    is_small: bool = False


@dataclass(frozen=True)
class Query:
    sql: str
    columns: dict[str, str]
    is_total: bool = False
    """The rows are in the order of all columns."""
    is_small: bool = False


@dataclass
class Scope:
    sources: list[Source]
    outer: Source | None = None
    ctes: dict[str, Query] = field(default_factory=dict)

    @property
    def is_single(self) -> bool:
        return len(self.sources) == 1


class Statements:
    """The statements of one seed, one after the other."""

    def __init__(self, seed: int | str) -> None:
        self.rng = random.Random(seed)
        self._aliases = 0

    def statement(self) -> Query:
        """One statement."""
        self._aliases = 0
        if self.rng.random() < 0.3:
            return self._with_ctes()
        return self._finished(self._query({}, 2), {})

    def _with_ctes(self) -> Query:
        ctes: dict[str, Query] = {}
        texts = []
        for _ in range(self.rng.randrange(1, 3)):
            name = self.rng.choice(("t", "u", "logs", "slow", "spans"))
            if name in ctes:
                continue
            inner = self._query(ctes, 1)
            texts.append(f"{name} AS ({inner.sql})")
            ctes[name] = inner
        main = self._query(ctes, 2, prefer_ctes=True)
        done = self._finished(main, ctes)
        return replace(done, sql=f"WITH {', '.join(texts)} {done.sql}")

    def _finished(self, query: Query, _: dict[str, Query]) -> Query:
        if query.is_total or self.rng.random() < 0.5:
            return query
        return self._ordered(query, with_limit=self.rng.random() < 0.7)

    def _ordered(self, query: Query, *, with_limit: bool) -> Query:
        order = self._total_order(len(query.columns))
        limit = f" LIMIT {self.rng.choice((0, 1, 3, 10, 1000))}" if with_limit else ""
        if limit and self.rng.random() < 0.3:
            limit += f" OFFSET {self.rng.randrange(5)}"
        return replace(query, sql=f"{query.sql} ORDER BY {order}{limit}", is_total=True, is_small=True)

    def _total_order(self, count: int) -> str:
        return ", ".join(
            f"{place}{self.pick('', ' DESC', ' ASC')}{self.pick('', '', ' NULLS FIRST', ' NULLS LAST')}"
            for place in range(1, count + 1)
        )

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def _alias(self, stem: str = "t") -> str:
        self._aliases += 1
        return f"{stem}{self._aliases}"

    # Queries

    def _query(self, ctes: dict[str, Query], depth: int, *, prefer_ctes: bool = False) -> Query:
        if depth and self.rng.random() < 0.1:
            return self._set_operation(ctes, depth)
        scope = Scope(self._from(ctes, depth, prefer_ctes=prefer_ctes), None, ctes)
        return self._select(scope, depth)

    def _set_operation(self, ctes: dict[str, Query], depth: int) -> Query:
        types = [self.rng.choice((TEXT, INT, TIME, BOOL)) for _ in range(self.rng.randrange(1, 3))]
        sides = []
        for _ in range(self.rng.randrange(2, 4)):
            scope = Scope(self._from(ctes, 0), None, ctes)
            listed = ", ".join(f"{self.expr(kind, scope, 1)} AS c{n}" for n, kind in enumerate(types))
            sides.append(f"SELECT {listed} FROM {self._from_sql(scope)}{self._where(scope, depth)}")
        kind = self.pick("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "UNION")
        sql = f" {kind} ".join(sides)
        return Query(sql, {f"c{n}": kind for n, kind in enumerate(types)})

    def _from_sql(self, scope: Scope) -> str:
        return "".join(one.sql for one in scope.sources)

    def _from(self, ctes: dict[str, Query], depth: int, *, prefer_ctes: bool = False) -> list[Source]:
        first = self._source(ctes, depth, prefer_ctes=prefer_ctes)
        sources = [first]
        joins = self.rng.choice((0, 0, 0, 0, 1, 1, 2)) if depth else 0
        for _ in range(joins):
            self._join(sources, ctes, depth)
        return sources

    def _source(self, ctes: dict[str, Query], depth: int, *, prefer_ctes: bool = False) -> Source:
        roll = self.rng.random()
        if ctes and roll < (0.7 if prefer_ctes else 0.25):
            name = self.rng.choice(sorted(ctes))
            alias = self._alias() if self.rng.random() < 0.6 else name
            sql = name if alias == name else f"{name} {alias}"
            return Source(alias, sql, ctes[name].columns, (), ctes[name].is_small)
        if depth and 0.55 < roll < 0.7:
            inner = self._query(ctes, depth - 1)
            if self.rng.random() < 0.2 and not inner.is_total:
                inner = self._ordered(inner, with_limit=True)
            alias = self._alias("s")
            return Source(
                alias, f"({inner.sql}) {self.pick('', 'AS ')}{alias}", inner.columns, (), inner.is_small
            )
        name = self.rng.choice(
            [one for one in ("logs", "logs", "spans", *TABLES) if one not in ctes] or ["metrics"]
        )
        alias = self._alias() if self.rng.random() < 0.6 else name
        sql = name if alias == name else f"{name} {self.pick('', 'AS ')}{alias}"
        return Source(alias, sql, TABLES[name], KEYS[name])

    def _join(self, sources: list[Source], ctes: dict[str, Query], depth: int) -> None:
        left = self.rng.choice(sources)
        right = self._source(ctes, depth - 1)
        if any(one.alias.lower() == right.alias.lower() for one in sources):
            return
        narrow = [
            name for name in ("trace_id", "span_id", "tid")
            if name in left.columns and name in right.columns and left.columns[name] == right.columns[name]
        ]  # fmt: skip
        if not narrow:
            return
        name = self.rng.choice(narrow)
        both = [*sources, right]
        on = f"{left.alias}.{name} = {right.alias}.{name}"
        if name == "tid":
            if "timestamp" not in left.columns or "timestamp" not in right.columns:
                return
            on += f" AND {left.alias}.timestamp = {right.alias}.timestamp"
        scope = Scope(both, None, ctes)
        if self.rng.random() < 0.3:
            on += f" AND {self.predicate(Scope([self.rng.choice((left, right))], None, ctes), 0, qualified=True)}"
        kind = self.pick(
            "JOIN",
            "INNER JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
            "JOIN",
            "LEFT JOIN",
            "SEMI JOIN",
            "ANTI JOIN",
        )
        del scope
        if kind in {"SEMI JOIN", "ANTI JOIN"}:
            sources[-1] = replace(sources[-1], sql=f"{sources[-1].sql} {kind} {right.sql} ON {on}")
            return
        sources[:] = [replace(one, key=()) for one in sources]
        sources.append(replace(right, sql=f" {kind} {right.sql} ON {on}", key=()))

    def _where(self, scope: Scope, depth: int) -> str:
        if self.rng.random() < 0.25:
            return ""
        parts = [self.predicate(scope, depth) for _ in range(self.rng.choice((1, 1, 1, 2, 2, 3)))]
        return f" WHERE {' AND '.join(parts)}"

    def _select(self, scope: Scope, depth: int) -> Query:
        roll = self.rng.random()
        if roll < 0.5:
            return self._grouped(scope, depth)
        if roll < 0.62 and scope.is_single and scope.sources[0].key:
            return self._windowed(scope, depth)
        where, from_ = self._where(scope, depth), self._from_sql(scope)
        if roll > 0.93 and scope.is_single and "(" not in from_:
            only = scope.sources[0]
            if only.key:
                names = list(only.columns)
                return Query(f"SELECT {', '.join(names)} FROM {from_}{where}", dict(only.columns))
        columns = self._outputs(scope, depth)
        distinct = "DISTINCT " if self.rng.random() < 0.15 else ""
        listed = ", ".join(f"{sql} AS {name}" for name, sql, _ in columns)
        return Query(
            f"SELECT {distinct}{listed} FROM {from_}{where}", {name: kind for name, _, kind in columns}
        )

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

    def kind(self) -> str:
        return self.rng.choice((TEXT, TEXT, INT, INT, FLOAT, BOOL, TIME, BIG))

    def _scalar_subquery(self, scope: Scope) -> str:
        inner = self._plain_source(scope.ctes)
        inside = Scope([inner], None, scope.ctes)
        extra = ""
        outer = self.rng.choice(scope.sources)
        shared = [n for n in ("trace_id", "service_name") if n in inner.columns and n in outer.columns]
        if shared and self.rng.random() < 0.5:
            extra = f" WHERE {inner.alias}.{shared[0]} = {outer.alias}.{shared[0]}"
        return f"(SELECT {self.pick('count(*)', f'max({self.expr(INT, inside, 0, qualified=True)})')} FROM {inner.sql}{extra})"

    def _plain_source(self, ctes: dict[str, Query]) -> Source:
        name = self.rng.choice([one for one in ("logs", "spans") if one not in ctes] or ["metrics"])
        alias = self._alias("i")
        return Source(alias, f"{name} {alias}", TABLES[name], KEYS[name])

    # Groups and windows

    def _grouped(self, scope: Scope, depth: int) -> Query:
        keys = [(self._key(scope)) for _ in range(self.rng.choice((0, 1, 1, 1, 2, 2, 3)))]
        keys = list({sql: (sql, kind) for sql, kind in keys}.values())
        aggregates = [self.aggregate(scope) for _ in range(self.rng.randrange(1, 4))]
        names = self._names(min(len(ALIASES), len(keys) + len(aggregates)))
        listed = [f"{sql} AS {name}" for name, (sql, _) in zip(names, [*keys, *aggregates], strict=True)]
        columns = dict(zip(names, [kind for _, kind in [*keys, *aggregates]], strict=True))
        where, having = self._where(scope, depth), ""
        group = self._group_clause([sql for sql, _ in keys], names)
        if keys and self.rng.random() < 0.25:
            having = f" HAVING {self._having(scope)}"
        sql = f"SELECT {', '.join(listed)} FROM {self._from_sql(scope)}{where}{group}{having}"
        return Query(sql, columns, is_small=True)

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

    def _group_clause(self, keys: Sequence[str], names: Sequence[str]) -> str:
        if not keys:
            return ""
        roll = self.rng.random()
        if roll < 0.35:
            return " GROUP BY " + ", ".join(str(n + 1) for n in range(len(keys)))
        if roll < 0.5:
            return " GROUP BY ALL"
        if roll < 0.6 and all(name.startswith("c") for name in names):
            return " GROUP BY " + ", ".join(names[: len(keys)])
        if roll < 0.68:
            return f" GROUP BY {self.pick('ROLLUP', 'CUBE')} ({', '.join(keys)})"
        return " GROUP BY " + ", ".join(keys)

    def _having(self, scope: Scope) -> str:
        return self.pick(
            f"count(*) > {self.rng.choice((0, 1, 5, 50))}",
            f"max({self.expr(INT, scope, 0)}) >= {self.rng.choice(INTS)}",
            f"count({self.expr(TEXT, scope, 0)}) BETWEEN 1 AND 60",
            f"min({self.expr(TEXT, scope, 0)}) IS NOT NULL AND count(*) > 2",
        )

    def aggregate(self, scope: Scope) -> tuple[str, str]:
        rng = self.rng
        one = self.expr
        choices: list[Callable[[], tuple[str, str]]] = [
            lambda: ("count(*)", INT),
            lambda: (f"count({one(self.kind(), scope, 0)})", INT),
            lambda: (f"count(DISTINCT {one(rng.choice((TEXT, INT, BOOL)), scope, 0)})", INT),
            lambda: (f"sum({one(INT, scope, rng.randrange(2))})", INT),
            lambda: (f"sum({one(FLOAT, scope, 0)})", FLOAT),
            lambda: (f"avg({one(rng.choice((INT, FLOAT)), scope, 0)})", FLOAT),
            lambda: (f"{self.pick('min', 'max')}({one(INT, scope, 1)})", INT),
            lambda: (f"{self.pick('min', 'max')}({one(FLOAT, scope, 0)})", FLOAT),
            lambda: (f"{self.pick('min', 'max')}({one(TEXT, scope, 0)})", TEXT),
            lambda: (f"{self.pick('min', 'max')}({one(TIME, scope, 0)})", TIME),
            lambda: (f"sum(DISTINCT {one(INT, scope, 0)})", INT),
            lambda: (f"{self.pick('bool_and', 'bool_or')}({self.predicate(scope, 0)})", BOOL),
            lambda: (f"{self.pick('stddev_samp', 'var_pop', 'stddev')}({one(INT, scope, 0)} % 1000)", FLOAT),
            lambda: (f"{self.pick('median', 'avg')}({one(INT, scope, 0)})", FLOAT),
            lambda: (f"quantile_cont({one(FLOAT, scope, 0)}, 0.9)", FLOAT),
            lambda: (f"count_if({self.predicate(scope, 0)})", INT),
            lambda: (f"string_agg(DISTINCT {(t := one(TEXT, scope, 0))}, ',' ORDER BY {t})", TEXT),
            lambda: (f"bit_xor({one(INT, scope, 0)})", INT),
        ]
        sql, kind = rng.choice(choices)()
        if rng.random() < 0.2:
            sql += f" FILTER (WHERE {self.predicate(scope, 0)})"
        roll = rng.random()
        if kind == INT and roll < 0.15:
            return f"{sql} + count(*)", INT
        if kind == FLOAT and roll < 0.15:
            return f"coalesce({sql}, 0.0) * 2", FLOAT
        if kind == INT and roll < 0.2:
            return f"CASE WHEN {sql} > 10 THEN 'many' ELSE 'few' END", TEXT
        return sql, kind

    def _windowed(self, scope: Scope, depth: int) -> Query:
        only = scope.sources[0]
        key = ", ".join(f"{only.alias}.{name}" for name in only.key)
        part = (
            f"PARTITION BY {self.expr(self.rng.choice((TEXT, BOOL)), scope, 0)} "
            if self.rng.random() < 0.7
            else ""
        )
        window = f"({part}ORDER BY {key}{self.pick('', ' DESC')})"
        frame = self.pick(
            "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN 1 PRECEDING AND 3 FOLLOWING", "",
        )  # fmt: skip
        framed = f"({part}ORDER BY {key} {frame})"
        kind = self.rng.choice((TEXT, INT))
        calls = [
            (f"row_number() OVER {window}", INT), (f"rank() OVER {window}", INT),
            (f"dense_rank() OVER {window}", INT), (f"ntile(4) OVER {window}", INT),
            (f"{self.pick('lag', 'lead')}({self.expr(kind, scope, 0)}) OVER {window}", kind),
            (f"sum({self.expr(INT, scope, 0)}) OVER {framed}", INT),
            (f"avg({self.expr(INT, scope, 0)}) OVER {framed}", FLOAT),
            (f"count(*) OVER {framed}", INT),
            (f"{self.pick('first_value', 'last_value')}({self.expr(kind, scope, 0)}) OVER {framed}", kind),
            (f"max({self.expr(TEXT, scope, 0)}) OVER ({part})", TEXT),
        ]  # fmt: skip
        chosen = self.rng.sample(calls, self.rng.randrange(1, 3))
        plain = [(self.expr(k, scope, 0), k) for k in (TEXT, INT)]
        listed = [*plain, *chosen]
        names = [f"c{n}" for n in range(len(listed))]
        qualify = (
            f" QUALIFY row_number() OVER {window} <= {self.rng.randrange(1, 5)}"
            if self.rng.random() < 0.2
            else ""
        )
        columns = ", ".join(f"{sql} AS {name}" for name, (sql, _) in zip(names, listed, strict=True))
        sql = f"SELECT {columns} FROM {self._from_sql(scope)}{self._where(scope, depth)}{qualify}"
        return Query(sql, dict(zip(names, [k for _, k in listed], strict=True)))

    # Expressions

    def column(self, kind: str, scope: Scope, *, qualified: bool = False) -> str | None:
        found = [(one, name) for one in scope.sources for name, each in one.columns.items() if each == kind]
        if not found:
            return None
        source, name = self.rng.choice(found)
        shown = name
        if self.rng.random() < 0.1:
            shown = self.pick(name.upper(), f'"{name}"')
        if scope.is_single and not qualified and self.rng.random() < 0.6:
            return shown
        return f"{source.alias}.{shown}"

    def expr(self, kind: str, scope: Scope, depth: int, *, qualified: bool = False) -> str:
        column = self.column(kind, scope, qualified=qualified)
        if column is None or (not depth and self.rng.random() < 0.05):
            return self.literal(kind)
        if not depth:
            return column
        made = {TEXT: self._text, INT: self._int, FLOAT: self._float, TIME: self._time}.get(kind)
        if made is not None:
            return made(column, scope, depth - 1)
        return (
            f"({self.predicate(scope, 0)})"
            if kind == BOOL
            else f"{column} // {self.pick('1000', '7', '1000000000')}"
        )

    def literal(self, kind: str) -> str:
        if kind == TEXT:
            return f"'{self.rng.choice(WORDS)}'"
        if kind == FLOAT:
            return f"CAST({self.rng.choice(FLOATS)} AS DOUBLE)"
        if kind == BOOL:
            return self.pick("true", "false")
        if kind == TIME:
            return f"TIMESTAMP '{self._moment()}'"
        return f"CAST({self.rng.choice(INTS)} AS BIGINT)"

    def _moment(self) -> str:
        second = self.rng.choice((0, 1, 1799, 3599)) if self.rng.random() < 0.4 else self.rng.randrange(3600)
        hour = self.rng.choice((0, 0, 1, 1, 2, 2, 3))
        fraction = self.pick("", "", ".5", ".000001", ".999999")
        return f"2026-01-01 {hour:02}:{second // 60:02}:{second % 60:02}{fraction}"

    def _text(self, column: str, scope: Scope, depth: int) -> str:
        other = self.expr(TEXT, scope, depth)
        return self.pick(
            f"lower({column})", f"upper({column})", f"substring({column}, 2, {self.rng.randrange(1, 6)})",
            f"{column} || '-' || {other}", f"coalesce({column}, 'none')", f"replace({column}, 'e', 'E')",
            f"CASE WHEN {self.predicate(scope, 0)} THEN {column} ELSE {other} END",
            f"CAST({self.expr(INT, scope, 0)} AS VARCHAR)", f"nullif({column}, 'web')",
            f"split_part({column}, ' ', 1)", f"concat({column}, {other})", f"left({column}, 3)",
        )  # fmt: skip

    def _int(self, column: str, scope: Scope, depth: int) -> str:
        other = self.expr(INT, scope, depth)
        return self.pick(
            f"{column} + {other}", f"{column} - {other}", f"{column} * {self.rng.randrange(2, 5)}",
            f"{column} % 7", f"length({self.expr(TEXT, scope, 0)})", f"coalesce({column}, 0)", f"abs({column})",
            f"CASE WHEN {self.predicate(scope, 0)} THEN {column} END", f"{column} // 3",
            f"date_part('hour', {self.expr(TIME, scope, 0)})", f"greatest({column}, {other})",
        )  # fmt: skip

    def _float(self, column: str, scope: Scope, depth: int) -> str:
        other = self.expr(INT, scope, depth)
        return self.pick(
            f"{column} * 0.5", f"{column} + {other}", f"round({column}, 2)", f"abs({column})", f"-{column}",
            f"sqrt(abs({column}))", f"ln(abs({column}) + 1)", f"{other} / 4", f"coalesce({column}, 0.25)",
        )  # fmt: skip

    def _time(self, column: str, scope: Scope, depth: int) -> str:
        del scope, depth
        return self.pick(
            f"date_trunc('hour', {column})", f"time_bucket(INTERVAL '10 minutes', {column})",
            f"{column} + INTERVAL {self.rng.randrange(1, 90)} MINUTE", f"{column} - INTERVAL '1 hour'",
        )  # fmt: skip

    # Predicates

    def predicate(self, scope: Scope, depth: int, *, qualified: bool = False) -> str:
        roll = self.rng.random()
        if depth and roll < 0.08:
            return self._in_query(scope)
        if depth and roll < 0.14 and not qualified:
            return self._exists(scope)
        if depth and roll < 0.3:
            both = [self.predicate(scope, depth - 1, qualified=qualified) for _ in range(2)]
            return self.pick(f"({both[0]} OR {both[1]})", f"NOT ({both[0]})", f"({both[0]} AND {both[1]})")
        return self._comparison(scope, qualified=qualified)

    def _comparison(self, scope: Scope, *, qualified: bool) -> str:
        kind = self.rng.choice((TEXT, TEXT, INT, FLOAT, BOOL, TIME, TIME, BIG))
        column = self.column(kind, scope, qualified=qualified)
        if column is None:
            return self.pick("true", "1 = 1", "NOT false")
        if self.rng.random() < 0.1:
            return f"{column} IS {self.pick('', 'NOT ')}NULL"
        made = {TEXT: self._text_test, TIME: self._time_test, BOOL: self._bool_test}.get(
            kind, self._number_test
        )
        return made(column, kind)

    def _text_test(self, column: str, _: str) -> str:
        bare = column.rsplit(".", 1)[-1].strip('"').lower()
        values = VALUES.get(bare, WORDS)
        value = self.rng.choice(values)
        listed = ", ".join(f"'{one}'" for one in self.rng.sample(values, min(len(values), 2)))
        return self.pick(
            f"{column} = '{value}'", f"{column} = '{value}'", f"{column} <> '{value}'", f"'{value}' = {column}",
            f"{column} {self.pick('', 'NOT ')}IN ({listed})", f"{column} LIKE '%{self.pick(*WORDS[:6])}%'",
            f"{column} ILIKE '{self.pick('w', 'g', 'C')}%'", f"{column} > '{value}'",
            f"regexp_matches({column}, '{self.pick('^w', 't..k', '[0-9]+ ms$', 'é')}')",
            f"starts_with({column}, '{value[:2]}')" if "'" not in value
            else f"contains({column}, 'it')",
            f"contains({column}, '{self.pick('o', 'caf', 'GET')}')", f"{column} IS DISTINCT FROM '{value}'",
            f"length({column}) > {self.rng.randrange(3, 40)}", f"{column} NOT LIKE '_e%'",
            f"coalesce({column}, 'web') = 'web'",
        )  # fmt: skip

    def _number_test(self, column: str, kind: str) -> str:
        if kind == BIG:
            value = str(
                1_767_225_600_000_000_000
                + self.rng.randrange(3 * 3600) * 1_000_000_000
                + self.rng.choice((0, 1, 999))
            )
        else:
            value = self.rng.choice(FLOATS) if kind == FLOAT else str(self.rng.choice(INTS))
        return self.pick(
            f"{column} {self.pick('<', '<=', '>', '>=', '=', '<>')} {value}", f"{value} < {column}",
            f"{column} BETWEEN {self.rng.choice(INTS)} AND {value}", f"{column} NOT BETWEEN 1 AND {value}",
            f"{column} IN ({value}, 1, 200)", f"coalesce({column}, 0) >= {value}",
            f"NOT {column} > {value}", f"{column} + 1 > {value}",
        )  # fmt: skip

    def _bool_test(self, column: str, _: str) -> str:
        return self.pick(
            column, f"NOT {column}", f"{column} IS TRUE", f"{column} = false", f"{column} IS NOT FALSE"
        )

    def _time_test(self, column: str, _: str) -> str:
        low, high = sorted((self._moment(), self._moment()))
        at = self.pick(
            f"TIMESTAMP '{low}'",
            f"'{low}'",
            f"CAST('{low}' AS TIMESTAMP)",
            f"TIMESTAMP '{high}' - INTERVAL 20 MINUTE",
        )
        return self.pick(
            f"{column} {self.pick('<', '<=', '>', '>=')} {at}", f"{at} {self.pick('<', '<=', '>', '>=')} {column}",
            f"{column} BETWEEN '{low}' AND '{high}'", f"{column} >= '{low}' AND {column} < '{high}'",
            f"time_bucket(INTERVAL '10 minutes', {column}) {self.pick('<', '>=', '>', '<=', '=')} TIMESTAMP '2026-01-01 01:20:00'",
            f"date_trunc('hour', {column}) {self.pick('=', '>', '<', '>=', '<=', '<>')} TIMESTAMP '2026-01-01 01:00:00'",
            f"{column} + INTERVAL 1 HOUR > TIMESTAMP '{low}'", f"NOT {column} < {at}",
            f"({column} < '{low}' OR {column} > '{high}')", f"{column} NOT BETWEEN '{low}' AND '{high}'",
        )  # fmt: skip

    def _in_query(self, scope: Scope) -> str:
        inner = self._plain_source(scope.ctes)
        outer = [
            (one, name)
            for one in scope.sources
            for name in ("trace_id", "service_name", "span_id")
            if name in one.columns and one.columns[name] == TEXT
        ]
        if not outer or not any(name in inner.columns for _, name in outer):
            return "true"
        source, name = self.rng.choice([one for one in outer if one[1] in inner.columns])
        where = self._where(Scope([inner], None, scope.ctes), 0)
        negated = self.rng.random() < 0.3
        if negated:
            where += f"{' AND' if where else ' WHERE'} {inner.alias}.{name} IS NOT NULL"
        return f"{source.alias}.{name} {'NOT ' if negated else ''}IN (SELECT {inner.alias}.{name} FROM {inner.sql}{where})"

    def _exists(self, scope: Scope) -> str:
        inner = self._plain_source(scope.ctes)
        outer = [one for one in scope.sources if one.columns.get("trace_id") == TEXT]
        if not outer or "trace_id" not in inner.columns:
            return "true"
        source = self.rng.choice(outer)
        extra = self.predicate(Scope([inner], None, scope.ctes), 0, qualified=True)
        return f"{self.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {inner.sql} WHERE {inner.alias}.trace_id = {source.alias}.trace_id AND {extra})"
