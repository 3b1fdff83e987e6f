"""Query jobs live in memory, with the states and times of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from resources.index.job_types import UNDER_WAY, JobLimits, JobState, QueryJob
from resources.index.memory.state import MemoryPart


@dataclass(slots=True)
class StoredJob:
    """A job and its times."""

    job: QueryJob
    created_at: float
    noticed_at: float
    due_at: float
    expires_at: float
    lease_until: float | None = None


class QueryJobs(MemoryPart):
    def add_query_job(self, job: QueryJob, limits: JobLimits, most: int) -> bool:
        with self._transaction() as state:
            under_way = [one for one in self._jobs_of(job.org) if one.job.state in UNDER_WAY]
            if len(under_way) >= most:
                return False
            now = self._clock()
            fresh = QueryJob(job.job_id, job.org, job.statement)
            state.query_jobs[job.job_id] = StoredJob(fresh, now, now, now, now + limits.keep_s)
            return True

    def query_job(self, org: str, job_id: str) -> QueryJob | None:
        with self._one_at_a_time:
            found, now = self._state.query_jobs.get(job_id), self._clock()
            if found is None or found.job.org != org or found.expires_at <= now:
                return None
            since = {JobState.DUE: found.noticed_at, JobState.RUNNING: found.lease_until}.get(found.job.state)
            return replace(
                found.job,
                age_s=now - found.created_at,
                silent_s=max(0.0, now - since) if since is not None else 0.0,
                expires_s=found.expires_at - now,
            )

    def cancel_query_job(self, org: str, job_id: str, limits: JobLimits) -> bool:
        with self._transaction() as state:
            found = state.query_jobs.get(job_id)
            if found is None or found.job.org != org or found.job.state not in UNDER_WAY:
                return False
            found.job = replace(found.job, state=JobState.CANCELLED)
            found.lease_until, found.expires_at = None, self._clock() + limits.keep_s
            return True

    def claim_query_job(self, limits: JobLimits) -> QueryJob | None:
        with self._transaction() as state:
            now = self._clock()
            for one in state.query_jobs.values():
                if one.job.state is JobState.DUE:
                    one.noticed_at = now
                elif _has_lapsed(one, now) and one.job.attempt >= limits.max_attempts:
                    one.job = replace(
                        one.job, state=JobState.FAILED, error_code="work_failed", error=_given_up(one.job)
                    )
                    one.lease_until = None
            waiting = [
                one
                for one in state.query_jobs.values()
                if (one.job.state is JobState.DUE and one.due_at <= now) or _has_lapsed(one, now)
            ]
            if not waiting:
                return None
            first = min(waiting, key=lambda one: (self._running_of(one.job.org, now), one.created_at))
            first.job = replace(first.job, state=JobState.RUNNING, attempt=first.job.attempt + 1, progress={})
            first.lease_until, first.expires_at = now + limits.lease_s, now + limits.keep_s
            return first.job

    def beat_query_job(self, job: QueryJob, progress: Mapping[str, float], limits: JobLimits) -> bool:
        with self._transaction():
            found = self._held_job(job)
            if found is not None:
                found.job = replace(found.job, progress=dict(progress))
                found.lease_until = self._clock() + limits.lease_s
                found.expires_at = self._clock() + limits.keep_s
            return found is not None

    def finish_query_job(
        self, job: QueryJob, result: Mapping[str, object], progress: Mapping[str, float], limits: JobLimits
    ) -> bool:
        done = replace(job, state=JobState.DONE, result=dict(result), progress=dict(progress))
        return self._end_job(job, done, limits)

    def fail_query_job(self, job: QueryJob, error: str, code: str, limits: JobLimits) -> bool:
        return self._end_job(job, replace(job, state=JobState.FAILED, error=error, error_code=code), limits)

    def put_off_query_job(self, job: QueryJob, error: str, delay_s: float, limits: JobLimits) -> bool:
        with self._transaction():
            found = self._held_job(job)
            if found is not None:
                state = JobState.FAILED if job.attempt >= limits.max_attempts else JobState.DUE
                found.job = replace(found.job, state=state, error=error, error_code="work_failed")
                found.lease_until, found.noticed_at = None, self._clock()
                found.due_at = self._clock() + delay_s
            return found is not None

    def expired_query_jobs(self, org: str, limit: int) -> list[tuple[str, str]]:
        with self._one_at_a_time:
            old = [one for one in self._state.query_jobs.values() if _is_expired(one, self._clock())]
        old.sort(key=lambda one: one.expires_at)
        return [(one.job.org, one.job.job_id) for one in old if org in {"", one.job.org}][:limit]

    def forget_query_job(self, job_id: str) -> bool:
        with self._transaction() as state:
            found = state.query_jobs.get(job_id)
            if found is None or not _is_expired(found, self._clock()):
                return False
            del state.query_jobs[job_id]
            return True

    def _jobs_of(self, org: str) -> list[StoredJob]:
        return [one for one in self._state.query_jobs.values() if one.job.org == org]

    def _running_of(self, org: str, now: float) -> int:
        return sum(
            one.job.state is JobState.RUNNING and not _has_lapsed(one, now) for one in self._jobs_of(org)
        )

    def _held_job(self, job: QueryJob) -> StoredJob | None:
        found = self._state.query_jobs.get(job.job_id)
        is_ours = found is not None and found.job.attempt == job.attempt
        return found if found is not None and is_ours and found.job.state is JobState.RUNNING else None

    def _end_job(self, job: QueryJob, ended: QueryJob, limits: JobLimits) -> bool:
        with self._transaction():
            found = self._held_job(job)
            if found is not None:
                found.job, found.lease_until = ended, None
                found.expires_at = self._clock() + limits.keep_s
            return found is not None


def _has_lapsed(one: StoredJob, now: float) -> bool:
    return one.job.state is JobState.RUNNING and one.lease_until is not None and one.lease_until < now


def _is_expired(one: StoredJob, now: float) -> bool:
    return one.expires_at < now and (one.lease_until is None or one.lease_until < now)


def _given_up(job: QueryJob) -> str:
    reason = f": {job.error}" if job.error else ""
    return f"the statement was begun {job.attempt} times, and its driver ended each time{reason}"
