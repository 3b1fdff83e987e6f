"""Is this process alive, and can it still take something in?

Kafka or Postgres alone is enough to accept (the outbox stands in for Kafka, the last registry for Postgres),
so one of them down is `degraded` and answers 200; both down is 503.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from litestar import MediaType, Response, get

from lakerunner_ingress.errors import OverloadedError, UnavailableError
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.pipeline_metrics import UNANSWERED, PipelineMetrics
from lakerunner_ingress.threads import WorkerThreads
from resources.exposition import CONTENT_TYPE
from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.kafka.producer import Producer


@dataclass(frozen=True, slots=True)
class Health:
    status: str
    kafka: str
    postgres: str

    @property
    def http_status(self) -> int:
        return 503 if self.status == "down" else 200


def judge(kafka_error: str, postgres_error: str) -> Health:
    """
    >>> judge("", "").status, judge("x", "").status, judge("x", "y").status
    ('ready', 'degraded', 'down')
    """
    down = sum(bool(error) for error in (kafka_error, postgres_error))
    return Health(("ready", "degraded", "down")[down], kafka_error or "ok", postgres_error or "ok")


def check_postgres(index: IngressIndex) -> str:
    """Empty when the index answers."""
    try:
        index.organisations()
    except IndexUnavailableError:
        return "does not answer"
    return ""


def check_kafka(producer: Producer) -> str:
    """Empty when the broker answers."""
    return "does not answer" if producer.check() else ""


# << Routes for operators: liveness, readiness, metrics. They need no key and tell no secret.


@get("/livez", media_type=MediaType.TEXT, sync_to_thread=False)
def live() -> str:
    return "ok"


@get(["/readyz", "/healthz"])
async def ready(pipeline: Pipeline, health_workers: WorkerThreads) -> Response[Health]:
    kafka = await _checked(health_workers, lambda: check_kafka(pipeline.producer))
    postgres = await _checked(health_workers, lambda: check_postgres(pipeline.index))
    health = judge(kafka, postgres)
    return Response(health, status_code=health.http_status)


@get("/metrics", media_type=CONTENT_TYPE)
async def metrics(
    pipeline: Pipeline, pipeline_metrics: PipelineMetrics, health_workers: WorkerThreads
) -> str:
    """This process, then the pipeline as the index knows it; the first part does not wait for the index."""
    try:
        shared = await health_workers.run(pipeline_metrics.render)
    except (UnavailableError, OverloadedError):
        shared = UNANSWERED
    return pipeline.telemetry.render() + shared


async def _checked(workers: WorkerThreads, check: Callable[[], str]) -> str:
    """A part that accepts connections and never answers is as good as away."""
    try:
        return await workers.run(check)
    except UnavailableError:
        return "does not answer"
