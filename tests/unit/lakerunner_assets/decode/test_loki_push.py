"""Loki pushes: against the protobuf runtime, cut and broken anywhere, and what single entries become."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakerunner_assets.decode.dispatch import DecodedSlice, Place, Request, decode
from lakerunner_assets.decode.errors import MalformedError, TooLargeError
from lakerunner_assets.decode.formats import Format
from lakerunner_assets.decode.payload import payload_of
from lakerunner_assets.decode.push.loki_push import decode_loki_push, decode_push
from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.written import SegmentIdentity
from resources.arrays import Bytes
from resources.kernel import scanner
from resources.lake.label_text import label_text, parse_labels
from resources.lake.options import DecodeOptions
from resources.lake.streams import labels_from_text, stream_id
from resources.proto.loki import PushRequest
from tests.support.decode.messages import TEXT
from tests.support.decode.messages import sample as otlp_sample
from tests.support.decode.oracle import found_rows
from tests.support.decoding import decode_logs
from tests.unit.conftest import Run

MARKER = b"\xc2\xa9\x07\x14logproto.PushRequest"
ARRIVAL = 1_700_000_000_000_000_000
SECONDS = 1_768_392_000

LABELS = st.dictionaries(st.sampled_from(["app", "job", "env", "service_name", "x_1"]), TEXT, max_size=4)
PAIRS = st.lists(st.tuples(st.sampled_from(["trace_id", "a.b", "a_b", ""]) | TEXT, TEXT), max_size=3)
TIMES = st.tuples(
    st.sampled_from([0, 1, SECONDS, -5]) | st.integers(-(2**63), 2**63 - 1), st.integers(0, 10**9 - 1)
)
ENTRIES = st.lists(st.tuples(TIMES, TEXT, PAIRS), max_size=4)
STREAMS = st.lists(st.tuples(LABELS, ENTRIES), max_size=4)


def push(streams: list[tuple[dict[str, str], list[Any]]]) -> Any:
    request = PushRequest()
    for labels, entries in streams:
        stream = request.streams.add(labels=label_text(labels), hash=7)
        for (seconds, nanos), line, pairs in entries:
            entry = stream.entries.add(line=line)
            entry.timestamp.seconds, entry.timestamp.nanos = seconds, nanos
            for name, value in pairs:
                entry.structured_metadata.add(name=name, value=value)
    return request


def sample(streams: int = 3, entries: int = 4) -> bytes:
    return push(
        [
            (
                {"app": f"shop{number}", "env": "prod"},
                [
                    ((SECONDS + index, 5), f"took {index} ms in {number}", [("cart", f"c{index}")])
                    for index in range(entries)
                ],
            )
            for number in range(streams)
        ]
    ).SerializeToString()


def decoded(data: bytes, first_position: int = 0) -> DecodedSlice:
    return decode_push(data, Place(5, first_position, ARRIVAL))


def decode_object(data: bytes, slice_bytes: int = 1 << 24) -> list[DecodedSlice]:
    """Through the door, as the cook task does."""
    request = Request("object", Place(5, 0, ARRIVAL), DecodeOptions(), slice_bytes)
    return list(decode(payload_of(MARKER + data), request, {Format.LOKI_PUSH: decode_loki_push}))


def expected_rows(payload: bytes) -> Iterator[dict[str, Any]]:
    for stream in PushRequest.FromString(payload).streams:
        labels = {name: value for name, value in parse_labels(stream.labels).items() if value}
        if "service_name" not in labels:
            labels["service_name"] = labels.get("app") or labels.get("job") or "unknown_service"
        canonical = tuple(sorted(labels.items()))
        for entry in stream.entries:
            exact = entry.timestamp.seconds * 10**9 + entry.timestamp.nanos
            attributes: dict[tuple[str, str, str], str] = {}
            for pair in entry.structured_metadata:
                attributes.setdefault(("record", pair.name, "string"), pair.value)
            yield {
                "chq_object": 5,
                "chq_tsns": exact or ARRIVAL,
                "log_message": entry.line,
                "chq_stream": canonical,
                "chq_stream_id": stream_id(canonical),
                "attributes": attributes,
            }


def assert_same(payload: bytes, pieces: list[DecodedSlice]) -> int:
    expected = list(expected_rows(payload))
    found = [row for piece in pieces for row in found_rows(piece.table)]
    assert len(found) == len(expected)
    for position, (want, have) in enumerate(zip(expected, found, strict=True)):
        have["chq_stream"] = labels_from_text(have["chq_stream"])
        if abs(want["chq_tsns"]) > 2**63 - 1 - 4 * 10**9:
            assert abs(have["chq_tsns"]) > 2**63 - 1 - 4 * 10**9
            assert (have["chq_tsns"] > 0) == (want["chq_tsns"] > 0)
            want["chq_tsns"] = have["chq_tsns"]
        assert have["chq_position"] == position
        assert {name: have[name] for name in want} == want
    return len(expected)


@given(STREAMS)
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
def test_generated_pushes(streams: list[Any]) -> None:
    payload = push(streams).SerializeToString()
    found = decoded(payload)
    found.table.validate(full=True)
    assert_same(payload, [found])


@pytest.mark.parametrize("slice_bytes", [30, 100, 200, 300, 1 << 20])
def test_slicing_changes_nothing(slice_bytes: int) -> None:
    payload = sample() + push([({"app": "one"}, [((SECONDS, 1), "long " * 40, [])])]).SerializeToString()
    pieces = decode_object(payload, slice_bytes)
    assert (len(pieces) > 1) == (slice_bytes < len(payload))
    assert assert_same(payload, pieces) == 13
    rows = [row for piece in pieces for row in found_rows(piece.table)]
    assert rows == found_rows(decoded(payload).table)


def test_pieces_of_a_large_stream_are_bounded() -> None:
    payload = sample(streams=1, entries=400)
    sizes = [piece.table.num_rows for piece in decode_object(payload, 1000)]
    assert sum(sizes) == 400
    assert max(sizes) < 30


def test_an_entry_without_a_line_that_is_larger_than_a_slice_is_kept() -> None:
    payload = push([({"app": "x"}, [((1, 0), "", [("k", "v" * 500)])])]).SerializeToString()
    assert assert_same(payload, decode_object(payload, 100)) == 1


def test_one_entry_beyond_the_limit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakerunner_assets.decode.otlp.framing.MAX_RECORD_BYTES", 1000)
    payload = push([({"app": "x"}, [((1, 0), "y" * 2000, [])])]).SerializeToString()
    with pytest.raises(TooLargeError, match="one record of"):
        decode_object(payload, 100)


def test_the_columns_are_those_of_otlp() -> None:
    otlp = decode_logs(otlp_sample().SerializeToString()).table
    plain = [field for field in otlp.schema if not field.metadata]
    found = decoded(sample()).table.schema
    assert {field.name for field in plain} == {field.name for field in found if not field.metadata}
    for field in plain:
        assert found.field(field.name).type == field.type, field.name


def test_a_whole_row() -> None:
    row = decoded(sample(), first_position=100).table.to_pylist()[5]
    assert row["chq_position"] == 105
    assert (row["chq_tsns"], row["log_message"]) == ((SECONDS + 1) * 10**9 + 5, "took 1 ms in 1")
    assert labels_from_text(row["chq_stream"]) == (
        ("app", "shop1"),
        ("env", "prod"),
        ("service_name", "shop1"),
    )
    assert (row["attr_cart"], row["chq_body_kind"]) == ("c1", "string")
    assert (row["log_level"], row["detected_level"], row["log_severity_text"]) == (None, "unknown", None)
    assert row["trace_id"] is row["chq_observed_tsns"] is row["scope_name"] is None
    assert row["log_flags"] == row["log_severity_number"] == row["chq_dropped_attributes"] == 0


@pytest.mark.parametrize(
    ("labels", "metadata", "line", "expected"),
    [
        ({"level": "warning"}, [], "error", ("WARN", "warn", "warning")),
        ({"severity": "Error"}, [("level", "debug")], "", ("ERROR", "error", "Error")),
        ({"a": "b"}, [("lvl", "trace")], "an error", ("TRACE", "trace", "trace")),
        ({"a": "b"}, [("level", ""), ("severity_text", "INFO")], "", ("INFO", "info", "INFO")),
        ({"a": "b"}, [("level", "audit")], "an error", ("AUDIT", "error", "audit")),
        ({"a": "b"}, [], "an error", (None, "error", None)),
        ({"level": "info"}, [("detected_level", "error")], "", ("INFO", "error", "info")),
        ({"a": "b"}, [("detected_level", "error")], "", ("ERROR", "error", "error")),
    ],
)
def test_levels(
    labels: dict[str, str], metadata: list[tuple[str, str]], line: str, expected: tuple[str | None, ...]
) -> None:
    row = decoded(push([(labels, [((1, 0), line, metadata)])]).SerializeToString()).table.to_pylist()[0]
    assert (row["log_level"], row["detected_level"], row["log_severity_text"]) == expected


@pytest.mark.parametrize(
    ("labels", "service"),
    [
        ({"service_name": "given", "app": "x"}, "given"),
        ({"service_name": "", "app": "x"}, "x"),
        ({"job": "nightly", "container": "c"}, "c"),
        ({"app": "", "k8s_job_name": "j"}, "j"),
        ({"env": "prod"}, "unknown_service"),
        ({}, "unknown_service"),
    ],
)
def test_service_name(labels: dict[str, str], service: str) -> None:
    found = decoded(push([(labels, [((1, 0), "x", [])])]).SerializeToString())
    (stream,) = found.streams.values()
    assert dict(stream) == {**{n: v for n, v in labels.items() if v}, "service_name": service}


def test_two_spellings_of_one_label_set_are_one_stream() -> None:
    request = PushRequest()
    for text in ('{a="1",b="2"}', '{ b=`2`, a="1" }'):
        request.streams.add(labels=text).entries.add(line="x")
    found = decoded(request.SerializeToString())
    assert len(found.streams) == 1
    assert len(set(found.table["chq_stream_id"].to_pylist())) == 1


@pytest.mark.parametrize("slice_bytes", [60, 1 << 20])
def test_unreadable_labels_reject_their_entries_only(slice_bytes: int) -> None:
    request = push([({"a": "1"}, [((1, 0), "one", [("k", "1")])]), ({"b": "2"}, []), ({"c": "3"}, [])])
    request.streams[1].labels = "{b=2}"
    for number in range(3):
        entry = request.streams[1].entries.add(line="lost")
        entry.structured_metadata.add(name="k", value=f"lost{number}")
    request.streams[2].entries.add(line="two").structured_metadata.add(name="k", value="2")
    pieces = decode_object(request.SerializeToString(), slice_bytes)
    rows = [row for piece in pieces for row in piece.table.to_pylist()]
    assert [(row["chq_position"], row["log_message"], row["attr_k"]) for row in rows] == [
        (0, "one", "1"),
        (4, "two", "2"),
    ]
    assert sum(piece.rejected for piece in pieces) == 3
    reason = next(piece.first_rejected for piece in pieces if piece.rejected)
    assert "'{b=2}': label text, character 3" in reason
    assert all(piece.first_rejected == "" for piece in pieces if not piece.rejected)


@pytest.mark.parametrize(
    ("seconds", "nanos", "expected", "note"),
    [
        (0, 0, ARRIVAL, "time_from_arrival"),
        (-1, 5, -(10**9) + 5, None),
        (9_223_372_034, 2**31 - 1, 9_223_372_034 * 10**9 + 2**31 - 1, None),
        (-9_223_372_034, -(2**31), -9_223_372_034 * 10**9 - 2**31, None),
        (2**40, 0, 2**63 - 1, "time_after_2262"),
        (-(2**40), 0, -(2**63) + 1, "time_before_1677"),
    ],
)
def test_time(seconds: int, nanos: int, expected: int, note: str | None) -> None:
    found = decoded(push([({"a": "b"}, [((seconds, nanos), "x", [])])]).SerializeToString())
    assert found.table["chq_tsns"].to_pylist() == [expected]
    assert found.notes == ({note: 1} if note else {})


def test_repeated_metadata_goes_to_the_overflow_and_invalid_utf8_is_repaired() -> None:
    payload = push([({"a": "b"}, [((1, 0), "word", [("k", "1"), ("k", "2")])])]).SerializeToString()
    found = decoded(payload.replace(b"word", b"w\xffrd"))
    row = found.table.to_pylist()[0]
    assert (row["attr_k"], row["attr_overflow"], row["log_message"]) == ("1", [("k", "2")], "w\ufffdrd")
    assert found.notes == {"repeated_attribute_keys": 1, "attributes_in_overflow": 1, "invalid_utf8": 1}


def test_a_push_becomes_a_log_segment(tmp_path: Path) -> None:
    tables = [piece.table for piece in decode_object(sample(), 200)]
    tables.append(decode_logs(otlp_sample().SerializeToString()).table)
    path = tmp_path / "x.parquet"
    written = write_log_segment(tables, path, SegmentIdentity("o", "c", "logs", SECONDS * 10**9, "s"))
    assert (written.rows, written.object_ids) == (24, (1, 5))
    assert written.label_names == ("app", "env", "service_name")
    carts = pq.read_table(path, columns=["attr_cart"])["attr_cart"].drop_null().to_pylist()
    assert sorted(carts) == sorted(f"c{index}" for index in range(4) for _ in range(3))


def test_nothing_pushed() -> None:
    (piece,) = decode_object(b"")
    assert (piece.table.num_rows, piece.rejected) == (0, 0)
    (piece,) = decode_object(PushRequest(streams=[{"labels": '{a="b"}'}]).SerializeToString())
    assert piece.table.num_rows == 0


@scanner
def over_read(data: Bytes) -> int:
    return int(data[len(data)])


def outcome(data: bytes) -> str:
    try:
        decoded(data)
    except MalformedError as error:
        if not 0 <= error.offset <= len(data):
            raise AssertionError(f"offset outside of the {len(data)} bytes: {error}") from error
        return "rejected"
    return "decoded"


def check_every_cut() -> None:
    payload = MARKER + sample(streams=2, entries=2)
    ends = {0, len(MARKER), len(MARKER) + (len(payload) - len(MARKER)) // 2}  # streams of one size
    for length in range(len(payload)):
        expected = "decoded" if length in ends else "rejected"
        assert outcome(payload[:length]) == expected, f"cut at {length}"


def check_flips(count: int) -> None:
    payload = sample()
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


def test_an_error_in_a_later_slice_has_the_offset_of_the_payload() -> None:
    payload = sample(streams=6)
    broken = payload[:-3] + b"\xff\xff\xff"
    with pytest.raises(MalformedError) as whole:
        decode_object(broken)
    with pytest.raises(MalformedError) as sliced:
        decode_object(broken, len(payload) // 2)
    assert sliced.value.offset == whole.value.offset > len(payload) // 2


@pytest.mark.slow
def test_no_over_read_with_bounds_checking_on(run_checked: Run) -> None:
    run_checked("tests.unit.lakerunner_assets.decode.test_loki_push")


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
