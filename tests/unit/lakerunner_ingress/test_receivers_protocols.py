"""What each protocol's check keeps, leaves out and refuses; the protobuf runtime is the oracle."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from lakerunner_ingress.receivers import otlp
from lakerunner_ingress.receivers.forms import CheckedPush, Form
from lakerunner_ingress.receivers.loki import encoding_of, read_loki
from lakerunner_ingress.receivers.otlp_json import depth
from lakerunner_ingress.receivers.refusals import BadRequestError, Refusal, UnsupportedError
from lakerunner_ingress.receivers.remote_write import V1, V2, message_of, read_remote_write
from resources.lake.label_text import parse_labels
from resources.lake.layout import Signal
from resources.proto.loki import PushRequest, RawPushRequest
from resources.proto.prometheus import RequestV2, WriteRequest
from resources.proto.status import Status
from tests.support.otlp_logs import otlp_logs


def logs(body: object) -> CheckedPush:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return otlp.read_otlp(data, Signal.LOGS, Form.OTLP_JSON)


RECORD = {"timeUnixNano": "1", "body": {"stringValue": "x"}, "traceId": "00ff"}
RESOURCE = {"scopeLogs": [{"logRecords": [RECORD, RECORD]}]}


def test_protobuf_is_kept_byte_for_byte() -> None:
    data = otlp_logs([(1, "a"), (2, "b")])
    assert otlp.read_otlp(data, Signal.LOGS, Form.OTLP_PROTOBUF) == CheckedPush(
        Signal.LOGS, Form.OTLP_PROTOBUF, data
    )


@pytest.mark.parametrize("signal", list(Signal))
@pytest.mark.parametrize("form", [Form.OTLP_PROTOBUF, Form.OTLP_JSON])
def test_an_empty_request_is_a_success(signal: Signal, form: Form) -> None:
    body = b"{}" if form is Form.OTLP_JSON else b""
    received = otlp.read_otlp(body, signal, form)
    assert (received.data, received.rejected) == (b"", 0)
    assert otlp.answer(received)[0] == body


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (otlp_logs([(1, "a")])[:-1], "byte 0: cut short, in ExportLogsServiceRequest.resource_logs"),
        (otlp_logs([(1, "a")]) + b"\x0a\x02\x0a\x05", "byte {end}: cut short"),
        (otlp_logs([(1, "a\x01")]).replace(b"a\x01", b"a\xff"), "not UTF-8, in Export"),
        (b"\x00", "byte 0: no field tag"),
        (b"\x0e", "byte 0: wire type 6"),
        (b"\x10" + b"\xff" * 11, "byte 1: varint longer than 10 bytes"),
        (b"\x10\x01", "2 bytes without resource_logs"),
    ],
)
def test_damaged_protobuf_is_refused_with_its_place(data: bytes, reason: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        otlp.read_otlp(data, Signal.LOGS, Form.OTLP_PROTOBUF)
    assert reason.format(end=len(data) - 2) in str(refused.value)


@settings(max_examples=100)
@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_refused_with_a_reason(tail: bytes) -> None:
    data = otlp_logs([(1, "a")]) + tail
    try:
        kept = otlp.read_otlp(data, Signal.LOGS, Form.OTLP_PROTOBUF).data
    except BadRequestError:
        kept = b""
    assert kept == (data if is_message(data) else b"")


def is_message(data: bytes) -> bool:
    try:
        ExportLogsServiceRequest.FromString(data)
    except DecodeError:
        return False
    return True


def test_json_becomes_one_line_with_its_numbers_as_they_were() -> None:
    pretty = (
        b'{\n "resourceLogs" : [ {"x": 1.50, "scopeLogs":'
        b'[ {"logRecords":[{"body":\n{"stringValue":"a b\\n"}}]}]}]}'
    )
    line = b'{"resourceLogs":[{"x":1.50,"scopeLogs":[{"logRecords":[{"body":{"stringValue":"a b\\n"}}]}]}]}\n'
    assert logs(pretty).data == line


def test_a_broken_resource_does_no_harm_to_its_neighbours() -> None:
    broken = {"scopeLogs": [{"logRecords": [RECORD, {"body": 3}, RECORD]}]}
    received = logs({"resourceLogs": [RESOURCE, broken, RESOURCE]})
    assert json.loads(received.data) == {"resourceLogs": [RESOURCE, RESOURCE]}
    assert received.rejected == 3
    assert received.reason.startswith("resourceLogs[1]: Expected")
    assert json.loads(otlp.answer(received)[0]) == {
        "partialSuccess": {"rejectedLogRecords": "3", "errorMessage": received.reason}
    }


@pytest.mark.parametrize(("times", "taken"), [(95, True), (96, False), (600, False)])
def test_a_resource_nested_too_deep_is_left_out_alone(times: int, taken: bool) -> None:
    """Five levels lead to the value, and what stands in a text counts for nothing."""
    value = json.loads("[" * times + r'"]{[\\\"]]", "\\"' + "]" * times)
    deep = {"scopeLogs": [{"logRecords": [{"more": value}]}]}
    received = logs({"resourceLogs": [RESOURCE, deep]})
    assert json.loads(received.data)["resourceLogs"] == ([RESOURCE, deep] if taken else [RESOURCE])
    assert ("levels deep" in received.reason) is not taken


def levels(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(levels, value.values()), default=0)
    return 1 + max(map(levels, value), default=0) if isinstance(value, list) else 0


TEXTS = st.text(st.sampled_from('a"\\[]{}\n'), max_size=6)
VALUES = st.recursive(
    TEXTS | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=20,
)


@settings(max_examples=100)
@given(VALUES)
def test_depth_is_counted_outside_of_texts(value: object) -> None:
    assert depth(json.dumps(value).encode()) == levels(value)


@pytest.mark.parametrize(
    ("signal", "key", "inside", "records"),
    [
        (Signal.METRICS, "resourceMetrics", {"metrics": [{"name": 1, "sum": {"dataPoints": [{}, {}]}}]}, 2),
        (Signal.TRACES, "resourceSpans", {"spans": [{"traceId": "xyz"}]}, 1),
    ],
)
def test_records_of_a_broken_resource_are_counted(
    signal: Signal, key: str, inside: dict[str, Any], records: int
) -> None:
    scope = "scopeMetrics" if signal is Signal.METRICS else "scopeSpans"
    body = json.dumps({key: [{}, {scope: [inside]}]}).encode()
    assert otlp.read_otlp(body, signal, Form.OTLP_JSON).rejected == records


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not a JSON document"),
        (b"[]", "not a JSON document"),
        (b'{"resourceLogs": 3}', "Expected `array | null`, got `int`"),
        (b'{"resourceLogs": [{"a": "\xff"}]}', "byte 25: not UTF-8"),
        (b'{"resourceSpans": []}', "expected resourceLogs, found resourceSpans"),
        (b'{"resourceLogs": [{"x": ' + b"[" * 9000 + b"]" * 9000 + b"}]}", "resourceLogs"),
        ({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": "now"}]}]}]}, "timeUnixNano"),
        ({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": 2**63}]}]}]}, "timeUnixNano"),
        ({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"spanId": "0g"}]}]}]}, "spanId"),
    ],
)
def test_json_that_is_refused_as_a_whole(body: object, reason: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        logs(body)
    assert reason in str(refused.value)


def test_answers_and_errors_are_in_the_encoding_of_the_request() -> None:
    body, media = otlp.answer(CheckedPush(Signal.LOGS, Form.OTLP_PROTOBUF, b"x"))
    assert ExportLogsServiceResponse.FromString(body) == ExportLogsServiceResponse()
    assert media == "application/x-protobuf"
    body, media = otlp.refuse(Refusal(429, "overloaded", "later"), "application/x-protobuf")
    assert (Status.FromString(body).code, Status.FromString(body).message, media) == (
        8,
        "later",
        "application/x-protobuf",
    )
    body, media = otlp.refuse(Refusal(400, "malformed", "no"), "application/json; charset=utf-8")
    assert (json.loads(body), media) == ({"code": 3, "message": "no"}, "application/json")
    with pytest.raises(UnsupportedError):
        otlp.form_of("text/plain")


# --- remote write ------------------------------------------------------------------------------------


def series(request: Any, **labels: str) -> Any:
    found = request.timeseries.add()
    for name, value in labels.items():
        found.labels.add(name=name, value=value)
    return found


def test_remote_write_is_kept_byte_for_byte() -> None:
    request = WriteRequest()
    series(request, __name__="up", job="a").samples.add(value=1.5, timestamp=3)
    data = request.SerializeToString()
    received = read_remote_write(data, V1)
    assert received == CheckedPush(Signal.METRICS, Form.REMOTE_WRITE, data)


def test_a_series_without_a_name_is_left_out_and_told() -> None:
    request = WriteRequest()
    series(request, __name__="up")
    series(request, job="nameless")
    request.metadata.add(metric_family_name="up", type=2)
    received = read_remote_write(request.SerializeToString(), V1)
    kept = WriteRequest.FromString(received.data)
    assert [s.labels[0].value for s in kept.timeseries] == ["up"]
    assert [m.metric_family_name for m in kept.metadata] == ["up"]
    assert received.rejected == 1
    assert "timeseries[1] has no __name__; 1 of 2" in received.reason


def test_damaged_remote_write_names_the_place() -> None:
    request = WriteRequest()
    series(request, __name__="up")
    with pytest.raises(BadRequestError, match=r"byte 14: cut short, in WriteRequest.timeseries.labels.value"):
        read_remote_write(request.SerializeToString().replace(b"\x02up", b"\x09up"), V1)


def test_version_two_becomes_version_one() -> None:
    request = RequestV2(symbols=["", "__name__", "rtt", "job", "a", "seconds", "Round trip"])
    found = request.timeseries.add(labels_refs=[1, 2, 3, 4])
    found.samples.add(value=2.5, timestamp=7)
    found.exemplars.add(labels_refs=[3, 4], value=9.0, timestamp=8)
    found.histograms.add(count_int=0, sum=1.0, schema=3, positive_deltas=[1, -1], timestamp=9)
    found.metadata.type, found.metadata.unit_ref, found.metadata.help_ref = 3, 5, 6
    received = read_remote_write(request.SerializeToString(), V2)
    made = WriteRequest.FromString(received.data)
    (one,) = made.timeseries
    assert [(x.name, x.value) for x in one.labels] == [("__name__", "rtt"), ("job", "a")]
    assert [(x.value, x.timestamp) for x in one.samples] == [(2.5, 7)]
    assert [(x.labels[0].value, x.value) for x in one.exemplars] == [("a", 9.0)]
    (histogram,) = one.histograms
    assert histogram.HasField("count_int")
    assert (histogram.schema, list(histogram.positive_deltas), histogram.timestamp) == (3, [1, -1], 9)
    (meta,) = made.metadata
    assert (meta.type, meta.metric_family_name, meta.help, meta.unit) == (3, "rtt", "Round trip", "seconds")
    assert received.headers == {
        "X-Prometheus-Remote-Write-Samples-Written": "1",
        "X-Prometheus-Remote-Write-Histograms-Written": "1",
        "X-Prometheus-Remote-Write-Exemplars-Written": "1",
    }


@pytest.mark.parametrize("references", [[1], [1, 9]])
def test_version_two_with_a_reference_to_nothing_is_refused(references: list[int]) -> None:
    request = RequestV2(symbols=["", "__name__", "up"])
    request.timeseries.add(labels_refs=[1, 2])
    request.timeseries.add(labels_refs=references)
    with pytest.raises(BadRequestError, match=r"timeseries\[1\]"):
        read_remote_write(request.SerializeToString(), V2)


def test_the_content_type_says_which_message_it_is() -> None:
    assert message_of("application/x-protobuf") == V1
    assert message_of(f'Application/X-Protobuf; proto="{V2}"') == V2
    for other in ("", "application/json", "application/x-protobuf;proto=io.prometheus.write.v3.Request"):
        with pytest.raises(UnsupportedError):
            message_of(other)


# --- Loki push ---------------------------------------------------------------------------------------

ODD = 'quo"te\\ \n\x00 é 🎈'


def loki_json(*streams: dict[str, Any]) -> bytes:
    return json.dumps({"streams": list(streams)}).encode()


def test_loki_json_becomes_the_protobuf_form() -> None:
    body = loki_json(
        {
            "stream": {"b": ODD, "a": "1"},
            "values": [["1700000000123456789", ODD, {"trace": "t"}], ["-1", "before 1970"]],
        }
    )
    (stream,) = PushRequest.FromString(read_loki(body, json=True).data).streams
    assert parse_labels(stream.labels) == {"a": "1", "b": ODD}
    first, second = stream.entries
    assert (first.timestamp.seconds, first.timestamp.nanos, first.line) == (1_700_000_000, 123_456_789, ODD)
    assert [(p.name, p.value) for p in first.structured_metadata] == [("trace", "t")]
    assert (second.timestamp.seconds, second.timestamp.nanos) == (-1, 999_999_999)


def push(*labels: str) -> Any:
    request = PushRequest()
    for text in labels:
        stream = request.streams.add(labels=text)
        stream.entries.add(line="a").timestamp.seconds = 5
        stream.entries.add(line="b")
    return request


def test_loki_protobuf_is_kept_byte_for_byte() -> None:
    data = push('{a="b"}', "{c=`d`}").SerializeToString()
    assert read_loki(data, json=False) == CheckedPush(Signal.LOGS, Form.LOKI_PUSH, data)


def test_a_stream_with_broken_labels_is_left_out_and_told() -> None:
    received = read_loki(push('{a="b"}', '{a="b"', "{}", '{c="d"}').SerializeToString(), json=False)
    kept = PushRequest.FromString(received.data)
    assert [stream.labels for stream in kept.streams] == ['{a="b"}', '{c="d"}']
    assert received.rejected == 4
    assert "streams[1]: label text, character 6: expected ',' or '}', found the end" in received.reason


def test_only_broken_labels_are_refused_with_their_place() -> None:
    with pytest.raises(BadRequestError, match=r"streams\[0\]: label text, character 3"):
        read_loki(push("{a=b}").SerializeToString(), json=False)


def test_a_line_that_is_not_utf8_costs_its_odd_bytes_only() -> None:
    raw = RawPushRequest()
    entries = raw.streams.add(labels=b'{a="b"}').entries
    entries.add(line=b"good \xc3\xa9")
    entries.add(line=b"bad \xff!")
    (stream,) = PushRequest.FromString(read_loki(raw.SerializeToString(), json=False).data).streams
    assert [entry.line for entry in stream.entries] == ["good é", "bad \ufffd!"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "not a Loki push in JSON"),
        (b"{}", "missing required field `streams`"),
        (loki_json({"stream": {"a": "b"}}), "missing required field `values`"),
        (loki_json({"stream": {"a.b": "c"}, "values": []}), "'a.b' is no label name"),
        (loki_json({"stream": {}, "values": [["1", "x"]]}), "streams[0]: a stream needs at least one label"),
        (loki_json({"stream": {"a": "b"}, "values": [["1", "x"], ["1.5", "x"]]}), "values[1][0]: '1.5'"),
        (loki_json({"stream": {"a": "b"}, "values": [[1, "x"]]}), "Expected `str`, got `int`"),
        (loki_json({"stream": {"a": "b"}, "values": [["1", "x", {"m": 1}]]}), "Expected `str`, got `int`"),
        (loki_json({"stream": {"a": "b"}, "values": [["1"]]}), "at least length 2"),
        (b'{"streams":[{"stream":{"a":"b"},"values":[["1","\\ud800"]]}]}', "JSON"),
    ],
)
def test_loki_json_that_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        read_loki(body, json=True)
    assert reason in str(refused.value)


def test_loki_protobuf_is_snappy_with_or_without_the_header() -> None:
    assert [encoding_of(name, json=False) for name in ("", "snappy", "identity")] == ["snappy"] * 3
    assert [encoding_of(name, json=True) for name in ("", "gzip")] == ["", "gzip"]
