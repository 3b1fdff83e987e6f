"""A written metric segment, read back by everybody who will read it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_assets.segments.metric_values import read_metric_segment
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.lake import series, streams
from resources.lake.metric_values import VALUE_COLUMNS, VALUE_SQL, VALUE_SQL_KEY
from resources.lake.segment_file import METRIC_SORT_ORDER, read_facts, read_label_map
from resources.lake.terms import MAX_VALUES, alternatives, term, wildcard
from resources.lake.tokens import TokenBloom
from tests.support.segments.metric_tables import (
    OTHER_NAN,
    STALE,
    START_MS,
    Row,
    by_id,
    double,
    every_kind,
    row,
    samples,
    table,
)

UP_A, UP_B = ({"__name__": "up", "instance": letter} for letter in "ab")


def write(path: Path, tables: list[pa.Table]) -> WrittenSegment:
    return write_metric_segment(tables, path, SegmentIdentity("acme", "eu", "metrics", START_MS, "s1"))


def series_of(path: Path, written: WrittenSegment) -> tuple[series.Series, ...]:
    raw = path.read_bytes()[written.series_offset : written.series_offset + written.series_length]
    return series.decode(raw, written.rows)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tbl_s1.parquet"


def test_every_column_of_every_kind_comes_back_to_the_bit(path: Path) -> None:
    sent = table(every_kind())
    write(path, [sent])
    found = read_metric_segment(path)
    assert by_id(found) == by_id(sent)
    summary = by_id(found)[1, 3]["chq_summary_quantiles"]
    assert summary[1]["value"] == ("bits", STALE)
    assert by_id(found)[1, 2]["chq_hist_sum"] == ("bits", STALE)
    assert by_id(found)[1, 1]["chq_value"] == ("bits", STALE)
    assert by_id(found)[1, 5]["chq_value"] == ("bits", 1 << 63)


def test_columns_without_values_are_not_written_but_those_of_the_value_always_are(path: Path) -> None:
    rows = every_kind()
    sent = table(rows[2:4]).append_column("chq_tsns", pa.nulls(2, pa.int64()))
    write(path, [sent.append_column("scope_name", pa.nulls(2))])
    names = set(pq.read_schema(path).names)
    assert set(VALUE_COLUMNS) < names
    assert not names & {"chq_tsns", "scope_name", "chq_value", "chq_series", "chq_hist_bounds"}
    assert read_metric_segment(path)["chq_value"].null_count == 2


def test_tables_lack_columns_that_others_have(path: Path) -> None:
    rows = every_kind()
    write(path, [table([each]) for each in rows])
    assert by_id(read_metric_segment(path)) == by_id(table(rows))


def test_sorted_by_name_bytes_series_time_and_row_id(path: Path) -> None:
    names = ["z", "Z", "é", "a_b", "a"]
    rng = np.random.default_rng(1)
    rows: list[Row] = []
    for position in rng.permutation(400).tolist():
        labels = {"__name__": names[position % 5], "instance": str(position % 7)}
        ms = int(rng.integers(0, 4))
        exact = {"chq_tsns": (START_MS + ms) * 1_000_000 + int(rng.integers(0, 3))} if position % 2 else {}
        rows.append(row(position, labels, ms, 1.0, chq_object=int(rng.integers(1, 3)), **exact))
    write(path, [table(rows)])
    keys = [
        (
            each["metric_name"].encode(),
            each["chq_tid"],
            each["chq_timestamp"],
            each["chq_tsns"] or each["chq_timestamp"] * 1_000_000,
            each["chq_object"],
            each["chq_position"],
        )
        for each in pq.read_table(path).to_pylist()
    ]
    assert keys == sorted(keys)
    assert len(set(keys)) == 400
    assert read_facts(pq.read_metadata(path)).sort_order == METRIC_SORT_ORDER


def test_the_series_table_says_exactly_which_rows_a_series_has(path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = [
        row(n, {"__name__": f"m{n % 3}", "instance": f"i{rng.integers(0, 9)}"}, int(rng.integers(0, 99)), n)
        for n in range(300)
    ]
    written = write(path, [table(rows)])
    found = pq.read_table(path)
    expected: dict[str, list[Row]] = {}
    for each in rows:
        expected.setdefault(each["chq_series"], []).append(each)
    table_rows = series_of(path, written)
    assert {streams.labels_to_text(each.labels) for each in table_rows} == expected.keys()
    assert [each.row for each in table_rows] == sorted(each.row for each in table_rows)
    for each in table_rows:
        own = found.slice(each.row, each.rows)
        sent = expected[streams.labels_to_text(each.labels)]
        assert sorted(own["chq_position"].to_pylist()) == sorted(one["chq_position"] for one in sent)
        times = [one["chq_timestamp"] for one in sent]
        assert (each.first_ms, each.last_ms, each.rows) == (min(times), max(times), len(sent))
        assert set(own["chq_tid"].to_pylist()) == {each.tid}
        assert set(own["chq_value_base"].to_pylist()) == {each.base}
        assert set(own["chq_value_exponent"].to_pylist()) == {each.exponent}


def test_two_label_sets_with_one_id_stay_two_runs(path: Path) -> None:
    forged = [
        {**row(n, UP_A if n % 2 else UP_B, n, float(n)), "chq_tid": 42} for n in range(20)
    ]  # their samples alternate in time
    written = write(path, [table(forged)])
    first, second = series_of(path, written)
    assert (first.tid, second.tid) == (42, 42)
    assert (first.labels, second.labels) == (streams.canonical(UP_A), streams.canonical(UP_B))
    assert (first.row, first.rows, second.row, second.rows) == (0, 10, 10, 10)
    positions = pq.read_table(path)["chq_position"].to_pylist()
    assert positions == [*range(1, 20, 2), *range(0, 20, 2)]


def test_a_label_set_that_has_two_codes_is_one_series(path: Path) -> None:
    whole = table([row(n, UP_A, n, 1.0) for n in range(6)])
    text = whole["chq_series"][0].as_py()
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 3, pa.int32()), pa.array([text, text]))
    place = whole.column_names.index("chq_series")
    written = write(path, [whole.set_column(place, "chq_series", twice)])
    assert [(each.row, each.rows) for each in series_of(path, written)] == [(0, 6)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chq_tid": 7}, "expected name 'up' and id .* in all its rows"),
        ({"metric_name": "down"}, "expected name 'up' and id .* in all its rows, found .*'down'"),
        ({"chq_tsns": 5}, "object 1, position 1: chq_tsns is not in the millisecond"),
        ({"chq_timestamp": 2**62}, "object 1, position 1: chq_timestamp outside"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(path: Path, change: Row, message: str) -> None:
    rows = [row(0, UP_A, 0, 1.0), {**row(1, UP_A, 1, 1.0), **change}]
    with pytest.raises(ValueError, match=message):
        write(path, [table(rows)])
    assert not path.exists()


def test_a_name_that_is_not_the_label_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="its metric_name is 'down', expected that of its labels"):
        write(path, [table([{**row(0, UP_A, 0, 1.0), "metric_name": "down"}])])


def test_missing_unknown_and_mistyped_columns_are_refused(path: Path) -> None:
    good = table([row(0, UP_A, 0, 1.0)])
    with pytest.raises(ValueError, match=r"missing \['chq_tid'\], unknown \[\]"):
        write(path, [good.drop_columns(["chq_tid"])])
    with pytest.raises(ValueError, match=r"missing \[\], unknown \['extra'\]"):
        write(path, [good.append_column("extra", pa.array([1]))])
    with pytest.raises(ValueError, match="chq_flags is double, expected int64"):
        write(path, [good.append_column("chq_flags", pa.array([1.0]))])
    with pytest.raises(ValueError, match="no rows"):
        write(path, [good.slice(0, 0)])
    assert not path.exists()


def test_bounds_are_exact_nanoseconds(path: Path) -> None:
    exact = (START_MS - 1) * 1_000_000 + 17
    rows = [row(0, UP_A, 5, 1.0), row(1, UP_B, -1, 1.0, chq_tsns=exact), row(2, UP_A, 3, 1.0)]
    written = write(path, [table(rows)])
    assert (written.min_ns, written.max_ns) == (exact, (START_MS + 5) * 1_000_000)
    negative = write(path, [table([row(0, UP_A, -START_MS - 2, 1.0)])])
    assert (negative.min_ns, negative.max_ns) == (-2_000_000, -2_000_000)


def test_equal_inputs_give_equal_bytes_and_order_of_tables_does_not_matter(tmp_path: Path) -> None:
    first = samples({"a": np.arange(50) / 4, "b": np.arange(50) * 1e-3}, object_id=1)
    second = samples({"b": np.arange(50) * 7.0, "c": np.full(50, double(OTHER_NAN))}, object_id=2)
    write(tmp_path / "a", [first, second])
    write(tmp_path / "b", [first, second])
    write(tmp_path / "c", [second, first, first.slice(0, 0)])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    one, other = (read_metric_segment(tmp_path / name) for name in "ac")
    assert by_id(one) == by_id(other)
    assert one["chq_position"].to_pylist() == other["chq_position"].to_pylist()
    assert pq.read_table(tmp_path / "a", columns=["chq_value_scaled"]) == pq.read_table(
        tmp_path / "c", columns=["chq_value_scaled"]
    )


def test_a_segment_written_from_a_segment_is_the_same(tmp_path: Path) -> None:
    write(tmp_path / "a", [table(every_kind()), samples({"a": np.arange(50) / 4}, object_id=2)])
    write(tmp_path / "b", [read_metric_segment(tmp_path / "a")])
    assert by_id(read_metric_segment(tmp_path / "a")) == by_id(read_metric_segment(tmp_path / "b"))
    metadata = [read_label_map(pq.read_metadata(tmp_path / name)) for name in "ab"]
    assert metadata[0] == metadata[1]


def test_duckdb_reads_the_values_with_the_expression_in_the_footer(path: Path) -> None:
    values = {"whole": np.arange(64.0), "parts": np.arange(64) / 8, "other": np.sqrt(np.arange(64))}
    write(path, [samples(values)])
    assert pq.read_metadata(path).metadata[VALUE_SQL_KEY] == VALUE_SQL.encode()
    for name, expected in values.items():
        query = f"SELECT {VALUE_SQL} FROM '{path}' WHERE attr_instance = ? ORDER BY chq_timestamp"
        found = duckdb.execute(query, [name]).fetchnumpy()
        assert next(iter(found.values())).tolist() == expected.tolist()


def test_row_groups_hold_whole_series_within_their_bounds(path: Path) -> None:
    series_count, each = 60, 10_000
    values = {f"i{n}": np.arange(each) + n for n in range(series_count)}
    written = write(path, [samples({name: column.astype(float) for name, column in values.items()})])
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert sizes == [250_000, 250_000, 100_000]
    assert written.row_groups == 3
    starts = {one.row for one in series_of(path, written)}
    assert set(np.cumsum(sizes[:-1]).tolist()) <= starts
    assert metadata.row_group(0).column(0).statistics is not None
    assert metadata.row_group(0).column(0).has_offset_index


def test_a_series_longer_than_a_row_group_is_cut(path: Path) -> None:
    written = write(path, [samples({"short": np.zeros(1)}), samples({"long": np.zeros(500_001)})])
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert sum(sizes) == written.rows == 500_002
    assert max(sizes) <= 250_000


def test_index_terms_and_names(path: Path) -> None:
    written = write(path, [table(every_kind())])
    assert written.metric_names == ("big", "latency", "native", "rpc")
    assert written.label_names == ("__name__", "instance", "le", "quantile")
    terms = set(written.terms)
    present = ["latency", "latency_bucket", "latency_sum", "latency_count", "rpc_sum", "rpc_count", "native"]
    assert {term("metric_name", name) for name in present} < terms
    absent = ["rpc_bucket", "big_sum", "native_bucket", "other"]
    assert not {term("metric_name", name) for name in absent} & terms
    assert {term("instance", "a"), term("instance", "b")} < terms
    assert set(alternatives("le", ["0.5"])) & terms
    assert set(alternatives("quantile", ["0.9"])) & terms
    assert not set(alternatives("instance", ["c"])) & terms


def test_a_label_with_too_many_values_is_a_wildcard(path: Path) -> None:
    many = {f"i{n}": np.zeros(1) for n in range(MAX_VALUES + 1)}
    terms = set(write(path, [samples(many)]).terms)
    assert terms == {wildcard("instance"), term("metric_name", "m")}


def test_the_bloom_holds_label_values_and_exemplar_ids(path: Path) -> None:
    written = write(path, [table([*every_kind(), row(9, {"__name__": "x", "pod": "web-7f9"}, 0, 1.0)])])
    raw = path.read_bytes()[written.bloom_offset : written.bloom_offset + written.bloom_length]
    bloom = TokenBloom.from_bytes(raw)
    for token in ["web", "7f9", "latency", (b"t" * 16).hex(), (b"s" * 8).hex()]:
        assert bloom.may_contain(token)
    assert sum(bloom.may_contain(f"absent{n}") for n in range(2000)) < 60


def test_the_footer_says_what_it_is(path: Path) -> None:
    written = write(path, [table(every_kind())])
    facts = read_facts(pq.read_metadata(path))
    assert (facts.org, facts.dataset, facts.segment_id, facts.rows) == ("acme", "metrics", "s1", 6)
    assert (facts.series_offset, facts.bloom_length) == (written.series_offset, written.bloom_length)
    assert facts.source_objects == written.object_ids == (1,)
    assert [(c.column, c.scope, c.key) for c in read_label_map(pq.read_metadata(path))] == [
        ("attr_instance", "record", "instance")
    ]
    assert written.bytes == path.stat().st_size
