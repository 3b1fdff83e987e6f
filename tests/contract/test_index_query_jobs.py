"""What the index promises about statements that were handed over to Spark, whoever keeps it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import psycopg
import pytest

from resources.index.job_types import JobLimits, JobState, QueryJob
from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex

LIMITS = JobLimits(lease_s=30.0, max_attempts=2, keep_s=3600.0)


@dataclass
class Clocked:
    """An index whose time can be moved."""

    index: MemoryIndex | PostgresIndex
    dsn: str
    ahead_s: float = 0.0

    def wait(self, seconds: float) -> None:
        if isinstance(self.index, MemoryIndex):
            now = self.index._clock() + seconds
            self.index._clock = lambda: now
            return
        times = ("created_at", "noticed_at", "due_at", "lease_until", "expires_at")
        moved = ", ".join(f"{name} = {name} - make_interval(secs => %(s)s)" for name in times)
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"UPDATE lakerunner.query_job SET {moved}".encode(), {"s": seconds})


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def clocked(request: pytest.FixtureRequest) -> Clocked:
    if request.param == "memory":
        found = Clocked(MemoryIndex(), "")
    else:
        index = request.getfixturevalue("postgres_index")
        found = Clocked(index, request.getfixturevalue("index_dsn"))
    for org in ("acme", "beta"):
        found.index.create_organisation(org)
    return found


def add(clocked: Clocked, org: str = "acme", most: int = 10) -> QueryJob:
    job = QueryJob(uuid.uuid4().hex, org, "SELECT 1")
    assert clocked.index.add_query_job(job, LIMITS, most)
    return job


def state(clocked: Clocked, job: QueryJob) -> JobState:
    found = clocked.index.query_job(job.org, job.job_id)
    assert found is not None
    return found.state


def claim(clocked: Clocked) -> QueryJob:
    found = clocked.index.claim_query_job(LIMITS)
    assert found is not None
    return found


def test_a_job_is_claimed_beats_and_ends_with_its_result(clocked: Clocked) -> None:
    index, job = clocked.index, add(clocked)
    claimed = claim(clocked)
    assert (claimed.job_id, claimed.attempt, claimed.state) == (job.job_id, 1, JobState.RUNNING)
    assert claimed.statement == "SELECT 1"
    assert index.claim_query_job(LIMITS) is None
    assert index.beat_query_job(claimed, {"tasks": 3, "tasks_done": 1}, LIMITS)
    seen = index.query_job("acme", job.job_id)
    assert seen is not None
    assert seen.progress == {"tasks": 3, "tasks_done": 1}
    assert index.finish_query_job(claimed, {"rows": 7, "parts": ["a", "b"]}, {"tasks": 3}, LIMITS)
    seen = index.query_job("acme", job.job_id)
    assert seen is not None
    assert (seen.state, seen.result) == (JobState.DONE, {"rows": 7, "parts": ["a", "b"]})
    assert seen.expires_s == pytest.approx(3600, abs=60)
    assert not index.fail_query_job(claimed, "late", "internal", LIMITS)
    assert not index.cancel_query_job("acme", job.job_id, LIMITS)


def test_another_organisation_sees_and_cancels_nothing(clocked: Clocked) -> None:
    job = add(clocked)
    assert clocked.index.query_job("beta", job.job_id) is None
    assert not clocked.index.cancel_query_job("beta", job.job_id, LIMITS)
    assert state(clocked, job) is JobState.DUE


def test_a_cancelled_job_is_not_claimed_and_its_driver_hears_of_it(clocked: Clocked) -> None:
    index, waiting = clocked.index, add(clocked)
    assert index.cancel_query_job("acme", waiting.job_id, LIMITS)
    assert index.claim_query_job(LIMITS) is None
    running = add(clocked)
    claimed = claim(clocked)
    assert index.cancel_query_job("acme", running.job_id, LIMITS)
    assert not index.beat_query_job(claimed, {}, LIMITS)
    assert not index.finish_query_job(claimed, {}, {}, LIMITS)
    assert state(clocked, running) is JobState.CANCELLED


def test_a_driver_that_ended_is_replaced_fenced_off_and_at_last_given_up(clocked: Clocked) -> None:
    index, job = clocked.index, add(clocked)
    first = claim(clocked)
    clocked.wait(LIMITS.lease_s + 1)
    seen = index.query_job("acme", job.job_id)
    assert seen is not None
    assert 0 < seen.silent_s < 60
    second = claim(clocked)
    assert second.attempt == 2
    assert not index.beat_query_job(first, {}, LIMITS)
    assert not index.finish_query_job(first, {"rows": 1}, {}, LIMITS)
    assert index.beat_query_job(second, {}, LIMITS)
    clocked.wait(LIMITS.lease_s + 1)
    assert index.claim_query_job(LIMITS) is None
    seen = index.query_job("acme", job.job_id)
    assert seen is not None
    assert (seen.state, seen.error_code) == (JobState.FAILED, "work_failed")
    assert "begun 2 times" in seen.error


def test_a_job_that_is_put_off_is_due_again_later_and_fails_in_the_end(clocked: Clocked) -> None:
    index, job = clocked.index, add(clocked)
    assert index.put_off_query_job(claim(clocked), "Spark is away", 60.0, LIMITS)
    assert state(clocked, job) is JobState.DUE
    assert index.claim_query_job(LIMITS) is None
    clocked.wait(61)
    assert index.put_off_query_job(claim(clocked), "Spark is still away", 60.0, LIMITS)
    seen = index.query_job("acme", job.job_id)
    assert seen is not None
    assert (seen.state, seen.error) == (JobState.FAILED, "Spark is still away")


def test_due_jobs_know_how_long_no_driver_looked(clocked: Clocked) -> None:
    job = add(clocked)
    later = add(clocked, "beta")
    clocked.wait(20)
    seen = clocked.index.query_job("acme", job.job_id)
    assert seen is not None
    assert 19 < seen.silent_s < 60
    claim(clocked)
    seen = clocked.index.query_job("beta", later.job_id)
    assert seen is not None
    assert seen.silent_s < 10


def test_organisations_with_less_at_work_come_first_and_their_number_is_bounded(clocked: Clocked) -> None:
    mine = [add(clocked) for _ in range(3)]
    other = add(clocked, "beta")
    first, second = claim(clocked), claim(clocked)
    assert {first.org, second.org} == {"acme", "beta"}
    assert second.job_id in {other.job_id, mine[0].job_id}
    assert claim(clocked).org == "acme"
    refused = QueryJob(uuid.uuid4().hex, "acme", "SELECT 2")
    assert not clocked.index.add_query_job(refused, LIMITS, 3)
    assert clocked.index.add_query_job(replace(refused, org="beta"), LIMITS, 3)


def test_expired_jobs_are_listed_and_forgotten_unless_somebody_works_on_them(clocked: Clocked) -> None:
    index = clocked.index
    add(clocked)
    done = claim(clocked)
    index.finish_query_job(done, {}, {}, LIMITS)
    add(clocked)
    running = claim(clocked)
    assert index.expired_query_jobs("", 10) == []
    assert not index.forget_query_job(done.job_id)
    clocked.wait(LIMITS.keep_s - 1)
    index.beat_query_job(running, {}, LIMITS)
    clocked.wait(2)
    assert index.query_job("acme", done.job_id) is None
    assert index.expired_query_jobs("", 10) == [("acme", done.job_id)]
    assert index.expired_query_jobs("beta", 10) == []
    assert index.forget_query_job(done.job_id)
    assert not index.forget_query_job(running.job_id)
    assert index.expired_query_jobs("", 10) == []
