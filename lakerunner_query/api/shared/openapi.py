"""The OpenAPI document names every field, key and status of every operation.

The framework sees only the types of handlers; Prometheus' and Loki's requests are read field by field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from litestar.openapi.spec import (
    Components,
    OpenAPI,
    OpenAPIMediaType,
    OpenAPIResponse,
    OpenAPIType,
    Operation,
    Parameter,
    PathItem,
    Reference,
    RequestBody,
    Schema,
    SecurityScheme,
)

from lakerunner_query.api.shared.requests import REWRITE

FORM, JSON, TEXT = "application/x-www-form-urlencoded", "application/json", "text/plain"
TIMES = ("start", "end")
RANGE = ("query!", "start!", "end!", "step!")
EVALUATION = ("timeout", "lookback_delta", "limit", "stats", "partial_response", REWRITE)
SELECTION = ("match[]*", *TIMES, "limit")
RULES = (
    "type", "rule_name[]*", "rule_group[]*", "file[]*", "match[]*", "exclude_alerts", "group_limit",
    "group_next_token",
)  # fmt: skip
JAEGER = ("prettyPrint", "partial_response")
FIELDS: Mapping[str, tuple[str, ...]] = {
    "/prometheus/api/v1/query": ("query!", "time", *EVALUATION),
    "/prometheus/api/v1/query_range": (*RANGE, *EVALUATION),
    "/prometheus/api/v1/series": ("match[]*!", *TIMES, "limit", "partial_response"),
    "/prometheus/api/v1/labels": (*SELECTION, "partial_response"),
    "/prometheus/api/v1/label/{name}/values": (*SELECTION, "partial_response"),
    "/prometheus/api/v1/metadata": ("metric", "limit", "limit_per_metric", *TIMES),
    "/prometheus/api/v1/query_exemplars": ("query!", *TIMES, "partial_response"),
    "/prometheus/api/v1/format_query": ("query!",),
    "/prometheus/api/v1/parse_query": ("query!",),
    "/prometheus/api/v1/status/tsdb": ("limit", *TIMES),
    "/prometheus/api/v1/rules": RULES,
    "/loki/prometheus/api/v1/rules": RULES,
    "/api/v1/alerts": TIMES,
    "/prometheus/api/v1/targets": ("state", "scrapePool"),
    "/prometheus/api/v1/targets/relabel_steps": ("scrapePool!",),
    "/prometheus/api/v1/scrape_pools/config": ("scrapePool!",),
    "/prometheus/federate": ("match[]*",),
    "/loki/api/v1/query": ("query!", "time", "limit", "direction", "partial_response", REWRITE),
    "/loki/api/v1/query_range": (
        "query!", *TIMES, "since", "limit", "step", "interval", "direction", "partial_response", REWRITE,
    ),
    "/loki/api/v1/labels": ("query", *TIMES, "since"),
    "/loki/api/v1/label": ("query", *TIMES, "since"),
    "/loki/api/v1/label/{name}/values": ("query", *TIMES, "since"),
    "/loki/api/v1/series": ("match[]*", *TIMES, "since"),
    "/loki/api/v1/index/stats": ("query!", *TIMES, "since"),
    "/loki/api/v1/index/volume": ("query!", *TIMES, "since", "limit", "targetLabels", "aggregateBy"),
    "/loki/api/v1/index/volume_range": (
        "query!", *TIMES, "since", "limit", "step", "targetLabels", "aggregateBy",
    ),
    "/loki/api/v1/detected_labels": ("query", *TIMES, "since"),
    "/loki/api/v1/detected_fields": ("query!", *TIMES, "since", "line_limit", "limit"),
    "/loki/api/v1/detected_field/{name}/values": ("query!", *TIMES, "since", "line_limit", "limit"),
    "/loki/api/v1/patterns": ("query!", *TIMES, "since", "step", "limit"),
    "/loki/api/v1/format_query": ("query!",),
    "/jaeger/api/traces": (
        "service", "operation", "tag*", "tags*", *TIMES, "lookback", "minDuration", "maxDuration", "limit",
        "traceID*", "raw", *JAEGER,
    ),
    "/jaeger/api/traces/{trace}": (*TIMES, "raw", *JAEGER),
    "/jaeger/api/services": JAEGER,
    "/jaeger/api/services/{rest}": JAEGER,
    "/jaeger/api/operations": ("service!", "spanKind", *JAEGER),
    "/jaeger/api/dependencies": ("endTs", "lookback", "service", *JAEGER),
    "/jaeger/api/v3/services": JAEGER,
    "/jaeger/api/v3/operations": ("service!", "spanKind", *JAEGER),
    "/jaeger/api/v3/trace-summaries": (
        "query.serviceName!", "query.operationName", "query.attributes", "query.startTimeMin",
        "query.startTimeMax", "query.durationMin", "query.durationMax", "query.searchDepth", *JAEGER,
    ),
    "/jaeger/api/v3/traces/{trace}": ("startTime", "endTime", *JAEGER),
    "/api/v1/logs/query": (
        "q!", "s", "e", "limit", "reverse", "fields*", "step", "summary", REWRITE, "last_event_id",
    ),
    "/api/v1/metrics/query": ("q!", "s", "e", "step", "limit", "summary", REWRITE, "last_event_id"),
    "/api/v1/logs/tags": ("s", "e", "q", "limit"),
    "/api/v1/logs/tagvalues": ("s", "e", "q", "tag!", "limit"),
    "/api/v1/logs/series": ("s", "e", "q", "limit"),
    "/api/v1/spans/query": ("q!", "s", "e", "limit", "spans", "step", REWRITE),
    "/api/v1/spans/tags": ("s", "e", "q", "limit"),
    "/api/v1/spans/tagvalues": ("s", "e", "q", "tag!", "limit"),
    "/api/v1/traces/{trace_id}": ("s", "e", "limit", "logs", "exemplars"),
    "/api/v1/service-map": ("start", "end"),
    "/api/v1/rules": ("kind", "namespace", "name", "format", "metric", "group"),
    "/api/v1/metrics/metadata": ("s", "e", "metric", "limit"),
    "/api/v1/metrics/tags": ("s", "e", "q", "metric", "limit"),
    "/api/v1/metrics/tagvalues": ("s", "e", "q", "metric", "tag!", "limit"),
}  # fmt: skip
"""Fields by path: `!` marks those that are required, `*` those that may repeat."""
STATUSES: Mapping[str, str] = {
    "400": "the request, or the query in it, is wrong",
    "401": "no key, or not a live one",
    "403": "the role of the key is not enough, or another organisation is named",
    "422": "the query is beyond a limit, or not for this data",
    "429": "too many queries of the organisation at a time",
    "500": "a fault of the server; its log has the details",
    "503": "the index or every worker is away, or segments could not be read",
    "504": "the query took too long",
}
_RESUMED = {"409": "the stream cannot go on behind that event"}
_NO_QUERY = {"404": "the organisation has no such query, or its hour is over"}
STATUSES_OF_PATHS: Mapping[str, Mapping[str, str]] = {
    "/api/v1/logs/query": _RESUMED,
    "/api/v1/metrics/query": _RESUMED,
    "/api/v1/spans/query": _RESUMED,
    "/api/v1/query/{query_id}": _NO_QUERY,
    "/api/v1/query/{query_id}/result": {
        **_NO_QUERY, "409": "the query is not done", "410": "the query was cancelled",
    },
    "/api/v1/rules": {"409": "the rules are of another revision"},
    "/api/v1/rules/{rule_id}/versions": {"404": "the organisation has no such rule"},
    "/loki/api/v1/rules": {"404": "there are no rules"},
    "/api/prom/rules": {"404": "there are no rules"},
    "/prometheus/config/v1/rules": {"404": "there are no rules"},
}  # fmt: skip
PROTOBUF = {
    "/prometheus/api/v1/read": ("application/x-protobuf", "prometheus.ReadRequest, a snappy block"),
}
"""Bodies in protobuf: their types, and what they are."""
OPEN = ("/livez", "/healthz", "/readyz", "/ready", "/metrics", "/prometheus/-/", "/prometheus")
"""Paths that need no key; the last one alone, not what lies below."""
KEYS = {
    "key": SecurityScheme(type="apiKey", name="x-cardinalhq-api-key", security_scheme_in="header"),
    "bearer": SecurityScheme(type="http", scheme="bearer"),
    "basic": SecurityScheme(type="http", scheme="basic"),
}


def complete(document: OpenAPI) -> None:
    """Add fields, statuses and keys to every operation."""
    schemes: Mapping[str, Any] = KEYS
    document.components = replace(document.components or Components(), security_schemes=dict(schemes))
    for path, item in (document.paths or {}).items():
        for method, operation in _operations(item):
            _put_fields(operation, path, method)
            _put_statuses(operation, path)


def _operations(item: PathItem) -> Iterable[tuple[str, Operation]]:
    found = {"get": item.get, "post": item.post, "delete": item.delete}
    return ((method, operation) for method, operation in found.items() if operation is not None)


def _put_fields(operation: Operation, path: str, method: str) -> None:
    fields = FIELDS.get(path, ())
    if path in PROTOBUF:
        kind, description = PROTOBUF[path]
        raw = OpenAPIMediaType(Schema(type=OpenAPIType.STRING, format="binary"))  # type: ignore[arg-type]
        operation.request_body = RequestBody({kind: raw}, description, required=True)
    if not fields:
        return
    if method in {"get", "delete"}:
        operation.parameters = [*(operation.parameters or []), *map(_parameter, fields)]
        return
    if operation.request_body is not None:
        return
    names: dict[str, Reference | Schema] = {name.rstrip("*!"): _schema(name) for name in fields}
    required = [name.rstrip("*!") for name in fields if name.endswith("!")]
    kind = JSON if path.startswith("/api/v1/") else FORM
    body = Schema(type=OpenAPIType.OBJECT, properties=names, required=required or None)
    operation.request_body = RequestBody({kind: OpenAPIMediaType(body)}, required=bool(required))


def _parameter(name: str) -> Parameter:
    bare = name.rstrip("*!")
    return Parameter(bare, "query", _schema(name), required=name.endswith("!"))


def _schema(name: str) -> Schema:
    text = Schema(type=OpenAPIType.STRING)
    if "*" in name:
        return Schema(type=OpenAPIType.ARRAY, items=text)
    return Schema(type=OpenAPIType.INTEGER) if name == "limit" else text


def _put_statuses(operation: Operation, path: str) -> None:
    is_open = path == OPEN[-1] or path.startswith(OPEN[:-1])
    kinds = [TEXT if path.startswith(("/loki/", "/tempo/")) or is_open else JSON]
    kinds += [JSON] if path == "/loki/api/v1/format_query" else []
    answers = operation.responses = dict(operation.responses or {})
    for status, description in {**STATUSES, **STATUSES_OF_PATHS.get(path, {})}.items():
        if not is_open or status in {"500", "503"}:
            answers[status] = OpenAPIResponse(
                description, content=dict.fromkeys(kinds, OpenAPIMediaType(Schema()))
            )
    if not is_open:
        operation.security = [{name: []} for name in KEYS]


def part_of(document: Mapping[str, Any], prefix: str, title: str) -> dict[str, Any]:
    """Return the document of the paths below a prefix, relative to it."""
    paths = {
        path.removeprefix(prefix): item
        for path, item in document.get("paths", {}).items()
        if path.startswith(prefix + "/")
    }
    whole = dict(document)
    return whole | {
        "info": {**document["info"], "title": title},
        "servers": [{"url": prefix}],
        "paths": paths,
    }
