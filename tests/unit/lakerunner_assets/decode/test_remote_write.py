"""Remote write objects as receivers write them, against protobuf's own reading and against rows by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.decode.errors import MalformedError, TooLargeError
from lakerunner_assets.decode.formats import Format, sniff
from lakerunner_assets.decode.push import remote_write
from lakerunner_assets.segments.metric_values import read_metric_segment
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from resources.proto.prometheus import WriteRequest
from tests.support.decode.remote_write_cases import (
    STALE,
    START_MS,
    add_histogram,
    add_series,
    decode,
    double,
    expected_points,
    found_points,
    requests,
    write_object,
)

UP = {"__name__": "up", "job": "web"}


def assert_same(data: bytes, slice_bytes: int = 1 << 24) -> None:
    decoded = decode(data, slice_bytes=slice_bytes, object_id=7, first_position=100)
    expected = list(expected_points(data))
    found = found_points([each.table for each in decoded])
    assert sum(each.rejected for each in decoded) == expected.count(None)
    kept = {100 + n: {**row, "chq_object": 7} for n, row in enumerate(expected) if row is not None}
    assert found.keys() == kept.keys()
    for position, row in kept.items():
        assert found[position] == row


def rows(*sent: Any, **options: int) -> list[dict[str, Any]]:
    found = found_points([each.table for each in decode(write_object(*sent), **options)])
    return [found[position] for position in sorted(found)]


@settings(max_examples=100, deadline=None)
@given(st.lists(requests(), min_size=1, max_size=3))
def test_every_point_as_protobuf_reads_it(sent: list[Any]) -> None:
    assert_same(write_object(*sent))


@settings(max_examples=40, deadline=None)
@given(st.lists(requests(), min_size=1, max_size=3), st.integers(1, 400))
def test_slicing_changes_nothing(sent: list[Any], slice_bytes: int) -> None:
    assert_same(write_object(*sent), slice_bytes)


def test_an_object_of_a_receiver_is_recognised() -> None:
    assert sniff(write_object(WriteRequest())[:64], "x.binpb.zst") is Format.REMOTE_WRITE
    assert decode(write_object())[0].table.num_rows == 0


def test_stale_markers_and_odd_values_keep_their_bits() -> None:
    request = WriteRequest()
    sent = [STALE, 0x7FF8000000000001, 0xFFF0000000000001, 1 << 63, 0x7FF0000000000000, 1]
    add_series(request, UP, *[(double(bits), START_MS + n) for n, bits in enumerate(sent)])
    table = decode(write_object(request))[0].table
    raw = np.frombuffer(table["chq_value"].chunk(0).buffers()[1], np.uint64)
    assert raw.tolist() == sent
    assert table["chq_value"].null_count == 0


def test_times_are_as_sent_even_before_1970_and_clipped_beyond_64_bits_of_nanoseconds() -> None:
    request = WriteRequest()
    add_series(request, UP, (1, -5), (1, 0), (1, 2**63 - 1), (1, -(2**63)), (1, START_MS))
    decoded = decode(write_object(request))[0]
    assert decoded.table["chq_timestamp"].to_pylist() == [
        -5, 0, 9_223_372_036_854, -9_214_646_400_000, START_MS,
    ]  # fmt: skip
    assert decoded.notes == {"time_after_2262": 1, "time_before_1678": 1}


def test_metadata_anywhere_in_the_object_gives_types() -> None:
    samples, metadata = WriteRequest(), WriteRequest()
    names = ("rpc_total", "lat_bucket", "lat_sum", "temp", "s_count", "build_info", "other_bucket")
    for name in names:
        add_series(samples, {"__name__": name}, (1, START_MS))
    for kind, family in ((1, "rpc"), (3, "lat"), (2, "temp"), (5, "s"), (6, "build"), (2, "other")):
        metadata.metadata.add(type=kind, metric_family_name=family, help=f"about {family}", unit="u")
    found = {row["metric_name"]: row for row in rows(samples, metadata, slice_bytes=16)}
    assert {name: row["chq_metric_type"] for name, row in found.items()} == {
        "rpc_total": "sum", "lat_bucket": "histogram", "lat_sum": "histogram", "temp": "gauge",
        "s_count": "summary", "build_info": "info", "other_bucket": "unknown",
    }  # fmt: skip
    counter = found["rpc_total"]
    assert (counter["metric_temporality"], counter["metric_is_monotonic"]) == ("cumulative", True)
    assert (counter["metric_unit"], counter["metric_description"]) == ("u", "about rpc")
    assert "metric_temporality" not in found["temp"]
    assert "metric_unit" not in found["other_bucket"]


def test_label_sets_are_verbatim_and_canonical() -> None:
    request = WriteRequest()
    add_series(request, {"b": "2", "__name__": "m", "a": "1", "empty": ""}, (1, 1))
    twice = add_series(request, {"__name__": "m", "a": "1", "b": "2"}, (2, 2))
    twice.labels.add(name="a", value="1")
    odd = {"__name__": "m:\u00e9", "resource_x": '"\\\n', "__type__": "x", "l.x": "\U0001f600"}
    add_series(request, odd, (3, 3))
    first, second, third = rows(request)
    assert first["chq_series"] == second["chq_series"] == '[["__name__","m"],["a","1"],["b","2"]]'
    assert first["chq_tid"] == second["chq_tid"]
    assert first["labels"] == {"a": "1", "b": "2"}
    assert third["metric_name"] == "m:\u00e9"
    assert third["labels"] == {name: value for name, value in odd.items() if name != "__name__"}


def test_series_that_cannot_be_named_are_rejected_alone() -> None:
    request = WriteRequest()
    add_series(request, {"job": "nameless"}, (1, 1), (2, 2))
    good = add_series(request, UP, (3, 3))
    clash = add_series(request, UP, (4, 4))
    clash.labels.add(name="job", value="other")
    add_series(request, {"__name__": "x", "": "y"}, (5, 5))
    add_series(request, {"__name__": "", "a": "y"}, (6, 6))
    decoded = decode(write_object(request))[0]
    assert decoded.rejected == 5
    assert decoded.table["chq_position"].to_pylist() == [2]
    assert decoded.table["chq_value"].to_pylist() == [good.samples[0].value]
    assert decoded.notes == {
        "series_without_name": 3,
        "series_with_two_values_for_a_label": 1,
        "series_with_unnamed_label": 1,
    }
    assert decoded.first_rejected == "byte 27: series without name"


def test_broken_utf8_in_a_label_is_repaired_and_counted() -> None:
    request = WriteRequest()
    add_series(request, {"__name__": "m", "a": "xx"}, (1, 1))
    broken = write_object(request).replace(b"xx", b"\xffx")
    decoded = decode(broken)[0]
    assert decoded.table["chq_series"].to_pylist() == ['[["__name__","m"],["a","\ufffdx"]]']
    assert decoded.notes["invalid_utf8"] >= 1


def test_native_histograms_as_absolute_buckets_from_an_offset() -> None:
    request = WriteRequest()
    series = add_series(request, UP)
    add_histogram(series, {
        "count_int": 12, "sum": 2.5, "schema": 3, "zero_threshold": 1e-128, "zero_count_int": 1,
        "positive_spans": [(2, 2), (1, 1)], "positive_deltas": [3, -1, 2],
        "negative_spans": [(-3, 1)], "negative_deltas": [4], "reset_hint": 2, "timestamp": START_MS,
    })  # fmt: skip
    add_histogram(series, {
        "count_float": 2.5, "schema": -53, "custom_values": [0.1, 0.5], "zero_count_float": 0.0,
        "positive_spans": [(1, 2)], "positive_counts": [0.5, 2.0], "reset_hint": 3,
    })  # fmt: skip
    add_histogram(series, {"count_int": 0, "sum": double(STALE)})
    integer, custom, stale = rows(request)
    assert (integer["chq_hist_positive_offset"], integer["chq_hist_positive_counts"]) == (1, [3, 2, 0, 4])
    assert (integer["chq_hist_negative_offset"], integer["chq_hist_negative_counts"]) == (-4, [4])
    assert (integer["chq_hist_count"], integer["chq_hist_zero_count"], integer["chq_hist_schema"]) == (
        12,
        1,
        3,
    )
    assert (integer["chq_metric_type"], integer["metric_temporality"]) == (
        "exponential_histogram",
        "cumulative",
    )
    assert (custom["chq_hist_positive_offset"], custom["chq_metric_type"]) == (1, "gaugehistogram")
    assert len(custom["chq_hist_bounds"]) == len(custom["chq_hist_positive_counts_float"]) == 2
    assert stale["chq_value"] == stale["chq_hist_sum"] == ("bits", STALE)
    assert "chq_value" not in integer


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"positive_spans": [(0, 2)], "positive_deltas": [1]}, "whose_spans_and_counts_differ"),
        ({"positive_spans": [(0, 1)], "positive_counts": [1.0], "count_int": 1},
         "whose_spans_and_counts_differ"),
        ({"positive_spans": [(0, 1), (-1, 1)], "positive_deltas": [1, 1]}, "with_overlapping_spans"),
        ({"negative_spans": [(0, 2)], "negative_deltas": [1, -2]}, "with_negative_counts"),
        ({"positive_spans": [(0, 1)], "positive_counts": [-0.5], "count_float": 1.0}, "with_negative_counts"),
        ({"positive_spans": [(0, 1), (9_999, 1)], "positive_deltas": [1, 1]}, "with_too_many_buckets"),
        ({"positive_spans": [(0, 2**32 - 1)]}, "with_too_many_buckets"),
        ({"positive_spans": [(-(2**31), 1)], "positive_deltas": [1]}, "with_impossible_offset"),
        ({"schema": -53, "custom_values": [1.0], "positive_spans": [(1, 2)], "positive_deltas": [1, 1]},
         "with_impossible_offset"),
    ],
)  # fmt: skip
def test_histograms_that_make_no_sense_are_rejected_alone(parts: dict[str, Any], reason: str) -> None:
    request = WriteRequest()
    series = add_series(request, UP, (1.0, 5))
    add_histogram(series, parts)
    add_histogram(series, {"count_int": 2, "positive_spans": [(0, 1), (9_998, 1)], "positive_deltas": [1, 1]})
    decoded = decode(write_object(request))[0]
    assert (decoded.rejected, decoded.notes) == (1, {f"native_histogram_{reason}": 1})
    assert decoded.table["chq_position"].to_pylist() == [0, 2]
    counts = decoded.table["chq_hist_positive_counts"].to_pylist()
    assert (counts[0], len(counts[1]), sum(counts[1])) == (None, 10_000, 3)


def test_exemplars_stay_with_their_series() -> None:
    request = WriteRequest()
    trace = "0af7651916cd43dd8448eb211c80319c"
    series = add_series(request, UP, (1, 10), (2, 20))
    for ms in (5, 15, 99):
        series.exemplars.add(value=ms, timestamp=ms).labels.add(name="trace_id", value=trace)
    alone = add_series(request, UP)
    other = alone.exemplars.add(value=double(STALE), timestamp=30)
    other.labels.add(name="trace_id", value=trace.upper())
    other.labels.add(name="user", value="7")
    first, second, third = rows(request)
    assert [each["tsns"] for each in first["chq_exemplars"]] == [5_000_000]
    assert [each["tsns"] for each in second["chq_exemplars"]] == [15_000_000, 99_000_000]
    assert first["chq_exemplars"][0]["trace_id"] == bytes.fromhex(trace)
    assert "attributes" not in first["chq_exemplars"][0]
    assert third["chq_exemplars"][0]["attributes"] == [("trace_id", trace.upper()), ("user", "7")]
    assert third["chq_timestamp"] == 30
    assert "chq_value" not in third


def test_gaps_are_filled_in_pieces_and_never_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_write, "MAX_BUCKETS_AT_ONCE", 20_000)
    request = WriteRequest()
    wide = {"positive_spans": [(0, 1), (9_000, 1)], "positive_deltas": [1, 1], "count_int": 3}
    for number in range(9):
        add_histogram(add_series(request, {"__name__": f"m{number}"}), wide)
    decoded = decode(write_object(request))
    assert len(decoded) > 4
    assert max(each.table.num_rows for each in decoded) == 2
    assert [p for each in decoded for p in each.table["chq_position"].to_pylist()] == list(range(9))
    for _ in range(2):
        add_histogram(request.timeseries[0], wide)
    with pytest.raises(TooLargeError, match="one series with 27006 histogram buckets"):
        decode(write_object(request))


def test_a_field_larger_than_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_write, "MAX_SERIES_BYTES", 1024)
    request = WriteRequest()
    add_series(request, UP, *[(1.5, START_MS)] * 200)
    add_series(request, UP, (1, 1))
    with pytest.raises(TooLargeError, match="no field ends within the limit of 1024"):
        decode(write_object(request), slice_bytes=64)


def test_errors_name_the_byte_of_the_object() -> None:
    request = WriteRequest()
    add_series(request, UP, (1.5, START_MS))
    good = write_object(request, request, request)
    for slice_bytes in (1 << 20, 32):
        with pytest.raises(MalformedError) as caught:
            decode(good + b"\x0a\x03\x12\x01", slice_bytes=slice_bytes)
        assert caught.value.offset == len(good) + 1


def test_decoded_tables_become_a_segment(tmp_path: Path) -> None:
    request = WriteRequest()
    request.metadata.add(type=1, metric_family_name="rpc")
    for ms in range(3):
        add_series(request, {"__name__": "rpc_total", "job": "a"}, (ms, START_MS + ms))
        add_series(request, {"__name__": "rpc_total", "job": "b"}, (double(STALE), START_MS + ms))
    histogram = add_series(request, {"__name__": "h"})
    spans = {"positive_spans": [(0, 1)], "positive_deltas": [1]}
    add_histogram(histogram, {"count_int": 1, "timestamp": START_MS, **spans})
    tables = [each.table for each in decode(write_object(request), slice_bytes=64)]
    path = tmp_path / "s.parquet"
    written = write_metric_segment(tables, path, SegmentIdentity("a", "c", "metrics", 0, "s"))
    assert (written.rows, written.metric_names) == (7, ("h", "rpc_total"))
    assert found_points([read_metric_segment(path)]) == found_points(tables)
