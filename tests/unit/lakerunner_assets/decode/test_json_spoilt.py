"""A line that cannot be read costs itself and not its neighbours; other broken OTLP JSON fails whole."""

from __future__ import annotations

import json

import pytest

from lakerunner_assets.decode.errors import MalformedError
from resources.lake.layout import Signal
from tests.support.decoding import decode_object


def line(text: str, time: str = "1767225600000000000") -> bytes:
    record = {"timeUnixNano": time, "body": {"stringValue": text}}
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode() + b"\n"


def read(data: bytes, slice_bytes: int = 1 << 20) -> tuple[list[str], int, str]:
    parts = list(decode_object(data, signal=Signal.LOGS, slice_bytes=slice_bytes))
    messages = [text for part in parts for text in part.table["log_message"].to_pylist()]
    positions = [at for part in parts for at in part.table["chq_position"].to_pylist()]
    assert positions == list(range(len(messages)))
    first = next((part.first_rejected for part in parts if part.first_rejected), "")
    return messages, sum(part.rejected for part in parts), first


@pytest.mark.parametrize("slice_bytes", [1 << 20, 300, 50])
@pytest.mark.parametrize("bad", [b'{"resourceLogs": [{"scope\n', b"{}}\n", line("x", time="-5")])
def test_one_bad_line_is_rejected_alone(bad: bytes, slice_bytes: int) -> None:
    good = [line(f"m{number}") for number in range(4)]
    data = good[0] + good[1] + bad + good[2] + good[3]
    messages, rejected, first = read(data, slice_bytes)
    assert (messages, rejected) == (["m0", "m1", "m2", "m3"], 1)
    offset = int(first.removeprefix("byte ").split(":")[0])
    assert len(good[0] + good[1]) <= offset <= len(good[0] + good[1] + bad)


def test_a_last_line_cut_off_by_a_crash_is_rejected() -> None:
    assert read(line("whole") + line("cut")[:-30])[:2] == (["whole"], 1)


@pytest.mark.parametrize("data", [line("only")[:-30], b"{broken\n{broken too\n" * 2])
def test_nothing_readable_fails_the_object(data: bytes) -> None:
    with pytest.raises(MalformedError):
        read(b'{"resourceLogs":[' + data if data.startswith(b"{broken") else data)


def test_one_document_over_several_lines_fails_whole() -> None:
    document = json.dumps(json.loads(line("x")), indent=1).encode()
    with pytest.raises(MalformedError):
        read(document[:-20])
