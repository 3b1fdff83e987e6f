"""The HTTP adapter for Azure Event Grid, with the two handshakes that come before the first event.

Event Grid proves that an address wants its events: in its own schema by a code to be sent back, with
CloudEvents by an OPTIONS request that asks for permission. Both need the same secret as events do.
"""

from __future__ import annotations

import re
from typing import Any

from litestar import HttpMethod, Request, Response, route
from litestar.exceptions import ClientException

from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.notifications.senders import Secrets, Sent, sender
from lakerunner_ingress.notifications.shapes.azure import parse_azure, validation_code
from lakerunner_ingress.threads import WorkerThreads

PATH = "/api/v1/notifications/azure"
MAX_BODY_BYTES = 1024 * 1024
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
