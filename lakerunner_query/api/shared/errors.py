"""The one way from an exception to a response.

Lakerunner's endpoints answer `{status, code, message, position?}`; Loki's answer as Loki does, with the bare
message as text, Prometheus' with its envelope. A failure nobody foresaw is logged with its trace and told
without details.
"""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import MediaType, Request, Response

from lakerunner_query.serving import Failure, Handlers, handlers, respond_plain

# << Errors in Prometheus' envelope: {"status":"error","errorType":"bad_data","error":"..."}.

PROMETHEUS = "/prometheus/"
_TYPES = {
    400: "bad_data", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "bad_data",
    413: "bad_data", 422: "execution", 429: "too_many_requests", 500: "internal", 503: "unavailable",
}  # fmt: skip
TIMEOUT = 504
"""Prometheus answers 503 and says in the type that it was a timeout."""


class PrometheusFailure(msgspec.Struct, rename="camel"):
    status: str
    error_type: str
    error: str


def prometheus_failure(status: int, message: str) -> tuple[int, PrometheusFailure]:
    """
    >>> prometheus_failure(504, "slow")
    (503, PrometheusFailure(status='error', error_type='timeout', error='slow'))
    """
    if status == TIMEOUT:
        return 503, PrometheusFailure("error", "timeout", message)
    return status, PrometheusFailure("error", _TYPES.get(status, "internal"), message)


LOKI = "/loki/"
LOKI_STATUSES = {422: 400}
"""What a query may not have, Loki answers like any other bad request."""


def respond(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Answer in the form of the dialect that was asked."""
    plain = respond_plain(request, error)
    failure = plain.content
    if not isinstance(failure, Failure):
        return plain
    if request.url.path.startswith(LOKI):
        status = LOKI_STATUSES.get(failure.status, failure.status)
        return Response(failure.message, status_code=status, media_type=MediaType.TEXT, headers=plain.headers)
    if request.url.path.startswith(PROMETHEUS):
        status, told = prometheus_failure(failure.status, failure.message)
        return Response(told, status_code=status, media_type=MediaType.JSON, headers=plain.headers)
    return plain


EXCEPTION_HANDLERS: Handlers = handlers(respond)
