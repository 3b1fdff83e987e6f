"""A written segment, read back by everybody who will read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.lake import streams
from resources.lake.segment_file import read_facts, read_label_map
from resources.lake.terms import alternatives
from resources.lake.timecut import MINUTE_NS, cut
from resources.lake.tokens import TokenBloom, tokens
from tests.support.decode.messages import sample
from tests.support.decoding import decode_object

START = 1_768_392_000_000_000_000


def decoded(object_id: int = 1, records: int = 12) -> list[pa.Table]:
    payload = sample(records).SerializeToString()
    found = decode_object(payload, object_id=object_id, arrival_ns=1, max_bytes=1 << 24, slice_bytes=400)
    return [piece.table for piece in found]


def write(path: Path, tables: list[pa.Table]) -> WrittenSegment:
    return write_log_segment(tables, path, SegmentIdentity("acme", "eu", "logs", START, "s1"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tbl_s1.parquet"


def test_every_row_once_in_order(path: Path) -> None:
    tables = [*decoded(2), *decoded(1)]
    written = write(path, tables)
    table = pq.read_table(path)
    assert written.rows == table.num_rows == 24
    assert written.object_ids == (1, 2)
    assert [table["chq_object"].to_pylist().count(number) for number in (1, 2)] == [12, 12]
    keys = [
        (cut(row["chq_tsns"], 5 * MINUTE_NS), row["resource_service_name"], row["chq_fingerprint"],
         row["chq_tsns"], row["chq_object"], row["chq_position"])
        for row in table.to_pylist()
    ]  # fmt: skip
    assert keys == sorted(keys)
    assert len({key[-2:] for key in keys}) == 24
    assert (written.min_ns, written.max_ns) == (min(k[3] for k in keys), max(k[3] for k in keys))


def test_values_are_those_that_were_decoded(path: Path) -> None:
    tables = decoded()
    write(path, tables)
    rows = {row["chq_position"]: row for row in pq.read_table(path).to_pylist()}
    for table in tables:
        for row in table.drop_columns(["chq_stream"]).to_pylist():
            assert {name: rows[row["chq_position"]][name] for name in row} == row


def test_one_range_up_to_the_end_gives_streams_and_footer_another_the_bloom_too(path: Path) -> None:
    written = write(path, decoded())
    assert written.series_offset == written.bloom_offset + written.bloom_length
    whole = path.read_bytes()
    footer = whole[written.series_offset + written.series_length :]
    assert int.from_bytes(footer[-8:-4], "little") + 8 == len(footer)
    raw = whole[written.bloom_offset :]
    found = streams.decode(raw[written.bloom_length :][: written.series_length])
    assert {stream.labels: stream.rows for stream in found} == {
        (("service_name", "api"),): 6,
        (("service_name", "web"),): 6,
    }
    assert {stream.stream_id for stream in found} == set(pq.read_table(path)["chq_stream_id"].to_pylist())
    assert all((s.min_ns, s.max_ns) == (START, START + 5 * MINUTE_NS) for s in found)
    bloom = TokenBloom.from_bytes(raw[: written.bloom_length])
    row = pq.read_table(path).to_pylist()[3]
    for token in [*tokens(row["log_message"]), row["trace_id"].hex(), row["span_id"].hex(), "login", "lib"]:
        assert bloom.may_contain(token)
    assert sum(bloom.may_contain(f"absent{n}") for n in range(2000)) < 60


def test_the_footer_says_what_it_is(path: Path) -> None:
    written = write(path, decoded())
    metadata = pq.read_metadata(path)
    facts = read_facts(metadata)
    assert (facts.org, facts.collector, facts.segment_id, facts.rows) == ("acme", "eu", "s1", 12)
    assert (facts.series_offset, facts.bloom_length) == (written.series_offset, written.bloom_length)
    by_column = {entry.column: entry for entry in read_label_map(metadata)}
    assert by_column["attr_http_status_code"].key == "http.status_code"
    assert by_column["attr_http_status_code"].kind == "int"
    assert by_column["resource_service_name"].scope == "resource"
    columns = set(pq.read_schema(path).names)
    assert set(by_column) <= columns
    assert "chq_stream" not in columns


def test_columns_of_nearly_every_query_come_first(path: Path) -> None:
    write(path, decoded())
    assert pq.read_schema(path).names[:7] == [
        "chq_tsns", "chq_stream_id", "chq_object", "chq_position",
        "log_level", "detected_level", "log_message",
    ]  # fmt: skip


def test_index_terms_and_label_names(path: Path) -> None:
    written = write(path, decoded())
    assert set(alternatives("service_name", ["web"])) & set(written.terms)
    assert set(alternatives("log_level", ["ERROR"])) & set(written.terms)
    assert not set(alternatives("log_level", ["DEBUG"])) & set(written.terms)
    assert written.label_names == ("service_name",)


def test_duckdb_reads_it_and_uses_its_filters(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a file of several row groups has them: that of the whole segment was asked before it is opened."""
    write(path, decoded())
    group = pq.read_metadata(path).row_group(0)
    columns = {group.column(each).path_in_schema: group.column(each) for each in range(group.num_columns)}
    assert columns["trace_id"].bloom_filter_offset is None
    assert columns["log_message"].statistics is None
    assert columns["log_level"].statistics.has_min_max
    monkeypatch.setattr("lakerunner_assets.segments.order.MAX_GROUP_ROWS", 6)
    write(path, decoded())
    count = duckdb.sql(f"SELECT count(*), max(attr_http_status_code) FROM '{path}' WHERE log_level = 'ERROR'")
    assert count.fetchall() == [(6, 204)]
    trace = pq.read_table(path)["trace_id"][0].as_py()
    query = f"SELECT count(*) FROM '{path}' WHERE trace_id = ?"
    assert duckdb.execute(query, [trace]).fetchall() == [(2,)]
    assert duckdb.execute(query, [b"\xee" * 16]).fetchall() == [(0,)]
    probe = "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'trace_id', ?)"
    assert duckdb.execute(probe, [str(path), b"\xee" * 16]).fetchall() == [(True,)] * 2
    assert (False,) in duckdb.execute(probe, [str(path), trace]).fetchall()


def test_equal_inputs_give_equal_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a", decoded())
    write(tmp_path / "b", decoded())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_masked_tables_and_an_extra_column(path: Path) -> None:
    tables = []
    for table in decoded():
        kept = table.filter(pa.array(np.arange(table.num_rows) % 2 == 0))
        reasons = pa.array(["too old"] * kept.num_rows, pa.string())
        tables.append(kept.append_column("chq_quarantine_reason", reasons))
    written = write_log_segment(tables, path, SegmentIdentity("a", "c", "logs-quarantine", 0, "q"))
    table = pq.read_table(path)
    assert set(table["chq_quarantine_reason"].to_pylist()) == {"too old"}
    assert written.rows == table.num_rows == sum(part.num_rows for part in tables)


def test_row_groups_do_not_mix_slots_once_there_are_many_rows(path: Path) -> None:
    tables = decoded(records=12)
    many = pa.concat_tables(tables * 5000).combine_chunks()
    positions = pa.array(np.arange(many.num_rows))
    many = many.set_column(many.column_names.index("chq_position"), "chq_position", positions)
    written = write(path, [many])
    reader = pq.ParquetFile(path)
    assert (
        written.row_groups == reader.num_row_groups == 2
    )  # minute 0 ends a slot, minutes 1 to 5 are the next
    for index in range(reader.num_row_groups):
        slots = {
            cut(t, 5 * MINUTE_NS) for t in reader.read_row_group(index, ["chq_tsns"])["chq_tsns"].to_pylist()
        }
        assert len(slots) == 1
    assert reader.metadata.row_group(0).column(0).statistics is not None
    assert reader.metadata.row_group(0).column(0).has_offset_index


def test_codes_of_values_that_a_row_group_lacks_are_left_out(path: Path) -> None:
    """Two hundred pods, each with rows in one slot only: every row group writes the few it has."""
    rows, pods = 60_000, 200
    (table,) = (part.slice(0, 1) for part in decoded()[:1])
    table = table.take(pa.array([0] * rows))
    pod = np.arange(rows) * pods // rows
    names = pa.array([f"pod-{number}" for number in range(pods)])
    table = table.set_column(
        table.column_names.index("chq_tsns"),
        "chq_tsns",
        pa.array(START + 1 + pod * (11 * MINUTE_NS // pods * 5)),
    )
    table = table.set_column(
        table.column_names.index("chq_position"), "chq_position", pa.array(np.arange(rows))
    )
    table = table.append_column("pod", pa.DictionaryArray.from_arrays(pod.astype(np.int32), names))
    assert write(path, [table]).row_groups > 4
    found = pq.read_table(path, columns=["chq_position", "pod"]).sort_by("chq_position")
    assert found["pod"].to_pylist() == [f"pod-{number}" for number in pod]


def test_tables_with_different_columns_and_types_become_one(path: Path) -> None:
    first, second = sample(2), sample(2)
    for request, value in ((first, 1), (second, "one")):
        attribute = request.resource_logs[0].scope_logs[0].log_records[0].attributes.add(key="mixed")
        if isinstance(value, int):
            attribute.value.int_value = value
        else:
            attribute.value.string_value = value
    tables = [
        piece.table
        for number, request in enumerate((first, second))
        for piece in decode_object(
            request.SerializeToString(),
            object_id=number,
            arrival_ns=1,
            max_bytes=1 << 20,
            slice_bytes=1 << 20,
        )
    ]
    write(path, tables)
    table = pq.read_table(path)
    assert sorted(table["attr_mixed"].drop_null().to_pylist()) == ["one"]
    assert table["attr_mixed__int"].drop_null().to_pylist() == [1]


def test_nothing_to_write_is_an_error_and_failure_leaves_no_file(path: Path) -> None:
    with pytest.raises(ValueError, match="no rows"):
        write(path, [])
    broken = decoded()[0].drop_columns(["chq_tsns"])
    with pytest.raises(KeyError):
        write(path, [broken])
    assert not path.exists()


def test_the_result_is_a_value(path: Path) -> None:
    written = write(path, decoded())
    assert replace(written, rows=written.rows) == written
    assert written.bytes == path.stat().st_size
