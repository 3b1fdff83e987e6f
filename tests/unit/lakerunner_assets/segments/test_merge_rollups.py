"""Rollups are merged as they are; two rows of one bucket are a contradiction. And the sorted streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_assets.segments.merge.request import MergeKind, SourceError, Window
from lakerunner_assets.segments.merge.rounds import sorted_rollups, sorted_samples
from lakerunner_assets.segments.metric_values import read_metric_segment
from resources.lake import series, streams
from resources.lake.segment_file import METRIC_SORT_ORDER, SegmentFacts, file_metadata, read_facts
from tests.support.segments.merging import START, cells, merged, only, rows_of, written
from tests.support.segments.metric_tables import STALE, double, every_kind, samples, table

MINUTE_MS = 60_000
Bucket = tuple[str, int, float]
"""Instance, end of the bucket, last value."""


def rollup_file(path: Path, buckets: Sequence[Bucket]) -> Path:
    """A segment of minutes, made by hand."""
    label_sets = {i: streams.canonical({"__name__": "up", "instance": i}) for i, _, _ in buckets}
    ranked = sorted(buckets, key=lambda b: (streams.stream_id(label_sets[b[0]]), b[1]))
    found = sorted(label_sets.values(), key=streams.stream_id)
    of_series = [[b for b in ranked if label_sets[b[0]] == labels] for labels in found]
    counts = np.array([len(each) for each in of_series])
    numbers = {
        "tid": np.array([streams.stream_id(labels) for labels in found]),
        "row": np.cumsum(counts) - counts,
        "rows": counts,
        "first_ms": np.array([each[0][1] for each in of_series]),
        "last_ms": np.array([each[-1][1] for each in of_series]),
        "base": np.zeros(len(found), np.int64),
        "exponent": np.zeros(len(found), np.int64),
    }
    block = series.encode(series.build(found, numbers))
    rows = pa.table(
        {
            "metric_name": ["up"] * len(ranked),
            "chq_tid": [streams.stream_id(label_sets[i]) for i, _, _ in ranked],
            "chq_timestamp": [end for _, end, _ in ranked],
            "chq_metric_type": ["gauge"] * len(ranked),
            "chq_rollup_count": [1] * len(ranked),
            "chq_rollup_last": pa.array(np.array([value for _, _, value in ranked]), from_pandas=False),
            "chq_hist_last": pa.array(
                [{"schema": 3, "counts": [1.0, -0.0]} if n % 2 else None for n in range(len(ranked))],
                pa.struct([("schema", pa.int32()), ("counts", pa.list_(pa.float64()))]),
            ),
        }
    )
    ends = [end for _, end, _ in ranked]
    with (
        pa.OSFile(str(path), "wb") as sink,
        pq.ParquetWriter(sink, rows.schema, store_schema=False) as writer,
    ):
        writer.write_table(rows)
        facts = SegmentFacts(
            path.stem, "acme", "eu", "metrics-1m", START, 0, 1, 1, METRIC_SORT_ORDER[:4], (len(ranked),),
            len(ranked), (min(ends) - MINUTE_MS + 1) * 1_000_000, max(ends) * 1_000_000,
            sink.tell(), len(block), sink.tell() + len(block), 0,
        )  # fmt: skip
        sink.write(block)
        writer.add_key_value_metadata(file_metadata(facts, []))
    return path


def bucket_key(each: Mapping[str, object]) -> tuple[object, ...]:
    return (each["metric_name"], each["chq_tid"], each["chq_timestamp"])


@pytest.mark.parametrize("memory_bytes", [1, 1 << 26])
def test_rollups_are_copied_as_they_are(tmp_path: Path, memory_bytes: int) -> None:
    values = [1.5, -0.0, double(STALE), 0.1 + 0.2]
    sources = [
        rollup_file(
            tmp_path / f"s{n}", [(i, (n + 4 * k) * MINUTE_MS, values[n]) for i in "abc" for k in range(3)]
        )
        for n in range(4)
    ]
    result = merged(MergeKind.ROLLUP, tmp_path / "out", sources, memory_bytes=memory_bytes)
    found = rows_of(only(result))
    assert found == sorted((row for path in sources for row in rows_of(path)), key=bucket_key)
    facts = read_facts(pq.read_metadata(only(result)))
    assert facts.sort_order == METRIC_SORT_ORDER[:4]
    assert facts.source_objects == (9,)
    assert (facts.min_ns, facts.max_ns) == ((1 - MINUTE_MS) * 1_000_000, 11 * MINUTE_MS * 1_000_000)
    raw = only(result).read_bytes()[facts.series_offset : facts.series_offset + facts.series_length]
    table_rows = series.decode(raw, facts.rows)
    assert [(each.rows, each.first_ms, each.last_ms) for each in table_rows] == [(12, 0, 11 * MINUTE_MS)] * 3
    assert result.segments[0].facts.metric_names == ("up",)
    assert result.segments[0].facts.label_names == ("__name__", "instance")


def test_two_rows_of_one_bucket_are_an_error_that_names_both_files(tmp_path: Path) -> None:
    one = rollup_file(tmp_path / "one", [("a", MINUTE_MS, 1.0), ("b", MINUTE_MS, 1.0)])
    two = rollup_file(tmp_path / "two", [("b", MINUTE_MS, 1.0), ("b", 2 * MINUTE_MS, 1.0)])
    for order in ([one, two], [two, one]):
        with pytest.raises(SourceError, match="same series and bucket") as caught:
            merged(MergeKind.ROLLUP, tmp_path / "out", order)
        assert str(one) in str(caught.value)
        assert str(two) in str(caught.value)
        assert list((tmp_path / "out").iterdir()) == []


def test_a_bucket_belongs_to_the_window_of_its_end(tmp_path: Path) -> None:
    source = rollup_file(tmp_path / "s", [("a", minute * MINUTE_MS, 1.0) for minute in (60, 61, 120, 121)])
    hour = Window(3_600_000_000_000, 3_600_000_000_000)
    result = merged(MergeKind.ROLLUP, tmp_path / "out", [source], carve=[hour], target=Window(0, 1 << 60))
    ends = [pq.read_table(each.path)["chq_timestamp"].to_pylist() for each in result.segments]
    assert ends == [[61 * MINUTE_MS, 120 * MINUTE_MS], [60 * MINUTE_MS, 121 * MINUTE_MS]]


def test_a_dataset_without_a_frequency_is_refused(tmp_path: Path) -> None:
    source = rollup_file(tmp_path / "s", [("a", MINUTE_MS, 1.0)])
    with pytest.raises(SourceError, match="of acme, metrics-1m: expected acme, metrics"):
        merged(MergeKind.ROLLUP, tmp_path / "out", [source], dataset="metrics")


@pytest.mark.parametrize("memory_bytes", [1, 1 << 22, 1 << 26])
def test_sorted_samples_are_the_rows_of_all_sources_with_their_series(
    tmp_path: Path, memory_bytes: int
) -> None:
    paths = [tmp_path / f"s{number}" for number in range(4)]
    for number, path in enumerate(paths[:3]):
        rng = np.random.default_rng(number)
        values = {f"i{n}": np.cumsum(rng.random(300)) for n in range(20)}
        written(MergeKind.SAMPLES, path, [samples(values, 15_000 + number, object_id=number + 2)])
    written(MergeKind.SAMPLES, paths[3], [table(every_kind())])
    written(MergeKind.SAMPLES, tmp_path / "all", [read_metric_segment(path) for path in paths])
    expected = read_metric_segment(tmp_path / "all")
    found = sorted_samples([*paths, paths[0]], memory_bytes)
    texts: list[str] = []
    parts: dict[str, list[object]] = {name: [] for name in expected.column_names if name != "chq_series"}
    previous = -1
    for chunk, codes in found.chunks():
        assert chunk.num_rows == len(codes) > 0
        assert set(chunk.column_names) == set(parts)
        texts += [found.series[code].labels for code in codes.tolist()]
        assert [found.series[code].tid for code in codes.tolist()] == chunk["chq_tid"].to_pylist()
        assert [found.series[code].name for code in codes.tolist()] == chunk["metric_name"].to_pylist()
        for name, column in parts.items():
            column.extend(cells(chunk[name].combine_chunks()))
        if memory_bytes > 1:
            assert int(codes[0]) > previous, "a series that fits in memory is not cut"
        previous = int(codes[-1])
    assert texts == expected["chq_series"].to_pylist()
    for name, column in parts.items():
        assert column == cells(expected[name].combine_chunks()), name


def test_sorted_rollups_are_raw_columns_in_order(tmp_path: Path) -> None:
    sources = [
        rollup_file(tmp_path / f"s{n}", [(i, (n + 2 * k) * MINUTE_MS, n / 2) for i in "ab" for k in range(3)])
        for n in range(2)
    ]
    found = sorted_rollups(sources, 1 << 20)
    tables, codes = zip(*found.chunks(), strict=True)
    chunk = pa.concat_tables(tables)
    assert np.concatenate(codes).tolist() == [0] * 6 + [1] * 6
    assert chunk["chq_timestamp"].to_pylist() == [n * MINUTE_MS for n in range(6)] * 2
    assert chunk["chq_rollup_last"].to_pylist() == [0.0, 0.5] * 6
    again = sorted_rollups([sources[0], sources[0]], 1 << 20)
    with pytest.raises(SourceError, match="same series and bucket"):
        list(again.chunks())
