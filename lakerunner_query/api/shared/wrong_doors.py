"""A wrong address is answered with one sentence that names the right one.

GET  /api/v1/query       Prometheus' API lies under /prometheus here: ask GET /prometheus/api/v1/query
POST /loki/api/v1/push   this port answers queries, the ingress (port 4380 ...) takes pushes: ...
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from litestar import Litestar

PUSH = (
    "/v1/logs", "/v1/metrics", "/v1/traces", "/otlp/v1/logs", "/otlp/v1/metrics", "/otlp/v1/traces",
    "/loki/api/v1/push", "/api/v1/write",
)  # fmt: skip
"""Addresses of the ingress."""
OTHER_PUSHES: Mapping[str, str] = {
    "/api/v1/push": "/api/v1/write",
    "/api/prom/push": "/loki/api/v1/push",
    "/prometheus/api/v1/write": "/api/v1/write",
    "/prometheus/api/v1/push": "/api/v1/write",
    "/prometheus/api/v1/otlp/v1/metrics": "/v1/metrics",
    "/loki/otlp/v1/logs": "/otlp/v1/logs",
}
"""Addresses of other products at which they are pushed to, by ours."""
_PROMETHEUS = re.compile(
    r"/api/v1/(query|query_range|query_exemplars|series|labels|label/[^/]+/values|metadata|read|alerts"
    r"|targets|format_query|parse_query|alertmanagers|scrape_pools|features|notifications|openapi\.yaml"
    r"|(?:status|targets)/[^/]+)|/federate|/-/(?:healthy|ready)"
)
_JAEGER = re.compile(
    r"/api/(?:v3/)?(traces|services|services/.+/operations|operations|dependencies|trace-summaries"
    r"|metrics/(?:latencies|calls|errors|minstep))"
)
_TRACE = re.compile(r"/api/(?:v[23]/)?traces/[^/]+")
_OLD_LOKI = re.compile(r"/api/prom/(query|tail|series|label(?:/[^/]+/values)?)")
CLOSE = 0.8
"""Likeness from which on a path is taken for a misspelling."""
LONGEST = 200
"""Characters of a path that are looked at and repeated."""


def right_address(app: Litestar, method: str, path: str, ingress_port: int) -> str:
    """Return the sentence for a path that no handler has."""
    bare = re.sub("/{2,}", "/", path[:LONGEST]).rstrip("/") or "/"
    pushed = bare if bare in PUSH else OTHER_PUSHES.get(bare, "")
    if pushed:
        return f"this port answers queries, {ingress(ingress_port)} takes pushes: POST {pushed} there"
    prefix = _missing_prefix(method, bare)
    if prefix:
        return prefix
    close = difflib.get_close_matches(bare, (*_addresses(app), *PUSH), 1, CLOSE)
    if close:
        where = f"{ingress(ingress_port)} has" if close[0] in PUSH else "there is"
        return f"no {bare} here: {where} {close[0]}"
    return f"no {bare} here: the addresses are listed at /schema and in docs/reference/http-api.md"


def _missing_prefix(method: str, bare: str) -> str:
    """Return the sentence for a path of another product without the prefix that it has here."""
    if _PROMETHEUS.fullmatch(bare):
        return f"Prometheus' API lies under /prometheus here: ask {method} /prometheus{bare}"
    if _JAEGER.fullmatch(bare):
        return f"Jaeger's API lies under /jaeger here: ask {method} /jaeger{bare}"
    if _TRACE.fullmatch(bare):
        rest = bare.removeprefix("/api")
        return f"traces lie under /tempo and /jaeger here: ask {method} /tempo/api{rest} or /jaeger/api{rest}"
    if _OLD_LOKI.fullmatch(bare):
        rest = bare.removeprefix("/api/prom/")
        newer = "query_range" if rest == "query" else rest
        return f"Loki's API lies under /loki/api/v1 here: ask {method} /loki/api/v1/{newer}"
    return ""


def ingress(port: int) -> str:
    """Name the ingress by the port that this process's settings have for it."""
    return f"the ingress (port {port} by the settings)"


def is_of_prometheus(path: str) -> bool:
    """Tell whether a path is one of Prometheus' without the prefix that it has here."""
    return bool(_PROMETHEUS.fullmatch(path[:LONGEST].rstrip("/")))


def taken_methods(app: Litestar, path: str) -> tuple[str, ...]:
    """Return the methods that are taken at a path."""
    bare = path.rstrip("/") or "/"
    found = {
        method
        for route in app.routes
        if _fits(route.path_format, bare)
        for method in getattr(route, "methods", ())
    }
    return tuple(sorted(found - {"OPTIONS"}))


def _fits(template: str, path: str) -> bool:
    """Tell whether the path is one of a template, `/label/{name}/values`."""
    expected, given = template.split("/"), path.split("/")
    return len(expected) == len(given) and all(
        bool(actual) if part.startswith("{") else part == actual
        for part, actual in zip(expected, given, strict=True)
    )


def _addresses(app: Litestar) -> Iterable[str]:
    return (route.path for route in app.routes if "{" not in route.path)
