"""Spans become payloads of Datadog's agent, in its msgpack of version 0.4 or 0.5.

    span  →  {service, name, resource, type, trace_id, span_id, parent_id, start, duration, error, meta, …}

The columns are made in SQL, and become msgpack in one step. The first span of a trace in a payload carries
its priority, so that the agent samples no more, and the probability by which the trace was kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any

import ormsgpack
import pyarrow as pa

from lakerunner_sampling.export.senders import HttpSender, Reply
from resources.duckdb import DuckSession

HEADERS = {
    "Content-Type": "application/msgpack",
    "Datadog-Meta-Lang": "python",
    "Datadog-Meta-Tracer-Version": "lakerunner",
    "Datadog-Client-Computed-Top-Level": "yes",
    "Datadog-Client-Computed-Stats": "yes",
    "Datadog-Send-Real-Http-Status": "true",
}
"""The agent computes no statistics of traces that are a sample, and says so when it drops a payload."""
TRACES = "X-Datadog-Trace-Count"
KEEP = 2.0
"""Priority of traces that somebody decided to keep."""
BY_RULE = "-3"

_KIND = """CASE kind WHEN 2 THEN 'server' WHEN 3 THEN 'client' WHEN 4 THEN 'producer'
    WHEN 5 THEN 'consumer' ELSE 'internal' END"""


def _attribute(*keys: str) -> str:
    """Write the first of some attributes in SQL, null where none is or it is empty."""
    return "coalesce(" + ", ".join(f"nullif(attributes['{key}'], '')" for key in keys) + ", NULL)"


def _resource_attribute(*keys: str) -> str:
    return _attribute(*keys).replace("attributes[", "resource_attributes[")


_METHOD = _attribute("http.request.method", "http.method")
_DB = _attribute("db.system", "db.system.name")
_RPC, _QUEUE = _attribute("rpc.system"), _attribute("messaging.system")
_QUEUE_OPERATION = _attribute("messaging.operation", "messaging.operation.type")
_QUEUE_NAME = _attribute("messaging.destination.name", "messaging.destination")
_OPERATION = f"""coalesce({_attribute("operation.name")}, CASE
    WHEN {_METHOD} IS NOT NULL AND kind IN (2, 3) THEN 'http.' || {_KIND} || '.request'
    WHEN {_DB} IS NOT NULL AND kind = 3 THEN {_DB} || '.query'
    WHEN {_QUEUE} IS NOT NULL AND {_QUEUE_OPERATION} IS NOT NULL AND kind IN (2, 3, 4, 5)
        THEN {_QUEUE} || '.' || {_QUEUE_OPERATION}
    WHEN {_RPC} IS NOT NULL AND kind IN (2, 3) THEN {_RPC} || '.' || {_KIND} || '.request'
    WHEN kind IN (2, 3) THEN {_KIND} || '.request'
    ELSE {_KIND} END)"""
_RESOURCE = f"""coalesce(
    {_attribute("resource.name")},
    {_METHOD} || coalesce(' ' || {_attribute("http.route")}, ''),
    {_QUEUE_OPERATION} || coalesce(' ' || {_QUEUE_NAME}, ''),
    {_attribute("rpc.method")} || coalesce(' ' || {_attribute("rpc.service")}, ''),
    {_attribute("db.query.text", "db.statement")},
    name, '')"""
_TYPE = f"""coalesce({_attribute("span.type")}, CASE
    WHEN kind = 2 THEN 'web'
    WHEN {_DB} IN ('redis', 'memcached') AND kind = 3 THEN 'cache'
    WHEN {_DB} IS NOT NULL AND kind = 3 THEN 'db'
    WHEN kind = 3 THEN 'http'
    ELSE 'custom' END)"""
_EXCEPTION = "list_filter(coalesce(events, []), lambda e: e.name = 'exception')[1].attributes"
_MESSAGE = f"coalesce(nullif(status_message, ''), {_EXCEPTION}['exception.message'])"
_TAGS = {
    "span.kind": _KIND,
    "env": _resource_attribute("deployment.environment.name", "deployment.environment"),
    "version": _resource_attribute("service.version"),
    "otel.trace_id": "lower(hex(trace_id))",
    "_dd.p.tid": "left(lower(hex(trace_id)), 16)",
    "w3c.tracestate": "nullif(trace_state, '')",
    "otel.library.name": "nullif(scope_name, '')",
    "otel.library.version": "nullif(scope_version, '')",
    "otel.status_code": "CASE status_code WHEN 2 THEN 'Error' WHEN 1 THEN 'Ok' ELSE 'Unset' END",
    "error.message": f"CASE WHEN status_code = 2 THEN {_MESSAGE} END",
    "error.type": f"CASE WHEN status_code = 2 THEN {_EXCEPTION}['exception.type'] END",
    "error.stack": f"CASE WHEN status_code = 2 THEN {_EXCEPTION}['exception.stacktrace'] END",
    "events": "CASE WHEN len(events) > 0 THEN to_json(events)::VARCHAR END",
    "_dd.span_links": """CASE WHEN len(links) > 0 THEN to_json(list_transform(links, lambda l: {
        'trace_id': lower(hex(l.trace_id)), 'span_id': lower(hex(l.span_id)),
        'tracestate': l.trace_state, 'attributes': l.attributes}))::VARCHAR END""",
    "_dd.p.dm": f"CASE WHEN is_first THEN '{BY_RULE}' END",
    "lakerunner.sampling.policy": "CASE WHEN is_first THEN sampling_policy END",
}
_NUMBERS = {
    "_sampling_priority_v1": f"CASE WHEN is_first THEN {KEEP} END",
    "_dd.rule_psr": "CASE WHEN is_first THEN sampling_probability END",
    "_sample_rate": "CASE WHEN is_first THEN sampling_probability END",
    "_top_level": "CASE WHEN is_entry THEN 1.0 END",
}


def _map(entries: Mapping[str, str], kind: str) -> str:
    """Write a map in SQL without the entries that are null."""
    pairs = ", ".join(f"{{'key': '{key}', 'value': ({value})::{kind}}}" for key, value in entries.items())
    return f"map_from_entries(list_filter([{pairs}], lambda e: e.value IS NOT NULL))"


def _number(digits: str) -> str:
    """Write hex digits as an unsigned integer in SQL."""
    return f"coalesce(('0x' || {digits})::UBIGINT, 0)"


_META = f"""map_concat(coalesce(resource_attributes, MAP {{}}), coalesce(attributes, MAP {{}}),
    {_map(_TAGS, "VARCHAR")})"""
SQL = f"""
WITH numbered AS (
    SELECT *, row_number() OVER () AS place FROM chunk
), services AS (
    SELECT trace_id, span_id, any_value(coalesce(service_name, '')) AS service FROM chunk GROUP BY ALL
), marked AS (
    SELECT spans.*,
        place = min(place) OVER (PARTITION BY spans.trace_id) AS is_first,
        parent.service IS NULL OR parent.service <> coalesce(spans.service_name, '') AS is_entry
    FROM numbered AS spans
    LEFT JOIN services AS parent ON parent.trace_id = spans.trace_id AND parent.span_id = spans.parent_span_id
)
SELECT coalesce(service_name, '') AS service, {_OPERATION} AS name, {_RESOURCE} AS resource,
    {_number("right(hex(trace_id), 16)")} AS trace_id, {_number("hex(span_id)")} AS span_id,
    {_number("nullif(hex(parent_span_id), '')")} AS parent_id, start_ns AS start,
    greatest(coalesce(end_ns, start_ns) - start_ns, 0) AS duration,
    (coalesce(status_code, 0) = 2)::INTEGER AS error, {_TYPE} AS type,
    {_META} AS meta, {_map(_NUMBERS, "DOUBLE")} AS metrics, lower(hex(trace_id)) AS whole
FROM marked ORDER BY place
"""


class Version(StrEnum):
    """Version of the agent's traces API."""

    V04 = "v0.4"
    V05 = "v0.5"


def payload(spans: pa.Table, session: DuckSession, version: Version) -> bytes:
    """Encode spans, which are sorted by trace."""
    with session.cursor() as cursor:
        cursor.register("chunk", spans)
        rows = cursor.sql(SQL).to_arrow_table().to_pylist(maps_as_pydicts="lossy")
    traces = [list(found) for _, found in groupby(rows, key=itemgetter("whole"))]
    for row in rows:
        del row["whole"]
    if version is Version.V04:
        return ormsgpack.packb(traces)
    return ormsgpack.packb(_with_places(traces), option=ormsgpack.OPT_NON_STR_KEYS)


def _with_places(traces: list[list[dict[str, Any]]]) -> list[Any]:
    """Write every text once, and its place wherever it stands."""
    places: dict[str, int] = {"": 0}

    def place(text: str | None) -> int:
        return places.setdefault(text or "", len(places))

    found = [
        [
            [
                place(span["service"]), place(span["name"]), place(span["resource"]), span["trace_id"],
                span["span_id"], span["parent_id"], span["start"], span["duration"], span["error"],
                {place(key): place(value) for key, value in span["meta"].items()},
                {place(key): value for key, value in span["metrics"].items()},
                place(span["type"]),
            ]
            for span in spans
        ]
        for spans in traces
    ]  # fmt: skip
    return [list(places), found]


@dataclass(slots=True)
class DatadogSender(HttpSender):
    """Sends to an agent."""

    session: DuckSession | None = None
    version: Version = Version.V04

    @classmethod
    def to(cls, name: str, url: str, session: DuckSession, version: Version = Version.V04) -> DatadogSender:
        """Return a sender to the agent at this address, as `http://localhost:8126`."""
        path = f"{url.rstrip('/')}/{version.value}/traces"
        return cls(name, path, HEADERS, method="PUT", session=session, version=version)

    def encode(self, spans: pa.Table) -> bytes:
        if self.session is None:
            raise ValueError("a sender to Datadog needs DuckDB")
        return payload(spans, self.session, self.version)

    def send(self, payload: bytes, traces: int, identity: str) -> Reply:  # noqa: ARG002 - the agent knows none
        return self.post(payload, {TRACES: str(traces)})
