"""Scripts of LakeQL over a lake of all signals: rows as of plain DuckDB, errors with their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from benchmarks.random_lakeql import compare, statement
from lakerunner_query.protocol.units import TableUnit
from tests.golden.lakeql_script import Case, check, read_cases
from tests.support.query.plain_tables import plain_database
from tests.support.query.random_sql import Statements
from tests.support.query.signals_lake import Asked, SignalsLake, asked_over
from tests.support.query.sql_results import difference, run_plain

CASES = [
    case
    for path in sorted((Path(__file__).parent / "cases" / "lakeql").glob("*.slt"))
    for case in read_cases(path)
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> SignalsLake:
    return SignalsLake(tmp_path_factory.mktemp("signals") / "lake")


@pytest.fixture(scope="module")
def asked(lake: SignalsLake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with asked_over(lake, tmp_path_factory.mktemp("scratch")) as found:
        yield found


@pytest.fixture(scope="module")
def database(lake: SignalsLake) -> Iterator[duckdb.DuckDBPyConnection]:
    with plain_database(lake.index, lake.folder) as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_script(case: Case, asked: Asked, database: duckdb.DuckDBPyConnection) -> None:
    check(case, asked, database)


@pytest.mark.parametrize("seed", range(6))
def test_random_statements_are_answered_as_by_duckdb(
    seed: int, asked: Asked, database: duckdb.DuckDBPyConnection
) -> None:
    """The short form of `benchmarks/random_lakeql`, which repeats a difference by its seed and number."""
    outcomes = set()
    for number in range(50):
        query = statement(f"{seed}:{number}")
        outcome, problem = compare(query, asked, database)
        assert not problem, f"{seed}:{number}: {problem}\n{query.sql}"
        outcomes.add(outcome)
    assert len(outcomes) > 3, "statements of one kind only"


@pytest.mark.parametrize(
    ("sql", "notices"),
    [
        ("SELECT region, sum(value) FROM metrics GROUP BY region", ["has region: it is null"]),
        ("SELECT max(valu) FROM metrics", ["has valu: it is null; did you mean value?"]),
        ("SELECT quee FROM metrics_1m LIMIT 1", ["has quee: it is null; did you mean queue?"]),
        ("SELECT queue, value AS total FROM metrics ORDER BY total LIMIT 1", []),
        (
            "SELECT attr_byte FROM logs LIMIT 1",
            ["has attr_byte: it is null; did you mean attr_bytes or attributes?"],
        ),
    ],
)
def test_labels_that_are_nowhere_are_told_with_names_spelled_alike(
    sql: str, notices: list[str], asked: Asked
) -> None:
    asked.table(sql)
    prefix = "no segment in the interval "
    assert [one.removeprefix(prefix) for one in asked.notices if one.startswith(prefix)] == notices


def test_there_are_enough_cases() -> None:
    rejected = sum(case.is_error for case in CASES)
    assert len(CASES) - rejected >= 60
    assert rejected >= 40


def test_whole_segments_are_counted_by_the_index(asked: Asked, database: duckdb.DuckDBPyConnection) -> None:
    """Workers read what bounds cut, and nothing else."""
    read, segments = Counter[bool](), 6
    for number in range(120):
        tests = Statements(f"bounds{number}")
        name = tests.pick("logs", "logs", "spans", "metrics")
        where = " AND ".join(
            tests._time_test("timestamp", "") if name == "metrics" or tests.rng.random() < 0.7
            else tests._number_test("tsns", "big")
            for _ in range(tests.rng.randrange(3))
        )  # fmt: skip
        extent = "" if name == "metrics" else ", min(tsns), max(timestamp)"
        sql = f"SELECT count(*){extent} FROM {name} WHERE {where or 'true'}"
        asked.workers.units.clear()
        found = asked.table(sql)
        problem = difference(found, run_plain(database, sql))
        assert not problem, f"{sql}: {problem}"
        units = [one for one in asked.workers.units if isinstance(one, TableUnit)]
        read[sum(len(one.segments) for one in units) < segments // 2] += 1
    assert read[True] > 20, "workers read nearly everything"
    asked.workers.units.clear()
    asked.table("SELECT count(*), max(timestamp) FROM logs")
    assert not asked.workers.units
