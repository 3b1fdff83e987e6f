"""`lakerunner query-jobs` claims handed-over statements from the index and drives them on Spark.

Any number of these processes may run. Everything about a job stands in its row: a process that is killed
leaves a lease behind that ends, and another one begins the job again under the next attempt's number, which
fences off whatever the first one still does.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NoReturn

import msgspec

from lakerunner_query.errors import QueryError
from lakerunner_query.handover.job import Attempt, CancelledJobError
from lakerunner_query.protocol.handover import HandoverResult
from resources.index import postgres
from resources.index.contract import JobDriverIndex
from resources.index.job_types import JobLimits, QueryJob
from resources.objects.store import open_store
from resources.settings import Settings
from resources.spark import SparkUnavailableError

LOOK_S = 1.0
"""Seconds between two looks into the index; heartbeats go out as often."""
AWAY_S = 5.0
"""Seconds after which a job is due again that found no Spark."""
_log = logging.getLogger(__name__)


class Driver:
    """Runs up to `query_job_concurrency` jobs, each in a thread."""

    def __init__(self, settings: Settings, index: JobDriverIndex) -> None:
        self._settings = settings
        self._index = index
        self._limits = limits_of(settings)
        self._threads = ThreadPoolExecutor(settings.query_job_concurrency, thread_name_prefix="query-job")
        self._at_work: dict[Future[None], Attempt] = {}

    def look(self) -> None:
        """Beat for what is at work, and claim what is due."""
        for future, attempt in list(self._at_work.items()):
            if future.done():
                del self._at_work[future]
                future.result()
            elif not self._index.beat_query_job(attempt.job, attempt.progress, self._limits):
                _log.info("job %s: cancelled, or taken over", attempt.job.job_id)
                attempt.stop()
        while len(self._at_work) < self._settings.query_job_concurrency:
            job = self._index.claim_query_job(self._limits)
            if job is None:
                return
            attempt = Attempt(
                self._settings, open_store(self._settings.require("lake_url"), self._settings), job
            )
            self._at_work[self._threads.submit(self._run, attempt)] = attempt

    def close(self) -> None:
        """Stop what is at work; its jobs are due again at once."""
        for attempt in self._at_work.values():
            attempt.stop()
        self._threads.shutdown()

    def run_until(self, stopped: threading.Event) -> None:
        """Look again and again; an index that is away is asked again."""
        try:
            while not stopped.wait(LOOK_S):
                try:
                    self.look()
                except postgres.IndexUnavailableError as error:
                    _log.warning("the index does not answer, jobs wait: %s", error)
                beat = self._settings.jobs_beat
                beat.parent.mkdir(parents=True, exist_ok=True)
                beat.touch()
        finally:
            self.close()

    def _run(self, attempt: Attempt) -> None:
        job, began = attempt.job, time.monotonic()
        _log.info("job %s of %s: attempt %d", job.job_id, job.org, job.attempt)
        try:
            result = attempt.run()
        except CancelledJobError:
            self._index.put_off_query_job(job, "the process that drove it was stopped", 0.0, self._limits)
        except SparkUnavailableError as error:
            _log.warning("job %s: %s", job.job_id, error)
            self._index.put_off_query_job(job, f"Spark is away: {error}", AWAY_S, self._limits)
        except QueryError as error:
            self._index.fail_query_job(job, error.message, error.code, self._limits)
        except postgres.IndexUnavailableError as error:
            _log.warning("job %s: its lease ends, another attempt follows: %s", job.job_id, error)
        except Exception as error:  # noqa: BLE001 - nobody else would tell the caller of it
            _log.exception("job %s failed", job.job_id)
            self._index.fail_query_job(job, f"{type(error).__name__}: {error}", "internal", self._limits)
        else:
            self._finish(job, attempt, result)
            _log.info("job %s: %d rows, %.1f s", job.job_id, result.rows, time.monotonic() - began)

    def _finish(self, job: QueryJob, attempt: Attempt, result: HandoverResult) -> None:
        told = msgspec.to_builtins(result)
        if not self._index.finish_query_job(job, told, attempt.progress, self._limits):
            _log.info("job %s: ended too late, its result is not used", job.job_id)


def limits_of(settings: Settings) -> JobLimits:
    return JobLimits(lease_s=settings.query_job_lease_s, keep_s=settings.query_job_keep_s)


def serve(settings: Settings) -> NoReturn:
    """Run the process until it is stopped."""
    stopped = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stopped.set())
    logging.basicConfig(level=settings.log_level.upper())
    settings.require("spark_remote")
    with postgres.PostgresIndex(settings.require("index_dsn"), max_connections=4) as index:
        Driver(settings, index).run_until(stopped)
    logging.shutdown()
    os._exit(0)  # the client of Spark says good-bye to its server, for minutes where that is gone
