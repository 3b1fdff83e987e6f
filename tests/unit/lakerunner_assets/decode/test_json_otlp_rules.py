"""The rules of OTLP's JSON one by one: values, names, errors and where they are, documents and windows."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.decode.dispatch import Place, Request
from lakerunner_assets.decode.errors import MalformedError, TooLargeError
from lakerunner_assets.decode.json import otlp
from lakerunner_assets.decode.json.otlp import decode_otlp_json, requests
from lakerunner_assets.decode.otlp.logs import decode_logs
from lakerunner_assets.decode.payload import open_payload, payload_of
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions
from tests.unit.lakerunner_assets.decode.test_json_otlp import read, same, transcoded


def log(fields: str) -> Any:
    """The LogRecord read from these members."""
    text = '{"resourceLogs":[{"scopeLogs":[{"logRecords":[{' + fields + "}]}]}]}"
    return read(text.encode(), Signal.LOGS).resource_logs[0].scope_logs[0].log_records[0]


def fails(text: str, reason: str, at: str | int, signal: Signal = Signal.LOGS) -> None:
    """`at`: the offset, or the text that starts there."""
    with pytest.raises(MalformedError, match=reason) as caught:
        transcoded(text.encode(), signal)
    assert caught.value.offset == (at if isinstance(at, int) else text.index(at))


def in_log(fields: str) -> str:
    return '{"resourceLogs":[{"scopeLogs":[{"logRecords":[{' + fields + "}]}]}]}"


def test_ids_are_hexadecimal_in_either_case() -> None:
    record = log('"traceId":"5B8EFFF798038103d269b633813fc60c","spanId":"\\u0065EE19B7EC3C1B174"')
    assert record.trace_id.hex() == "5b8efff798038103d269b633813fc60c"
    assert record.span_id.hex() == "eee19b7ec3c1b174"
    assert log('"traceId":""').trace_id == b""


@pytest.mark.parametrize("text", ["5b8", "5g", "0x12", "W46P+A==", " 5b"])
def test_other_ids_are_errors(text: str) -> None:
    fails(in_log(f'"traceId":"{text}"'), "hexadecimal", text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("AP/+", b"\x00\xff\xfe"), ("AP_-", b"\x00\xff\xfe"), ("AA==", b"\0"), ("AA", b"\0"), ("", b""),
     ("AP\\/+", b"\x00\xff\xfe"), ("AAE=", b"\0\1")],
)  # fmt: skip
def test_bytes_are_base64(text: str, value: bytes) -> None:
    assert log(f'"body":{{"bytesValue":"{text}"}}').body.bytes_value == value


@pytest.mark.parametrize("text", ["A", "AAAAA", "A=A=", "A*==", "AA=A"])
def test_other_bytes_are_errors(text: str) -> None:
    fails(in_log(f'"body":{{"bytesValue":"{text}"}}'), "base64", text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ('"1"', 1), ("-9223372036854775808", -(2**63)), ('"9223372036854775807"', 2**63 - 1),
     ("1e3", 1000), ("1.50e1", 15), ("100e-2", 1), ("-0", 0), ("0e99", 0),
     ("1768392000000000000.0", 1768392000000000000)],
)  # fmt: skip
def test_integers(text: str, value: int) -> None:
    assert log(f'"body":{{"intValue":{text}}}').body.int_value == value


@pytest.mark.parametrize(
    "text",
    ["9223372036854775808", '"-9223372036854775809"', "1.5", "1e19", "18446744073709551616", "1e-1",
     "99999999999999999999"],
)  # fmt: skip
def test_integers_out_of_range_are_errors(text: str) -> None:
    fails(in_log(f'"body":{{"intValue":{text}}}'), "range", text.strip('"'))


def test_ranges_are_those_of_the_field() -> None:
    assert log('"timeUnixNano":"18446744073709551615","flags":4294967295,"droppedAttributesCount":4294967295')
    fails(in_log('"timeUnixNano":-1'), "range", "-1")
    fails(in_log('"flags":4294967296'), "range", "4294967296")
    fails(in_log('"droppedAttributesCount":4294967296'), "range", "4294967296")


@pytest.mark.parametrize(
    "text", ["01", "+1", ".5", "1.", "1e", "-", "--1", "0x1", '""', '" 1"', '"1 "', '"1x"', '"1e"']
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(MalformedError):
        log(f'"body":{{"intValue":{text}}}')
    with pytest.raises(MalformedError):
        log(f'"body":{{"doubleValue":{text}}}')


@given(
    st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
)
@settings(max_examples=100, deadline=None)
def test_doubles_are_rounded_correctly(text: str) -> None:
    if math.isinf(float(text)):
        fails(in_log(f'"body":{{"doubleValue":{text}}}'), "range", text)
        return
    for written in (text, f'"{text}"'):
        found = log(f'"body":{{"doubleValue":{written}}}').body.double_value
        assert (found, math.copysign(1, found)) == (float(text), math.copysign(1, float(text)))


def test_many_doubles_at_once() -> None:
    rng = random.Random(3)
    texts = [repr(rng.uniform(-1, 1) * 10 ** rng.randint(-320, 300)) for _ in range(3000)]
    texts += [f"{rng.getrandbits(60)}e{rng.randint(-40, 40)}" for _ in range(3000)]
    texts += ["9007199254740993", "9007199254740992", "1e22", "1e23", "8.5e-23", "4.9e-324", "2e-324", "-0e9"]
    text = '{"values":[' + ",".join(f'{{"doubleValue":{text}}}' for text in texts) + "]}"
    found = [value.double_value for value in log(f'"body":{{"arrayValue":{text}}}').body.array_value.values]
    assert list(map(repr, found)) == [repr(float(text)) for text in texts]


def test_doubles_that_are_no_numbers() -> None:
    names = [
        log(f'"body":{{"doubleValue":"{name}"}}').body.double_value
        for name in ("NaN", "Infinity", "-Infinity")
    ]
    assert list(map(repr, names)) == ["nan", "inf", "-inf"]
    for name in ("nan", "inf", "-NaN", "infinity", "Infinit1"):
        fails(in_log(f'"body":{{"doubleValue":"{name}"}}'), "not a number", name)


def test_enums_are_numbers_or_names() -> None:
    assert log('"severityNumber":"SEVERITY_NUMBER_WARN2"').severity_number == 14
    assert log('"severityNumber":17').severity_number == 17
    assert log('"severityNumber":"17"').severity_number == 17
    fails(in_log('"severityNumber":"WARN"'), "no such name", "WARN")


def test_strings() -> None:
    notes: Counter[str] = Counter()
    text = in_log(
        r'"severityText":"\"\\\/\b\f\n\r\té€\ud83d\ude00","body":{"stringValue":"\ud83dx\ude00\ud83d\ud83d\ude00"}'
    )
    (part,) = requests(payload_of(text.encode()), Signal.LOGS, 1 << 20, notes)
    record = read(text.encode(), Signal.LOGS).resource_logs[0].scope_logs[0].log_records[0]
    assert record.severity_text == '"\\/\b\f\n\r\té€\U0001f600'
    assert record.body.string_value == "\ufffdx\ufffd\ufffd\U0001f600"
    assert notes == {"lone_surrogates": 3}
    assert part.base == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [("a\tb", "control"), ("a\\qb", "escape"), ("a\\u12g4", "escape"), ("a\\u12", "escape")],
)
def test_strings_that_are_none(text: str, reason: str) -> None:
    fails(in_log(f'"severityText":"{text}"'), reason, in_log('"severityText":"').index('":"', 60) + 4)


def test_null_is_absent_and_the_last_of_a_name_wins() -> None:
    record = log('"severityText":"a","flags":null,"severityText":"b","body":{"stringValue":"x","intValue":7}')
    assert (record.severity_text, record.flags) == ("b", 0)
    assert record.body.WhichOneof("value") == "int_value"
    assert not log('"body":null').HasField("body")
    assert log('"body":{"stringValue":null}').body.WhichOneof("value") is None
    fails(in_log('"attributes":[null]'), "type", "null]")


def test_names_in_both_spellings_and_with_escapes() -> None:
    assert log('"severity_text":"a"').severity_text == log('"severit\\u0079Text":"a"').severity_text == "a"


@pytest.mark.parametrize(
    "value",
    ["1", "-1.5e3", '"x\\"y"', "true", "false", "null", "[]", "{}", '[1,[2,{"a":[]}],"]"]',
     '{"a":{"b":{}}, "c" : 1}']
)  # fmt: skip
def test_unknown_names_are_skipped(value: str) -> None:
    record = log(f'"nobody":{value},"severityText":"a","Severitytext":{value}')
    assert record.severity_text == "a"
    assert same(record, log('"severityText":"a"'))


@pytest.mark.parametrize(
    "value", ["[1,]", "{,}", '{"a"}', '{"a":}', "[1 2]", "tru", "nul", "01", "[}", '{"a":1]', "x", '"\n"']
)
def test_unknown_values_must_be_json(value: str) -> None:
    with pytest.raises(MalformedError):
        log(f'"nobody":{value},"severityText":"a"')


@pytest.mark.parametrize(
    "fields",
    ['"severityText":1', '"body":"x"', '"body":[]', '"attributes":{}', '"attributes":["x"]',
     '"attributes":[[]]',
     '"flags":true', '"flags":{}', '"traceId":1', '"body":{"boolValue":1}', '"body":{"boolValue":"true"}',
     '"body":{"doubleValue":true}', '"attributes":[{},]', '"flags":1,', '"flags"', '"flags" 1',
     'flags:1', '"a":1 "b":2'],
)  # fmt: skip
def test_values_of_the_wrong_type_and_broken_objects(fields: str) -> None:
    with pytest.raises(MalformedError):
        log(fields)


def test_depth_is_bounded() -> None:
    def nested(levels: int) -> str:
        value = '{"intValue":1}'
        for _ in range(levels):
            value = '{"arrayValue":{"values":[' + value + "]}}"
        return f'"body":{value}'

    value = log(nested(47)).body
    for _ in range(47):
        (value,) = value.array_value.values
    assert value.int_value == 1
    for deep in (nested(48), nested(5000), '"nobody":' + "[" * 99 + "]" * 99, '"nobody":' + '{"a":' * 9999):
        with pytest.raises(MalformedError, match="nested deeper"):
            log(deep)


@pytest.mark.parametrize("signal", [Signal.LOGS, Signal.METRICS, Signal.TRACES])
def test_another_signals_object_is_named(signal: Signal) -> None:
    names = {Signal.LOGS: "resourceLogs", Signal.METRICS: "resourceMetrics", Signal.TRACES: "resource_spans"}
    for other, name in names.items():
        text = f' {{ "{name}" : []}}'
        if other is signal:
            assert transcoded(text.encode(), signal) == [b""]
        else:
            fails(text, f"{name} in an object of {signal.value}", f'"{name}"', signal)


ONE = '{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityText":"%s"}]}]}]}'


def levels(text: str | bytes, slice_bytes: int = 1 << 20) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    message = read(data, Signal.LOGS, slice_bytes)
    return [r.severity_text for g in message.resource_logs for s in g.scope_logs for r in s.log_records]


@pytest.mark.parametrize("between", ["", "\n", "\r\n \n\t", " "])
@pytest.mark.parametrize("slice_bytes", [1, 30, 200, 1 << 20])
def test_several_documents(between: str, slice_bytes: int) -> None:
    text = between.join([ONE % "a", "{}", ONE % "b", '{"resourceLogs":null}', ONE % "c", ""])
    assert levels(text, slice_bytes) == ["a", "b", "c"]
    assert levels(b"\xef\xbb\xbf" + text.encode(), slice_bytes) == ["a", "b", "c"]


def test_a_broken_line_fails_the_object_at_its_offset() -> None:
    lines = [ONE % "a", ONE.replace("severityText", "flags") % "b", ONE % "c"]
    text = "\n".join(lines)
    for slice_bytes in (1, 100, 1 << 20):
        with pytest.raises(MalformedError) as caught:
            levels(text, slice_bytes)
        assert caught.value.offset == text.index('b"')
    fails("[" + ONE % "a" + "]", "expected an object", 0)
    fails(ONE % "a" + "x", "expected an object", len(ONE % "a"))


def pretty(groups: int) -> bytes:
    document = {
        "before": {"x": [1, {"resourceLogs": []}]},
        "resourceLogs": [json.loads(ONE % f"{i}\\n")["resourceLogs"][0] for i in range(groups)],
        "after": "]}",
        "resource_logs": [json.loads(ONE % "last")["resourceLogs"][0]],
    }
    return json.dumps(document, indent=1).encode()


@pytest.mark.parametrize("slice_bytes", [1, 2, 57, 600, 5000])
def test_windows_change_nothing(slice_bytes: int) -> None:
    data = pretty(40)
    parts = transcoded(data, Signal.LOGS, slice_bytes)
    assert same(read(data, Signal.LOGS, slice_bytes), read(data, Signal.LOGS))
    assert levels(data, slice_bytes) == [*(f"{i}\n" for i in range(40)), "last"]
    assert len(parts) == 1 if slice_bytes > len(data) else len(parts) > 1


def test_every_cut_of_a_window() -> None:
    data = (ONE % "a" + "\n" + ONE % "\\u00e9" + ' {"x":-1.5e2,"resourceLogs":[{},null]}').encode()
    good = data[: data.index(b",null")] + b"]}"
    whole = read(good, Signal.LOGS)
    for slice_bytes in range(1, len(good) + 2):
        assert same(read(good, Signal.LOGS, slice_bytes), whole), slice_bytes
        with pytest.raises(MalformedError) as caught:
            transcoded(data, Signal.LOGS, slice_bytes)
        assert caught.value.offset == data.index(b"null")


def test_memory_is_bounded_by_the_window(tmp_path: Any) -> None:
    """Windows of a file are read one by one; none is larger than was asked for, while groups are small."""
    path = tmp_path / "big.json"
    path.write_bytes((ONE % "a" + "\n").encode() * 5000)
    with open_payload(path, 1 << 30) as payload:
        lengths: list[int] = []
        read_window = payload.read

        class Watched:
            size = payload.size
            head = staticmethod(payload.head)

            @staticmethod
            def read(start: int, length: int) -> bytes:
                lengths.append(length)
                return read_window(start, length)

        parts = list(requests(Watched(), Signal.LOGS, 4096, Counter()))  # type: ignore[arg-type]
    assert len(parts) > 50
    assert set(lengths) == {4096}


def test_a_group_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MAX_GROUP_BYTES", 1000)
    text = ONE % "a" + ONE % ("x" * 2000)
    with pytest.raises(TooLargeError, match="1000 bytes"):
        transcoded(text.encode(), Signal.LOGS, 64)
    assert levels(ONE % ("x" * 800), 64) == ["x" * 800]


def test_positions_notes_and_errors_of_the_decoder() -> None:
    decoder = decode_otlp_json(Signal.LOGS, decode_logs)
    text = "\n".join([ONE % "a", ONE % "\\ud800", "{}", ONE % "c"]).encode()
    request = Request("x", Place(9, 5, 1), DecodeOptions(), 100)
    found = list(decoder(payload_of(text), request))
    assert [p for each in found for p in each.table["chq_position"].to_pylist()] == [5, 6, 7]
    assert sum(each.notes.get("lone_surrogates", 0) for each in found) == 1
    (empty,) = decoder(payload_of(b'{"resourceLogs":[]}'), request)
    assert empty.table.num_rows == 0


def test_invalid_utf8_is_left_to_the_decoder() -> None:
    decoder = decode_otlp_json(Signal.LOGS, decode_logs)
    data = (in_log('"body":{"stringValue":"X"}')).encode().replace(b"X", b"a\xffb")
    (found,) = decoder(payload_of(data), Request("x", Place(1, 0, 1), DecodeOptions(), 1 << 20))
    assert found.table["log_message"].to_pylist() == ["a\ufffdb"]
    assert found.notes["invalid_utf8"] == 1
