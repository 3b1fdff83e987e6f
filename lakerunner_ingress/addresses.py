"""Requests to paths that the ingress does not have are told the right one."""

from __future__ import annotations

import difflib

PUSHES = {
    "/v1/logs": "OTLP logs go to",
    "/v1/metrics": "OTLP metrics go to",
    "/v1/traces": "OTLP traces go to",
    "/api/v1/write": "Prometheus remote write goes to",
    "/loki/api/v1/push": "Loki push goes to",
}
GRPC_ANSWER = (
    "gRPC needs HTTP/2, this request came over HTTP/1.1: is a proxy in between that speaks no HTTP/2?"
)
PROFILES_ANSWER = "profiles are not stored: only logs, metrics and traces are taken"
_QUERIES = (
    "/prometheus", "/loki/api/v1/", "/api/v1/query", "/api/v1/series", "/api/v1/label", "/api/v1/metadata",
    "/api/v1/logs", "/api/v1/metrics", "/api/v1/promql", "/api/v1/logql", "/api/v1/read", "/federate",
    "/explore", "/api/v1/explain", "/tempo", "/jaeger",
)  # fmt: skip
_OLD_NAMES = {
    "/api/prom/push": "/loki/api/v1/push",
    "/loki/push": "/loki/api/v1/push",
    "/api/v1/push": "/loki/api/v1/push",
    "/prometheus/api/v1/write": "/api/v1/write",
    "/api/prom/write": "/api/v1/write",
    "/api/v1/otlp/v1/metrics": "/v1/metrics",
}


def right_address(path: str, query_port: int) -> str:
    """Return where to send what came to a path that does not exist.

    >>> right_address("/v1/log", 4381)
    'no such path: OTLP logs go to /v1/logs'
    >>> right_address("/api/v1/query_range", 4381)
    'no such path: queries go to the query API (port 4381), this is the ingress'
    """
    plain = "/" + path.strip("/")
    if plain.startswith(("/opentelemetry.proto", "/grpc.")):
        return GRPC_ANSWER
    known = _OLD_NAMES.get(plain) or next(iter(difflib.get_close_matches(plain, PUSHES, 1, 0.8)), "")
    if not known and plain.startswith(_QUERIES):
        return f"no such path: queries go to the query API (port {query_port}), this is the ingress"
    if not known:
        known = next((each for each in PUSHES if plain.endswith(each)), "")
    if known:
        return f"no such path: {PUSHES[known]} {known}"
    return "no such path; " + ", ".join(f"{what} {where}" for where, what in PUSHES.items())
