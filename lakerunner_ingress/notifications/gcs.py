"""The HTTP adapter for Cloud Storage: Pub/Sub's push envelope, or the bare object (payload unwrapping).

Pub/Sub repeats whatever is not answered with 2xx, for days. So a message that was judged and kept is answered
with 202, also when it was refused; only what may succeed later gets an error.
"""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, post

from lakerunner_ingress.notifications.acknowledge import Acknowledgement, Rejection
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.notifications.senders import Secrets, Sent, sender
from lakerunner_ingress.notifications.shapes.gcs import parse_gcs
from lakerunner_ingress.threads import WorkerThreads
from resources.notifications.announced import MalformedMessageError

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
