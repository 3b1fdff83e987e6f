"""What would cost others is refused: values no decoder reads, and bodies far larger than they look."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import zstandard
from litestar.testing import TestClient

from lakerunner_assets.decode.errors import DecodeError
from lakerunner_assets.decode.json import schema_kernels as decoders
from lakerunner_assets.decode.json.otlp import requests
from lakerunner_assets.decode.payload import open_payload
from lakerunner_ingress.app import create_app
from lakerunner_ingress.receivers import otlp
from lakerunner_ingress.receivers.forms import Form, Lane
from lakerunner_ingress.receivers.limits import BURST_S
from lakerunner_ingress.receivers.loki import read_loki
from lakerunner_ingress.receivers.memory import Memory
from lakerunner_ingress.receivers.opening import MAX_MEMBERS, open_body, parse_cost
from lakerunner_ingress.receivers.otlp_json import MAX_RESOURCES
from lakerunner_ingress.receivers.otlp_schema import ENUMS, fields_of
from lakerunner_ingress.receivers.refusals import BadRequestError, TooLargeError
from lakerunner_ingress.receivers.remote_write import V2, read_remote_write
from lakerunner_ingress.receivers.writing import Writer
from lakerunner_ingress.registry import RegistryCache
from lakerunner_ingress.telemetry import PushTelemetry
from resources.lake.label_text import MAX_CHARACTERS, LabelTextError, parse_labels
from resources.lake.layout import Signal
from resources.notifications.raw_objects import MARKER, PUT_RETRIES, PUT_TIMEOUT_S
from resources.proto.loki import PushRequest
from resources.proto.parsing import MAX_EXPLAINED_BYTES
from resources.proto.prometheus import RequestV2
from resources.settings import Settings
from tests.support.ingress.doubles import FakeProducer, FlakyIndex
from tests.support.ingress.push_fakes import announced, index_with, objects
from tests.support.otlp_logs import otlp_logs
from tests.support.patience import wait_for

KEYS = {Signal.LOGS: "resourceLogs", Signal.METRICS: "resourceMetrics", Signal.TRACES: "resourceSpans"}


def log(text: str) -> tuple[Signal, str]:
    return Signal.LOGS, '{"scopeLogs":[{"logRecords":[{' + text + "}]}]}"


def value(text: str) -> tuple[Signal, str]:
    return log('"body":{' + text + "}")


def span(text: str) -> tuple[Signal, str]:
    return Signal.TRACES, '{"scopeSpans":[{"spans":[{' + text + "}]}]}"


def metric(text: str) -> tuple[Signal, str]:
    return Signal.METRICS, '{"scopeMetrics":[{"metrics":[{' + text + "}]}]}"


def point(kind: str, text: str) -> tuple[Signal, str]:
    return metric(f'"{kind}":{{"dataPoints":[{{{text}}}]}}')


def decoded(signal: Signal, document: bytes) -> bytes:
    with open_payload(document, 1 << 20) as payload:
        return b"".join(each.data for each in requests(payload, signal, 1 << 20, Counter()))


REFUSED = [
    *(log(f'"timeUnixNano":{v}') for v in ('"99999999999999999999"', '"-5"', "-1", '"1\\n"', '"01"', '""')),
    log('"timeUnixNano":"18446744073709551616"'),
    *(point("sum", f'"asInt":{v}') for v in ('"9223372036854775808"', '"-9223372036854775809"', "1e30")),
    *(value(f'"bytesValue":{v}') for v in ('"%%%"', '"QQ=%"', '"Q"')),
    *(value(f'"doubleValue":{v}') for v in ('"zzz"', '""', '"1e999"', "1e999", '"1."', '"01"', '"nan"')),
    point("gauge", '"asDouble":""'),
    *(log(f'"severityNumber":{v}') for v in ('"INFO"', "2147483648", "-2147483649", '"99x"', '""')),
    *(span(f'"kind":{v}') for v in ('"SPAN_KIND_OTHER"', "2147483648", "1.5")),
    *(span(f'"status":{{"code":{v}}}') for v in ('"OK"', "2147483648")),
    *(metric(f'"sum":{{"aggregationTemporality":{v}}}') for v in ('"DELTA"', "2147483648")),
    *(log(f'"flags":{v}') for v in ("4294967296", "-1", '"4294967296"')),
    log('"droppedAttributesCount":4294967296'),
    span('"links":[{"droppedAttributesCount":-1}]'),
    (Signal.LOGS, '{"resource":{"droppedAttributesCount":"x"}}'),
    point("exponentialHistogram", '"scale":2147483648'),
    point("exponentialHistogram", '"positive":{"offset":"-2147483649"}'),
    *(point("histogram", f'"count":{v}') for v in ("-1", '"-1"', '"18446744073709551616"')),
    *(point("histogram", f'"bucketCounts":[{v}]') for v in ("null", '"1",null', "-1")),
    point("histogram", '"explicitBounds":[null]'),
    log('"attributes":[null]'),
    (Signal.LOGS, '{"scopeLogs":[null]}'),
    (Signal.LOGS, '{"resource":{"entityRefs":[{"idKeys":[null]}]}}'),
    (Signal.LOGS, '{"scope_logs":[{"log_records":[{"time_unix_nano":"-5"}]}]}'),
    (Signal.LOGS, '{"scope_logs":3}'),
    log('"time_unix_nano" : "x"'),
    (Signal.LOGS, '{"scope\\u005flogs":3}'),
    log('"traceId":"0"'),
    log('"traceId":"00\\n"'),
]


@pytest.mark.parametrize(("signal", "resource"), REFUSED)
def test_what_no_decoder_reads_is_left_out_alone(signal: Signal, resource: str) -> None:
    key = KEYS[signal]
    body = f'{{"{key}":[{{"schemaUrl":"a"}},{resource}]}}'
    received = otlp.read_otlp(body.encode(), signal, Form.OTLP_JSON)
    assert json.loads(received.data) == {key: [{"schemaUrl": "a"}]}
    assert received.rejected >= 1
    assert received.reason.startswith(f"{key}[1]: ")
    decoded(signal, received.data)


ACCEPTED = [
    *(log(f'"timeUnixNano":{v}') for v in ('"18446744073709551615"', '"0"', "9223372036854775807", "null")),
    *(point("sum", f'"asInt":{v}') for v in ('"-9223372036854775808"', "-9223372036854775808", '"-0"', "-0")),
    *(value(f'"bytesValue":"{v}"') for v in ("", "QQ==", "QR==", "QUJD", "QQ\\u003D=", "a\\/+b")),
    *(value(f'"doubleValue":"{v}"') for v in ("NaN", "-Infinity", "1.5e307", "9.9E+307", "1e-999", "-0")),
    value('"doubleValue":"' + "9" * 308 + '"'),
    *(value(f'"doubleValue":{v}') for v in ("1e-999", "1.7976931348623157e308", "123456789012345678901")),
    value('"intValue":"\\u002D\\u0031"'),
    value('"doubleValue":"N\\u0061\\u004e"'),
    value('"stringValue":"\\\\u0031 \\u0041\\u0000\\ud83c\\udf88"'),
    *(log(f'"severityNumber":{v}') for v in ('"SEVERITY_NUMBER_ERROR4"', '"24"', "9", "-1", '"\\u0039"')),
    *(span(f'"kind":{v}') for v in ('"SPAN_KIND_CONSUMER"', "2147483647", '"5"')),
    span('"status":{"code":"STATUS_CODE_ERROR"}'),
    metric('"sum":{"aggregationTemporality":"AGGREGATION_TEMPORALITY_DELTA","isMonotonic":true}'),
    *(log(f'"flags":{v}') for v in ("4294967295", '"4294967295"')),
    point("exponentialHistogram", '"scale":-2147483648,"positive":{"offset":"-2147483648"}'),
    point("histogram", '"count":"18446744073709551615","bucketCounts":["1",2],"explicitBounds":[1,"NaN"]'),
    (Signal.LOGS, '{"resource":{"entityRefs":[{"idKeys":["a"]}],"droppedAttributesCount":1}}'),
    (Signal.LOGS, '{"scope_logs":[{"log_records":[{"time_unix_nano":"5","traceId":"00fF"}]}]}'),
    (Signal.LOGS, '{"scope\\u005flogs":[{"logRecords":null}],"un_known":[{"x":1e999}]}'),
    value('"kvlistValue":{"values":[{"key":"a","value":{"arrayValue":{"values":[{},{"boolValue":true}]}}}]}'),
]


@pytest.mark.parametrize(("signal", "resource"), ACCEPTED)
def test_what_is_accepted_is_decoded(signal: Signal, resource: str) -> None:
    body = f'{{"{KEYS[signal]}":[{resource}]}}'.encode()
    received = otlp.read_otlp(body, signal, Form.OTLP_JSON)
    assert (received.rejected, received.reason) == (0, "")
    assert json.loads(received.data) == json.loads(body) or "NaN" in resource
    message = otlp._NAMES[signal].request.FromString(decoded(signal, received.data))
    assert len(getattr(message, otlp._NAMES[signal].field)) == 1


@pytest.mark.parametrize("resource", [each for each in REFUSED if "005f" not in each[1]])
def test_most_of_what_is_refused_is_what_a_decoder_refuses(resource: tuple[Signal, str]) -> None:
    """So that the list above says something; numbers in spellings that decoders take are not in it."""
    signal, text = resource
    with pytest.raises(DecodeError):
        decoded(signal, f'{{"{KEYS[signal]}":[{text}]}}'.encode())


def test_the_table_is_that_of_the_decoders() -> None:
    same = {"fixed64": "uint64", "sfixed64": "int64", "fixed32": "uint32", "sint32": "int32"}
    theirs: dict[str, list[tuple[str, str]]] = {}
    for field in decoders.FIELDS:
        if not field.owner.endswith("Request"):
            type_ = same.get(field.type, field.type) + "[]" * field.repeated
            theirs.setdefault(field.owner, []).append((field.name, type_))
    assert fields_of() == theirs
    assert ENUMS == decoders.ENUMS


def test_a_request_of_too_many_resources_is_refused() -> None:
    body = b'{"resourceLogs":[' + b",".join([b"{}"] * (MAX_RESOURCES + 1)) + b"]}"
    with pytest.raises(TooLargeError, match=f"at most {MAX_RESOURCES}"):
        otlp.read_otlp(body, Signal.LOGS, Form.OTLP_JSON)


def test_the_marker_of_other_forms_is_refused_in_otlp() -> None:
    with pytest.raises(BadRequestError, match="field 15000 is reserved"):
        otlp.read_otlp(MARKER + b"\x01x" + otlp_logs([(1, "a")]), Signal.LOGS, Form.OTLP_PROTOBUF)


def test_symbols_are_not_put_in_place_beyond_a_bound() -> None:
    request = RequestV2(symbols=["", "__name__", "x" * 20_000])
    request.timeseries.add(labels_refs=[1, 2] * 5_000)
    data = request.SerializeToString()
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError, match="with the symbols in place"):
            read_remote_write(data, V2)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_long_label_texts_are_read_with_little_memory_and_longer_ones_refused() -> None:
    text = '{a="' + "x" * (MAX_CHARACTERS - 6) + '"}'
    assert len(parse_labels(text)["a"]) == MAX_CHARACTERS - 6
    with pytest.raises(LabelTextError, match=f"at most {MAX_CHARACTERS} characters"):
        parse_labels(text + " ")


def test_many_bad_streams_cost_a_byte_each() -> None:
    data = b"\x0a\x00" * 100_000
    tracemalloc.start()
    try:
        with pytest.raises(BadRequestError, match=r"streams\[0\]: label text, character 0"):
            read_loki(data, json=False)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()


def test_a_long_broken_message_is_not_explained() -> None:
    data = otlp_logs([(1, "x" * MAX_EXPLAINED_BYTES)])[:-1]
    with pytest.raises(BadRequestError, match=r"^\d+ bytes that are not a ExportLogsServiceRequest$"):
        otlp.read_otlp(data, Signal.LOGS, Form.OTLP_PROTOBUF)


@pytest.mark.parametrize(("name", "empty"), [("gzip", gzip.compress(b"")), ("zstd", zstandard.compress(b""))])
def test_a_body_has_a_bounded_number_of_members(name: str, empty: bytes) -> None:
    hold = Memory(1 << 20).hold()
    began = time.thread_time()
    assert open_body(empty * MAX_MEMBERS, name, 100, hold) == b""
    bounded_s = time.thread_time() - began
    with pytest.raises(BadRequestError, match=f"{name}: more than {MAX_MEMBERS} members"):
        open_body(empty * 50 * MAX_MEMBERS, name, 100, hold)
    assert time.thread_time() - began - bounded_s < 10 * bounded_s, "the rest is not opened"


def test_the_cost_of_parsing_is_large_only_where_it_is() -> None:
    assert parse_cost(b"\x0a\x00" * (32 << 20)) > 1 << 30
    assert parse_cost(b'{"resourceLogs":[' + b"1," * (32 << 20)) > 1 << 28
    ordinary = otlp_logs([(index, "GET /cart/items 200 OK in 12 ms, user 4711") for index in range(100_000)])
    assert parse_cost(ordinary) < 2 * len(ordinary)
    assert parse_cost(b"") == parse_cost(b"\x0a") == 0


@pytest.fixture
def index(tmp_path: Path) -> FlakyIndex:
    return index_with(tmp_path)


def push(client: Any, path: str, content: bytes, media: str, **more: str) -> Any:
    headers = {"Authorization": "Bearer acme-write", "content-type": media, **more}
    return client.post(path, content=content, headers=headers)


def test_a_body_that_parsing_would_blow_up_is_413_before_it_is_parsed(index: FlakyIndex) -> None:
    known = Settings(receiver_batch_age_s=0.02, webhook_token="hook")
    body = gzip.compress(b"\x0a\x00" * (32 << 20), 1)
    with TestClient(create_app(known, index, FakeProducer())) as client:  # type: ignore[arg-type]
        answer = push(client, "/v1/logs", body, "application/x-protobuf", **{"content-encoding": "gzip"})
        assert answer.status_code == 413
        assert client.app.state.receivers._memory.used == 0


def test_a_push_that_fails_is_paid_for_too(index: FlakyIndex) -> None:
    known = Settings(receiver_batch_age_s=0.02, webhook_token="hook")
    with TestClient(create_app(known, index, FakeProducer())) as client:  # type: ignore[arg-type]
        client.app.state.receivers._quota._limit_of = lambda _: 10
        body = b"\x00" * int(10 * BURST_S + 1)
        assert push(client, "/v1/logs", body, "application/x-protobuf").status_code == 400
        assert push(client, "/v1/logs", b"", "application/x-protobuf").status_code == 429


def test_what_a_body_opens_to_is_paid_for_as_well(index: FlakyIndex) -> None:
    known = Settings(receiver_batch_age_s=0.02, webhook_token="hook")
    with TestClient(create_app(known, index, FakeProducer())) as client:  # type: ignore[arg-type]
        client.app.state.receivers._quota._limit_of = lambda _: 100
        body = gzip.compress(otlp_logs([(1, "x" * 5000)]))
        assert len(body) < 100 * BURST_S
        sent = push(client, "/v1/logs", body, "application/x-protobuf", **{"content-encoding": "gzip"})
        assert sent.status_code == 200
        assert push(client, "/v1/logs", b"", "application/x-protobuf").status_code == 429


def test_a_durable_object_is_accepted_whatever_its_announcement_fails_with(
    index: FlakyIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = FakeProducer()
    writer = Writer(Settings(), index, producer, RegistryCache(index), PushTelemetry())  # type: ignore[arg-type]
    failing = True

    def append_outbox(_: object) -> None:
        raise RuntimeError("cannot execute INSERT in a read-only transaction")

    producer.down = failing
    monkeypatch.setattr(index, "append_outbox", append_outbox)
    writer.write(Lane("acme", "push", Signal.LOGS, Form.OTLP_JSON), [b"a"])
    wait_for(lambda: writer.announcements.waiting == 1)
    producer.down = False
    writer.announcements.close()
    assert [record.key for record in announced(producer)] == list(objects(tmp_path))


def test_an_answer_comes_before_senders_give_up() -> None:
    assert PUT_TIMEOUT_S * (1 + PUT_RETRIES) + Settings().receiver_batch_age_s < 10


def test_a_good_stream_beside_bad_ones_is_kept() -> None:
    request = PushRequest()
    for text in ("{", '{a="b"}', "{}"):
        request.streams.add(labels=text).entries.add(line="x")
    received = read_loki(request.SerializeToString(), json=False)
    assert [s.labels for s in PushRequest.FromString(received.data).streams] == ['{a="b"}']
    assert received.rejected == 2
