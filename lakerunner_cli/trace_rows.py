"""`trace_rows` turns events of TraceQL into rows: one per found trace, or one per sample of a series.

start,trace_id,root_service,root_name,duration_ms,spans,errors,matched,services
timestamp,value,labels
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

Event = tuple[str, Any]
TRACE_COLUMNS = {
    "start": "timestamp", "trace_id": "string", "root_service": "string", "root_name": "string",
    "duration_ms": "double", "spans": "int64", "errors": "int64", "matched": "int64", "services": "string",
}  # fmt: skip
SERIES_COLUMNS = {"timestamp": "timestamp", "value": "double", "labels": "map"}


def trace_rows(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of a table: `schema`, `result`, `done`."""
    has_schema = False
    for kind, data in events:
        if kind == "result":
            is_series = "values" in data
            if not has_schema:
                yield _schema(SERIES_COLUMNS if is_series else TRACE_COLUMNS)
                has_schema = True
            yield "result", {"rows": _samples(data) if is_series else [_trace(data)]}
        elif kind == "done":
            if not has_schema:
                yield _schema(TRACE_COLUMNS if "traces" in data else SERIES_COLUMNS)
            yield "done", {**data, "rows": data.get("traces", data.get("points", 0))}
        else:
            yield kind, data


def _schema(columns: Mapping[str, str]) -> Event:
    return "schema", [{"name": name, "type": kind} for name, kind in columns.items()]


def _trace(one: Mapping[str, Any]) -> list[object]:
    services = one["services"]
    return [
        _time(int(one["start"]) // 1000),
        one["trace_id"],
        one["root_service"],
        one["root_name"],
        one["duration_ns"] / 1e6,
        sum(each["spans"] for each in services.values()),
        sum(each["errors"] for each in services.values()),
        sum(each["matched"] for each in one["sets"]),
        ", ".join(sorted(services)),
    ]


def _samples(series: Mapping[str, Any]) -> list[list[object]]:
    return [
        [_time(round(seconds * 1_000_000)), value, series["labels"]] for seconds, value in series["values"]
    ]


def _time(microseconds: int) -> str:
    """
    >>> _time(1_767_225_600_500_000)
    '2026-01-01T00:00:00.500Z'
    """
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1000:03}Z"
