"""Tables and values that random statements are made of, and the relations in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TEXT, INT, FLOAT, BOOL, TIME = "text", "int", "float", "bool", "time"
BIG = "big"
"""Integers that are not added up: they would leave 64 bits."""
LOGS = {
    "timestamp": TIME, "tsns": BIG, "service_name": TEXT, "severity": TEXT, "level": TEXT,
    "severity_number": INT, "message": TEXT, "trace_id": TEXT, "span_id": TEXT, "attr_http_route": TEXT,
    "attr_bytes": INT, "attr_ratio": FLOAT, "attr_ok": BOOL, "attr_id": INT, "resource_host_name": TEXT,
    "resource_service_namespace": TEXT, "fingerprint": BIG, "organization_id": TEXT,
}  # fmt: skip
SPANS = {
    "timestamp": TIME, "tsns": BIG, "end_tsns": BIG, "duration_ns": INT, "service_name": TEXT, "name": TEXT,
    "kind": TEXT, "status_code": TEXT, "trace_id": TEXT, "span_id": TEXT, "parent_span_id": TEXT,
    "attr_http_status_code": INT, "attr_db_system": TEXT, "resource_host_name": TEXT,
}  # fmt: skip
METRICS = {
    "timestamp": TIME, "metric_name": TEXT, "metric_type": TEXT, "temporality": TEXT, "tid": BIG,
    "value": FLOAT, "count": INT, "sum": FLOAT, "service_name": TEXT,
}  # fmt: skip
ROLLED = {
    "timestamp": TIME, "metric_name": TEXT, "tid": BIG, "count": INT, "sum": FLOAT, "min": FLOAT,
    "max": FLOAT, "avg": FLOAT, "first": FLOAT, "last": FLOAT, "p50": FLOAT, "p95": FLOAT, "p99": FLOAT,
    "service_name": TEXT,
}  # fmt: skip
Columns = Mapping[str, str]
"""Types by name, or by the expression that reads a column."""
TABLES: dict[str, Columns] = {
    "logs": LOGS, "spans": SPANS, "metrics": METRICS,
    **{f"metrics_{one}": ROLLED for one in ("10s", "1m", "5m", "1h")},
}  # fmt: skip
_SERIES = {"labels['service_name']": TEXT, "labels['queue']": TEXT, "labels['nobody']": TEXT}
LAKE_TABLES: dict[str, Columns] = {
    **{name: {**columns, **_SERIES} for name, columns in TABLES.items()},
    "logs": {
        **LOGS, "labels['service_name']": TEXT, "attributes['http.route']": TEXT, "attributes['code']": TEXT,
        "attributes['only.later']": TEXT, "resource_attrs['host.name']": TEXT, '"http.route"': TEXT,
        '"service.namespace"': TEXT, "event_name": TEXT, "detected_level": TEXT,
    },
    "spans": {
        **SPANS, "labels['service_name']": TEXT, "attributes['db.system']": TEXT,
        "attributes['http.status_code']": TEXT, '"db.system"': TEXT, "status_message": TEXT,
        "trace_state": TEXT,
    },
}  # fmt: skip
"""The same with maps, names in quotes as they were sent, and columns that are mostly null."""
PLAIN_NAMES = {
    '"http.route"': "attr_http_route", '"service.namespace"': "resource_service_namespace",
    '"db.system"': "attr_db_system",
}  # fmt: skip
"""Names in a plain DuckDB of those in quotes."""
KEYS = {
    "logs": ("tsns", "message", "attr_id", "span_id"), "spans": ("span_id",),
    **{name: ("tid", "timestamp") for name in TABLES if name.startswith("metrics")},
}  # fmt: skip
VALUES = {
    "service_name": ("web", "payments", "checkout", "search", "nobody"),
    "severity": ("INFO", "ERROR", "WARN", "DEBUG", "FATAL", "info"),
    "level": ("INFO", "ERROR"),
    "attr_http_route": ("/", "/cart", "/it''s", "/ünïcode", ""),
    "kind": ("server", "client", "internal"),
    "status_code": ("unset", "ok", "error"),
    "metric_name": ("queue_depth_ratio", "requests_total", "latency_seconds"),
    "name": ("GET /cart", "POST /", "GET /it''s"),
    "resource_host_name": ("host-0", "host-1", "host-2"),
    "attr_db_system": ("pg", "redis"),
    "labels['service_name']": ("web", "search", "nobody"),
    "labels['queue']": ("high", "low"),
    "attributes['http.route']": ("/", "/cart", "/it''s"),
    "attributes['code']": ("200", "404", "5"),
    "http.route": ("/cart", "/ünïcode", ""),
}
WORDS = ("took", "failed", "Café", "100", "quote", "a_b", "e", " ", "%")
INTS = (0, 1, 2, 5, 9, 13, 17, 40, 200, 404, 500, 1000, -3)
FLOATS = ("0", "0.5", "1.25", "-2.5", "2e9", "0.0", "3", "-1.5", "1e10")
ALIASES = ("n", "service_name", "severity", "timestamp", "x", "value", "Total", "message", "trace_id", "name")


@dataclass(frozen=True)
class Source:
    """A relation in FROM with the types of its columns, and columns that tell its rows apart."""

    alias: str
    sql: str
    columns: Columns
    key: tuple[str, ...] = ()
    is_small: bool = False


@dataclass(frozen=True)
class Query:
    sql: str
    columns: Columns
    is_total: bool = False
    """The rows are in the order of all columns."""
    is_small: bool = False

    @property
    def plain_sql(self) -> str:
        """The statement in the names of a plain DuckDB."""
        found = self.sql
        for name, plain in PLAIN_NAMES.items():
            found = found.replace(name, plain)
        return found


@dataclass
class Scope:
    sources: list[Source]
    outer: Source | None = None
    ctes: dict[str, Query] = field(default_factory=dict)

    @property
    def is_single(self) -> bool:
        return len(self.sources) == 1
