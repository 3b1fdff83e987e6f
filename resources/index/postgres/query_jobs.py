"""Statements for Spark wait, run and end as rows of one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from resources.index.job_types import JobLimits, JobState, QueryJob
from resources.index.postgres.connections import PostgresPart, storable
from resources.index.statements import load

SQL = load("query_jobs")


class QueryJobs(PostgresPart):
    def add_query_job(self, job: QueryJob, limits: JobLimits, most: int) -> bool:
        values = {"job_id": job.job_id, "org": job.org, "statement": storable(job.statement)}
        return bool(self._change(SQL["add_query_job"], {**values, "keep_s": limits.keep_s, "most": most}))

    def query_job(self, org: str, job_id: str) -> QueryJob | None:
        rows = self._rows(SQL["query_job"], {"org": org, "job_id": job_id})
        return _job_of(rows[0]) if rows else None

    def cancel_query_job(self, org: str, job_id: str, limits: JobLimits) -> bool:
        values = {"org": org, "job_id": job_id, "keep_s": limits.keep_s}
        return bool(self._change(SQL["cancel_query_job"], values))

    def claim_query_job(self, limits: JobLimits) -> QueryJob | None:
        values = {
            "lease_s": limits.lease_s,
            "max_attempts": limits.max_attempts,
            "keep_s": limits.keep_s,
        }
        with self._transaction() as connection:
            connection.execute(SQL["notice_query_jobs"])
            connection.execute(SQL["give_up_query_jobs"], values)
            row = connection.execute(SQL["claim_query_job"], values).fetchone()
        return None if row is None else _job_of(row)

    def beat_query_job(self, job: QueryJob, progress: Mapping[str, float], limits: JobLimits) -> bool:
        more = {"progress": Jsonb(dict(progress)), "lease_s": limits.lease_s}
        return self._end_job("beat_query_job", job, limits, more)

    def finish_query_job(
        self, job: QueryJob, result: Mapping[str, object], progress: Mapping[str, float], limits: JobLimits
    ) -> bool:
        more = {"result": Jsonb(dict(result)), "progress": Jsonb(dict(progress))}
        return self._end_job("finish_query_job", job, limits, more)

    def fail_query_job(self, job: QueryJob, error: str, code: str, limits: JobLimits) -> bool:
        return self._end_job("fail_query_job", job, limits, {"error": storable(error), "code": code})

    def put_off_query_job(self, job: QueryJob, error: str, delay_s: float, limits: JobLimits) -> bool:
        more = {"error": storable(error), "delay_s": delay_s, "max_attempts": limits.max_attempts}
        return self._end_job("put_off_query_job", job, limits, more)

    def expired_query_jobs(self, org: str, limit: int) -> list[tuple[str, str]]:
        rows = self._rows(SQL["expired_query_jobs"], {"org": org, "limit": limit})
        return [(row["org_id"], row["job_id"]) for row in rows]

    def forget_query_job(self, job_id: str) -> bool:
        return bool(self._change(SQL["forget_query_job"], {"job_id": job_id}))

    def _end_job(self, statement: str, job: QueryJob, limits: JobLimits, more: Mapping[str, Any]) -> bool:
        """Change a job that is still ours."""
        values = {"job_id": job.job_id, "attempt": job.attempt, "keep_s": limits.keep_s}
        return bool(self._change(SQL[statement], {**values, **more}))


def _job_of(row: Mapping[str, Any]) -> QueryJob:
    return QueryJob(
        row["job_id"],
        row["org_id"],
        row["statement"],
        JobState(row["state"]),
        row["attempt"],
        row.get("progress") or {},
        row.get("result"),
        row["error"],
        row["error_code"],
        row.get("age_s", 0.0),
        row.get("silent_s") or 0.0,
        row.get("expires_s", 0.0),
    )
