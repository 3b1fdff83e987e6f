"""Broken span payloads are rejected with a position, and never read past."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lakerunner_assets.decode.errors import MalformedError
from resources.arrays import Bytes
from resources.kernel import scanner
from tests.support.decode.span_messages import decode_spans, sample
from tests.unit.conftest import Run


@scanner
def over_read(data: Bytes) -> int:
    return int(data[len(data)])


def outcome(data: bytes) -> str:
    try:
        decode_spans(data)
    except MalformedError as error:
        if not 0 <= error.offset <= len(data):
            raise AssertionError(f"offset outside of the {len(data)} bytes: {error}") from error
        return "rejected"
    return "decoded"


def check_every_cut() -> None:
    payload = sample(2).SerializeToString()
    first = len(payload) // 2  # both ResourceSpans have the same size
    for length in range(len(payload)):
        expected = "decoded" if length in (0, first) else "rejected"
        assert outcome(payload[:length]) == expected, f"cut at {length}"


def check_flips(count: int) -> None:
    payload = sample(4).SerializeToString()
    rng = random.Random(7)
    seen = {"rejected": 0, "decoded": 0}
    for _ in range(count):
        broken = bytearray(payload)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        seen[outcome(bytes(broken))] += 1
    assert min(seen.values()) > count // 20, seen
    for _ in range(count):
        outcome(rng.randbytes(rng.randint(1, 60)))


def test_cut_short_anywhere() -> None:
    check_every_cut()


def test_flipped_bytes() -> None:
    check_flips(400)


@pytest.mark.parametrize(
    ("span", "offset", "reason"),
    [
        (b"\x7a\x02\x12\x05", 9, "runs past the end"),  # the status message
        (b"\x5a\x03\x09\x01\x02", 9, "cut short"),  # time of an event
        (b"\x5a\x04\x1a\x02\x0a\x07", 11, "runs past the end"),  # key of its attribute
        (b"\x6a\x02\x0a\x09", 9, "runs past the end"),  # trace id of a link
        (b"\x6a\x04\x22\x02\x12\x02", 11, "runs past the end"),  # value of its attribute
        (b"\x85\x01\x01\x02", 8, "cut short"),  # flags
    ],
)
def test_reason_and_offset(span: bytes, offset: int, reason: str) -> None:
    scope = b"\x12" + bytes([len(span)]) + span
    group = b"\x12" + bytes([len(scope)]) + scope
    with pytest.raises(MalformedError, match=reason) as caught:
        decode_spans(b"\x0a" + bytes([len(group)]) + group)
    assert caught.value.offset == offset


def test_unknown_fields_and_groups_are_skipped_everywhere() -> None:
    unknown = b"\x9a\x1f\x02hi\x98\x1f\x07\x9b\x1f\x08\x01\x9c\x1f\x9d\x1fabcd\x99\x1fabcdefgh"

    def message(tag: int, content: bytes) -> bytes:
        size = len(content) + 2 * len(unknown)
        return bytes([tag, size & 127 | 128, size >> 7]) + unknown + content + unknown

    pair = b"\x0a\x01k" + message(0x12, b"\x0a\x01v")
    event = message(0x5A, b"\x12\x01e" + message(0x1A, pair))
    link = message(0x6A, b"\x1a\x01s" + message(0x22, pair))
    status = message(0x7A, b"\x12\x02no")
    span = message(0x12, b"\x2a\x02ok" + event + link + status + message(0x4A, pair))
    row = decode_spans(unknown + message(0x0A, message(0x12, span))).table.to_pylist()[0]
    kept = [{"key": "k", "kind": "string", "value": "v"}]
    assert (row["span_name"], row["span_status_message"], row["attr_k"]) == ("ok", "no", "v")
    assert row["span_events"] == [{"tsns": None, "name": "e", "dropped": 0, "attributes": kept}]
    assert (row["span_links"][0]["trace_state"], row["span_links"][0]["attributes"]) == ("s", kept)


@pytest.mark.slow
def test_no_over_read_with_bounds_checking_on(run_checked: Run) -> None:
    run_checked("tests.unit.lakerunner_assets.decode.test_traces_malformed")


def main() -> None:
    """Started by the test above in a process of its own: the check is fixed when a kernel is compiled."""
    try:
        over_read(np.zeros(3, np.uint8))
    except IndexError:
        check_every_cut()
        check_flips(1500)
        return
    raise AssertionError("bounds checking is off: this run would prove nothing")


if __name__ == "__main__":
    main()
