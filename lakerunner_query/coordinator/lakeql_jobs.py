"""Statements for Spark are written into the lake and followed in the index; results are read from the lake.

    job = await jobs.submit(handover, "SELECT …")
    job = await jobs.follow(org, job.job_id, on_look)       until it has ended
    async for batch in jobs.rows(result_of(job), schema): ...

No process keeps anything of a job: any other one can answer for it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.errors import (
    CancelledQueryError,
    EvaluationError,
    IndexUnavailableError,
    LimitExceededError,
    NotFoundError,
    NotReadyError,
    QueryError,
    QueryTimeoutError,
    StoreUnavailableError,
    TooLargeError,
    TooManyQueriesError,
    WorkerUnavailableError,
    WorkFailedError,
)
from lakerunner_query.protocol.handover import Handover, HandoverResult
from lakerunner_query.protocol.units import Missing
from resources.index import postgres
from resources.index.contract import JobRequestIndex
from resources.index.job_types import JobLimits, JobState, QueryJob
from resources.lake.layout import query_plan_key, valid_name
from resources.objects import errors as store_errors
from resources.objects.client import ObjectStore

BATCH_ROWS = 8_192
THREADS = 4
FIRST_LOOK_S, LOOK_S = 0.2, 1.0
"""Seconds between two looks at a job: short at first, since small ones are done within seconds."""
AHEAD = 2
"""Parts of a result that are fetched before they are asked for."""
_ERRORS: dict[str, type[QueryError]] = {
    one.code: one
    for one in (EvaluationError, LimitExceededError, TooLargeError, QueryTimeoutError, WorkFailedError)
}
_Found = TypeVar("_Found")


class Jobs:
    """Jobs of all organisations, as this process asks for them."""

    def __init__(
        self,
        index: JobRequestIndex,
        store: Callable[[], ObjectStore],
        limits: JobLimits,
        *,
        per_org: int = 20,
        start_s: float = 30.0,
    ) -> None:
        """`store` opens the lake; it is called in a thread."""
        self._index = index
        self._store = store
        self._limits = limits
        self._per_org = per_org
        self._start_s = start_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="query-jobs")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def submit(self, handover: Handover, statement: str) -> QueryJob:
        """Write the statement down and make it due."""
        job = QueryJob(uuid.uuid4().hex, handover.org, statement)
        await self._call(self._put_plan, job, handover)
        if not await self._call(self._index.add_query_job, job, self._limits, self._per_org):
            raise TooManyQueriesError(
                f"{self._per_org} statements of this organisation wait for Spark or run there: send fewer"
            )
        return job

    async def look(self, org: str, job_id: str) -> QueryJob:
        """Return a job as it is now; another organisation's does not exist."""
        job = await self._call(self._index.query_job, org, job_id) if valid_name(job_id) else None
        if job is None:
            raise NotFoundError(f"there is no query {job_id[:64]}: results are kept for an hour")
        return job

    async def cancel(self, org: str, job_id: str) -> bool:
        """Cancel a job; False where it has ended already."""
        await self.look(org, job_id)
        return await self._call(self._index.cancel_query_job, org, job_id, self._limits)

    async def follow(self, org: str, job_id: str, on_look: Callable[[QueryJob], None]) -> QueryJob:
        """Return the job once it is done; raise what became of it otherwise."""
        pause = FIRST_LOOK_S
        while True:
            job = await self.look(org, job_id)
            on_look(job)
            if not job.is_under_way:
                return await self.done(job)
            if job.silent_s > self._start_s:
                await self.cancel(org, job_id)
                raise WorkerUnavailableError(_nobody(job))
            await asyncio.sleep(pause)
            pause = min(LOOK_S, pause * 1.5)

    async def done(self, job: QueryJob) -> QueryJob:
        """Return a job that is done, raise the error of any other."""
        if job.state is JobState.FAILED:
            raise _ERRORS.get(job.error_code, WorkFailedError)(job.error)
        if job.state is JobState.CANCELLED:
            raise CancelledQueryError("the query was cancelled")
        if job.state is not JobState.DONE:
            raise NotReadyError(f"the query {job.job_id} is {job.state.value}: its result is not there yet")
        return job

    async def open(self, org: str, job_id: str) -> KeptAnswer:
        """Return the answer of a job that is done."""
        job = await self.done(await self.look(org, job_id))
        return KeptAnswer(self, job, await self._call(self._read_plan, job))

    async def rows(self, result: HandoverResult, schema: pa.Schema) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows in their order, one part of the result in memory beside those fetched ahead."""
        coming: list[asyncio.Future[bytes]] = []
        waiting = list(result.parts)
        try:
            while waiting or coming:
                while waiting and len(coming) < AHEAD:
                    coming.append(asyncio.ensure_future(self._call(self._fetch, waiting.pop(0).key)))
                body = await coming.pop(0)
                batches = pq.ParquetFile(pa.BufferReader(body)).iter_batches(BATCH_ROWS)
                while (batch := await self._call(next, batches, None)) is not None:
                    columns = [
                        column.cast(one.type) for column, one in zip(batch.columns, schema, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
        finally:
            for one in coming:
                one.cancel()

    def _put_plan(self, job: QueryJob, handover: Handover) -> None:
        self._store().put(query_plan_key(job.org, job.job_id), msgspec.json.encode(handover))

    def _read_plan(self, job: QueryJob) -> Handover:
        return msgspec.json.decode(
            self._store().get_bytes(query_plan_key(job.org, job.job_id)), type=Handover
        )

    def _fetch(self, key: str) -> bytes:
        return self._store().get_bytes(key)

    async def _call(self, work: Callable[..., _Found], *arguments: Any) -> _Found:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, partial(work, *arguments))
        except postgres.IndexUnavailableError as error:
            raise IndexUnavailableError("the index does not answer: try again shortly") from error
        except store_errors.NotFoundError as error:  # swept since the row was read
            raise NotFoundError(
                "the result of the query was removed: results are kept for an hour"
            ) from error
        except store_errors.UnavailableError as error:
            raise StoreUnavailableError("the object store does not answer: try again shortly") from error


class KeptAnswer:
    """The result of a statement that Spark has answered, read like any other answer."""

    def __init__(self, jobs: Jobs, job: QueryJob, handover: Handover) -> None:
        self._jobs = jobs
        self._result = result_of(job)
        self.job = job
        self.schema = pa.ipc.read_schema(pa.py_buffer(handover.schema))
        self.notices = list(handover.notices)
        self.missing = {name: Missing(name, reason) for name, reason in self._result.missing}
        self.statistics = {"rows": 0, **self._result.statistics}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close nothing: the result stays."""

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        async with aclosing(self._jobs.rows(self._result, self.schema)) as rows:
            async for batch in rows:
                self.statistics["rows"] += batch.num_rows
                yield batch


def result_of(job: QueryJob) -> HandoverResult:
    return msgspec.convert(job.result, HandoverResult)


def _nobody(job: QueryJob) -> str:
    if job.state is JobState.DUE:
        return "no `lakerunner query-jobs` process looks for statements: start one, or narrow the statement"
    return "the process that ran the statement on Spark is gone, and no other one took it over"
