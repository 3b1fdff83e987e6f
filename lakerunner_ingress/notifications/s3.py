"""The HTTP adapter for S3-event JSON: what S3 look-alikes and our own tools post."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, post

from lakerunner_ingress.auth import authenticate
from lakerunner_ingress.notifications.acknowledge import Acknowledgement
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.threads import WorkerThreads

MAX_BODY_BYTES = 1024 * 1024


@post("/api/v1/notifications/s3", request_max_body_size=MAX_BODY_BYTES)
async def notify_s3(
    request: Request[Any, Any, Any],
    body: bytes,
    pipeline: Pipeline,
    webhook_token: str,
    workers: WorkerThreads,
) -> Response[Acknowledgement]:
    """References to new objects; answered when they are durable."""

    def work() -> Acknowledgement:
        caller = authenticate(request.headers, webhook_token, pipeline.index)
        return pipeline.notify(body, caller)

    acknowledgement = await workers.run(work)
    return Response(acknowledgement, status_code=acknowledgement.http_status)
