"""A service map is read from the derived metrics of spans.

    client  server  connection_type  requests  errors  p95
    shop    cart                         1200       3  0.08 s
    cart    redis   database             4800       0  0.002 s

One query counts, and is answered from rollups where these say the same; the other reads durations, whose
quantiles are interpolated within buckets of histograms, as PromQL's `histogram_quantile` does. Services have
what their server and consumer spans say; what has no spans has what its clients saw.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from lakerunner_query.coordinator.engine import Engine
from lakerunner_query.coordinator.languages import PROMQL
from lakerunner_query.coordinator.merge import SampleResult
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.histogram.classic import bucket_quantile
from lakerunner_query.protocol.units import Missing

BUCKET_MS = 10_000
"""Derived samples stand at multiples of it; an interval is widened to whole ones."""
QUANTILES = (0.5, 0.95, 0.99)
SERVICE = "service"
"""Kind of a node with spans; others have the connection type of the requests to them."""
EDGE = ("client", "server", "connection_type")
Key = tuple[str, ...]
Part = tuple[Key, str]
"""Labels and metric of a part of a query."""
_GRAPH = "traces_service_graph"
_ANSWERED = 'span_kind=~"SPAN_KIND_SERVER|SPAN_KIND_CONSUMER"'
COUNTS: Mapping[str, Part] = {
    "requests": (EDGE, f"{_GRAPH}_request_total"),
    "failed": (EDGE, f"{_GRAPH}_request_failed_total"),
    "unpaired": ((), f"{_GRAPH}_unpaired_spans_total"),
    "calls": (("service",), f"traces_spanmetrics_calls_total{{{_ANSWERED}}}"),
    "errors": (
        ("service",),
        f'traces_spanmetrics_calls_total{{{_ANSWERED},status_code="STATUS_CODE_ERROR"}}',
    ),
}
DURATIONS: Mapping[str, Part] = {
    "seconds": ((*EDGE, "le"), f"{_GRAPH}_request_server_seconds_bucket"),
    "latency": (("service", "le"), f"traces_spanmetrics_latency_bucket{{{_ANSWERED}}}"),
}
"""Parts of the two queries by name, which the label `part` tells apart."""
Buckets = Mapping[float, float]


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of an edge or a node."""

    requests: int
    errors: int
    quantiles: tuple[float | None, ...] = (None,) * len(QUANTILES)
    """Seconds at `QUANTILES`; None where no duration is known."""


@dataclass(frozen=True, slots=True)
class ServiceMap:
    start_ms: int
    end_ms: int
    nodes: Mapping[tuple[str, str], Load]
    """Nodes by name and kind."""
    edges: Mapping[tuple[str, str, str], Load]
    """Edges by client, server and connection type."""
    unpaired: int
    """Spans whose other end is missing."""
    missing: Mapping[str, Missing] = field(default_factory=dict)


async def read_service_map(engine: Engine, org: str, start_ms: int, end_ms: int) -> ServiceMap:
    """Read the map of `(start_ms, end_ms]`, widened to whole ten seconds."""
    start = start_ms // BUCKET_MS * BUCKET_MS
    end = max(-(-end_ms // BUCKET_MS) * BUCKET_MS, start + BUCKET_MS)
    request = PromQLRequest(org, end, end)
    counts, durations = [
        await engine.collect(await engine.prepare(PROMQL, query_text(parts, end - start), request))
        for parts in (COUNTS, DURATIONS)
    ]
    return service_map_of(counts, durations, start, end)


def dependencies(found: ServiceMap) -> list[tuple[str, str, int]]:
    """Return parent, child and number of calls, as Jaeger lists dependencies; the user is no service."""
    calls: dict[tuple[str, str], int] = defaultdict(int)
    for (client, server, connection), load in found.edges.items():
        if not (client == "user" and connection == "virtual_node"):
            calls[client, server] += load.requests
    return [(parent, child, count) for (parent, child), count in sorted(calls.items())]


def query_text(parts: Mapping[str, Part], range_ms: int) -> str:
    """Return the PromQL query for these parts of an interval."""
    texts = (
        f"label_replace(sum by ({', '.join(labels)}) (increase({metric}[{range_ms}ms])), "
        f'"part", "{name}", "", "")'
        for name, (labels, metric) in parts.items()
    )
    return " or ".join(texts)


def service_map_of(counts: SampleResult, durations: SampleResult, start_ms: int, end_ms: int) -> ServiceMap:
    """Return the map that the series of both queries make."""
    found = _by_part(counts, COUNTS) | _by_part(durations, DURATIONS)
    requests = {_edge(key): value for key, value in found["requests"].items() if value > 0}
    seconds = _by_owner(found["seconds"])
    edges = {
        edge: _load(value, found["failed"].get(edge, 0.0), seconds.get(edge, {}))
        for edge, value in sorted(requests.items())
    }
    latency = _by_owner(found["latency"])
    nodes = {
        (name, SERVICE): _load(value, found["errors"].get((name,), 0.0), latency.get((name,), {}))
        for (name,), value in sorted(found["calls"].items())
        if value > 0
    }
    nodes |= _without_spans(edges, seconds, {name for name, _ in nodes})
    unpaired = round(found["unpaired"].get((), 0.0))
    return ServiceMap(start_ms, end_ms, nodes, edges, unpaired, counts.missing | durations.missing)


def _by_part(result: SampleResult, parts: Mapping[str, Part]) -> dict[str, dict[Key, float]]:
    found: dict[str, dict[Key, float]] = {name: {} for name in parts}
    for one in result.series:
        labels = dict(one.labels)
        part = labels["part"]
        ((_, value),) = json.loads(f"[{one.floats.decode()}]")
        found[part][tuple(labels.get(name, "") for name in parts[part][0])] = float(value)
    return found


def _edge(key: Key) -> tuple[str, str, str]:
    client, server, connection = key
    return client, server, connection


def _by_owner(values: Mapping[Key, float]) -> dict[Key, dict[float, float]]:
    """Return cumulative counts by bound of each edge or service; the bound is the last part of a key."""
    found: dict[Key, dict[float, float]] = defaultdict(dict)
    for (*owner, bound), value in values.items():
        found[tuple(owner)][float(bound)] = value
    return found


def _without_spans(
    edges: Mapping[tuple[str, str, str], Load], seconds: Mapping[Key, Buckets], known: set[str]
) -> dict[tuple[str, str], Load]:
    """Return nodes that no server span tells of: what is asked of them, and who asks only."""
    inbound: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for edge in edges:
        inbound[edge[1]].append(edge)
    found: dict[tuple[str, str], Load] = {}
    for name in sorted({end for client, server, _ in edges for end in (client, server)} - known):
        mine = inbound.get(name, [])
        kinds = sorted({connection for _, _, connection in mine} or _asking(edges, name))
        totals: dict[float, float] = defaultdict(float)
        for edge in mine:
            for bound, count in seconds.get(edge, {}).items():
                totals[bound] += count
        errors = sum(edges[edge].errors for edge in mine)
        found[name, kinds[0] or SERVICE] = _load(sum(edges[edge].requests for edge in mine), errors, totals)
    return found


def _asking(edges: Iterable[tuple[str, str, str]], name: str) -> set[str]:
    """Return what a node is that nobody asks: a service, unless its requests say more."""
    kinds = {connection for client, _, connection in edges if client == name}
    return kinds if kinds <= {"virtual_node", "messaging_system"} else {SERVICE}


def _load(requests: float, errors: float, buckets: Buckets) -> Load:
    if not buckets:
        return Load(round(requests), round(errors))
    bounds = np.array(sorted(buckets))
    counts = np.array([buckets[bound] for bound in bounds.tolist()])
    each = np.repeat(counts[:, None], len(QUANTILES), axis=1)
    found = bucket_quantile(np.array(QUANTILES), bounds, each, np.ones(each.shape, np.bool_))
    seconds = tuple(None if np.isnan(value) else value for value in found.value.tolist())
    return Load(round(requests), round(errors), seconds)
