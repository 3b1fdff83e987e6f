"""HTTP adapters for notifications of S3 and its look-alikes, Cloud Storage and Azure Event Grid.

Event Grid first proves that an address wants its events: in its own schema by a code to be sent back, with
CloudEvents by an OPTIONS request that asks for permission. Both need the same secret as events do.
"""

from __future__ import annotations

import re
from typing import Any

from litestar import HttpMethod, Request, Response, post, route
from litestar.exceptions import ClientException

from lakerunner_ingress.auth import Credentials, Secrets, authenticate_sender
from lakerunner_ingress.notifications.pipeline import Acknowledgement, Pipeline, Rejection
from lakerunner_ingress.notifications.shapes.aws import parse_aws
from lakerunner_ingress.notifications.shapes.azure import parse_azure, validation_code
from lakerunner_ingress.notifications.shapes.gcs import parse_gcs
from lakerunner_ingress.openapi import NOTIFICATION, documented
from lakerunner_ingress.threads import WorkerThreads
from resources.notifications.events import MalformedMessageError

MAX_BODY_BYTES = 1024 * 1024


@post(
    "/api/v1/notifications/s3", request_max_body_size=MAX_BODY_BYTES, operation_class=documented(NOTIFICATION)
)
async def notify_s3(
    request: Request[Any, Any, Any],
    body: bytes,
    pipeline: Pipeline,
    webhook_secrets: Secrets,
    workers: WorkerThreads,
) -> Response[Any]:
    """Take S3 event JSON, alone or inside SNS or EventBridge; answer when references are durable."""

    def work() -> Acknowledgement:
        caller = authenticate_sender(Credentials(request.headers, body, {}), webhook_secrets, pipeline.index)
        return pipeline.notify(body, caller, parse_aws)

    acknowledgement = await workers.run(work)
    return Response(acknowledgement, status_code=acknowledgement.http_status)


@post(
    "/api/v1/notifications/gcs",
    request_max_body_size=MAX_BODY_BYTES,
    operation_class=documented(NOTIFICATION),
)
async def notify_gcs(
    request: Request[Any, Any, Any],
    body: bytes,
    pipeline: Pipeline,
    webhook_secrets: Secrets,
    workers: WorkerThreads,
) -> Response[Any]:
    """Take a push envelope of Pub/Sub, or the bare object; answer when the reference is durable.

    Pub/Sub repeats for days whatever is not answered with 2xx. So a message that was judged and kept is
    answered with 202, also when it was refused; only a message that may succeed later gets an error.
    """

    def work() -> Acknowledgement:
        credentials = Credentials(request.headers, body, request.query_params)
        caller = authenticate_sender(credentials, webhook_secrets, pipeline.index)
        try:
            return pipeline.notify(body, caller, parse_gcs)
        except MalformedMessageError as error:  # kept as a dead letter by the pipeline
            return Acknowledgement(0, 0, (Rejection(0, "", str(error)),))

    return Response(await workers.run(work), status_code=202)


PATH = "/api/v1/notifications/azure"
METHODS = {"Allow": "OPTIONS, POST"}
_ORIGIN = re.compile(r"[A-Za-z0-9.:_-]{1,253}")


@route(
    PATH,
    http_method=[HttpMethod.POST, HttpMethod.OPTIONS],
    request_max_body_size=MAX_BODY_BYTES,
    operation_class=documented(NOTIFICATION),
)
async def notify_azure(
    request: Request[Any, Any, Any],
    body: bytes,
    pipeline: Pipeline,
    webhook_secrets: Secrets,
    workers: WorkerThreads,
) -> Response[Any]:
    """Take events about new blobs and answer when they are durable, or answer a handshake."""
    credentials = Credentials(request.headers, body, request.query_params)

    def work() -> Response[Any]:
        if request.method == HttpMethod.OPTIONS:
            return _permission(credentials, webhook_secrets, pipeline)
        caller = authenticate_sender(credentials, webhook_secrets, pipeline.index)
        if code := validation_code(body):
            return Response({"validationResponse": code}, status_code=200)
        acknowledgement = pipeline.notify(body, caller, parse_azure)
        return Response(acknowledgement, status_code=acknowledgement.http_status)

    return await workers.run(work)


def _permission(credentials: Credentials, secrets: Secrets, pipeline: Pipeline) -> Response[Any]:
    """Permit a sender of CloudEvents to send, as often as it likes."""
    origin = credentials.headers.get("webhook-request-origin", "")
    if not origin:
        return Response(None, status_code=204, headers=METHODS)
    if not _ORIGIN.fullmatch(origin):
        raise ClientException(f"WebHook-Request-Origin {origin[:64]!r}: expected a host name")
    authenticate_sender(credentials, secrets, pipeline.index)
    allowed = {"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*"}
    return Response(None, status_code=200, headers=METHODS | allowed)
