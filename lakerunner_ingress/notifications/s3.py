"""The HTTP adapter for S3 and its look-alikes: S3 event JSON, alone or inside SNS or EventBridge."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, post

from lakerunner_ingress.notifications.acknowledge import Acknowledgement
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.notifications.senders import Secrets, Sent, sender
from lakerunner_ingress.notifications.shapes.aws import parse_aws
from lakerunner_ingress.threads import WorkerThreads

MAX_BODY_BYTES = 1024 * 1024


@post("/api/v1/notifications/s3", request_max_body_size=MAX_BODY_BYTES)
async def notify_s3(
    request: Request[Any, Any, Any],
    body: bytes,
    pipeline: Pipeline,
    webhook_secrets: Secrets,
    workers: WorkerThreads,
) -> Response[Acknowledgement]:
    """References to new objects; answered when they are durable."""

    def work() -> Acknowledgement:
        caller = sender(Sent(request.headers, body, {}), webhook_secrets, pipeline.index)
        return pipeline.notify(body, caller, parse_aws)

    acknowledgement = await workers.run(work)
    return Response(acknowledgement, status_code=acknowledgement.http_status)
