"""What single fields of spans become: times, words, ids, lists, services."""

from __future__ import annotations

from collections import Counter

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from lakerunner_assets.decode.dispatch import DecodedSlice, Place
from lakerunner_assets.decode.otlp.traces import EVENTS, LINKS, decode_traces
from resources.lake.options import DecodeOptions
from resources.lake.streams import stream_id
from tests.support.decode.span_messages import START, decode_spans, sample

LAST = 2**63 - 1


def one_span() -> tuple[ExportTraceServiceRequest, Span]:
    request = ExportTraceServiceRequest()
    return request, request.resource_spans.add().scope_spans.add().spans.add()


def decode(request: ExportTraceServiceRequest) -> DecodedSlice:
    return decode_spans(request.SerializeToString(), arrival_ns=77, first_position=3)


def test_a_whole_row() -> None:
    row = decode(sample()).table.to_pylist()[2]
    start = START + 98 * 1_000_000_000
    assert (row["chq_object"], row["chq_position"]) == (5, 5)
    assert row["span_trace_id"].hex() == "c80102030405060708090a0b0c0d0e0f"
    assert (row["span_id"], row["span_parent_span_id"]) == (b"\x03\x03w\x04\x05\x06\x07\x08", b"parent_2")
    assert (row["span_name"], row["span_kind"], row["span_status_code"]) == (
        "GET /web/:id",
        "server",
        "error",
    )
    assert (row["span_status_message"], row["span_trace_state"]) == ("went wrong", "vendor=1")
    assert (row["span_start_ns"], row["span_end_ns"], row["span_duration_ns"]) == (start, start + 4500, 4500)
    assert [row[f"chq_dropped_{what}"] for what in ("attributes", "events", "links")] == [1, 2, 3]
    assert row["span_flags"] == 257
    assert (row["service_name"], row["resource_service_name"], row["scope_name"]) == ("web", "web", "lib")
    assert (row["attr_http_response_status_code"], row["attr_user"]) == (202, "user2")
    assert row["span_events"][0] == {
        "tsns": start + 7,
        "name": "exception",
        "dropped": 4,
        "attributes": [
            {"key": "exception.message", "kind": "string", "value": "boom2"},
            {"key": "retry", "kind": "bool", "value": "true"},
            {"key": "ratio", "kind": "double", "value": "0.1"},
            {"key": "stack", "kind": "array", "value": "[2]"},
        ],
    }
    assert row["span_events"][1] == {"tsns": None, "name": "bare", "dropped": 0, "attributes": []}
    assert [link["span_id"] for link in row["span_links"]] == [b"linked_2"]


@pytest.mark.parametrize(
    ("start", "end", "expected", "notes"),
    [
        (5, 9, (5, 9, 4), {}),
        (5, 5, (5, 5, 0), {}),
        (9, 5, (9, 5, None), {"span_ends_before_start": 1}),
        (5, 0, (5, None, None), {"span_without_end": 1}),
        (0, 9, (9, 9, None), {"time_from_end": 1}),
        (0, 0, (77, None, None), {"time_from_arrival": 1, "span_without_end": 1}),
        (5, 2**63, (5, LAST, None), {"time_after_2262": 1}),
        (2**64 - 1, 5, (LAST, 5, None), {"time_after_2262": 1}),
        (0, 2**63, (LAST, LAST, None), {"time_after_2262": 1, "time_from_end": 1}),
        (1, LAST, (1, LAST, LAST - 1), {}),
    ],
)
def test_times(start: int, end: int, expected: tuple[int | None, ...], notes: dict[str, int]) -> None:
    request, span = one_span()
    span.start_time_unix_nano, span.end_time_unix_nano = start, end
    decoded = decode(request)
    row = decoded.table.to_pylist()[0]
    assert (row["span_start_ns"], row["span_end_ns"], row["span_duration_ns"]) == expected
    assert +Counter(decoded.notes) == notes


def test_numbers_without_a_name_are_kept_as_digits() -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in (0, 5, 6, -3, 2**31 - 1):
        spans.add(kind=number, start_time_unix_nano=1).status.code = number
    table = decode(request).table
    assert table["span_kind"].to_pylist() == ["unspecified", "consumer", "6", "-3", "2147483647"]
    assert table["span_status_code"].to_pylist() == ["unset", "5", "6", "-3", "2147483647"]


def test_ids_of_wrong_length_are_absent_and_counted_zeros_are_absent() -> None:
    request, span = one_span()
    span.start_time_unix_nano = span.end_time_unix_nano = 1
    span.trace_id, span.span_id, span.parent_span_id = b"short", bytes(8), b"123456789"
    span.links.add(trace_id=b"x", span_id=b"y")
    decoded = decode(request)
    row = decoded.table.to_pylist()[0]
    assert row["span_trace_id"] is row["span_id"] is row["span_parent_span_id"] is None
    assert row["span_links"][0]["trace_id"] is row["span_links"][0]["span_id"] is None
    assert decoded.notes == {
        "invalid_trace_id": 1,
        "invalid_parent_span_id": 1,
        "invalid_link_trace_id": 1,
        "invalid_link_span_id": 1,
    }


def test_kinds_of_event_attributes_stay_apart_and_repeated_keys_stay() -> None:
    request, span = one_span()
    event = span.events.add(name="e")
    event.attributes.add(key="n").value.int_value = 1
    event.attributes.add(key="n").value.string_value = "1"
    event.attributes.add(key="n").value.double_value = 1.0
    event.attributes.add(key="n").value.bytes_value = b"\xff"
    event.attributes.add(key="n")
    pairs = decode(request).table["span_events"][0].as_py()[0]["attributes"]
    assert [(pair["kind"], pair["value"]) for pair in pairs] == [
        ("int", "1"), ("string", "1"), ("double", "1.0"), ("bytes", "/w=="), ("empty", ""),
    ]  # fmt: skip


def test_a_status_sent_in_two_parts_is_one() -> None:
    """Protobuf merges a message that comes twice: the code of one part, the text of the other."""
    span = Span()
    span.status.code = 2
    raw = bytearray(span.SerializeToString())
    raw += b"\x7a\x04\x12\x02hi"
    scope = b"\x12" + bytes([len(raw)]) + raw
    group = b"\x12" + bytes([len(scope)]) + scope
    row = decode_spans(b"\x0a" + bytes([len(group)]) + group).table.to_pylist()[0]
    assert (row["span_status_code"], row["span_status_message"]) == ("error", "hi")


def test_types_do_not_depend_on_what_is_there() -> None:
    empty = decode(one_span()[0]).table.schema
    full = decode(sample()).table.schema
    for schema in (empty, full, decode_spans(b"").table.schema):
        assert schema.field("span_events").type == EVENTS
        assert schema.field("span_links").type == LINKS


def test_streams_always_name_the_service() -> None:
    payload = sample().SerializeToString()
    decoded = decode_traces(payload, Place(1, 0, 1), DecodeOptions(index_attributes=("k8s.pod.name",)))
    assert set(decoded.streams.values()) == {
        (("k8s_pod_name", "web-0"), ("service_name", "web")),
        (("k8s_pod_name", "api-0"), ("service_name", "api")),
    }
    assert decoded.table["chq_stream_id"].to_pylist() == [
        stream_id((("k8s_pod_name", f"{service}-0"), ("service_name", service)))
        for service in ["web"] * 6 + ["api"] * 6
    ]
    assert decode(one_span()[0]).table["service_name"].to_pylist() == ["unknown_service"]


def test_invalid_utf8_in_an_event_is_repaired_and_counted() -> None:
    payload = sample(2).SerializeToString().replace(b"boom0", b"bo\xffm0", 1)
    decoded = decode_spans(payload)
    messages = [events[0]["attributes"][0]["value"] for events in decoded.table["span_events"].to_pylist()]
    assert messages == ["bo\ufffdm0", "boom0"]
    assert decoded.notes == {"invalid_utf8": 1}
    decoded.table.validate(full=True)
