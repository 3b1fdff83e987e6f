"""The span decoder against the protobuf runtime: the same spans, events and links, field by field."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.corpora import CORPORA
from tests.support.decode.span_messages import REQUESTS, assert_same, decode_object, decode_spans, sample

ARRIVAL = 1_700_000_000_000_000_000
IDS = {"traceId", "spanId", "parentSpanId"}


@given(REQUESTS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_generated_messages(request: ExportTraceServiceRequest) -> None:
    payload = request.SerializeToString()
    table = decode_spans(payload, arrival_ns=ARRIVAL).table
    table.validate(full=True)
    assert_same(payload, [table], ARRIVAL)


@given(REQUESTS)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_concatenated_messages_are_one(request: ExportTraceServiceRequest) -> None:
    payload = request.SerializeToString() + sample(4).SerializeToString()
    assert_same(payload, [decode_spans(payload, arrival_ns=ARRIVAL).table], ARRIVAL)


@pytest.mark.parametrize("slice_bytes", [1, 300, 1500, 1 << 20])
def test_slicing_changes_nothing(slice_bytes: int) -> None:
    payload = sample().SerializeToString()
    tables = decode_object(payload, slice_bytes=slice_bytes)
    assert (len(tables) > 1) == (slice_bytes < len(payload))
    assert assert_same(payload, tables, 1) == 12
    assert [row for table in tables for row in table.to_pylist()] == decode_object(payload)[0].to_pylist()


def test_every_trace_file_of_the_corpora() -> None:
    folder = CORPORA / "otlp"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not on this machine")
    files, total = 0, 0
    for document in _documents(folder):
        request = json_format.ParseDict(document, ExportTraceServiceRequest(), ignore_unknown_fields=True)
        payload = request.SerializeToString()
        if payload:
            files += 1
            total += assert_same(payload, decode_object(payload), 1)
    assert files >= 60
    assert total >= 100


def _documents(folder: Path) -> list[Any]:
    """OTLP JSON of the corpora with ids in base64, as protobuf's JSON reader wants them."""
    yaml = pytest.importorskip("yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("proto/*.json"))]
    for path in sorted(folder.glob("contrib/*.y*ml")):
        raw = path.read_text()
        if "resourceSpans" in raw:
            found.append(yaml.load(raw, loader))
    return [document for document in map(_with_base64_ids, found) if _parses(document)]


def _parses(document: Any) -> bool:
    """YAML turned some values into types that OTLP JSON lacks; those files say nothing about the wire."""
    try:
        json_format.ParseDict(document, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except json_format.ParseError:
        return False
    return True


def _with_base64_ids(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_base64_ids(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    return {
        key: b64encode(bytes.fromhex(value)).decode()
        if key in IDS and isinstance(value, str)
        else _with_base64_ids(value)
        for key, value in node.items()
    }
