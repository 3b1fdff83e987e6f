"""Parquet of anybody (types, damage, memory) and of our own (nothing lost)."""

from __future__ import annotations

import datetime as dt
import io
import uuid
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_assets.decode.errors import MalformedError
from lakerunner_assets.decode.foreign.arrow_columns import raw_columns
from lakerunner_assets.decode.foreign.parquet import batch_rows, longest_value, repetitive
from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.traces import write_span_segment
from lakerunner_assets.segments.written import SegmentIdentity
from resources.lake.layout import Signal
from tests.support.decode import messages
from tests.support.decode.foreign_files import as_json, as_parquet, decode_rows, decoded, notes_of, rows_of
from tests.support.decoding import decode_logs

SECOND = 1767323045 * 10**9
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC)


def attributes(column: pa.Array | pa.ChunkedArray) -> list[dict[tuple[str, str], Any]]:
    """What a column called `x` becomes, row by row."""
    rows = decode_rows(as_parquet(pa.table({"x": column})), "parquet")
    return [{(key, kind): value for (_, key, kind), value in row["attributes"].items()} for row in rows]


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pa.array([1, None], pa.int8()), "int", [1, None]),
        (pa.array([2**32 - 1, None], pa.uint32()), "int", [2**32 - 1, None]),
        (pa.array([1.5, None], pa.float32()), "double", [1.5, None]),
        (pa.array([1.5, None], pa.float16()), "double", [1.5, None]),
        (pa.array([True, None]), "bool", [True, None]),
        (pa.array(["a", None], pa.large_string()), "string", ["a", None]),
        (pa.array(["a", None]).dictionary_encode(), "string", ["a", None]),
        (pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)), "string", ["1.50", None]),
        (pa.array([Decimal("-0.001"), None], pa.decimal256(50, 3)), "string", ["-0.001", None]),
        (pa.array([b"\xff\x00", None]), "bytes", ["/wA=", None]),
        (pa.array([b"ab", None], pa.binary(2)), "bytes", ["YWI=", None]),
        (
            pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
            "string",
            ["2026-01-02T03:04:05.000006000Z", None],
        ),
        (pa.array([MOMENT.date(), None]), "string", ["2026-01-02", None]),
        (pa.array([dt.time(1, 2, 3), None]), "string", ["01:02:03.000000", None]),
        (pa.array([[1, 2], None]), "array", ["[1,2]", None]),
        (pa.array([["a", 'b"'], None]), "array", ['["a","b\\""]', None]),
        (pa.array([[], None], pa.list_(pa.float64())), "array", ["[]", None]),
        (pa.array([[1.0, float("nan")], None]), "array", ['[1.0,"NaN"]', None]),
        (pa.array([[{"a": [1, None]}], None]), "array", ['[{"a":[1,null]}]', None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_types(column: pa.Array, kind: str, values: list[Any]) -> None:
    assert attributes(column) == [{} if value is None else {("x", kind): value} for value in values]


def test_nested_columns_are_flattened() -> None:
    inner = pa.array([{"b": {"c": 1}, "d": "x"}, {"b": None, "d": None}, None])
    assert attributes(inner) == [{("x.b.c", "int"): 1, ("x.d", "string"): "x"}, {}, {}]
    pairs = pa.array([[("k", 1), ("l", 2)], [], None], pa.map_(pa.string(), pa.int64()))
    assert attributes(pairs) == [{("x.k", "int"): 1, ("x.l", "int"): 2}, {}, {}]
    assert attributes(pa.chunked_array([pairs.slice(1), pairs]))[2] == {("x.k", "int"): 1, ("x.l", "int"): 2}


def test_the_same_nested_record_as_json() -> None:
    records = [{"http": {"status": 200, "path": "/"}, "tags": ["a", 1.5, None], "msg": "hi"}]
    tags = pa.array([["a"]])
    table = pa.table({"http": pa.array([records[0]["http"]]), "tags": tags, "msg": ["hi"]})
    records[0]["tags"] = ["a"]
    assert decode_rows(as_parquet(table), "parquet") == decode_rows(as_json(records), "json")


def test_values_that_do_not_fit_are_text() -> None:
    assert attributes(pa.array([2**64 - 1, 5], pa.uint64())) == [
        {("x", "string"): str(2**64 - 1)},
        {("x", "int"): 5},
    ]
    old = pa.array([dt.datetime(1, 1, 1, tzinfo=dt.UTC), None], pa.timestamp("us"))
    assert attributes(old) == [{("x", "string"): "0001-01-01 00:00:00.000000"}, {}]


def test_uuids_are_text() -> None:
    value = uuid.UUID(int=5)
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([value.bytes], pa.binary(16)))
    assert [values.to_pylist() for _, values in raw_columns("x", column, Counter())] == [[str(value)]]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([SECOND], pa.timestamp("ns")),
        pa.array([SECOND // 10**6], pa.timestamp("ms", "Europe/Berlin")),
        pa.array([SECOND // 10**9]),
        pa.array([SECOND / 1e9]),
        pa.array(["2026-01-02 03:04:05"]),
        pa.array([Decimal("1767323045.000")]),
    ],
    ids=lambda column: str(column.type),
)
def test_times_of_any_type(column: pa.Array) -> None:
    (row,) = decode_rows(as_parquet(pa.table({"time": column})), "parquet")
    assert row["chq_tsns"] == SECOND
    assert row["attributes"] == {}


def test_dates_are_midnight() -> None:
    (row,) = decode_rows(as_parquet(pa.table({"date": pa.array([dt.date(2026, 1, 2)])})), "parquet")
    assert row["chq_tsns"] == 1767312000 * 10**9


def test_binary_ids() -> None:
    table = pa.table(
        {"trace_id": pa.array([bytes(range(16)), bytes(16)], pa.binary(16)), "span_id": [b"12345678", b"x"]}
    )
    first, second = decode_rows(as_parquet(table), "parquet")
    assert (first["trace_id"], first["span_id"]) == (bytes(range(16)), b"12345678")
    assert "trace_id" not in second
    assert second["attributes"] == {("record", "span_id", "bytes"): "eA=="}


def test_a_type_nobody_can_read_is_named() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(MalformedError, match="column 'x' is sparse_union"):
        list(raw_columns("x", union, Counter()))


def test_broken_utf8_is_repaired() -> None:
    raw = pa.array([b"fine", b"bro\xffken"])
    for column in (raw, pa.array([b"fine", b"bro\xffken"] * 1000)):
        table = pa.table({"message": column})
        sink = io.BytesIO()
        pq.write_table(table, sink)
        text = pa.schema([pa.field("message", pa.string())])
        broken = pa.Table.from_arrays(
            [pa.StringArray.from_buffers(len(column), *[column.buffers()[i] for i in (1, 2)])], schema=text
        )
        parts = decoded(as_parquet(broken), "parquet")
        assert parts[0].table.column("log_message").to_pylist()[:2] == ["fine", "bro\ufffdken"]
        assert notes_of(parts)["invalid_utf8"] >= 1


def test_broken_utf8_inside_of_lists_is_repaired() -> None:
    words = pa.StringArray.from_buffers(2, *pa.array([b"ok", b"b\xff"]).buffers()[1:])
    pair = pa.StructArray.from_arrays([words, pa.array([1, None])], ["a", "b"])
    column = pa.ListArray.from_arrays(pa.array([0, None, 2], pa.int32()), pair)
    assert attributes(column.slice(0)) == [
        {("x", "array"): '[{"a":"ok","b":1},{"a":"b\ufffd","b":null}]'},
        {},
    ]
    maps = pa.MapArray.from_arrays([0, 2], words, pa.array([1, 2]))
    assert attributes(pa.ListArray.from_arrays([0, 1], maps)) == [{("x", "array"): '[{"ok":1,"b\ufffd":2}]'}]


def test_names_that_come_twice_are_one_column() -> None:
    table = pa.Table.from_arrays([pa.array(["a", None]), pa.array(["b", "c"])], names=["msg", "msg"])
    assert [row["log_message"] for row in decode_rows(as_parquet(table), "parquet")] == ["a", "c"]


def test_many_map_keys_stay_bounded() -> None:
    pairs = [[(f"k{number:04d}", "v") for number in range(1003)], [("k0000", "v")]]
    column = pa.array(pairs, pa.map_(pa.string(), pa.string()))
    (part,) = decoded(as_parquet(pa.table({"x": column})), "parquet")
    first, second = rows_of([part])
    rest = '{"k1000":"v","k1001":"v","k1002":"v"}'
    # a thousand keys and the text of the others are a column too many: the rarest is in the overflow map
    values = [*first["attributes"].values(), *(value for _, value in first["attr_overflow"])]
    assert set(values) == {"v", rest}
    assert len(first["attributes"]) == 1000
    assert {key[1:]: value for key, value in second["attributes"].items()} == {("x.k0000", "string"): "v"}


@pytest.mark.parametrize("cut", [4, 100, -1, -9, -300])
def test_damaged_files(cut: int) -> None:
    data = as_parquet(pa.table({"message": [f"line {n}" for n in range(100)]}))
    with pytest.raises(MalformedError, match="Parquet"):
        decode_rows(data[:cut], "parquet")


def test_damaged_pages() -> None:
    data = bytearray(as_parquet(pa.table({"message": [f"line {n} {n * n}" for n in range(9000)]})))
    data[2000:2400] = b"\xff" * 400
    with pytest.raises(MalformedError, match="Parquet"):
        decode_rows(bytes(data), "parquet")


def test_a_damaged_footer_never_ends_the_process() -> None:
    """pyarrow aborts on some of these when asked for a column's metadata before it was read."""
    data = as_parquet(pa.table({"message": [f"line {n}" for n in range(9)], "n": range(9)}))
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    failed = 0
    for position in range(footer, len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        try:
            decoded(bytes(damaged), "parquet")
        except MalformedError:
            failed += 1
    assert failed > 50


def test_batches_are_sized_by_what_rows_take() -> None:
    table = pa.table({"message": [f"{n:0100d}" for n in range(10_000)]})
    data = as_parquet(table, row_group_size=5000)
    metadata = pq.read_metadata(io.BytesIO(data))
    assert 80 <= batch_rows(metadata, 10_000) <= 120
    parts = decoded(data, "parquet", slice_bytes=10_000)
    assert len(parts) > 50
    positions = [row["chq_position"] for row in rows_of(parts)]
    assert positions == list(range(10_000))


def test_long_dictionary_values_make_batches_small() -> None:
    """A megabyte that a hundred thousand rows refer to is a hundred gigabytes once it is unfolded."""
    long = "x" * (1 << 20)
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), pa.array([long]))
    data = as_parquet(pa.table({"message": column, "n": range(100_000)}))
    assert len(data) < 2_000_000
    metadata = pq.read_metadata(io.BytesIO(data))
    assert longest_value(pa.BufferReader(data), metadata) == len(long)
    from lakerunner_assets.decode.dispatch import Place, Request
    from lakerunner_assets.decode.foreign.parquet import LONG_BYTES, decode_parquet
    from lakerunner_assets.decode.payload import payload_of
    from resources.lake.options import DecodeOptions

    request = Request("x", Place(1, 0, 1), DecodeOptions(), 1 << 27)
    part = next(decode_parquet(Signal.LOGS)(payload_of(data), request))
    assert part.table.num_rows == LONG_BYTES >> 20


def test_repetitive_columns_are_read_as_dictionaries() -> None:
    table = pa.table({"a": ["x", "y"] * 5000, "b": [f"{n:030d}" for n in range(10_000)], "c": range(10_000)})
    assert repetitive(pq.read_metadata(io.BytesIO(as_parquet(table)))) == ["a"]


def identity(dataset: str) -> SegmentIdentity:
    return SegmentIdentity(segment_id="s", org="org", collector="c", dataset=dataset, hour_ns=0, generation=1)


def without_row_ids(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in {"chq_object", "chq_position"}} for row in rows]


def by_text(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order of their own, whatever order their columns came in."""
    flat = [{**row, "attributes": sorted(row["attributes"].items())} for row in without_row_ids(rows)]
    return sorted(repr(sorted(row.items())) for row in flat)


def test_own_log_segments_come_back(tmp_path: Path) -> None:
    original = decode_logs(messages.sample(400).SerializeToString(), object_id=3)
    path = tmp_path / "segment.parquet"
    write_log_segment([original.table], path, identity("logs"))
    parts = decoded(path.read_bytes(), "parquet", slice_bytes=20_000)
    assert len(parts) > 1
    rows = rows_of(parts)
    assert by_text(rows) == by_text(rows_of([original]))
    assert [row["chq_position"] for row in rows] == list(range(400))
    assert {row["chq_object"] for row in rows} == {7}
    assert {key: value for part in parts for key, value in part.streams.items()} == original.streams
    again = tmp_path / "again.parquet"
    write_log_segment([part.table for part in parts], again, identity("logs"))
    assert by_text(decode_rows(again.read_bytes(), "parquet")) == by_text(rows)


def test_own_span_segments_come_back(tmp_path: Path) -> None:
    records = [
        {"trace_id": f"{n:032x}", "span_id": f"{n + 1:016x}", "start": SECOND + n, "app": "web"}
        for n in range(9)
    ]
    (original,) = decoded(as_json(records), "json", Signal.TRACES)
    path = tmp_path / "segment.parquet"
    write_span_segment([original.table], path, identity("traces"))
    assert by_text(decode_rows(path.read_bytes(), "parquet", Signal.TRACES)) == by_text(rows_of([original]))


def test_segments_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "segment.parquet"
    write_log_segment([decode_logs(messages.sample().SerializeToString()).table], path, identity("logs"))
    with pytest.raises(MalformedError, match="dataset 'logs'; expected 'metrics'"):
        decode_rows(path.read_bytes(), "parquet", Signal.METRICS)
    data = path.read_bytes().replace(b'"format_version":1', b'"format_version":9')
    with pytest.raises(MalformedError, match="format 9"):
        decode_rows(data, "parquet")
