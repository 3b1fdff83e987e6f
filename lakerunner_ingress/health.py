"""Liveness, readiness and metrics, for operators: no key is needed and no secret is shown.

Kafka or Postgres alone is enough to accept (the outbox stands in for Kafka, the last registry for Postgres),
so one of them down is `degraded` and answers 200; both down is 503.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from litestar import MediaType, Response, get

from lakerunner_ingress.errors import OverloadedError, UnavailableError
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.openapi import HEALTH, TEXT_HEALTH, documented
from lakerunner_ingress.pipeline_metrics import UNANSWERED, PipelineMetrics
from lakerunner_ingress.threads import WorkerThreads
from resources.exposition import CONTENT_TYPE
from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.kafka.producer import Producer


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the process and its two backends."""

    status: str
    kafka: str
    postgres: str

    @property
    def http_status(self) -> int:
        return 503 if self.status == "down" else 200


def judge(kafka_error: str, postgres_error: str) -> Health:
    """Combine the errors of the backends, empty where there is none.

    >>> judge("", "").status, judge("x", "").status, judge("x", "y").status
    ('ready', 'degraded', 'down')
    """
    down = sum(bool(error) for error in (kafka_error, postgres_error))
    return Health(("ready", "degraded", "down")[down], kafka_error or "ok", postgres_error or "ok")


def check_postgres(index: IngressIndex) -> str:
    """Return an error, empty if the index answers."""
    try:
        index.organisations()
    except IndexUnavailableError:
        return "does not answer"
    return ""


def check_kafka(producer: Producer) -> str:
    """Return an error, empty if the broker answers."""
    return "does not answer" if producer.check() else ""


@get("/livez", media_type=MediaType.TEXT, sync_to_thread=False, operation_class=documented(TEXT_HEALTH))
def live() -> str:
    return "ok"


@get(["/readyz", "/healthz"], operation_class=documented(HEALTH))
async def ready(pipeline: Pipeline, health_workers: WorkerThreads) -> Response[Health]:
    kafka = await _run_check(health_workers, lambda: check_kafka(pipeline.producer))
    postgres = await _run_check(health_workers, lambda: check_postgres(pipeline.index))
    health = judge(kafka, postgres)
    return Response(health, status_code=health.http_status)


@get("/metrics", media_type=CONTENT_TYPE, operation_class=documented(TEXT_HEALTH))
async def metrics(
    pipeline: Pipeline, pipeline_metrics: PipelineMetrics, health_workers: WorkerThreads
) -> str:
    """Render the counters of this process, then those of the pipeline, which come from the index.

    The first part does not wait for the index.
    """
    try:
        shared = await health_workers.run(pipeline_metrics.render)
    except (UnavailableError, OverloadedError):
        shared = UNANSWERED
    return pipeline.telemetry.render() + shared


async def _run_check(workers: WorkerThreads, check: Callable[[], str]) -> str:
    """Run a check; a backend that accepts connections and never answers counts as down."""
    try:
        return await workers.run(check)
    except UnavailableError:
        return "does not answer"
