"""A written span segment, read back by everybody who will read it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakerunner_assets.decode.naming import Attribute, attribute_of
from lakerunner_assets.segments.traces import span_groups, span_order, trace_ranks, write_span_segment
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.lake import streams, trace_summaries
from resources.lake.segment_file import SPAN_SORT_ORDER, read_facts, read_label_map
from resources.lake.terms import alternatives
from resources.lake.tokens import TokenBloom
from tests.support.decode.span_messages import REQUESTS, START, decode_object, decode_spans, sample, trace_id


def decoded(object_id: int = 1, spans: int = 12) -> list[pa.Table]:
    return decode_object(sample(spans).SerializeToString(), object_id=object_id, slice_bytes=1500)


def write(path: Path, tables: list[pa.Table]) -> WrittenSegment:
    return write_span_segment(tables, path, SegmentIdentity("acme", "eu", "traces", START, "s1"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tbl_s1.parquet"


def key(row: dict[str, object]) -> tuple[object, ...]:
    """Spans without a trace come last."""
    return (row["span_trace_id"] is None, *(row[name] for name in SPAN_SORT_ORDER))


def test_every_span_once_in_order(path: Path) -> None:
    written = write(path, [*decoded(2), *decoded(1)])
    rows = pq.read_table(path).to_pylist()
    assert written.rows == len(rows) == 24
    assert written.object_ids == (1, 2)
    assert {(row["chq_object"], row["chq_position"]) for row in rows} == {
        (number, position) for number in (1, 2) for position in range(12)
    }
    assert [key(row) for row in rows] == sorted(key(row) for row in rows)
    assert [row["span_trace_id"] for row in rows] == [trace_id(1)] * 12 + [trace_id(0)] * 12
    assert (written.min_ns, written.max_ns) == (START + 95 * 10**9, START + 100 * 10**9)


@given(
    st.lists(st.tuples(st.none() | st.sampled_from("abcz"), st.integers(0, 3), st.integers(0, 2)), min_size=1)
)
def test_order_is_that_of_comparing_the_whole_key(spans: list[tuple[str | None, int, int]]) -> None:
    ids = [None if name is None else b"\xff" * 7 + name.encode() * 9 for name, _, _ in spans]
    start = np.array([START + time for _, time, _ in spans])
    objects = np.array([number for _, _, number in spans])
    positions = np.array([-index % 5 for index in range(len(spans))])
    order = span_order(pa.array(ids, pa.binary(16)), start, objects, positions).tolist()
    assert order == sorted(
        range(len(spans)),
        key=lambda row: (ids[row] is None, ids[row], start[row], objects[row], positions[row], row),
    )


def test_ranks_compare_ids_as_bytes_also_in_slices() -> None:
    ids = [random.Random(n).randbytes(16) for n in range(300)] + [
        b"\xff" * 8 + bytes(8),
        bytes(8) + b"\xff" * 8,
    ]
    whole = pa.array([b"skipped" + bytes(9), *ids, *ids], pa.binary(16))
    places = {value: place for place, value in enumerate(sorted(ids))}
    assert trace_ranks(whole.slice(1)).tolist() == [places[value] for value in ids] * 2
    assert trace_ranks(pa.nulls(2, pa.binary(16))).tolist() == [0, 0]


def test_row_groups_cover_all_rows_within_their_limits() -> None:
    assert span_groups(7, 100) == [(0, 7)]
    assert span_groups(3 * 16_000, 100) == [(0, 16_000), (16_000, 32_000), (32_000, 48_000)]
    assert span_groups(1000, 1 << 20) == [(index * 125, index * 125 + 125) for index in range(8)]
    assert span_groups(2, 1 << 30) == [(0, 1), (1, 2)]


def test_values_are_those_that_were_decoded(path: Path) -> None:
    tables = decoded()
    write(path, tables)
    assert_same_rows(path, tables)


@given(st.lists(REQUESTS, min_size=1, max_size=3))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_was_sent_comes_back(
    tmp_path_factory: pytest.TempPathFactory, requests: list[ExportTraceServiceRequest]
) -> None:
    payload = b"".join(request.SerializeToString() for request in requests)
    table = decode_spans(payload).table
    path = tmp_path_factory.mktemp("s") / "x"
    if table.num_rows:
        write(path, [table])
        assert_same_rows(path, [table])


def assert_same_rows(path: Path, tables: list[pa.Table]) -> None:
    """Equal in every system column and every attribute, doubles to the bit."""
    written = pq.read_table(path)
    attributes = {
        entry.column: Attribute(entry.scope, entry.key, entry.kind)
        for entry in read_label_map(pq.read_metadata(path))
    }
    rows = {row["chq_position"]: row for row in _rows(written, attributes)}
    for table in tables:
        decoded_attributes = {f.name: found for f in table.schema if (found := attribute_of(f)) is not None}
        for row in _rows(table.drop_columns(["chq_stream"]), decoded_attributes):
            # a column of which no span here has a value is not written
            assert {name: rows[row["chq_position"]].get(name) for name in row} == row


def _rows(table: pa.Table, attributes: Mapping[str, Attribute]) -> Iterator[dict[object, object]]:
    for row in table.to_pylist():
        yield {
            attributes.get(name, name): np.float64(value).tobytes() if isinstance(value, float) else value
            for name, value in row.items()
        }


def test_streams_are_services_with_rows_and_times(path: Path) -> None:
    written = write(path, decoded())
    raw = path.read_bytes()[written.series_offset : written.series_offset + written.series_length]
    found = streams.decode(raw)
    assert {stream.labels: (stream.rows, stream.min_ns, stream.max_ns) for stream in found} == {
        (("k8s_pod_name", f"{service}-0"), ("service_name", service)): (
            6, START + 95 * 10**9, START + 100 * 10**9,
        )
        for service in ("api", "web")
    }  # fmt: skip
    assert {stream.stream_id for stream in found} == set(pq.read_table(path)["chq_stream_id"].to_pylist())
    assert written.label_names == ("k8s_pod_name", "service_name")


def test_the_bloom_knows_ids_names_and_texts_also_of_events_and_links(path: Path) -> None:
    written = write(path, decoded())
    assert written.series_offset == written.bloom_offset + written.bloom_length
    raw = path.read_bytes()[written.bloom_offset : written.bloom_offset + written.bloom_length]
    bloom = TokenBloom.from_bytes(raw)
    ids = [trace_id(0), trace_id(90), b"parent_1", b"linked_5", b"\x03\x03a\x04\x05\x06\x07\x08"]
    for token in [*(raw_id.hex() for raw_id in ids), "GET", "user3", "exception", "boom4", "batch", "wrong"]:
        assert bloom.may_contain(token), token
    assert not any(bloom.may_contain(token) for token in ("double", "server", "why", bytes(range(16)).hex()))


def test_index_terms(path: Path) -> None:
    terms = set(write(path, decoded()).terms)
    present = {
        "service_name": "web", "span_name": "GET /api/:id", "span_kind": "client",
        "span_status_code": "error", "k8s_pod_name": "api-0",
    }  # fmt: skip
    for name, value in present.items():
        assert terms & set(alternatives(name, [value])), name
        assert not terms & set(alternatives(name, ["another"])), name


def test_the_footer_says_what_it_is(path: Path) -> None:
    written = write(path, decoded())
    metadata = pq.read_metadata(path)
    facts = read_facts(metadata)
    assert (facts.dataset, facts.rows, facts.sort_order) == ("traces", 12, SPAN_SORT_ORDER)
    assert (facts.series_offset, facts.bloom_length) == (written.series_offset, written.bloom_length)
    by_column = {entry.column: entry for entry in read_label_map(metadata)}
    assert (by_column["attr_user"].scope, by_column["attr_user"].key) == ("record", "user")
    assert by_column["attr_http_response_status_code"].kind == "int"


def test_duckdb_finds_one_trace_and_filters_exclude_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakerunner_assets.segments.order.MAX_GROUP_ROWS", 6)
    write(path, decoded())
    query = f"SELECT count(*), max(span_duration_ns) FROM '{path}' WHERE span_trace_id = ?"
    assert duckdb.execute(query, [trace_id(0)]).fetchall() == [(6, 4500)]
    assert duckdb.execute(query, [b"\xee" * 16]).fetchall() == [(0, None)]
    probe = "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, ?, ?)"
    present = pq.read_table(path)["span_id"][3].as_py()
    for column, value, excluded in (
        ("span_trace_id", trace_id(1), False), ("span_trace_id", b"\xee" * 16, True),
        ("span_id", present, False), ("span_id", b"\xee" * 8, True),
    ):  # fmt: skip
        found = duckdb.execute(probe, [str(path), column, value]).fetchall()
        assert len(found) == 2
        assert ((False,) not in found) == excluded


def test_duckdb_reads_events_by_key_and_kind(path: Path) -> None:
    write(path, decoded())
    found = duckdb.sql(
        f"""
        SELECT a.value, count(*) FROM (
            SELECT unnest(e.attributes) AS a FROM (SELECT unnest(span_events) AS e FROM '{path}')
            WHERE e.name = 'exception')
        WHERE a.key = 'exception.message' AND a.kind = 'string' GROUP BY 1 ORDER BY 1
        """
    )
    assert found.fetchall() == [(f"boom{index}", 2) for index in range(6)]


def test_a_trace_is_in_one_row_group_and_statistics_name_it(path: Path) -> None:
    one = decoded(spans=12)[0].slice(0, 1).drop_columns(["span_trace_id", "chq_position"])
    count = 20_000
    traces = np.random.default_rng(1).integers(0, 2**62, count // 10).astype(">u8")
    ids = np.stack([traces, traces], axis=1).repeat(10, axis=0)
    many = one.take(pa.array(np.zeros(count, np.int64)))
    many = many.append_column("chq_position", pa.array(np.arange(count)))
    many = many.append_column("span_trace_id", pa.array([row.tobytes() for row in ids], pa.binary(16)))
    written = write(path, [many.combine_chunks()])
    metadata = pq.read_metadata(path)
    assert written.row_groups == metadata.num_row_groups == 2
    column = metadata.schema.to_arrow_schema().names.index("span_trace_id")
    bounds = [_bounds(metadata.row_group(group), "span_trace_id") for group in range(2)]
    assert column >= 0
    assert bounds[0][0] < bounds[0][1] <= bounds[1][0] < bounds[1][1]
    wanted = ids[12345].tobytes()
    holding = [low <= wanted <= high for low, high in bounds]
    assert sum(holding) == 1
    found = duckdb.execute(f"SELECT chq_position FROM '{path}' WHERE span_trace_id = ?", [wanted]).fetchall()
    assert sorted(position for (position,) in found) == [*range(12340, 12350)]


def _bounds(group: pq.RowGroupMetaData, name: str) -> tuple[bytes, bytes]:
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema == name:
            assert column.has_offset_index
            return column.statistics.min, column.statistics.max
    raise AssertionError(f"no column {name}")


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
    written = write(path, tables)
    table = pq.read_table(path)
    assert set(table["chq_quarantine_reason"].to_pylist()) == {"too old"}
    assert written.rows == table.num_rows == sum(part.num_rows for part in tables)


def test_slices_of_tables(path: Path) -> None:
    whole = decode_object(sample().SerializeToString())[0]
    parts = [whole.slice(3, 2), whole.slice(7, 4)]
    written = write(path, parts)
    assert written.rows == 6
    assert_same_rows(path, parts)
    raw = path.read_bytes()[written.bloom_offset : written.bloom_offset + written.bloom_length]
    bloom = TokenBloom.from_bytes(raw)
    assert [index for index in range(6) if bloom.may_contain(f"boom{index}")] == [1, 2, 3, 4]


def test_spans_of_another_format_may_lack_columns(path: Path) -> None:
    otlp, other = decoded(1), decoded(2)
    lacking = ["span_events", "span_links", "span_status_code", "span_trace_state"]
    write(path, [*otlp, *(table.drop_columns(lacking) for table in other)])
    rows = pq.read_table(path).to_pylist()
    assert [len(row["span_events"] or []) for row in rows].count(2) == 12
    assert {row["span_events"] is None for row in rows if row["chq_object"] == 2} == {True}
    write(path, [table.drop_columns(lacking) for table in other])
    assert not set(lacking) & set(pq.read_schema(path).names)


def test_a_segment_can_be_written_again_from_what_was_read(path: Path, tmp_path: Path) -> None:
    """What compaction does: the columns of the file, and the labels from its stream table."""
    written = write(path, decoded())
    raw = path.read_bytes()[written.series_offset : written.series_offset + written.series_length]
    texts = {s.stream_id: streams.labels_to_text(s.labels) for s in streams.decode(raw)}
    table = pq.read_table(path)
    labels = pa.array([texts[number] for number in table["chq_stream_id"].to_pylist()]).dictionary_encode()
    again = write(tmp_path / "again", [table.append_column("chq_stream", labels).combine_chunks()])
    assert again.rows == 12
    assert pq.read_table(tmp_path / "again")["span_events"].to_pylist() == table["span_events"].to_pylist()


def test_nothing_to_write_is_an_error_and_failure_leaves_no_file(path: Path) -> None:
    with pytest.raises(ValueError, match="no rows"):
        write(path, [])
    broken = decoded()[0].drop_columns(["span_start_ns"])
    with pytest.raises(KeyError):
        write(path, [broken])
    assert not path.exists()


def summaries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Summaries of the traces of a segment, by a walk over its rows."""
    found: dict[bytes, dict[str, Any]] = {}
    roots: dict[bytes, list[dict[str, Any]]] = {}
    for row in rows:
        if row["span_trace_id"] is None:
            continue
        start, end = row["span_start_ns"], row["span_end_ns"] or 0
        one = found.setdefault(
            row["span_trace_id"],
            {"trace_id": row["span_trace_id"], "start_ns": start, "end_ns": start, "spans": 0, "errors": 0},
        )
        one["start_ns"] = min(one["start_ns"], start)
        one["end_ns"] = max(one["end_ns"], start, end)
        one["spans"] += 1
        one["errors"] += row["span_status_code"] == "error"
        one["services"] = sorted({*one.get("services", ()), row["service_name"]})
        if row["span_parent_span_id"] in {None, bytes(8)}:
            roots.setdefault(row["span_trace_id"], []).append(row)
    for trace, one in found.items():
        own = roots.get(trace, [])
        one["roots"] = len(own)
        one["root_name"] = own[0]["span_name"] if len(own) == 1 else None
        one["root_service"] = own[0]["service_name"] if len(own) == 1 else None
    return [found[trace] for trace in sorted(found)]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(requests=st.lists(REQUESTS, min_size=1, max_size=3))
def test_summaries_say_what_the_rows_of_each_trace_say(path: Path, requests: list[Any]) -> None:
    table = decode_spans(b"".join(request.SerializeToString() for request in requests)).table
    if not table.num_rows:
        return
    write(path, [table])
    metadata = pq.read_metadata(path)
    facts, length = read_facts(metadata), trace_summaries.read_length(metadata)
    raw = path.read_bytes()[facts.bloom_offset - length : facts.bloom_offset]
    shown = trace_summaries.read_table(raw).to_pylist() if raw else []
    assert [dict(sorted(one.items())) for one in shown] == [
        dict(sorted(one.items())) for one in summaries(pq.read_table(path).to_pylist())
    ]
