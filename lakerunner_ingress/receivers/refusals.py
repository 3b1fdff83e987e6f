"""What a sender can be told besides the ingress's own errors, and any error as status, message, headers."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field

from litestar.exceptions import HTTPException

from lakerunner_ingress.errors import IngressError, OverloadedError
from resources.index.postgres.connections import IndexUnavailableError

log = logging.getLogger(__name__)


class BadRequestError(IngressError):
    """The request is not what its content type says; sending it again would not help."""

    status = 400
    code = "malformed"


class TooLargeError(IngressError):
    status = 413
    code = "too_large"


class SlowError(IngressError):
    """The body did not arrive in time; its memory is needed for others."""

    status = 408
    code = "slow"


class UnsupportedError(IngressError):
    """Another content type or encoding than those that are read."""

    status = 415
    code = "unsupported"


class ThrottledError(OverloadedError):
    """The organisation sends more than it may."""

    code = "throttled"

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.headers = {"Retry-After": str(max(1, math.ceil(retry_after_s)))}


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    code: str
    message: str
    headers: dict[str, str] = field(default_factory=dict)


def refusal_of(error: Exception) -> Refusal:
    """For any exception that left a receiver; what was not foreseen is logged and not told."""
    if isinstance(error, IngressError):
        return Refusal(error.status, error.code, str(error), dict(error.headers))
    if isinstance(error, IndexUnavailableError):
        message = "the index does not answer; send this again"
        return Refusal(503, "unavailable", message, {"Retry-After": "5"})
    if isinstance(error, HTTPException):
        return Refusal(error.status_code, "http", error.detail)
    log.error("unforeseen error in a receiver", exc_info=error)
    return Refusal(500, "internal", "internal error; the log of the ingress has the details")
