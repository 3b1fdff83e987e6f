"""Routes for operators: liveness, readiness, metrics. They need no key and tell no secret."""

from __future__ import annotations

from collections.abc import Callable

from litestar import MediaType, Response, get

from lakerunner_ingress.errors import OverloadedError, UnavailableError
from lakerunner_ingress.health import Health, check_kafka, check_postgres, judge
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.pipeline_metrics import UNANSWERED, PipelineMetrics
from lakerunner_ingress.threads import WorkerThreads
from resources.exposition import CONTENT_TYPE


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
