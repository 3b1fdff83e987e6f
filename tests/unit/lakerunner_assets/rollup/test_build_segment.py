"""The files: what the footer and the index are told, where segments end, and how columns are stored."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_assets.rollup import build, parts
from lakerunner_assets.rollup.parts import RollupSegment
from resources.lake import rollup_columns as rollup
from resources.lake import series, streams
from resources.lake.segment_file import read_facts, read_label_map
from resources.lake.terms import term
from resources.lake.tokens import TokenBloom
from tests.support.rollup.cases import HOUR_MS, NOON, UP, content, of_rows, rolled, row, runs, sample_segment
from tests.support.segments.metric_tables import Row


def noise(series_count: int, samples: int, step_ms: int = 1_000) -> list[Row]:
    rng = np.random.default_rng(5)
    return [
        row(n * samples + k, k * step_ms + 1, float(rng.normal()), {"__name__": "m", "instance": f"{n:03}"})
        for n in range(series_count)
        for k in range(samples)
    ]


def test_what_the_index_is_told(tmp_path: Path) -> None:
    rows = [row(0, 15_001, 1.0), row(1, 1, 2.0, {"__name__": "down", "instance": "b"})]
    (part,) = rolled(tmp_path, [sample_segment(tmp_path, "s", rows)], 0, 10_000)
    facts = part.facts
    assert (facts.rows, part.part, facts.row_groups, facts.object_ids) == (2, 0, 1, ())
    assert facts.bytes == part.path.stat().st_size
    assert facts.min_ns == (NOON + 1) * 1_000_000
    assert facts.max_ns == (NOON + 20_000) * 1_000_000
    assert facts.metric_names == ("down", "up")
    assert facts.label_names == ("__name__", "instance")
    assert {term("metric_name", "up"), term("instance", "b")} <= set(facts.terms)
    footer = read_facts(pq.read_metadata(part.path))
    assert (footer.org, footer.collector, footer.dataset) == ("acme", "eu", "metrics-10000")
    assert (footer.hour_ns, footer.generation) == (NOON * 1_000_000, 0)
    assert footer.sort_order == ("metric_name", "chq_tid", "labels", "chq_timestamp")
    assert (footer.min_ns, footer.max_ns, footer.rows) == (facts.min_ns, facts.max_ns, 2)
    raw = part.path.read_bytes()
    bloom = TokenBloom.from_bytes(raw[facts.bloom_offset : facts.bloom_offset + facts.bloom_length])
    assert bloom.may_contain("down")
    (column,) = read_label_map(pq.read_metadata(part.path))
    assert (column.column, column.scope, column.key) == ("attr_instance", "record", "instance")


def test_the_series_table_has_the_rows_and_times_of_each_series(tmp_path: Path) -> None:
    (part,) = rolled(tmp_path, [sample_segment(tmp_path, "s", noise(3, 25))], 0, 10_000)
    raw = part.path.read_bytes()[part.facts.series_offset :][: part.facts.series_length]
    found = series.decode(raw, part.facts.rows)
    ids = [streams.stream_id(each.labels) for each in found]
    assert [each.tid for each in found] == ids == sorted(ids)
    for each in found:
        assert (each.rows, each.first_ms, each.last_ms) == (3, NOON + 10_000, NOON + 30_000)
        assert (each.base, each.exponent) == (0, 0)


def test_segments_end_at_a_row_group_once_they_are_large_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakerunner_assets.segments.order.MAX_GROUP_ROWS", 50)
    source = sample_segment(tmp_path, "s", noise(30, 100))
    whole = rolled(tmp_path, [source], 0, 10_000, name="w")
    small = rolled(tmp_path, [source], 0, 10_000, target_bytes=9_000, name="p")
    assert (len(whole), whole[0].facts.row_groups) == (1, 6)
    assert len(small) > 2
    assert [each.part for each in small] == list(range(len(small)))
    assert all(each.facts.series_offset >= 9_000 for each in small[:-1])
    keys = [[streams.labels_from_text(labels) for labels, _, _ in runs(each.path)] for each in small]
    assert not any(set(a) & set(b) for a, b in pairwise(keys))
    assert content(small) == content(whole)


def test_rows_that_do_not_fit_in_memory_are_written_as_they_come(tmp_path: Path) -> None:
    source = sample_segment(tmp_path, "s", noise(40, 120))
    large = rolled(tmp_path, [source], 0, 10_000, name="large")
    small = rolled(tmp_path, [source], 0, 10_000, memory_bytes=1 << 15, name="small")
    assert small[0].facts.row_groups > large[0].facts.row_groups
    assert content(small) == content(large)
    minutes = [
        content(rolled(tmp_path, [each[0].path], 10_000, 60_000, memory_bytes=memory, name=f"m{memory}"))
        for each, memory in ((large, 1 << 26), (small, 1 << 15))
    ]
    assert minutes[0] == minutes[1]
    assert len(minutes[0]) == 80


def test_a_bucket_that_is_cut_by_a_chunk_is_one_bucket(tmp_path: Path) -> None:
    rows = [row(n, n + 1, float(n)) for n in range(9_000)]
    for memory in (1 << 14, 1 << 26):
        found = of_rows(tmp_path, rows, memory_bytes=memory)
        assert [values[rollup.COUNT] for values in found.values()] == [9_000]
        assert next(iter(found.values()))[rollup.SUM] == sum(range(9_000))


def test_equal_requests_give_equal_bytes(tmp_path: Path) -> None:
    source = sample_segment(tmp_path, "s", noise(20, 100))
    first = rolled(tmp_path, [source], 0, 60_000)[0].path.read_bytes()
    assert rolled(tmp_path, [source], 0, 60_000)[0].path.read_bytes() == first


def test_an_error_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = sample_segment(tmp_path, "s", noise(30, 100))
    monkeypatch.setattr("lakerunner_assets.segments.order.MAX_GROUP_ROWS", 50)
    real = parts.PartsWriter._end_part
    ended: list[int] = []

    def fail_at_second(self: parts.PartsWriter, writer: parts.SegmentWriter) -> None:
        ended.append(1)
        if len(ended) == 2:
            raise RuntimeError("the disk is full")
        real(self, writer)

    monkeypatch.setattr(parts.PartsWriter, "_end_part", fail_at_second)
    with pytest.raises(RuntimeError, match="disk is full"):
        rolled(tmp_path, [source], 0, 10_000, target_bytes=5_000)
    assert [path.name for path in tmp_path.iterdir()] == ["tbl_s.parquet"]


def test_columns_in_which_nothing_stands_are_left_out(tmp_path: Path) -> None:
    (part,) = rolled(tmp_path, [sample_segment(tmp_path, "s", noise(2, 2, 60_000))], 0, 10_000)
    assert pq.read_schema(part.path).names == [
        "metric_name", "chq_tid", "chq_timestamp", "chq_rollup_count", "chq_rollup_last",
        "chq_rollup_last_ts", "chq_metric_type", "attr_instance",
    ]  # fmt: skip
    assert isinstance(part, RollupSegment)
    assert build.roll_up is not None


def test_filled_gives_only_what_is_asked_for_and_keeps_other_columns() -> None:
    stored = pa.table(
        {
            "x": [7, 8, 9],
            rollup.COUNT: pa.array([1, 2, 0], pa.int64()),
            rollup.LAST: pa.array([2.5, None, None], pa.float64()),
            rollup.SCALED[rollup.LAST]: pa.array([None, 5, None], pa.int64()),
            rollup.SCALED[rollup.FIRST]: pa.array([None, -20, None], pa.int64()),
            rollup.SCALED[rollup.SUM]: pa.array([None, 0, None], pa.int64()),
            rollup.BASE: pa.array([1000, 1000, None], pa.int64()),
            rollup.EXPONENT: pa.array([2, 2, None], pa.int32()),
            rollup.LAST_TS: pa.array([5, 6, None], pa.int64()),
        }
    )
    found = rollup.filled(stored, [rollup.SUM, rollup.FIRST, rollup.FIRST_TS, rollup.RESETS, rollup.M2])
    assert found.to_pydict() == {
        "x": [7, 8, 9],
        rollup.SUM: [2.5, 19.9, None],  # (2 x 1005 - 20) / 100
        rollup.FIRST: [2.5, 9.85, None],
        rollup.FIRST_TS: [5, 6, None],
        rollup.RESETS: [0, 0, 0],
        rollup.M2: [0.0, 0.0, 0.0],  # no change
    }


def test_filled_needs_no_more_than_the_columns_it_says() -> None:
    everything = {name: pa.nulls(1, kind) for name, kind in rollup.STORED.items()}
    everything[rollup.COUNT] = pa.array([0])
    for name, kind in rollup.LOGICAL.items():
        wanted = {each: everything[each] for each in rollup.needed([name])}
        assert rollup.filled(pa.table(wanted), [name]).schema.field(name).type == kind


def test_names_that_are_no_columns_are_refused() -> None:
    with pytest.raises(rollup.RollupColumnsError, match="chq_rollup_count"):
        rollup.filled(pa.table({"x": [1]}))
    with pytest.raises(rollup.RollupColumnsError, match="nonsense"):
        rollup.needed(["nonsense"])


def test_windows_may_be_a_day(tmp_path: Path) -> None:
    start = NOON - NOON % (24 * HOUR_MS)
    found = of_rows(tmp_path, [row(0, 5, 1.0)], 24 * HOUR_MS, start_ms=start, width_ms=24 * HOUR_MS)
    assert [end for _, end in found] == [start + 24 * HOUR_MS]
    assert UP["__name__"] == "up"
