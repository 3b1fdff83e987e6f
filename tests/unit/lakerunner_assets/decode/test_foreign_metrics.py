"""Foreign metric rows: long and wide, labels, values, and points that are rejected alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakerunner_assets.decode.foreign.metric_rows import WIDE_STEP
from lakerunner_assets.segments.metric_columns import check_table
from lakerunner_assets.segments.metric_values import read_metric_segment
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from resources.lake.layout import Signal
from resources.lake.streams import labels_from_text, stream_id
from tests.support.decode.foreign_files import (
    ARRIVAL,
    WRITERS,
    as_csv,
    as_json,
    as_parquet,
    decode_rows,
    decoded,
    notes_of,
    rows_of,
)

FORMATS = sorted(WRITERS)
MS = 1767323045000
TIME = "2026-01-02T03:04:05Z"


def metrics(data: bytes, form: str, **options: Any) -> list[dict[str, Any]]:
    return decode_rows(data, form, Signal.METRICS, **options)


def points(rows: list[dict[str, Any]]) -> list[tuple[dict[str, str], float]]:
    """Label sets and values."""
    return [(dict(labels_from_text(row["chq_series"])), row["chq_value"]) for row in rows]


@pytest.mark.parametrize("form", FORMATS)
def test_long_rows_by_hand(form: str) -> None:
    records = [
        {"time": TIME, "name": "http_requests", "value": 7, "host": "a", "type": "counter", "unit": "1"},
        {"time": "2026-01-02T03:04:05.000000001Z", "name": "load", "value": 0.25, "type": "gauge"},
    ]
    first, second = metrics(WRITERS[form](records), form)
    assert first == {
        "chq_object": 7,
        "chq_position": 0,
        "metric_name": "http_requests",
        "chq_timestamp": MS,
        "chq_value": 7.0,
        "chq_value_kind": "double" if form == "parquet" else "int",  # one column has one type there
        "chq_metric_type": "sum",
        "metric_temporality": "cumulative",
        "metric_is_monotonic": True,
        "metric_unit": "1",
        "chq_tid": stream_id((("__name__", "http_requests"), ("host", "a"))),
        "chq_series": '[["__name__","http_requests"],["host","a"]]',
        "attributes": {("record", "host", "string"): "a"},
    }
    assert (second["chq_timestamp"], second["chq_tsns"]) == (MS, MS * 10**6 + 1)
    assert (second["chq_metric_type"], second["chq_value_kind"]) == ("gauge", "double")
    assert "metric_is_monotonic" not in second


@pytest.mark.parametrize("form", FORMATS)
def test_wide_rows_have_a_point_per_number(form: str) -> None:
    records = [
        {"ts": MS, "host": "a", "cpu": 0.5, "mem": 7.0},
        {"ts": MS, "host": "b", "cpu": 0.25},
    ]
    rows = metrics(WRITERS[form](records), form)
    assert points(rows) == [
        ({"__name__": "cpu", "host": "a"}, 0.5),
        ({"__name__": "mem", "host": "a"}, 7.0),
        ({"__name__": "cpu", "host": "b"}, 0.25),
    ]
    assert [row["chq_position"] for row in rows] == [0, WIDE_STEP, 1]
    assert [row["attributes"] for row in rows] == [
        {("record", "host", "string"): host} for host in ("a", "a", "b")
    ]


def test_positions_do_not_depend_on_windows() -> None:
    records = [{"ts": MS, "host": "a", f"m{n % 3}": n, "z": 1} for n in range(20)]
    data = as_json(records)
    whole, cut = (metrics(data, "json", slice_bytes=size) for size in (1 << 20, 100))
    assert [(row["chq_position"], row["chq_tid"]) for row in whole] == [
        (row["chq_position"], row["chq_tid"]) for row in cut
    ]
    assert len({row["chq_position"] for row in whole}) == len(whole) == 40


def test_labels_as_text_as_object_and_as_map() -> None:
    labels = {"env": "prod", "n": 1}
    expected = [({"__name__": "up", "env": "prod", "n": "1", "host": "a"}, 1.0)]
    text = {"name": "up", "value": 1, "host": "a", "labels": '{"env": "prod", "n": 1, "no": null}'}
    for form in FORMATS:
        assert points(metrics(WRITERS[form]([text]), form)) == expected
    nested = {"name": "up", "value": 1, "host": "a", "labels": labels}
    assert points(metrics(as_json([nested]), "json")) == expected
    assert points(metrics(as_parquet([nested]), "parquet")) == expected
    tags = pa.array([[("env", "prod"), ("n", "1")]], pa.map_(pa.string(), pa.string()))
    table = pa.table({"name": ["up"], "value": [1], "host": ["a"], "labels": tags})
    assert points(metrics(as_parquet(table), "parquet")) == expected


def test_the_labels_column_wins_over_others() -> None:
    data = as_json([{"name": "up", "value": 1, "host": "a", "labels": '{"host": "b"}'}])
    (row,) = metrics(data, "json")
    assert points([row]) == [({"__name__": "up", "host": "b"}, 1.0)]
    assert row["attributes"] == {("record", "host", "string"): "b"}


def test_labels_that_are_no_object_are_a_label() -> None:
    data = as_json([{"name": "up", "value": 1, "tags": "a,b"}, {"name": "up", "value": 1, "tags": "{broken"}])
    assert [labels for labels, _ in points(metrics(data, "json"))] == [
        {"__name__": "up", "tags": "a,b"},
        {"__name__": "up", "tags": "{broken"},
    ]


def test_empty_labels_are_absent() -> None:
    data = b'name,value,host\nup,1,""\nup,1,\n'
    first, second = metrics(data, "csv")
    assert first["chq_tid"] == second["chq_tid"] == stream_id((("__name__", "up"),))


def test_values_to_the_bit() -> None:
    texts = ["9007199254740993", "1e3", "-0.0", "NaN", "+Inf", "-infinity", "9223372036854775808", "+5"]
    data = b"name,value\n" + b"".join(b"m,%s\n" % text.encode() for text in texts)
    rows = metrics(data, "csv")
    values = [row["chq_value"] for row in rows]
    assert values[:2] == [9007199254740992.0, 1000.0]
    assert math.copysign(1, values[2]) == -1
    assert math.isnan(values[3])
    assert values[4:] == [math.inf, -math.inf, 2.0**63, 5.0]
    assert rows[0]["chq_value_int"] == 9007199254740993
    assert [row["chq_value_kind"] for row in rows] == ["int", *["double"] * 6, "int"]
    assert all("chq_value_int" not in row for row in rows[1:])


@pytest.mark.parametrize("value", [2**53 + 1, -(2**63), 2**63 - 1])
def test_integers_of_typed_formats_are_exact(value: int) -> None:
    for form in ("json", "parquet"):
        (row,) = metrics(WRITERS[form]([{"name": "m", "value": value}]), form)
        assert row.get("chq_value_int", int(row["chq_value"])) == value
        assert row["chq_value"] == float(value)


def test_points_without_a_number_are_rejected_alone() -> None:
    data = b"name,value,host\nm,1,a\nm,abc,a\nm,,a\nm,2,a\n"
    parts = decoded(data, "csv", Signal.METRICS)
    assert [(row["chq_value"], row["chq_position"]) for row in rows_of(parts)] == [(1.0, 0), (2.0, 3)]
    assert parts[0].rejected == 2
    assert parts[0].first_rejected == "row 1: value is not a number: 'abc'"


def test_a_second_value_column_is_asked_when_the_first_is_empty() -> None:
    rows = metrics(b"name,value,val\nm,,3\nm,1,2\n", "csv")
    assert [row["chq_value"] for row in rows] == [3.0, 1.0]
    assert [labels for labels, _ in points(rows)] == [{"__name__": "m"}] * 2
    assert rows[1]["attributes"] == {("record", "val", "string"): "2"}


def test_wide_csv_takes_columns_whose_first_cells_are_mostly_numbers() -> None:
    data = b"time,host,cpu,mem\n1767323045,a,0.5,1\n1767323045,a,x,2\n1767323045,a,0.7,3\n"
    parts = decoded(data, "csv", Signal.METRICS)
    assert points(rows_of(parts)) == [
        ({"__name__": "cpu", "host": "a"}, 0.5),
        ({"__name__": "mem", "host": "a"}, 1.0),
        ({"__name__": "mem", "host": "a"}, 2.0),
        ({"__name__": "cpu", "host": "a"}, 0.7),
        ({"__name__": "mem", "host": "a"}, 3.0),
    ]
    assert parts[0].rejected == 1
    assert parts[0].first_rejected == "row 1: column 'cpu' is not a number: 'x'"


def test_own_value_names_decide_in_wide_rows() -> None:
    data = b"time,port,cpu\n1767323045,80,0.5\n"
    assert points(metrics(data, "csv", fields={"value": ["cpu"]})) == [
        ({"__name__": "cpu", "port": "80"}, 0.5)
    ]


def test_rows_without_name_or_number_are_rejected() -> None:
    parts = decoded(as_json([{"host": "a"}, {"name": "m", "value": 1}]), "json", Signal.METRICS)
    assert (parts[0].rejected, parts[0].table.num_rows) == (1, 1)
    assert parts[0].first_rejected == "row 0: no metric name and no numeric column"


def test_a_word_that_is_no_type_stays_a_label() -> None:
    data = as_json(
        [{"name": "cpu", "value": 1, "type": "idle"}, {"name": "lat", "value": 1, "type": "Histogram"}]
    )
    first, second = metrics(data, "json")
    assert points([first]) == [({"__name__": "cpu", "type": "idle"}, 1.0)]
    assert points([second]) == [({"__name__": "lat"}, 1.0)]
    assert (second["chq_metric_type"], second["metric_metadata"]) == ("unknown", [("type", "histogram")])


def test_unreadable_times_make_no_series() -> None:
    parts = decoded(as_json([{"name": "m", "value": 1, "time": "soon"}]), "json", Signal.METRICS)
    (row,) = rows_of(parts)
    assert row["chq_timestamp"] == ARRIVAL // 10**6
    assert points([row]) == [({"__name__": "m"}, 1.0)]
    assert row["attributes"] == {("record", "time", "string"): "soon"}
    assert notes_of(parts) == {"unreadable_time": 1, "time_from_arrival": 1}


def test_start_times_and_flattened_values() -> None:
    record = {"m": {"n": "up"}, "v": 3, "start": MS - 1000, "time": MS}
    (row,) = metrics(as_json([record]), "json", fields={"metric_name": ["m.n"], "value": ["v"]})
    assert (row["metric_name"], row["chq_start_tsns"]) == ("up", (MS - 1000) * 10**6)


@pytest.mark.parametrize("form", FORMATS)
def test_the_writer_takes_the_table_and_a_segment_comes_back(form: str, tmp_path: Path) -> None:
    records = [
        {"time": TIME, "name": f"m{n % 3}", "value": n * 0.1, "host": f"h{n % 5}", "type": "gauge"}
        for n in range(50)
    ]
    (part,) = decoded(WRITERS[form](records), form, Signal.METRICS)
    check_table(part.table)
    path = tmp_path / "segment.parquet"
    identity = SegmentIdentity(
        segment_id="s", org="org", collector="c", dataset="metrics", hour_ns=0, generation=1
    )
    write_metric_segment([part.table], path, identity)
    again = decode_rows(path.read_bytes(), "parquet", Signal.METRICS, slice_bytes=400)
    wanted = rows_of([type(part)(read_metric_segment(path))])
    for position, row in enumerate(wanted):
        row["chq_object"], row["chq_position"] = 7, position
    assert again == wanted
    assert sorted((row["chq_series"], row["chq_value"]) for row in again) == sorted(
        (row["chq_series"], row["chq_value"]) for row in rows_of([part])
    )


def test_csv_without_rows() -> None:
    assert metrics(b"name,value\n", "csv") == []


def test_many_series(tmp_path: Path) -> None:
    records = [{"name": "m", "value": n, "id": f"i{n}"} for n in range(3000)]
    rows = metrics(as_csv(records), "csv")
    assert len({row["chq_tid"] for row in rows}) == 3000


def test_keys_beyond_the_column_limit_are_labels() -> None:
    record = {"name": "m", "value": 1, **{f"k{n:04d}": "v" for n in range(1010)}}
    parts = decoded(as_json([record, {"name": "m", "value": 1}]), "json", Signal.METRICS)
    first, second = points(rows_of(parts))
    assert first == ({"__name__": "m", **{f"k{n:04d}": "v" for n in range(1010)}}, 1.0)
    assert second == ({"__name__": "m"}, 1.0)
