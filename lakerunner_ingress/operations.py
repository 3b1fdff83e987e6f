"""Routes for operators: liveness, readiness, metrics. They need no key and tell no secret."""

from __future__ import annotations

from litestar import MediaType, Response, get

from lakerunner_ingress.health import Health, check_kafka, check_postgres, judge
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.threads import WorkerThreads


@get("/livez", media_type=MediaType.TEXT, sync_to_thread=False)
def live() -> str:
    return "ok"


@get(["/readyz", "/healthz"])
async def ready(pipeline: Pipeline, health_workers: WorkerThreads) -> Response[Health]:
    health = await health_workers.run(
        lambda: judge(check_kafka(pipeline.producer), check_postgres(pipeline.index))
    )
    return Response(health, status_code=health.http_status)


@get("/metrics", media_type=MediaType.TEXT, sync_to_thread=False)
def metrics(pipeline: Pipeline) -> str:
    return pipeline.telemetry.render()
