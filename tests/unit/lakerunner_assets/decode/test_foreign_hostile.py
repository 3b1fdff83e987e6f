"""Foreign files that are legal and odd: nothing is lost, and what cannot be read says so as an object."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_assets.decode import payload as opening
from lakerunner_assets.decode.errors import DecodeError, MalformedError
from lakerunner_assets.decode.payload import open_payload
from resources.lake.layout import Signal
from tests.support.cooking_lake import HOUR, Lake, lake_in
from tests.support.decoding import decode_object
from tests.support.otlp_logs import otlp_logs


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def test_times_and_what_is_none_share_one_attribute(lake: Lake) -> None:
    at = pa.array([1_767_323_045, 2**40], pa.int64()).cast(pa.timestamp("s"))
    lake.arrive("a.parquet", parquet(pa.table({"message": ["a", "b"], "at": at})))
    lake.cook()
    values = [text for _, table in lake.segments() for text in table["attr_at"].to_pylist()]
    assert sorted(value[:19] for value in values) == ["2026-01-02T03:04:05", "<value out of range"]


def test_the_lowest_number_as_a_time_goes_to_the_quarantine(lake: Lake) -> None:
    lake.arrive("a.json", b'{"name":"up","value":1,"ts":-9223372036854775808}\n', signal=Signal.METRICS)
    lake.cook(Signal.METRICS)
    assert lake.waiting() == (0, 0)
    assert (lake.report.rows, lake.report.quarantined) == (0, 1)


@pytest.mark.parametrize(
    "labels", ['{""\\ud800"":""x""}', '{""a"":[""\\ud800""]}', '{""a"":' + "[" * 986 + "]" * 986 + "}"]
)
def test_odd_labels_are_text_or_an_attribute_and_never_a_crash(labels: str) -> None:
    data = f'name,value,labels\nup,1,"{labels}"\n'.encode()
    parts = list(decode_object(data, signal=Signal.METRICS, name="x.csv"))
    assert sum(part.table.num_rows + part.rejected for part in parts) == 1


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[2**60]], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("us"))),
        pa.array([[2**30]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
    ],
)
def test_lists_that_python_cannot_say_fail_their_object_and_not_its_neighbour(
    lake: Lake, column: pa.Array
) -> None:
    lake.arrive("bad.parquet", parquet(pa.table({"message": ["a"], "odd": column})))
    lake.arrive("good", otlp_logs([(HOUR + 1, "good")]))
    lake.cook()
    assert dict(lake.messages()) == {"good": 1}
    assert any("cannot be read" in text for text in lake.report.failed)


def test_a_damaged_segment_of_our_own_is_malformed_whatever_broke(lake: Lake) -> None:
    lake.arrive("good", otlp_logs([(HOUR + n, f"line {n}") for n in range(1, 50)]))
    lake.cook()
    ((segment, _),) = lake.segments()
    data = (lake.folder / "lake" / segment.key).read_bytes()
    for at in range(len(data) - 3000, len(data), 7):
        spoilt = bytearray(data)
        spoilt[at] ^= 1
        try:
            rows = sum(part.table.num_rows for part in decode_object(bytes(spoilt), max_bytes=1 << 24))
        except DecodeError:
            continue
        assert rows == segment.rows


def test_a_numeric_column_that_begins_empty_is_still_a_metric() -> None:
    lines = [f"h{n},{n}," if n < 1001 else f"h{n},{n},7" for n in range(1100)]
    data = ("host,cpu,mem\n" + "\n".join(lines) + "\n").encode()
    names: list[str] = []
    for part in decode_object(data, signal=Signal.METRICS, name="x.csv"):
        names += part.table["metric_name"].to_pylist()
    assert (names.count("cpu"), names.count("mem")) == (1100, 99)


def test_a_small_envelope_with_large_content_is_unpacked_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "IN_MEMORY_BYTES", 1 << 16)
    with open_payload(gzip.compress(bytes(1 << 20)), 1 << 24) as found:
        assert found.size == 1 << 20
        assert found.file.fileno() > 0


def test_a_terminals_colours_do_not_make_a_file_binary() -> None:
    data = b"time,message\n2026-01-02T03:04:05Z,\x1b[31mred\x1b[0m\n"
    (part,) = decode_object(data, name="x.csv")
    assert part.table["log_message"].to_pylist() == ["\x1b[31mred\x1b[0m"]


def test_blank_lines_before_text_do_not_make_it_protobuf() -> None:
    (part,) = decode_object(b"\n\n\ntime,message\n1767225600,hello\n", name="x.csv")
    assert part.table["log_message"].to_pylist() == ["hello"]
    with pytest.raises(MalformedError, match=r"resourceLogs|metrics"):
        list(decode_object(b'\n{\n "resourceLogs": [{}]}', signal=Signal.METRICS))


def test_an_end_beyond_time_is_no_end() -> None:
    line = b'{"name":"s","start":9223372036854775797,"duration_ns":1000000000}\n'
    (part,) = decode_object(line, signal=Signal.TRACES)
    assert part.table["span_end_ns"].to_pylist() == [None]
    assert part.table["span_duration_ns"].to_pylist() == [1_000_000_000]
