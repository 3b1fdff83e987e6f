"""Broken metrics are rejected with a position, and never read past; what merely is odd is counted."""

from __future__ import annotations

import struct

import pytest

from lakerunner_assets.decode.dispatch import DecodedSlice, Place
from lakerunner_assets.decode.errors import MalformedError
from lakerunner_assets.decode.otlp.metrics import decode_metrics
from resources.lake.options import DecodeOptions
from tests.support.decode.metric_hostile_bytes import outcome, payload
from tests.support.decode.metric_messages import field, varint
from tests.unit.conftest import Run


def decode(data: bytes, first_position: int = 0) -> DecodedSlice:
    return decode_metrics(data, Place(1, first_position, 1), DecodeOptions())


def request(*metrics: bytes) -> bytes:
    return field(1, field(2, b"".join(field(2, metric) for metric in metrics)))


def test_every_truncation_is_rejected() -> None:
    data = payload()
    decoded = [length for length in range(len(data)) if outcome(data[:length]) == "decoded"]
    assert len(decoded) == 3  # nothing, and the ends of the first two ResourceMetrics
    assert decoded[0] == 0


@pytest.mark.slow
def test_no_over_read_with_bounds_checking_on(run_checked: Run) -> None:
    run_checked("tests.support.decode.metric_hostile_bytes", "1000")


PACKED_OF_SEVEN = field(9, field(1, field(6, bytes(7))))
OPEN_VARINT = field(10, field(1, field(8, field(2, b"\x80"))))


@pytest.mark.parametrize(
    ("metric", "behind", "reason"),
    [
        pytest.param(PACKED_OF_SEVEN, 7, "cut short", id="packed doubles of seven bytes"),
        pytest.param(OPEN_VARINT, 0, "cut short", id="a packed varint without end"),
        pytest.param(field(5, field(1, b"\x19\x00")), 1, "cut short", id="a time of one byte"),
        pytest.param(field(5, b"\x0a\x05"), 1, "runs past the end", id="a point longer than its gauge"),
        pytest.param(field(5, field(1, field(7, b"\x0a\x05"))), 1, "past the end", id="a key too long"),
        pytest.param(field(5, field(1, field(5, b"\x11"))), 0, "cut short", id="an exemplar without time"),
        pytest.param(field(12, b"\x0a\x05"), 1, "past the end", id="metadata with a key too long"),
    ],
)
def test_reason_and_offset(metric: bytes, behind: int, reason: str) -> None:
    """The offset counts from the start of the payload; `behind`: how far before the end it is."""
    data = request(metric)
    with pytest.raises(MalformedError, match=reason) as caught:
        decode(data)
    assert caught.value.offset == len(data) - behind


def test_a_metric_without_known_data_leaves_no_row_but_a_count() -> None:
    found = decode(request(b"\x0a\x01m", field(13, field(1, b"")), field(5, b""), field(5, field(1, b""))))
    assert found.table.num_rows == 1
    assert found.notes == {
        "metrics_without_data": 2,
        "metrics_without_points": 1,
        "points_without_time": 1,
        "points_without_value": 1,
    }


def test_the_last_member_wins_and_its_parts_are_one() -> None:
    def gauge(time: int) -> bytes:
        return field(5, field(1, b"\x19" + struct.pack("<Q", time * 1_000_000)))

    total = field(7, field(1, b"") + b"\x10\x02\x18\x01")
    found = decode(request(gauge(1) + total + gauge(2) + b"\x0a\x01m" + gauge(3)))
    assert found.table["chq_timestamp"].to_pylist() == [2, 3]
    assert found.table["chq_metric_type"].to_pylist() == ["gauge", "gauge"]
    assert found.table["metric_temporality"].to_pylist() == [None, None]
    assert found.table["metric_is_monotonic"].to_pylist() == [None, None]


def test_no_recorded_value_is_the_stale_marker_for_every_kind() -> None:
    flags = {5: 8, 7: 8, 9: 10, 10: 10, 11: 8}
    value = b"\x31" + struct.pack("<q", 2**53 + 1)
    metrics = [
        field(kind, field(1, varint(number << 3) + b"\x01" + (value if kind in (5, 7) else b"")))
        for kind, number in flags.items()
    ]
    table = decode(request(*metrics)).table
    assert table["chq_value"].combine_chunks().to_numpy().view("u8").tolist() == [0x7FF0000000000002] * 5
    assert table["chq_value_int"].null_count == 5
    assert table["chq_value_kind"].to_pylist() == ["int", "int", None, None, None]


@pytest.mark.parametrize(
    ("sent", "double", "kept"),
    [
        (2**53, 2.0**53, None),
        (2**53 + 1, 2.0**53, 2**53 + 1),
        (2**63 - 1, 2.0**63, 2**63 - 1),
        (-(2**63), -(2.0**63), None),
        (0, 0.0, None),
    ],
)
def test_integers_that_no_double_holds_are_kept(sent: int, double: float, kept: int | None) -> None:
    table = decode(request(field(5, field(1, b"\x31" + struct.pack("<q", sent))))).table
    assert table["chq_value"].to_pylist() == [double]
    assert table["chq_value_int"].to_pylist() == [kept]


@pytest.mark.parametrize("number", [0x7FF8_0000_DEAD_BEEF, 0x7FF0000000000002, 1 << 63, 0xFFF8 << 48])
def test_doubles_keep_their_bits(number: int) -> None:
    raw = struct.pack("<Q", number)
    histogram = b"\x29" + raw + field(7, raw)
    table = decode(request(field(5, field(1, b"\x21" + raw)), field(9, field(1, histogram)))).table
    assert table["chq_value"].combine_chunks().drop_null().to_numpy().view("u8").tolist() == [number]
    assert table["chq_hist_sum"].combine_chunks().drop_null().to_numpy().view("u8").tolist() == [number]
    assert table["chq_hist_bounds"].chunk(0).values.to_numpy().view("u8").tolist() == [number]


def test_counts_beyond_int64_keep_their_bits_and_are_counted() -> None:
    most = struct.pack("<Q", 2**64 - 1)
    found = decode(request(field(9, field(1, b"\x21" + most + field(6, most + bytes(8))))))
    assert found.table["chq_hist_count"].to_pylist() == [-1]
    assert found.table["chq_hist_counts"].to_pylist() == [[-1, 0]]
    assert found.notes["histogram_counts_beyond_int64"] == 2


def test_a_temporality_that_otlp_does_not_know_is_kept_as_its_number() -> None:
    found = decode(request(field(7, field(1, b"") + b"\x10\x07"), field(7, field(1, b"") + b"\x10\x01")))
    assert found.table["metric_temporality"].to_pylist() == ["7", "delta"]
    assert found.notes["unknown_temporality"] == 1


def test_text_that_is_not_utf8_is_repaired_the_same_in_columns_and_labels() -> None:
    pair = field(1, b"k\xff") + field(2, field(1, b"v\xfe"))
    found = decode(request(field(1, b"m\xff") + field(5, field(1, field(7, pair)))))
    assert found.table["metric_original_name"].to_pylist() == ["m\ufffd"]
    assert found.table["metric_name"].to_pylist() == ["m"]
    assert found.table["chq_series"].to_pylist() == ['[["__name__","m"],["k_","v\ufffd"]]']
    assert found.table["attr_k_"].to_pylist() == ["v\ufffd"]
    assert found.notes["invalid_utf8"] > 0


def test_positions_and_times() -> None:
    point = b"\x19" + struct.pack("<Q", 2**64 - 1) + b"\x11" + struct.pack("<Q", 5)
    found = decode(request(field(5, field(1, point) + field(1, b"")))[:], first_position=40)
    assert found.table["chq_position"].to_pylist() == [40, 41]
    assert found.table["chq_timestamp"].to_pylist() == [9_223_372_036_854, 0]
    assert found.table["chq_tsns"].to_pylist() == [2**63 - 1, None]
    assert found.table["chq_start_tsns"].to_pylist() == [5, None]
    assert found.notes["time_after_2262"] == 1


def test_a_request_without_points_is_an_empty_table_with_all_its_columns() -> None:
    for data in (b"", request(), request(b"")):
        table = decode(data).table
        assert table.num_rows == 0
        assert {"metric_name", "chq_tid", "chq_series", "chq_timestamp", "chq_value"} <= set(
            table.column_names
        )
