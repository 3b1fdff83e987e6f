"""Broken bytes are rejected with a position, and never read past."""

from __future__ import annotations

import pickle

import pytest

from lakerunner_assets.decode import wire_kernels
from lakerunner_assets.decode.errors import JSON_REASONS, WIRE_REASONS, EmptyObjectError, MalformedError
from lakerunner_assets.decode.json import token_kernels
from tests.support.decode.messages import sample
from tests.support.decoding import decode_logs, decode_object
from tests.unit.conftest import Run


def decode(data: bytes) -> int:
    return decode_logs(data, object_id=1, first_position=0, arrival_ns=1).table.num_rows


@pytest.mark.slow
def test_no_over_read_with_bounds_checking_on(run_checked: Run) -> None:
    run_checked("tests.support.decode.hostile_bytes", "1500")


@pytest.mark.parametrize(
    ("data", "offset", "reason"),
    [
        (b"\x0a\x05\x12", 1, "runs past the end"),
        (b"\x00", 0, "field number 0"),
        (b"\x0b", 1, "cut short"),
        (b"\x0f", 1, "unknown wire type"),
        (b"\x0c", 1, "group"),
        (b"\x08" + b"\xff" * 11, 1, "longer than 10 bytes"),
        (b"\x0a\x04\x12\x02\x12\x01", 5, "runs past the end"),
        (b"\x0a\x07\x12\x05\x12\x03\x09\x00\x00", 7, "cut short"),
    ],
)
def test_reason_and_offset(data: bytes, offset: int, reason: str) -> None:
    with pytest.raises(MalformedError, match=reason) as caught:
        decode(data)
    assert caught.value.offset == offset


def test_a_broken_structured_value_is_rejected_too() -> None:
    request = sample(2)
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    record.attributes.add(key="x").value.kvlist_value.values.add(key="inner").value.int_value = 7
    payload = request.SerializeToString()
    at = payload.index(b"inner") - 1
    with pytest.raises(MalformedError):
        decode(payload[:at] + b"\x7f" + payload[at + 1 :])


@pytest.mark.parametrize(("levels", "accepted"), [(90, True), (150, False), (5000, False)])
def test_deep_nesting_is_bounded(levels: int, accepted: bool) -> None:
    value = b"\x0a\x01x"
    for _ in range(levels):
        value = b"\x2a" + _long(len(value) + 4) + b"\x0a" + _long(len(value)) + value
    record = b"\x2a" + _long(len(value)) + value
    scope = b"\x12" + _long(len(record)) + record
    group = b"\x12" + _long(len(scope)) + scope
    data = b"\x0a" + _long(len(group)) + group
    if accepted:
        table = decode_logs(data, object_id=1, first_position=0, arrival_ns=1).table
        assert table["log_message"].to_pylist() == ["[" * levels + '"x"' + "]" * levels]
    else:
        with pytest.raises(MalformedError, match="nested deeper"):
            decode(data)


def _long(number: int) -> bytes:
    """A varint that always takes three bytes."""
    return bytes([number & 127 | 128, number >> 7 & 127 | 128, number >> 14])


def test_unknown_fields_and_groups_are_skipped() -> None:
    unknown = b"\x9a\x06\x02hi\x98\x06\x07\x9b\x06\x08\x01\x9c\x06\x9d\x06abcd\x99\x06abcdefgh"
    record = unknown + b"\x2a" + bytes([len(unknown) + 4]) + unknown + b"\x0a\x02ok"
    scope = unknown + b"\x12" + bytes([len(record)]) + record
    group = unknown + b"\x12" + bytes([len(scope)]) + scope
    data = unknown + b"\x0a" + _varint(len(group)) + group + unknown
    table = decode_logs(data, object_id=1, first_position=0, arrival_ns=1).table
    assert table["log_message"].to_pylist() == ["ok"]


def _varint(number: int) -> bytes:
    return bytes([number & 127 | 128, number >> 7])


def test_empty_objects() -> None:
    with pytest.raises(EmptyObjectError):
        list(decode_object(b"", object_id=1, arrival_ns=1, max_bytes=10, slice_bytes=10))
    assert decode(b"\x0a\x00") == 0


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(MalformedError(7, "broken")))  # noqa: S301
    assert (error.offset, str(error)) == (7, "byte 7: broken")


def test_every_fault_of_a_kernel_has_a_reason() -> None:
    assert len(WIRE_REASONS) == wire_kernels.TOO_DEEP + 1
    assert len(JSON_REASONS) == token_kernels.NO_ROOM  # which is no error of the text
