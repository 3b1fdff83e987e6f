"""Errors in Prometheus' envelope: {"status":"error","errorType":"bad_data","error":"..."}."""

from __future__ import annotations

import msgspec

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
