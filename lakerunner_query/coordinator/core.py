"""The engines of a process are built from its settings and an index.

The query API serves it over HTTP; the ruler asks it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.engine import Engine, Limits
from lakerunner_query.coordinator.lakeql import LakeQL
from lakerunner_query.coordinator.lakeql_jobs import Jobs
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.query_log import QueryLog
from lakerunner_query.coordinator.rules import RuleCache
from lakerunner_query.coordinator.workers import WorkerFinder
from lakerunner_query.fairness import Admission
from resources.duckdb import DuckLimits, DuckSession
from resources.index.contract import QueryIndex
from resources.index.job_types import JobLimits
from resources.objects.store import open_store
from resources.settings import Settings

SQL_THREADS = 2
"""Threads of the DuckDB that finishes SQL statements."""


@dataclass(slots=True)
class QueryCore:
    """Engines of all languages over one set of workers."""

    settings: Settings
    locator: Locator
    dispatcher: Dispatcher
    engine: Engine
    lakeql: LakeQL
    rules: RuleCache
    log: QueryLog | None
    """None: queries are not counted."""
    _finder: WorkerFinder = field(init=False)

    def __post_init__(self) -> None:
        self._finder = WorkerFinder(
            worker_urls(self.settings),
            self.dispatcher.set_workers,
            self.settings.index_dsn,
            self.settings.worker_lease_s,
        )

    async def open(self) -> None:
        """Find the workers."""
        self.locator.open()
        if self.log is not None:
            self.log.open()
        await self._finder.open()

    async def close(self) -> None:
        await self._finder.close()
        if self.log is not None:
            await self.log.close()
        self.locator.close()
        self.lakeql.close()
        self.rules.close()
        await self.dispatcher.close()


def open_core(settings: Settings, index: QueryIndex, process: str) -> QueryCore:
    """Build the engines; `process` names the folder in which statements spill."""
    locator = Locator(
        index,
        max_age_s=settings.query_index_max_age_s,
        max_bytes=settings.query_index_memory_mb << 20,
    )
    dispatcher = Dispatcher((), settings.require("internal_token"))
    admission = Admission(settings.query_max_concurrency, tails=settings.query_max_tails)
    rules = RuleCache(index)
    log = QueryLog(index) if settings.query_log_days else None
    engine = Engine(locator, dispatcher, admission, limits_of(settings), rules, log)

    def session() -> DuckSession:
        spill = settings.data_dir / process / f"spill-{os.getpid()}"
        return DuckSession(DuckLimits(settings.query_sql_memory_mb, SQL_THREADS, spill, ()))

    lakeql = LakeQL(engine, session, settings.query_default_window_s, _jobs(settings, index))
    return QueryCore(settings, locator, dispatcher, engine, lakeql, rules, log)


def limits_of(settings: Settings) -> Limits:
    return Limits(
        settings.query_timeout_s,
        max_rows=settings.query_max_limit,
        max_points=settings.query_max_samples,
        max_series=settings.query_max_series,
        max_fetch_bytes=settings.query_max_fetch_bytes,
        max_fetch_requests=settings.query_max_fetch_requests,
        features=tuple(name.strip() for name in settings.query_features.split(",") if name.strip()),
    )


def worker_urls(settings: Settings) -> tuple[str, ...]:
    """Return where workers are found, else the one that runs with the default settings."""
    configured = tuple(url.strip().rstrip("/") for url in settings.worker_urls.split(",") if url.strip())
    return configured or (f"http://{settings.worker_host}:{settings.worker_port}",)


def _jobs(settings: Settings, index: QueryIndex) -> Jobs | None:
    """Return the way to Spark, None where the settings name none."""
    if not settings.spark_remote:
        return None
    return Jobs(
        index,
        lambda: open_store(settings.require("lake_url"), settings),
        JobLimits(lease_s=settings.query_job_lease_s, keep_s=settings.query_job_keep_s),
        per_org=settings.query_jobs_per_org,
        start_s=settings.query_job_start_s,
    )
