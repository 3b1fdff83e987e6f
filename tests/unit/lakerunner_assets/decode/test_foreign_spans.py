"""Foreign spans: ids, times and lengths in the many ways they are written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from lakerunner_assets.decode.dispatch import Place
from lakerunner_assets.decode.foreign.span_rows import unit_of
from lakerunner_assets.decode.naming import attribute_of
from lakerunner_assets.decode.otlp.traces import decode_traces
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions
from tests.support.decode.foreign_files import (
    ARRIVAL,
    WRITERS,
    as_json,
    as_parquet,
    decode_rows,
    decoded,
    notes_of,
    rows_of,
)

FORMATS = sorted(WRITERS)
START = 1767323045 * 10**9
TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
RECORD = {
    "traceId": TRACE,
    "spanId": SPAN,
    "parentSpanId": PARENT,
    "name": "GET /",
    "kind": "SPAN_KIND_SERVER",
    "startTime": "2026-01-02T03:04:05Z",
    "endTime": "2026-01-02T03:04:05.0125Z",
    "status": "ERROR",
    "status_message": "timed out",
    "service.name": "web",
    "route": "/",
}


def spans(data: bytes, form: str = "json", **options: Any) -> list[dict[str, Any]]:
    return decode_rows(data, form, Signal.TRACES, **options)


def otlp(**fields: Any) -> pa.Table:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "web"
    span = group.scope_spans.add().spans.add(**fields)
    span.attributes.add(key="route").value.string_value = "/"
    return decode_traces(request.SerializeToString(), Place(7, 0, ARRIVAL), DecodeOptions())


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_span_as_otlp(form: str) -> None:
    expected = otlp(
        trace_id=bytes.fromhex(TRACE),
        span_id=bytes.fromhex(SPAN),
        parent_span_id=bytes.fromhex(PARENT),
        name="GET /",
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=START,
        end_time_unix_nano=START + 12_500_000,
        status=Status(code=Status.STATUS_CODE_ERROR, message="timed out"),
    )
    found = decoded(WRITERS[form]([RECORD]), form, Signal.TRACES)
    wanted = rows_of([expected])
    for row in wanted:
        assert row.pop("span_events") == row.pop("span_links") == []
    assert rows_of(found) == wanted

    def plain(table: pa.Table) -> dict[str, pa.DataType]:
        return {
            f.name: f.type.value_type if pa.types.is_dictionary(f.type) else f.type
            for f in table.schema
            if attribute_of(f) is None and f.name not in {"span_events", "span_links"}
        }

    assert plain(found[0].table) == plain(expected.table)


@pytest.mark.parametrize(
    ("fields", "length"),
    [
        ({"duration_ns": 1500}, 1500),
        ({"durationMs": 1.5}, 1_500_000),
        ({"duration_us": 7}, 7000),
        ({"duration_seconds": "0.25"}, 250_000_000),
        ({"duration": 42}, 42),
        ({"duration": "12.5ms"}, 12_500_000),
        ({"duration": "1m2s"}, 62 * 10**9),
    ],
)
def test_durations(fields: dict[str, Any], length: int) -> None:
    (row,) = spans(as_json([{"start": START, **fields}]))
    assert row["span_duration_ns"] == length
    assert row["span_end_ns"] == START + length
    assert row["attributes"] == {}


def test_durations_of_parquet() -> None:
    table = pa.table(
        {"start": pa.array([START], pa.timestamp("ns")), "duration": pa.array([5], pa.duration("ms"))}
    )
    (row,) = spans(as_parquet(table), "parquet")
    assert (row["span_start_ns"], row["span_end_ns"]) == (START, START + 5_000_000)


@pytest.mark.parametrize(
    ("name", "unit"),
    [("elapsed_ms", 10**6), ("tookSeconds", 10**9), ("durationns", 1), ("took", None), ("class", None)],
)
def test_units_in_names(name: str, unit: int | None) -> None:
    assert unit_of(name) == unit


def test_start_end_and_duration_complete_each_other() -> None:
    records = [
        {"start": START, "end": START + 9},
        {"end": START + 9, "duration_ns": 4},
        {"end": START + 9},
        {"timestamp": START},
        {"duration_ns": 4},
        {"start": START, "end": START - 1},
        {"start": START, "end": START + 9, "duration_ns": 9},
        {"start": START, "end": START + 9, "duration_ns": 8},
    ]
    parts = decoded(as_json(records), "json", Signal.TRACES)
    rows = rows_of(parts)
    assert [(r["span_start_ns"], r.get("span_end_ns"), r.get("span_duration_ns")) for r in rows] == [
        (START, START + 9, 9),
        (START + 5, START + 9, 4),
        (START + 9, START + 9, None),
        (START, None, None),
        (ARRIVAL, None, 4),
        (START, START - 1, None),
        (START, START + 9, 9),
        (START, START + 9, 9),
    ]
    assert [r["attributes"] for r in rows[6:]] == [{}, {("record", "duration_ns", "int"): 8}]
    assert notes_of(parts) == {
        "time_from_end": 2,
        "time_from_arrival": 1,
        "span_without_end": 2,
        "span_ends_before_start": 1,
    }


def test_kinds_and_status_in_any_spelling() -> None:
    records = [
        {"kind": "client", "status": "OK"},
        {"span_kind": 2, "status_code": 2},
        {"kind": "RPC", "status": 503},
        {},
    ]
    rows = spans(as_json(records))
    assert [(row["span_kind"], row["span_status_code"]) for row in rows] == [
        ("client", "ok"),
        ("server", "error"),
        ("unspecified", "unset"),
        ("unspecified", "unset"),
    ]
    assert rows[2]["attributes"] == {("record", "kind", "string"): "RPC", ("record", "status", "int"): 503}


def test_unreadable_parts_leave_the_span() -> None:
    parts = decoded(as_json([{"trace_id": "zz", "name": "x", "start": "soon"}]), "json", Signal.TRACES)
    (row,) = rows_of(parts)
    assert row["span_start_ns"] == ARRIVAL
    assert "span_trace_id" not in row
    assert row["attributes"] == {
        ("record", "trace_id", "string"): "zz",
        ("record", "start", "string"): "soon",
    }
    assert notes_of(parts)["unreadable_time"] == notes_of(parts)["invalid_trace_id"] == 1


def test_own_names() -> None:
    (row,) = spans(as_json([{"op": "x", "tid": TRACE}]), fields={"span_name": ["op"], "trace_id": ["tid"]})
    assert (row["span_name"], row["span_trace_id"].hex()) == ("x", TRACE)
    assert row["service_name"] == "unknown_service"
