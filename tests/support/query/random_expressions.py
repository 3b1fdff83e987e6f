"""Random expressions with types: columns, literals, functions, predicates, aggregates.

What DuckDB leaves open is not asked: aggregates that pick a row have an order. Sums of floats are rounded
where they decide.
"""

# ruff: noqa: E501 - pieces of statements stay whole
from __future__ import annotations

import random
import re
from collections.abc import Callable

from tests.support.query.random_tables import (
    BIG,
    BOOL,
    FLOAT,
    FLOATS,
    INT,
    INTS,
    KEYS,
    TEXT,
    TIME,
    VALUES,
    WORDS,
    Columns,
    Query,
    Scope,
    Source,
)


class Expressions:
    """Expressions of one seed, one after the other."""

    def __init__(self, seed: int | str, tables: dict[str, Columns]) -> None:
        self.rng = random.Random(seed)
        self.tables = tables
        self._aliases = 0

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def kind(self) -> str:
        return self.rng.choice((TEXT, TEXT, INT, INT, FLOAT, BOOL, TIME, BIG))

    def alias(self, stem: str = "t") -> str:
        self._aliases += 1
        return f"{stem}{self._aliases}"

    def plain_source(self, ctes: dict[str, Query]) -> Source:
        name = self.rng.choice([one for one in ("logs", "spans") if one not in ctes] or ["metrics"])
        alias = self.alias("i")
        return Source(alias, f"{name} {alias}", self.tables[name], KEYS[name])

    def where(self, scope: Scope, depth: int) -> str:
        if self.rng.random() < 0.3:
            return ""
        parts = [self.predicate(scope, depth) for _ in range(self.rng.choice((1, 1, 1, 1, 2, 2, 3)))]
        return f" WHERE {' AND '.join(parts)}"

    # Values

    def column(self, kind: str, scope: Scope, *, qualified: bool = False) -> str | None:
        found = [(one, name) for one in scope.sources for name, each in one.columns.items() if each == kind]
        if not found:
            return None
        source, name = self.rng.choice(found)
        shown = name
        if name.isidentifier() and self.rng.random() < 0.1:
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
        if self.rng.random() < 0.08:
            return f"CAST(NULL AS {_SQL_TYPES[kind]})"
        if kind == TEXT:
            return f"'{self.rng.choice(WORDS)}'"
        if kind == FLOAT:
            return f"CAST({self.rng.choice(FLOATS)} AS DOUBLE)"
        if kind == BOOL:
            return self.pick("true", "false")
        if kind == TIME:
            return f"TIMESTAMP '{self.moment()}'"
        return f"CAST({self.rng.choice(INTS)} AS BIGINT)"

    def moment(self) -> str:
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
            f"CASE {column} WHEN 'web' THEN 'w' WHEN 'ERROR' THEN 'e' ELSE {other} END",
            f"CASE WHEN {column} IS NULL THEN 'null' WHEN {self.predicate(scope, 0)} THEN {other} END",
            f"CAST({self.expr(INT, scope, 0)} AS VARCHAR)", f"nullif({column}, 'web')",
            f"split_part({column}, ' ', 1)", f"concat({column}, {other})", f"left({column}, 3)",
            f"coalesce(nullif({column}, ''), {other}, 'neither')", f"{self.pick('trim', 'reverse')}({column})",
            f"strftime({self.expr(TIME, scope, 0)}, '%Y-%m-%d %H')", f"lpad({column}, 4, '.')",
            f"regexp_replace({column}, '[aeiou]', '*', 'g')", f"regexp_extract({column}, '([a-z]+)', 1)",
            f"if({self.predicate(scope, 0)}, {column}, {other})", f"concat_ws('/', {column}, {other})",
        )  # fmt: skip

    def _int(self, column: str, scope: Scope, depth: int) -> str:
        other = self.expr(INT, scope, depth)
        return self.pick(
            f"{column} + {other}", f"{column} - {other}", f"{column} * {self.rng.randrange(2, 5)}",
            f"{column} % 7", f"length({self.expr(TEXT, scope, 0)})", f"coalesce({column}, 0)", f"abs({column})",
            f"CASE WHEN {self.predicate(scope, 0)} THEN {column} END", f"{column} // 3",
            f"date_part('hour', {self.expr(TIME, scope, 0)})", f"greatest({column}, {other})",
            f"least({column}, {other}, 100)", f"nullif({column}, 200)", f"sign({column})",
            f"CASE {column} % 3 WHEN 0 THEN {other} WHEN 1 THEN -{column} ELSE NULL END",
            f"date_diff('minute', TIMESTAMP '2026-01-01', {self.expr(TIME, scope, 0)})",
            f"extract(minute FROM {self.expr(TIME, scope, 0)})", f"strpos({self.expr(TEXT, scope, 0)}, 'e')",
            f"coalesce(TRY_CAST({self.expr(TEXT, scope, 0)} AS BIGINT), {other})",
        )  # fmt: skip

    def _float(self, column: str, scope: Scope, depth: int) -> str:
        other = self.expr(INT, scope, depth)
        return self.pick(
            f"{column} * 0.5", f"{column} + {other}", f"round({column}, 2)", f"abs({column})", f"-{column}",
            f"sqrt(abs({column}))", f"ln(abs({column}) + 1)", f"{other} / 4", f"coalesce({column}, 0.25)",
            f"{column} / nullif({other}, 0)", f"floor({column})", f"ceil({column} / 3)",
            f"CASE WHEN {self.predicate(scope, 0)} THEN {column} ELSE {other} END", f"greatest({column}, 0.5)",
            f"extract(epoch FROM {self.expr(TIME, scope, 0)})",
        )  # fmt: skip

    def _time(self, column: str, scope: Scope, depth: int) -> str:
        other = self.expr(TIME, scope, depth)
        return self.pick(
            f"date_trunc('hour', {column})", f"time_bucket(INTERVAL '10 minutes', {column})",
            f"{column} + INTERVAL {self.rng.randrange(1, 90)} MINUTE", f"{column} - INTERVAL '1 hour'",
            f"greatest({column}, {other})", f"coalesce({column}, {other})",
            f"CASE WHEN {self.predicate(scope, 0)} THEN {column} ELSE {other} END",
            f"CAST(CAST({column} AS DATE) AS TIMESTAMP)",
        )  # fmt: skip

    # Aggregates

    def aggregate(self, scope: Scope) -> tuple[str, str]:
        rng = self.rng
        if rng.random() < 0.12:
            return rng.choice(self._pairs(scope))()
        sql, kind = rng.choice(self._aggregates(scope))()
        if rng.random() < 0.25:
            sql += f" FILTER (WHERE {self.predicate(scope, 0)})"
        roll = rng.random()
        if kind == INT and roll < 0.15:
            return f"{sql} + count(*)", INT
        if kind == FLOAT and roll < 0.15:
            return f"coalesce({sql}, 0.0) * 2", FLOAT
        if kind == INT and roll < 0.25:
            return f"CASE WHEN {sql} > 10 THEN 'many' WHEN count(*) > 5 THEN 'some' ELSE 'few' END", TEXT
        return sql, kind

    def _aggregates(self, scope: Scope) -> list[Callable[[], tuple[str, str]]]:
        rng, one = self.rng, self.expr
        return [
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
            lambda: (f"{self.pick('bit_xor', 'bit_or', 'bit_and')}({one(INT, scope, 0)})", INT),
            lambda: (f"sum(CASE WHEN {self.predicate(scope, 0)} THEN 1 ELSE 0 END)", INT),
            lambda: (f"{self.pick('covar_pop', 'covar_samp')}({one(INT, scope, 0)} % 100, {one(INT, scope, 0)} % 9)", FLOAT),
            lambda: (f"quantile_disc({one(INT, scope, 0)}, {self.pick('0.25', '0.5', '1')})", INT),
        ]  # fmt: skip

    def _pairs(self, scope: Scope) -> list[Callable[[], tuple[str, str]]]:
        """Expressions over several aggregates."""
        one = self.expr
        return [
            lambda: (f"max({one(TIME, scope, 0)}) - min({one(TIME, scope, 0)}) > INTERVAL 20 MINUTE", BOOL),
            lambda: (f"count({one(TEXT, scope, 1)}) * 100 // greatest(count(*), 1)", INT),
            lambda: (f"sum({one(INT, scope, 0)}) / nullif(count(*), 0)", FLOAT),
            lambda: (f"coalesce(max({one(INT, scope, 0)}), min({one(INT, scope, 0)}), -1)", INT),
            lambda: (f"max({one(TEXT, scope, 0)}) || '/' || min({one(TEXT, scope, 0)})", TEXT),
        ]

    # Predicates

    def predicate(self, scope: Scope, depth: int, *, qualified: bool = False) -> str:
        roll = self.rng.random()
        if depth and roll < 0.08:
            return self._in_query(scope)
        if depth and roll < 0.14 and not qualified:
            return self._exists(scope)
        if depth and roll < 0.18 and not qualified:
            return self._quantified(scope)
        if depth and roll < 0.32:
            both = [self.predicate(scope, depth - 1, qualified=qualified) for _ in range(2)]
            return self.pick(f"({both[0]} OR {both[1]})", f"NOT ({both[0]})", f"({both[0]} AND {both[1]})")
        return self._comparison(scope, qualified=qualified)

    def _comparison(self, scope: Scope, *, qualified: bool) -> str:
        kind = self.rng.choice((TEXT, TEXT, INT, FLOAT, BOOL, TIME, TIME, BIG))
        column = self.column(kind, scope, qualified=qualified)
        if column is None:
            return self.pick("true", "1 = 1", "NOT false")
        if self.rng.random() < 0.12:
            return f"{column} IS {self.pick('', 'NOT ')}NULL"
        made = {TEXT: self._text_test, TIME: self._time_test, BOOL: self._bool_test}.get(
            kind, self._number_test
        )
        return made(column, kind)

    def _text_test(self, column: str, _: str) -> str:
        values = VALUES.get(_OWNER.sub("", column).strip('"').lower(), WORDS)
        value = self.rng.choice(values)
        if values is WORDS and self.rng.random() < 0.7:  # no such text has one of them for itself
            return self.pick(
                f"contains({column}, '{value}')", f"{column} LIKE '%{value}%'", f"{column} <> '{value}'",
                f"{column} > '{value}'", f"{column} NOT LIKE '%{value}%'", f"length({column}) > 3",
                f"coalesce({column}, '') >= ''",
            )  # fmt: skip
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
            f"coalesce({column}, 'web') = 'web'", f"{column} IN ({listed}, NULL)",
            f"{column} IS NOT DISTINCT FROM nullif('{value}', 'web')", f"({column} = '{value}') IS NOT TRUE",
            f"lower({column}) = lower('{value}')", f"{column} BETWEEN 'a' AND '{value}'",
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
            f"NOT {column} > {value}", f"{column} + 1 > {value}", f"{column} IS NOT DISTINCT FROM {value}",
            f"CASE WHEN {column} > {value} THEN 'a' WHEN {column} IS NULL THEN 'n' ELSE 'b' END <> 'b'",
        )  # fmt: skip

    def _bool_test(self, column: str, _: str) -> str:
        return self.pick(
            column, f"NOT {column}", f"{column} IS TRUE", f"{column} = false", f"{column} IS NOT FALSE"
        )

    def _time_test(self, column: str, _: str) -> str:
        low, high = sorted((self.moment(), self.moment()))
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
            f"extract(epoch FROM {column}) BETWEEN 1767225600 AND {1767225600 + self.rng.randrange(10800)}",
            f"epoch_ms({column}) >= {1767225600000 + self.rng.randrange(10_800_000)}",
        )  # fmt: skip

    def _in_query(self, scope: Scope) -> str:
        inner = self.plain_source(scope.ctes)
        outer = [
            (one, name)
            for one in scope.sources
            for name in ("trace_id", "service_name", "span_id")
            if one.columns.get(name) == TEXT
        ]
        if not outer or not any(name in inner.columns for _, name in outer):
            return "true"
        source, name = self.rng.choice([one for one in outer if one[1] in inner.columns])
        where = self.where(Scope([inner], None, scope.ctes), 0)
        negated = self.rng.random() < 0.3
        if negated:
            where += f"{' AND' if where else ' WHERE'} {inner.alias}.{name} IS NOT NULL"
        return f"{source.alias}.{name} {'NOT ' if negated else ''}IN (SELECT {inner.alias}.{name} FROM {inner.sql}{where})"

    def _exists(self, scope: Scope) -> str:
        inner = self.plain_source(scope.ctes)
        outer = [one for one in scope.sources if one.columns.get("trace_id") == TEXT]
        if not outer or "trace_id" not in inner.columns:
            return "true"
        source = self.rng.choice(outer)
        extra = self.predicate(Scope([inner], None, scope.ctes), 0, qualified=True)
        return f"{self.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {inner.sql} WHERE {inner.alias}.trace_id = {source.alias}.trace_id AND {extra})"

    def _quantified(self, scope: Scope) -> str:
        """Compare a number with those of a subquery."""
        inner = self.plain_source(scope.ctes)
        inside = Scope([inner], None, scope.ctes)
        left = self.expr(INT, scope, 0, qualified=True)
        number = self.expr(INT, inside, 0, qualified=True)
        where = self.where(inside, 0)
        return self.pick(
            f"{left} > (SELECT avg({number}) FROM {inner.sql}{where})",
            f"{left} {self.pick('=', '<', '>=')} ANY (SELECT {number} FROM {inner.sql}{where})",
            f"{left} {self.pick('<>', '>=')} ALL (SELECT {number} FROM {inner.sql}{where})",
        )


_OWNER = re.compile(r'^\w+\.(?=[\w"])')
"""The alias in front of a column."""
_SQL_TYPES = {
    TEXT: "VARCHAR", INT: "BIGINT", BIG: "BIGINT", FLOAT: "DOUBLE", BOOL: "BOOLEAN", TIME: "TIMESTAMP",
}  # fmt: skip
