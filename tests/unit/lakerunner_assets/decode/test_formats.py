"""What a payload is, told from its first bytes."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from lakerunner_assets.decode.errors import MalformedError
from lakerunner_assets.decode.formats import Format, sniff
from tests.support.decode.messages import sample


def marked(name: bytes) -> bytes:
    return b"\xc2\xa9\x07" + bytes([len(name)]) + name


@pytest.mark.parametrize(
    ("head", "name", "expected"),
    [
        (sample(3).SerializeToString(), "a.json", Format.OTLP_PROTOBUF),
        (b"\n\x00", "x", Format.OTLP_PROTOBUF),
        (b"PAR1\x15\x04", "a.csv", Format.PARQUET),
        (marked(b"prometheus.WriteRequest"), "x.binpb", Format.REMOTE_WRITE),
        (marked(b"logproto.PushRequest"), "x.binpb", Format.LOKI_PUSH),
        (b'\xef\xbb\xbf {"resourceSpans": [', "x", Format.OTLP_JSON),
        (b'{ "resource_logs" : []}', "x.csv", Format.OTLP_JSON),
        (b'\n{"a": 1}\n', "x", Format.JSON_LINES),
        (b'[{"a": 1}, {"a": 2}]', "x", Format.JSON_LINES),
        (b'{"message": "about resourceLogs"}', "x", Format.JSON_LINES),
        (b"time,message\n1,hello\n", "x", Format.CSV),
        (b"message\nhello\n", "x.csv.gz", Format.CSV),
        (b"\x12\x03abc\x01", "x", Format.OTLP_PROTOBUF),
    ],
)
def test_the_content_decides(head: bytes, name: str, expected: Format) -> None:
    assert sniff(head, name) is expected


def test_a_newline_and_a_brace_can_be_a_tag_and_a_length() -> None:
    """A ResourceLogs of 123 bytes begins like a line of JSON."""
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.add(key="k").value.string_value = "v" * 112
    data = request.SerializeToString()
    assert data.startswith(b"\n{")
    assert sniff(data, "x") is Format.OTLP_PROTOBUF


@pytest.mark.parametrize("head", [b"hello world", marked(b"who.Knows")])
def test_what_is_nothing_known_is_refused_with_what_was_expected(head: bytes) -> None:
    with pytest.raises(MalformedError, match=r"expected|neither"):
        sniff(head, "x")
