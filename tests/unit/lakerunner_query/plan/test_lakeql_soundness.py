"""What the plan hands down to scans is sound: bounds, conditions and parts of aggregates, judged by DuckDB.

Statements come from the random grammar. Each read is cut to the rows within its bounds and conditions, and
the rest of the statement runs over what is left: the answer must be that of the whole tables.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import duckdb
import pytest

from lakerunner_query.lakeql.macros import DIALECT, Context
from lakerunner_query.lakeql.statement import parse
from lakerunner_query.lakeql.tables import TABLES as LAKE_TABLES
from lakerunner_query.lakeql.tables import TableColumn
from lakerunner_query.plan.lakeql import LakePlan, LakeQLRequest, TableRead, plan_lakeql
from lakerunner_query.plan.lakeql_conditions import interval_of, is_interval
from lakerunner_query.plan.lakeql_pushdown import Scan, bind, scan_name, with_scans
from tests.support.query.random_sql import Statements
from tests.support.query.random_tables import KEYS, TABLES
from tests.support.query.sql_results import difference, run_plain

START_NS = 1_767_225_600_000_000_000
HOUR_NS = 3_600_000_000_000
REQUEST = LakeQLRequest("acme", START_NS, START_NS + 4 * HOUR_NS, now_ns=START_NS + 4 * HOUR_NS)
VALUES = {
    "text": "['web', 'payments', 'INFO', 'ERROR', 'a b', 'GET /cart', NULL][1 + {n} % 7]",
    "int": "CASE WHEN {n} % 11 = 0 THEN NULL ELSE {n} % 50 - 3 END",
    "float": "CASE WHEN {n} % 13 = 0 THEN NULL ELSE ({n} % 70) / 8 - 2 END",
    "bool": "CASE WHEN {n} % 5 = 0 THEN NULL ELSE {n} % 2 = 0 END",
    "big": "{n}",
    "time": "NULL",
}
TYPES = {
    "text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN", "big": "BIGINT",
    "time": "TIMESTAMP",
}  # fmt: skip
ROWS = 120
PARTS = 4


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Tables with the columns of the grammar; rows lie all over three hours, some of them at their edges."""
    rng = random.Random(14)
    with duckdb.connect() as found:
        found.execute("SET TimeZone = 'UTC'")
        for table, columns in TABLES.items():
            listed = ", ".join(f'"{name}" {TYPES[kind]}' for name, kind in columns.items())
            found.execute(f"CREATE TABLE {table} (ns BIGINT, part INTEGER, {listed})")
            for row in range(ROWS):
                at = START_NS + rng.randrange(3 * 3600) * 10**9 + rng.choice((0, 1, 999, 1000, 999_999_999))
                n = rng.randrange(10_000)
                cells = []
                for name, kind in columns.items():
                    if name == "timestamp":
                        cells.append(f"make_timestamp({at // 1000})")
                    elif name == "tsns":
                        cells.append(str(at))
                    elif name in KEYS[table]:
                        cells.append(f"'{row:05}'" if kind == "text" else str(row))
                    else:
                        cells.append(VALUES[kind].format(n=n + len(name)))
                values = f"{at}, {rng.randrange(PARTS)}, {', '.join(cells)}"
                found.execute(f"INSERT INTO {table} VALUES ({values})")
        yield found


def planned(seed: str, count: int) -> Iterator[tuple[str, bool, LakePlan]]:
    """Random statements, whether their rows have an order, and their plans."""
    for number in range(count):
        query = Statements(f"{seed}{number}").statement()
        yield query.sql, query.is_total, plan_lakeql(query.sql, REQUEST)


def kept(read: TableRead) -> str:
    """The rows that a scan of this read may not leave out."""
    conditions = [f"({one.sql(DIALECT)})" for one in read.conditions]
    inside = [f"ns >= {read.start_ns}", f"ns <= {read.end_ns}", *conditions]
    names = ", ".join(f'"{name}"' for name in TABLES[read.table.name])
    return f'SELECT {names} FROM {read.table.name} AS "{read.alias}" WHERE {" AND ".join(inside)}'


@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_rows_that_are_not_read_do_not_matter(database: duckdb.DuckDBPyConnection, seed: str) -> None:
    cut = 0
    for sql, is_total, plan in planned(seed, 100):
        try:
            wanted = run_plain(database, sql)
        except duckdb.Error:
            continue  # such as two aliases of one name
        for read in plan.tables:
            database.execute(f"CREATE OR REPLACE TEMP TABLE {scan_name(read.number)} AS {kept(read)}")
            left = database.execute(f"SELECT count(*) FROM {scan_name(read.number)}").fetchall()
            cut += left[0][0] < ROWS
        found = run_plain(database, with_scans(plan).sql(DIALECT))
        assert not difference(found, wanted, ordered=is_total), sql
    assert cut > 20, "hardly anything was handed down: the test is empty"


@pytest.mark.parametrize("seed", ["p", "q", "r"])
def test_parts_and_their_merge_are_the_whole(database: duckdb.DuckDBPyConnection, seed: str) -> None:
    forms = set()
    for sql, is_total, plan in planned(seed, 100):
        types = {
            read.number: {name: TYPES[kind] for name, kind in TABLES[read.table.name].items()}
            for read in plan.tables
        }

        def is_valid(text: str, columns: Sequence[TableColumn]) -> bool:
            listed = ", ".join(f'"{one.name}" {one.type}' for one in columns)
            database.execute(f"CREATE OR REPLACE TEMP TABLE rows ({listed})")
            try:
                database.execute(f"EXPLAIN {text}").fetchall()
            except duckdb.Error:
                return False
            return True

        try:
            wanted = run_plain(database, sql)
        except duckdb.Error:
            continue
        bound = bind(plan, types, is_valid)
        for scan in bound.scans:
            forms.add(scan.form)
            run_in_parts(database, scan)
        found = run_plain(database, bound.sql)
        assert not difference(found, wanted, ordered=is_total), f"{sql}\n{bound.sql}"
    assert forms == {"rows", "parts", "first rows"}


def run_in_parts(database: duckdb.DuckDBPyConnection, scan: Scan) -> None:
    """Run a scan over the parts of its table, as workers do, and collect the results."""
    names = ", ".join(f'"{one.name}"' for one in scan.columns)
    read = scan.read
    for part in range(PARTS):
        database.execute(
            f"CREATE OR REPLACE TEMP TABLE rows AS SELECT {names} FROM {read.table.name} "
            f"WHERE part = {part} AND ns BETWEEN {read.start_ns} AND {read.end_ns}"
        )
        into = "INSERT INTO {}" if part else "CREATE OR REPLACE TEMP TABLE {} AS"
        database.execute(f"{into.format(scan.name)} {scan.sql}")


def test_bounds_never_exclude_a_row_that_satisfies(database: duckdb.DuckDBPyConnection) -> None:
    bounded = exact = 0
    for number in range(600):
        statements = Statements(f"times{number}")
        tests = [
            statements._time_test("timestamp", "") if n % 3 else statements._number_test("tsns", "big")
            for n in range(statements.rng.randrange(1, 4))
        ]
        where = statements.pick(" AND ", " OR ", " AND ").join(tests)
        tree = parse(f"SELECT tsns FROM logs WHERE {where}", Context(0, 0, 0)).tree
        found = interval_of([tree.args["where"].this])
        bounded += found.start_ns is not None or found.end_ns is not None
        rows = database.execute(f"SELECT ns FROM logs WHERE {where}").fetchall()
        assert all((found.start_ns or 0) <= ns <= (found.end_ns or 2**62) for (ns,) in rows), where
        if is_interval(tree.args["where"].this):
            exact += 1
            bounds = found.start_ns or 0, found.end_ns or 2**62
            inside = database.execute("SELECT ns FROM logs WHERE ns BETWEEN ? AND ?", bounds).fetchall()
            assert sorted(rows) == sorted(inside), where
    assert bounded > 200
    assert exact > 50


@pytest.mark.parametrize(
    ("where", "start", "end"),
    [
        ("timestamp >= '2026-01-01 01:00:00'", HOUR_NS, None),
        ("timestamp > '2026-01-01 01:00:00'", HOUR_NS + 1000, None),
        ("timestamp < '2026-01-01 01:00:00'", None, HOUR_NS - 1),
        ("timestamp <= '2026-01-01 01:00:00'", None, HOUR_NS + 999),
        ("timestamp = '2026-01-01 01:00:00'", HOUR_NS, HOUR_NS + 999),
        ("'2026-01-01 01:00:00' <= timestamp AND true", HOUR_NS, None),
        ("timestamp BETWEEN '2026-01-01 01:00:00' AND '2026-01-01 02:00:00'", HOUR_NS, 2 * HOUR_NS + 999),
        ("NOT timestamp < '2026-01-01 01:00:00'", None, None),
        ("timestamp > '2026-01-01 01:00:00' OR message = ''", None, None),
        ("time_bucket(INTERVAL '1 hour', timestamp) >= '2026-01-01 01:00:00'", HOUR_NS, None),
        (f"tsns >= {START_NS + 5}", 5, None),
        (f"tsns < {START_NS + 5}", None, 4),
        (f"tsns = {START_NS + 5}", 5, 5),
        ("timestamp > 'never'", None, None),
        ("timestamp > NULL", None, None),
    ],
)
def test_bounds(where: str, start: int | None, end: int | None) -> None:
    tree = parse(f"SELECT 1 FROM logs WHERE {where}", Context(0, 0, 0)).tree
    found = interval_of([tree.args["where"].this])
    bounds = [None if one is None else one - START_NS for one in (found.start_ns, found.end_ns)]
    assert bounds == [start, end]


@pytest.mark.parametrize(
    "where",
    [
        "timestamp > NULL::TIMESTAMP",
        "timestamp > 'never'",
        "tsns > 5.5",
        "timestamp >= TIMESTAMP_NS '2026-01-01 01:00:00.000000500'",
        "time_bucket(INTERVAL '1 hour', timestamp) >= '2026-01-01 01:00:00'",
        "timestamp > '2026-01-01' AND message = ''",
        "NOT timestamp < '2026-01-01'",
        "timestamp > lower('2026-01-01')",
    ],
)
def test_more_than_an_interval(where: str) -> None:
    tree = parse(f"SELECT 1 FROM logs WHERE {where}", Context(0, 0, 0)).tree
    assert not is_interval(tree.args["where"].this)


def reads(sql: str) -> list[tuple[str, list[str], int]]:
    """Tables, their conditions, and the start of what is read, after the start of the request."""
    plan = plan_lakeql(sql, REQUEST)
    return [
        (one.table.name, [each.sql(DIALECT) for each in one.conditions], one.start_ns - START_NS)
        for one in plan.tables
    ]


def test_bounds_fit_the_index() -> None:
    (read,) = plan_lakeql("SELECT 1 FROM logs WHERE tsns > 1e30 AND tsns < 1e31", REQUEST).tables
    assert (read.start_ns, read.end_ns) == (2**62, 2**62)
    (read,) = plan_lakeql("SELECT 1 FROM logs WHERE tsns > -1e30", REQUEST).tables
    assert read.start_ns == -(2**62)


def test_conditions_reach_tables_through_queries_that_are_used_once() -> None:
    inside = "WITH t AS (SELECT trace_id, timestamp AS at FROM spans) "
    late = "at >= '2026-01-01 01:00:00'"
    assert reads(f"{inside} SELECT * FROM t WHERE {late}")[0][2] == HOUR_NS
    assert reads(f"{inside} SELECT * FROM t, t u WHERE t.{late}")[0][2] == 0
    assert reads(f"SELECT * FROM (SELECT timestamp AS at FROM spans LIMIT 5) WHERE {late}")[0][2] == 0
    assert (
        reads(f"SELECT * FROM (SELECT max(timestamp) AS at FROM spans GROUP BY kind) WHERE {late}")[0][2] == 0
    )
    grouped = "SELECT kind, timestamp AS at, count(*) FROM spans GROUP BY kind, timestamp"
    assert reads(f"SELECT * FROM ({grouped}) WHERE {late}")[0][2] == HOUR_NS


def test_outer_joins_keep_their_rows() -> None:
    late = "timestamp >= '2026-01-01 01:00:00'"
    joined = "SELECT 1 FROM logs l {} JOIN spans s ON l.trace_id = s.trace_id WHERE l.{} AND s.{}"
    starts = {
        kind: [start for _, _, start in reads(joined.format(kind, late, late))]
        for kind in ("INNER", "LEFT", "FULL")
    }
    assert starts == {"INNER": [HOUR_NS, HOUR_NS], "LEFT": [HOUR_NS, 0], "FULL": [0, 0]}


def test_every_table_of_the_grammar_is_one_of_the_lake() -> None:
    for name, columns in TABLES.items():
        fixed = {one.name for one in LAKE_TABLES[name].columns}
        own = {one for one in columns if not one.startswith(("attr_", "resource_"))} - {
            "service_name",
            "queue",
        }
        assert own <= fixed, name
