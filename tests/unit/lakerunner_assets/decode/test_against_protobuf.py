"""The wire decoder against the protobuf runtime: the same records, field by field."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.support.corpora import CORPORA
from tests.support.decode.messages import REQUESTS, sample
from tests.support.decode.oracle import assert_same
from tests.support.decoding import decode_logs, decode_object

ARRIVAL = 1_700_000_000_000_000_000


def decode(payload: bytes, slice_bytes: int = 1 << 20) -> list[Any]:
    found = decode_object(
        payload, object_id=5, arrival_ns=ARRIVAL, max_bytes=1 << 30, slice_bytes=slice_bytes
    )
    return [decoded.table for decoded in found]


@given(REQUESTS)
@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
def test_generated_messages(request: ExportLogsServiceRequest) -> None:
    payload = request.SerializeToString()
    decoded = decode_logs(payload, object_id=5, first_position=0, arrival_ns=ARRIVAL)
    assert_same(payload, [decoded.table], ARRIVAL)


@pytest.mark.parametrize("slice_bytes", [1, 700, 1 << 20])
def test_slicing_changes_nothing(slice_bytes: int) -> None:
    payload = sample().SerializeToString()
    assert assert_same(payload, decode(payload, slice_bytes), ARRIVAL) == 12


def test_every_log_file_of_the_corpora() -> None:
    folder = CORPORA / "otlp"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not on this machine")
    total = 0
    for text in _log_documents(folder):
        request = json_format.Parse(text, ExportLogsServiceRequest(), ignore_unknown_fields=True)
        payload = request.SerializeToString()
        if payload:
            total += assert_same(payload, decode(payload), ARRIVAL)
    assert total > 300


def _log_documents(folder: Any) -> list[str]:
    """OTLP JSON of the corpora with ids in base64, as protobuf's JSON reader wants them."""
    found = [_with_base64_ids(json.loads(path.read_text())) for path in sorted(folder.glob("proto/*.json"))]
    yaml = pytest.importorskip("yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted(folder.glob("contrib/*.y*ml")):
        raw = path.read_text()
        if "resourceLogs" in raw and "encoding_extension" not in raw:
            found.append(_with_base64_ids(yaml.load(raw, loader)))
    return [json.dumps(document) for document in found if _parses(document)]


def _parses(document: Any) -> bool:
    """YAML turned some values into types that OTLP JSON lacks; those files say nothing about the wire."""
    try:
        json_format.ParseDict(document, ExportLogsServiceRequest(), ignore_unknown_fields=True)
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
        if key in {"traceId", "spanId"} and isinstance(value, str)
        else _with_base64_ids(value)
        for key, value in node.items()
    }


def test_base64_of_ids_is_what_protobuf_expects() -> None:
    assert b64decode(_with_base64_ids({"traceId": "00ff"})["traceId"]) == b"\x00\xff"
