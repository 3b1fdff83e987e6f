"""LakeQL on a real Spark: the answers of DuckDB; jobs that are followed, kept, cancelled, taken over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import duckdb
import msgspec
import pytest

from lakerunner_assets.sweep.act import sweep
from lakerunner_assets.sweep.plan import Policy
from lakerunner_query.coordinator import lakeql_scans, lakeql_spark
from lakerunner_query.coordinator.lakeql_jobs import Jobs
from lakerunner_query.errors import (
    EvaluationError,
    NotFoundError,
    TooLargeError,
    WorkerUnavailableError,
)
from lakerunner_query.handover import process
from lakerunner_query.handover.process import Driver, limits_of
from lakerunner_query.plan.lakeql_spark_scalars import NotForSparkError
from lakerunner_query.plan.slices import RowSliceSizes
from resources.index.job_types import JobState, QueryJob
from resources.lake.layout import query_job_prefix
from resources.lake.timecut import HOUR_NS
from resources.objects.store import open_store
from resources.settings import Settings
from tests.golden.lakeql_script import Case, check, read_cases
from tests.support.cooking_lake import HOUR, lake_in
from tests.support.query.plain_tables import plain_database
from tests.support.query.signals_lake import Asked, SignalsLake
from tests.support.query.traces_lake import SPANS, TIES, TracesLake
from tests.support.stack_fixture import forget_spark_session, start_stack, stop_stack

pytestmark = [pytest.mark.integration, pytest.mark.slow]
SCRIPTS = Path(__file__).resolve().parents[1] / "golden" / "cases" / "lakeql"
CASES = [case for path in sorted(SCRIPTS.glob("*.slt")) for case in read_cases(path) if not case.is_error]
REFUSED = {
    "ASOF JOIN": "Spark has no join that is like it",
    "unnest": "makes rows of a value",
    "generate_series": "rows that no table brings",
    "VALUES": "rows that no table brings",
    "DISTINCT ON": "Spark has none",
    "string_agg": "its order",
    "list(attr": "its order",
    "mode(": "several values may be the most frequent one",
    "regr_slope": "nobody compared it yet",
    "approx_cardinality": "sketches are united by DuckDB",
    "grouping(": "nobody compared it yet",
}
"""Parts of statements that are not handed over, with the reason."""
SLOW = "SELECT count(*) FROM logs a, logs b, logs c WHERE a.tsns + b.tsns < c.tsns"
"""A statement that is still running whenever somebody looks."""


@pytest.fixture(scope="module")
def signals(tmp_path_factory: pytest.TempPathFactory) -> SignalsLake:
    return SignalsLake(tmp_path_factory.mktemp("signals") / "lake")


@pytest.fixture(scope="module")
def settings(signals: SignalsLake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    data_dir = tmp_path_factory.mktemp("spark")
    found = start_stack(data_dir, ("spark",))
    yield replace(found, lake_url=f"file://{signals.folder}", query_job_lease_s=3.0, query_job_start_s=5.0)
    forget_spark_session()
    stop_stack(data_dir)


@contextmanager
def driving(settings: Settings, signals: SignalsLake) -> Iterator[Driver]:
    driver, stopped = Driver(settings, signals.index), threading.Event()
    thread = threading.Thread(target=driver.run_until, args=(stopped,))
    thread.start()
    try:
        yield driver
    finally:
        stopped.set()
        thread.join()


@pytest.fixture(scope="module")
def driver(settings: Settings, signals: SignalsLake) -> Iterator[Driver]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "LOOK_S", 0.05)
        with driving(settings, signals) as found:
            yield found


def jobs_of(settings: Settings, signals: SignalsLake) -> Jobs:
    return Jobs(
        signals.index,
        lambda: open_store(settings.lake_url, settings),
        limits_of(settings),
        per_org=3,
        start_s=settings.query_job_start_s,
    )


class OnSpark(Asked):
    """Asks with `engine=spark` unless told otherwise."""

    def request(self, org: str = "acme", **more: Any) -> Any:
        return super().request(org, **{"engine": "spark", **more})


@pytest.fixture(scope="module")
def asked(
    signals: SignalsLake, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OnSpark]:
    found = OnSpark(signals, tmp_path_factory.mktemp("scratch"), jobs=jobs_of(settings, signals))
    yield found
    found.close()


@pytest.fixture(scope="module")
def database(signals: SignalsLake) -> Iterator[duckdb.DuckDBPyConnection]:
    with plain_database(signals.index, signals.folder) as found:
        yield found


def test_without_a_driver_the_caller_is_told_and_the_job_is_cancelled(
    settings: Settings, signals: SignalsLake, asked: OnSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked.lakeql.jobs, "_start_s", 0.2)
    with pytest.raises(WorkerUnavailableError, match="no `lakerunner query-jobs` process"):
        asked.table("SELECT count(*) FROM logs")
    assert signals.index.claim_query_job(limits_of(settings)) is None


def test_results_past_their_hour_are_swept(settings: Settings, signals: SignalsLake) -> None:
    store = open_store(settings.lake_url, settings)
    job = QueryJob("0123abc", "acme", "SELECT 1")
    assert signals.index.add_query_job(job, replace(limits_of(settings), keep_s=-1.0), 99)
    for name in ("plan.json", "1/part-00000-00000.parquet"):
        store.put(query_job_prefix("acme", job.job_id) + name, msgspec.json.encode({}))
    report = sweep(signals.index, settings, Policy.of(settings))
    assert not report.problems
    assert [list(found) for found in store.list(query_job_prefix("acme", job.job_id))] in ([], [[]])
    assert signals.index.expired_query_jobs("", 10) == []


def test_a_killed_driver_is_replaced_and_fenced_off(
    settings: Settings, signals: SignalsLake, asked: OnSpark
) -> None:
    """The first driver claims the job and is never heard of again."""

    async def run() -> list[Any]:
        async with await asked.lakeql.open("SELECT count(*) AS n FROM spans", asked.request()) as answer:
            assert answer.job is not None
            lost = signals.index.claim_query_job(replace(limits_of(settings), lease_s=0.0))
            assert lost is not None
            assert lost.job_id == answer.job.job_id
            with driving(settings, signals):
                rows = [row async for batch in answer.batches() for row in batch.to_pylist()]
            assert answer.job.attempt == 2
            assert not signals.index.finish_query_job(lost, {}, {}, limits_of(settings))
            return rows

    (row,) = asked._runner.run(run())
    assert row["n"] > 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.usefixtures("driver")
def test_script(case: Case, asked: OnSpark, database: duckdb.DuckDBPyConnection) -> None:
    """Every statement of the scripts: the rows of plain DuckDB, or a refusal that is listed."""
    words = [word for word in case.head.split() if word not in {"partial", "first"}]
    case = replace(case, head=" ".join(words))
    if any(part in case.sql for part in REFUSED):
        with pytest.raises(NotForSparkError, match="not handed over to Spark"):
            check(case, asked, database)
        return
    check(case, asked, database)


@pytest.mark.usefixtures("driver")
def test_values_that_spark_would_change_stay_as_duckdb_has_them(
    asked: OnSpark, database: duckdb.DuckDBPyConnection
) -> None:
    statements = (
        "SELECT round(attr_ratio * 2.675, 2), attr_bytes // 7, attr_bytes % 7, attr_bytes / 7 FROM logs",
        "SELECT message || 'a\\b''c\"d`e', attr_ratio::BIGINT, attr_ratio / 0, -attr_ratio FROM logs",
        "SELECT attr_id, TRY_CAST(message AS BIGINT), sum(attr_ratio::DECIMAL(18, 3)) FROM logs "
        "WHERE attr_ratio < 10 GROUP BY 1, 2",
        "SELECT CASE WHEN max(attr_bytes) > 1900 THEN 'a\\n' ELSE NULL END, greatest(1, max(attr_id)) "
        "FROM logs GROUP BY severity",
        "SELECT strftime(max(timestamp), '%d.%m.%Y %H:%M:%S.%f'), date_diff('minute', min(timestamp), "
        "max(timestamp)) FROM logs GROUP BY service_name",
        "SELECT l.attr_id, s.kind FROM logs l LEFT JOIN spans s ON lower(l.trace_id) = upper(s.trace_id) "
        "WHERE coalesce(s.kind, '-') = '-'",
    )
    for sql in statements:
        assert_same(asked, sql)


@pytest.mark.usefixtures("driver")
def test_distinct_rows_and_lists_count_nulls_as_duckdb_does(asked: OnSpark) -> None:
    statements = (
        "SELECT service_name, count(DISTINCT (attr_http_route, attr_ok)), count(DISTINCT attr_http_route) "
        "FROM logs GROUP BY 1",
        "SELECT severity, list_sort(list(DISTINCT attr_http_route)), "
        "list_sort(list(DISTINCT attr_bytes // 500)) FROM logs GROUP BY 1",
        "SELECT list_sort(list(DISTINCT attr_http_route)), count(DISTINCT (attr_id, message)) FROM logs "
        "WHERE severity = 'none of them'",
        "SELECT len(list(DISTINCT trace_id)), list_contains(list(DISTINCT kind), 'client') FROM spans",
    )
    for sql in statements:
        assert_same(asked, sql)
    for sql in (
        "SELECT max([attr_bytes, attr_id]) FROM logs",
        "SELECT min(labels) FROM logs",
        "SELECT list(DISTINCT message) FILTER (WHERE attr_ok) FROM logs",
        "SELECT list(message) FROM logs",
        "SELECT struct_pack(a := message) FROM logs",
    ):
        with pytest.raises(NotForSparkError, match="not handed over to Spark"):
            asked.table(sql)


def assert_same(asked: OnSpark, sql: str, **more: Any) -> None:
    """Compare Spark with the query API's DuckDB; the order of rows is free."""
    mine, theirs = asked.table(sql, **more), asked.table(sql, **{**more, "engine": "local"})
    assert mine.schema.types == theirs.schema.types, sql
    assert sorted(map(str, mine.to_pylist())) == sorted(map(str, theirs.to_pylist())), sql


TRACES = (
    "SELECT * FROM traces",
    "SELECT trace_id, root_service_name, root_name FROM traces WHERE root_service_name IS NULL",
    "SELECT root_service_name, sum(span_count), sum(error_count) FROM traces GROUP BY ALL",
    "SELECT services, count(*) FROM traces GROUP BY 1",
    "SELECT s.name, t.root_name, t.services FROM spans s JOIN traces t USING (trace_id) "
    "WHERE t.error_count > 0",
    "SELECT trace_id, row_number() OVER (PARTITION BY root_name ORDER BY tsns, trace_id) FROM traces",
)


@pytest.mark.parametrize("rows_of_a_task", [1, 1_000_000])
def test_traces_with_spans_in_many_segments_sent_twice_or_without_ids(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_of_a_task: int
) -> None:
    """The lake has what is rare: roots of one time, with and without an id; spans that only look alike."""
    monkeypatch.setattr(process, "LOOK_S", 0.05)
    monkeypatch.setattr(lakeql_spark, "SPARK_SIZES", RowSliceSizes(rows=rows_of_a_task, first=1.0))
    lake = cast("Any", TracesLake(lake_in(tmp_path / "lake"), (*SPANS, *TIES)))
    here = replace(settings, lake_url=f"file://{lake.folder}")
    found = OnSpark(lake, tmp_path / "scratch", jobs=jobs_of(here, lake))
    try:
        with driving(here, lake):
            for sql in TRACES:
                assert_same(found, sql, start_ns=HOUR + HOUR_NS, end_ns=HOUR + 2 * HOUR_NS)
    finally:
        found.close()


@pytest.mark.usefixtures("driver")
def test_a_statement_beyond_the_budget_goes_over_by_itself_unless_it_must_stay(
    asked: OnSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT message, tsns FROM logs WHERE attr_id < 30 ORDER BY tsns, message"
    here = asked.table(sql, engine="auto")
    assert not asked.notices or "Spark" not in " ".join(asked.notices)
    monkeypatch.setattr(lakeql_scans, "MOST_BYTES", 2_000)
    with pytest.raises(TooLargeError):
        asked.table(sql, engine="local")
    assert asked.table(sql, engine="auto") == here
    assert "handed over to Spark" in " ".join(asked.notices)
    with pytest.raises(TooLargeError, match="DISTINCT ON is not handed over"):
        asked.table("SELECT DISTINCT ON (message) * FROM logs ORDER BY message", engine="auto")


@pytest.mark.usefixtures("driver")
def test_an_error_of_the_statement_is_a_sentence(asked: OnSpark) -> None:
    with pytest.raises(EvaluationError, match="Could not convert string"):
        asked.table("SELECT max(message)::BIGINT FROM logs")


@pytest.mark.usefixtures("driver")
def test_a_caller_who_leaves_cancels_unless_the_result_is_to_be_kept(asked: OnSpark) -> None:
    jobs = asked.lakeql.jobs
    assert jobs is not None

    async def leave(sql: str, *, keep: bool) -> QueryJob:
        async with await asked.lakeql.open(sql, asked.request(keep=keep)) as answer:
            assert answer.job is not None
            await _until(jobs, answer.job, {JobState.RUNNING, JobState.DONE})
        return answer.job

    async def run() -> None:
        left = await leave(SLOW, keep=False)
        assert (await jobs.look("acme", left.job_id)).state is JobState.CANCELLED
        kept = await leave("SELECT count(*) FROM logs", keep=True)
        await _until(jobs, kept, {JobState.DONE})
        async with await jobs.open("acme", kept.job_id) as result:
            rows = [row async for batch in result.batches() for row in batch.to_pylist()]
        assert rows == [{"count_star()": asked_count}]
        with pytest.raises(NotFoundError):
            await jobs.look("other", kept.job_id)
        with pytest.raises(NotFoundError):
            await jobs.cancel("other", kept.job_id)

    asked_count = asked.table("SELECT count(*) FROM logs", engine="local").column(0)[0].as_py()
    asked._runner.run(run())


async def _until(jobs: Jobs, job: QueryJob, states: set[JobState]) -> None:
    for _ in range(2_000):
        if (await jobs.look(job.org, job.job_id)).state in states:
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"the job never was {states}")
