"""The DuckDB session: what is not allowed stays impossible, and a query can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.duckdb import Cancellation, CancelledQueryError, DuckLimits, DuckSession

FOREVER = "SELECT count(*) FROM range(1000000000) a, range(1000) b WHERE hash(a.range + b.range) % 7 = 1"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[DuckSession]:
    (tmp_path / "data").mkdir()
    opened = DuckSession(DuckLimits(128, 2, tmp_path / "spill", (tmp_path / "data",)))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/proc/self/environ')",
        "SELECT * FROM read_parquet('http://127.0.0.1/x.parquet')",
        "COPY (SELECT 1) TO '/tmp/lakerunner_test_out.csv'",
        "ATTACH '/tmp/lakerunner_test.db' AS other",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "SET lock_configuration = false",
    ],
)
def test_files_network_and_settings_are_out_of_reach(session: DuckSession, statement: str) -> None:
    with session.cursor() as cursor, pytest.raises(duckdb.Error):
        cursor.execute(statement).fetchall()


def test_allowed_folders_are_readable(session: DuckSession, tmp_path: Path) -> None:
    path = tmp_path / "data" / "it's.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), path)
    with session.cursor() as cursor:
        relation = cursor.sql("SELECT sum(x) s FROM read_parquet($files)", params={"files": [str(path)]})
        assert relation.to_arrow_table().to_pylist() == [{"s": 3}]


def test_cancelling_from_another_thread_ends_what_runs(session: DuckSession) -> None:
    cancellation = Cancellation()
    threading.Timer(0.2, cancellation.cancel).start()
    with session.cursor() as cursor, pytest.raises(CancelledQueryError):
        cancellation.run(cursor, cursor.sql(FOREVER).to_arrow_table)


def test_cancelled_before_it_began(session: DuckSession) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with session.cursor() as cursor, pytest.raises(CancelledQueryError):
        cancellation.run(cursor, cursor.sql(FOREVER).to_arrow_table)


def test_memory_is_bounded_by_spilling_or_a_clear_error(session: DuckSession) -> None:
    with session.cursor() as cursor, pytest.raises(duckdb.OutOfMemoryException):
        cursor.execute("SELECT list(range) FROM range(100000000)").fetchall()
