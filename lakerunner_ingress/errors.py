"""Errors of the ingress, which know their HTTP answer.

Every error leaves as one JSON envelope, `{"status", "code", "message"}`. An unexpected failure says only that
it happened; its traceback goes to the log.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException

from lakerunner_ingress.addresses import right_address
from resources.index.postgres.connections import IndexUnavailableError
from resources.notifications.events import MalformedMessageError

log = logging.getLogger(__name__)


class IngressError(Exception):
    """Base of the errors that callers see."""

    status = 500
    code = "internal"
    headers: dict[str, str] = {}  # noqa: RUF012 - replaced by subclasses, never changed


class UnauthorizedError(IngressError):
    status = 401
    code = "unauthorized"
    headers = {"WWW-Authenticate": "Bearer"}  # noqa: RUF012 - see above


class ForbiddenError(IngressError):
    status = 403
    code = "forbidden"


class OverloadedError(IngressError):
    status = 429
    code = "overloaded"
    headers = {"Retry-After": "1"}  # noqa: RUF012 - see above


class UnavailableError(IngressError):
    """Neither Kafka nor Postgres takes the request: the caller must send it again."""

    status = 503
    code = "unavailable"
    headers = {"Retry-After": "5"}  # noqa: RUF012 - see above


def answer(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, object]]:
    """Answer an exception that left a handler."""
    if isinstance(error, IngressError):
        return _envelope(error.status, error.code, str(error), error.headers)
    if isinstance(error, MalformedMessageError):
        return _envelope(400, "malformed", str(error))
    if isinstance(error, IndexUnavailableError):
        log.error("the index does not answer, request refused with 503: %s", error)
        return _envelope(
            503, "unavailable", "the index does not answer; send this again", {"Retry-After": "5"}
        )
    if isinstance(error, HTTPException):
        return _http_answer(request, error)
    log.error("unexpected error, request refused with 500", exc_info=error)
    return _envelope(500, "internal", "internal error; the log of the ingress has the details")


def _http_answer(request: Request[Any, Any, Any], error: HTTPException) -> Response[dict[str, object]]:
    """Answer an error of the framework; a wrong address is told the right one."""
    status, message = error.status_code, error.detail
    if isinstance(error, NotFoundException):
        message = right_address(request.url.path, request.app.state.query_port)
    elif isinstance(error, MethodNotAllowedException):
        message = f"{request.method} is not taken here: telemetry comes by POST, queries go to the query API"
    return _envelope(status, _code(status), message, dict(error.headers or {}))


def _envelope(
    status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> Response[dict[str, object]]:
    content: dict[str, object] = {"status": status, "code": code, "message": message}
    return Response(content, status_code=status, headers=headers, media_type="application/json")


def _code(status: int) -> str:
    return HTTPStatus(status).phrase.lower().replace(" ", "_")
