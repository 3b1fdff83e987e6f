"""The one way from an exception to a response.

Lakerunner's endpoints answer `{status, code, message, position?}`; Loki's answer as Loki does, with the bare
message as text, Prometheus' with its envelope. A failure nobody foresaw is logged with its trace and told
without details.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException

from lakerunner_query.api.shared.requests import ClientGoneError
from lakerunner_query.errors import QueryError

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
_log = logging.getLogger(__name__)


class Place(msgspec.Struct):
    line: int
    column: int


class Failure(msgspec.Struct, omit_defaults=True):
    """The error envelope."""

    status: int
    code: str
    message: str
    position: Place | None = None


def envelope(error: Exception) -> Failure:
    """What a caller is told about `error`."""
    if isinstance(error, QueryError):
        at = error.position
        return Failure(error.status, error.code, error.message, Place(at.line, at.column) if at else None)
    if isinstance(error, HTTPException):
        return Failure(error.status_code, _code(error.status_code), _detail(error))
    _log.error("unforeseen failure", exc_info=error)
    return Failure(500, "internal", "internal error; the log of the query API has the details")


def respond(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    if isinstance(error, ClientGoneError):
        return Response(b"", status_code=499)
    failure = envelope(error)
    headers = {"WWW-Authenticate": "Bearer"} if failure.status == 401 else {}
    if request.url.path.startswith(LOKI):
        status = LOKI_STATUSES.get(failure.status, failure.status)
        return Response(failure.message, status_code=status, media_type=MediaType.TEXT, headers=headers)
    if request.url.path.startswith(PROMETHEUS):
        status, told = prometheus_failure(failure.status, failure.message)
        return Response(told, status_code=status, media_type=MediaType.JSON, headers=headers)
    return Response(failure, status_code=failure.status, media_type=MediaType.JSON, headers=headers)


EXCEPTION_HANDLERS: dict[int | type[Exception], Callable[[Request[Any, Any, Any], Any], Response[Any]]] = {
    Exception: respond,
    HTTPException: respond,
    QueryError: respond,
}


def _code(status: int) -> str:
    names = {400: "invalid_request", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}
    return names.get(status, "http_error")


def _detail(error: HTTPException) -> str:
    """Litestar keeps what exactly did not validate in `extra`."""
    extra = error.extra if isinstance(error.extra, list) else []
    parts = [f"{e.get('key', '')}: {e.get('message', '')}".strip(": ") for e in extra if isinstance(e, dict)]
    return "; ".join([error.detail, *parts])
