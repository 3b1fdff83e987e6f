"""The HTTP adapter for Azure Event Grid, with the two handshakes that come before the first event.

Event Grid proves that an address wants its events: in its own schema by a code to be sent back, with
CloudEvents by an OPTIONS request that asks for permission. Both need the same secret as events do.
"""

from __future__ import annotations

import re
from typing import Any

from litestar import HttpMethod, Request, Response, post, route
from litestar.exceptions import ClientException

from lakerunner_ingress.notifications.pipeline import Acknowledgement, Pipeline, Rejection
from lakerunner_ingress.notifications.senders import Secrets, Sent, sender
from lakerunner_ingress.notifications.shapes.aws import parse_aws
from lakerunner_ingress.notifications.shapes.azure import parse_azure, validation_code
from lakerunner_ingress.notifications.shapes.gcs import parse_gcs
from lakerunner_ingress.threads import WorkerThreads
from resources.notifications.events import MalformedMessageError

# << The HTTP adapter for S3 and its look-alikes: S3 event JSON, alone or inside SNS or EventBridge.

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


# << The HTTP adapter for Cloud Storage: Pub/Sub's push envelope, or the bare object (payload unwrapping).
# <<
# << Pub/Sub repeats whatever is not answered with 2xx, for days. So a message that was judged and kept
# << is answered
# << with 202, also when it was refused; only what may succeed later gets an error.

MAX_BODY_BYTES = 1024 * 1024


@post("/api/v1/notifications/gcs", request_max_body_size=MAX_BODY_BYTES)
async def notify_gcs(
    request: Request[Any, Any, Any],
    body: bytes,
    pipeline: Pipeline,
    webhook_secrets: Secrets,
    workers: WorkerThreads,
) -> Response[Acknowledgement]:
    """One message about one object; answered when it is durable."""

    def work() -> Acknowledgement:
        sent = Sent(request.headers, body, request.query_params)
        caller = sender(sent, webhook_secrets, pipeline.index)
        try:
            return pipeline.notify(body, caller, parse_gcs)
        except MalformedMessageError as error:  # kept as a dead letter by the pipeline
            return Acknowledgement(0, 0, (Rejection(0, "", str(error)),))

    return Response(await workers.run(work), status_code=202)


PATH = "/api/v1/notifications/azure"
METHODS = {"Allow": "OPTIONS, POST"}
_ORIGIN = re.compile(r"[A-Za-z0-9.:_-]{1,253}")


@route(PATH, http_method=[HttpMethod.POST, HttpMethod.OPTIONS], request_max_body_size=MAX_BODY_BYTES)
async def notify_azure(
    request: Request[Any, Any, Any],
    body: bytes,
    pipeline: Pipeline,
    webhook_secrets: Secrets,
    workers: WorkerThreads,
) -> Response[Any]:
    """Events about new blobs, answered when they are durable; or the answer to a handshake."""
    sent = Sent(request.headers, body, request.query_params)

    def work() -> Response[Any]:
        if request.method == HttpMethod.OPTIONS:
            return _permission(sent, webhook_secrets, pipeline)
        caller = sender(sent, webhook_secrets, pipeline.index)
        if code := validation_code(body):
            return Response({"validationResponse": code}, status_code=200)
        acknowledgement = pipeline.notify(body, caller, parse_azure)
        return Response(acknowledgement, status_code=acknowledgement.http_status)

    return await workers.run(work)


def _permission(sent: Sent, secrets: Secrets, pipeline: Pipeline) -> Response[Any]:
    """What a sender of CloudEvents asks for: it may send, as often as it likes."""
    origin = sent.headers.get("webhook-request-origin", "")
    if not origin:
        return Response(None, status_code=204, headers=METHODS)
    if not _ORIGIN.fullmatch(origin):
        raise ClientException(f"WebHook-Request-Origin {origin[:64]!r}: expected a host name")
    sender(sent, secrets, pipeline.index)
    allowed = {"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*"}
    return Response(None, status_code=200, headers=METHODS | allowed)
