"""Errors of the receivers, and any error as status, code, message and headers."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field

from litestar.exceptions import HTTPException

from lakerunner_ingress.errors import IngressError, OverloadedError
from resources.index.postgres.connections import IndexUnavailableError

log = logging.getLogger(__name__)


class BadRequestError(IngressError):
    """The request does not match its content type; sending it again would not help."""

    status = 400
    code = "malformed"


class TooLargeError(IngressError):
    status = 413
    code = "too_large"


class SlowError(IngressError):
    """The body did not arrive in time; other requests need its memory."""

    status = 408
    code = "slow"


class UnsupportedError(IngressError):
    """The content type or encoding is not supported."""

    status = 415
    code = "unsupported"


class ThrottledError(OverloadedError):
    """The organisation exceeds its quota."""

    code = "throttled"

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.headers = {"Retry-After": str(max(1, math.ceil(retry_after_s)))}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as a sender sees it."""

    status: int
    code: str
    message: str
    headers: dict[str, str] = field(default_factory=dict)


def refusal_of(error: Exception) -> Refusal:
    """Describe an exception that left a receiver; an unexpected one goes to the log only."""
    if isinstance(error, IngressError):
        return Refusal(error.status, error.code, str(error), dict(error.headers))
    if isinstance(error, IndexUnavailableError):
        message = "the index does not answer; send this again"
        return Refusal(503, "unavailable", message, {"Retry-After": "5"})
    if isinstance(error, HTTPException):
        return Refusal(error.status_code, "http", error.detail)
    log.error("unexpected error in a receiver, push refused with 500", exc_info=error)
    return Refusal(500, "internal", "internal error; the log of the ingress has the details")
