"""Where merged rows go: windows, parts, row groups, and attributes beyond the limit."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_assets.segments.merge.request import MergedSegment, MergeKind, SourceError, Window
from lakerunner_assets.segments.metric_values import read_metric_segment
from resources.lake import series
from resources.lake.segment_file import read_facts
from resources.lake.timecut import MINUTE_NS, cut
from tests.support.decode import messages, span_messages
from tests.support.decoding import decode_object as decode_logs
from tests.support.segments.merging import HOUR_NS, START, TARGET, assert_same, merged, only, rows_of, written
from tests.support.segments.metric_tables import START_MS, row, samples, table

SLOT_NS = 5 * MINUTE_NS


def log_table(number: int, rows: int = 12) -> pa.Table:
    payload = messages.sample(rows).SerializeToString()
    found = decode_logs(payload, object_id=number, arrival_ns=1, max_bytes=1 << 24, slice_bytes=1 << 24)
    return pa.concat_tables([piece.table for piece in found]).combine_chunks()


def many_logs(number: int, rows: int) -> pa.Table:
    """Lines over three slots."""
    found = log_table(number)
    found = found.take(pa.array(np.arange(rows) % found.num_rows)).combine_chunks()
    times = START + 1 + np.random.default_rng(number).integers(0, 3 * SLOT_NS, rows)
    for name, column in (("chq_position", np.arange(rows)), ("chq_tsns", times)):
        found = found.set_column(found.column_names.index(name), name, pa.array(column))
    return found


def hours(folder: Path, count: int, series_count: int = 7) -> list[Path]:
    """An hour of samples per segment."""
    paths = []
    for hour in range(count):
        rng = np.random.default_rng(hour)
        values = {f"i{n}": np.round(rng.normal(20, 3, 240), n % 4) for n in range(series_count)}
        found = samples(values, object_id=hour + 1)
        times = found["chq_timestamp"].to_numpy() + hour * 3_600_000 + 1
        place = found.column_names.index("chq_timestamp")
        paths.append(folder / f"h{hour}")
        written(MergeKind.SAMPLES, paths[-1], [found.set_column(place, "chq_timestamp", pa.array(times))])
    return paths


def test_log_row_groups_do_not_mix_slots_and_all_rows_are_there(tmp_path: Path) -> None:
    tables = [many_logs(number, 30_000) for number in range(3)]
    for number, each in enumerate(tables):
        written(MergeKind.LOGS, tmp_path / f"s{number}", [each])
    facts = written(MergeKind.LOGS, tmp_path / "expected", tables)
    result = merged(MergeKind.LOGS, tmp_path / "out", [tmp_path / f"s{number}" for number in range(3)])
    assert facts.row_groups == result.segments[0].facts.row_groups == 3
    file = pq.ParquetFile(only(result))
    for group in range(3):
        times = file.read_row_group(group, ["chq_tsns"])["chq_tsns"].to_numpy()
        assert len(np.unique(cut(times, SLOT_NS))) == 1
    names = ["chq_tsns", "chq_object", "chq_position", "log_message", "trace_id"]
    assert pq.read_table(only(result), columns=names) == pq.read_table(tmp_path / "expected", columns=names)


def test_log_row_groups_end_between_services_as_the_writer_cuts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [many_logs(number, 400) for number in range(3)]
    for module in ("order", "merge.output"):
        monkeypatch.setattr(f"lakerunner_assets.segments.{module}.SMALL_SEGMENT_ROWS", 50)
    monkeypatch.setattr("lakerunner_assets.segments.order.ROWS_PER_COLUMN", 1)
    for number, each in enumerate(tables):
        written(MergeKind.LOGS, tmp_path / f"s{number}", [each])
    facts = written(MergeKind.LOGS, tmp_path / "expected", tables)
    sources = [tmp_path / f"s{number}" for number in range(3)]
    for memory_bytes in (1 << 22, 1 << 26):
        result = merged(MergeKind.LOGS, tmp_path / f"o{memory_bytes}", sources, memory_bytes=memory_bytes)
        assert_same(only(result), tmp_path / "expected")
        found = pq.read_metadata(only(result))
        assert found.num_row_groups == facts.row_groups == 6  # two services, three slots
        expected = pq.read_metadata(tmp_path / "expected")
        for group in range(found.num_row_groups):
            assert found.row_group(group).num_rows == expected.row_group(group).num_rows


def test_metric_row_groups_end_with_a_series(tmp_path: Path) -> None:
    rows = 120_000
    for number in range(2):
        values = {f"i{n}": np.arange(rows // 2, dtype=float) for n in range(5)}
        written(MergeKind.SAMPLES, tmp_path / f"s{number}", [samples(values, 100, object_id=number + 1)])
    result = merged(MergeKind.SAMPLES, tmp_path / "out", [tmp_path / "s0", tmp_path / "s1"])
    metadata = pq.read_metadata(only(result))
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [
        2 * rows,
        2 * rows,
        rows,
    ]


def test_a_series_longer_than_a_row_group_keeps_one_base_and_its_values(tmp_path: Path) -> None:
    values = np.arange(300_000) / 4 + 1000
    values[:250_000] = 0.1 + 0.2 + np.arange(250_000) / 7  # first row group: nothing that can be scaled
    other = {"a": np.full(300_000, 5.0), "b": values}
    source = samples(other, 10)
    written(MergeKind.SAMPLES, tmp_path / "s", [source])
    path = only(merged(MergeKind.SAMPLES, tmp_path / "out", [tmp_path / "s"]))
    found = read_metric_segment(path)
    for name, sent in other.items():
        own = found.filter(pa.array([each == name for each in found["attr_instance"].to_pylist()]))
        assert own["chq_value"].to_numpy().tobytes() == sent.tobytes()
    facts = read_facts(pq.read_metadata(path))
    raw = path.read_bytes()[facts.series_offset : facts.series_offset + facts.series_length]
    bases = pq.read_table(path, columns=["chq_value_base"])["chq_value_base"].to_numpy()
    for each in series.decode(raw, facts.rows):
        assert set(bases[each.row : each.row + each.rows].tolist()) == {each.base}


def test_values_of_many_hours_are_the_same_bits_and_scaled_like_before(tmp_path: Path) -> None:
    sources = hours(tmp_path, 5)
    found = read_metric_segment(only(merged(MergeKind.SAMPLES, tmp_path / "out", sources)))
    expected = pa.concat_tables([read_metric_segment(path).drop_columns(["chq_series"]) for path in sources])
    expected = expected.sort_by([(n, "ascending") for n in ("metric_name", "chq_tid", "chq_timestamp")])
    assert found["chq_value"].to_numpy().tobytes() == expected["chq_value"].to_numpy().tobytes()
    stored = pq.read_table(tmp_path / "out" / f"tbl_{START}-0.parquet")
    assert stored["chq_value_double"].null_count == stored.num_rows


@pytest.mark.parametrize("memory_bytes", [1, 1 << 20, 1 << 26])
def test_small_parts_do_not_overlap_and_hold_everything(tmp_path: Path, memory_bytes: int) -> None:
    sources = hours(tmp_path, 4)
    result = merged(
        MergeKind.SAMPLES, tmp_path / "out", sources, target_bytes=1, memory_bytes=max(memory_bytes, 1 << 16)
    )
    assert [segment.part for segment in result.segments] == list(range(len(result.segments)))
    assert len(result.segments) > 1 or memory_bytes > 1 << 20
    for one, other in pairwise(result.segments):
        assert one.first_key <= one.last_key < other.first_key
    whole = merged(MergeKind.SAMPLES, tmp_path / "whole", sources)
    assert [row for s in result.segments for row in rows_of(s.path)] == rows_of(only(whole))
    again = merged(MergeKind.SAMPLES, tmp_path / "again", [segment.path for segment in result.segments])
    assert_same(only(again), only(whole))


def times_in(segment: MergedSegment, column: str) -> np.ndarray:
    times: np.ndarray = pq.read_table(segment.path, columns=[column])[column].to_numpy()
    return times * (1_000_000 if column == "chq_timestamp" else 1)


def test_carving_hours_out_of_a_day(tmp_path: Path) -> None:
    sources = hours(tmp_path, 5)
    day = Window(START_MS * 1_000_000 // 86_400_000_000_000 * 86_400_000_000_000, 24 * HOUR_NS)
    carve = [Window(START_MS * 1_000_000 + hour * HOUR_NS, HOUR_NS) for hour in (1, 3)]
    result = merged(MergeKind.SAMPLES, tmp_path / "out", sources, target=day, carve=carve)
    assert [segment.window for segment in result.segments] == [*carve, day]
    for segment in result.segments[:2]:
        times = times_in(segment, "chq_timestamp")
        assert len(times) == 7 * 240
        assert (times > segment.window.start_ns).all()
        assert (times <= segment.window.end_ns).all()
        facts = read_facts(pq.read_metadata(segment.path))
        assert (facts.hour_ns, facts.min_ns, facts.max_ns) == (
            segment.window.start_ns,
            times.min(),
            times.max(),
        )
    for segment, hour in zip(result.segments, (1, 3), strict=False):
        assert rows_of(segment.path) == rows_of(sources[hour])
    assert result.rows_written == result.rows_read == 5 * 7 * 240
    back = merged(MergeKind.SAMPLES, tmp_path / "back", [s.path for s in result.segments], target=day)
    assert_same(only(back), only(merged(MergeKind.SAMPLES, tmp_path / "whole", sources, target=day)))


def test_windows_are_left_open(tmp_path: Path) -> None:
    up = {"__name__": "up"}
    at = (0, 1, 3_600_000, 3_600_001)
    written(MergeKind.SAMPLES, tmp_path / "s", [table([row(n, up, ms, float(n)) for n, ms in enumerate(at)])])
    hour = Window(START_MS * 1_000_000, HOUR_NS)
    day = Window(0, 1 << 62)
    result = merged(MergeKind.SAMPLES, tmp_path / "out", [tmp_path / "s"], target=day, carve=[hour])
    positions = [pq.read_table(segment.path)["chq_position"].to_pylist() for segment in result.segments]
    assert positions == [[1, 2], [0, 3]]


@pytest.mark.parametrize("kind", [MergeKind.LOGS, MergeKind.TRACES])
def test_carving_logs_and_spans(tmp_path: Path, kind: MergeKind) -> None:
    sources = []
    for number in range(3):
        spans = span_messages.decode_object(span_messages.sample().SerializeToString(), object_id=number)
        tables = [log_table(number)] if kind is MergeKind.LOGS else spans
        sources.append(tmp_path / f"s{number}")
        written(kind, sources[-1], tables)
    column = "chq_tsns" if kind is MergeKind.LOGS else "span_start_ns"
    whole = merged(kind, tmp_path / "whole", sources)
    times = times_in(whole.segments[0], column)
    window = Window(int(np.median(times)), HOUR_NS)
    result = merged(kind, tmp_path / "out", sources, carve=[window])
    carved, rest = (times_in(segment, column) for segment in result.segments)
    assert (carved > window.start_ns).all()
    assert (rest <= window.start_ns).all()
    assert sorted([*carved.tolist(), *rest.tolist()]) == sorted(times.tolist())
    back = merged(kind, tmp_path / "back", [segment.path for segment in result.segments])
    assert_same(only(back), only(whole))


def test_windows_that_overlap_are_refused(tmp_path: Path) -> None:
    (source,) = hours(tmp_path, 1)
    with pytest.raises(ValueError, match="overlap"):
        merged(MergeKind.SAMPLES, tmp_path / "o", [source], carve=[Window(START, 10), Window(START + 5, 10)])
    with pytest.raises(ValueError, match="is the target"):
        merged(MergeKind.SAMPLES, tmp_path / "o", [source], carve=[TARGET])


def test_attributes_beyond_the_limit_move_to_the_overflow_map_least_frequent_first(tmp_path: Path) -> None:
    tables = [log_table(number) for number in range(3)]
    for number, each in enumerate(tables):
        written(MergeKind.LOGS, tmp_path / f"s{number}", [each])
    sources = [tmp_path / f"s{number}" for number in range(3)]
    whole = only(merged(MergeKind.LOGS, tmp_path / "whole", sources))
    narrow = only(merged(MergeKind.LOGS, tmp_path / "narrow", sources, max_columns=1))
    assert rows_of(narrow, as_text=True) == rows_of(whole, as_text=True)
    names = [name for name in pq.read_schema(narrow).names if name.startswith("attr_")]
    assert len(names) == 2
    assert "attr_overflow" in names
    kept = pq.read_table(narrow, columns=[name for name in names if name != "attr_overflow"]).column(0)
    all_counts = [
        column.length() - column.null_count
        for name, column in zip(pq.read_schema(whole).names, pq.read_table(whole).columns, strict=True)
        if name.startswith("attr_") and name != "attr_overflow"
    ]
    assert kept.length() - kept.null_count == max(all_counts)
    again = only(merged(MergeKind.LOGS, tmp_path / "again", [narrow, sources[0]], max_columns=1))
    assert rows_of(again, as_text=True) == rows_of(whole, as_text=True)


def test_many_distinct_texts_are_forgotten_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakerunner_assets.segments.merge.rounds.FULL", 3)
    tables = [
        table(
            [
                row(
                    n,
                    {"__name__": f"m{n:03}", "instance": f"{s}{n}"},
                    s,
                    1.0,
                    chq_object=s,
                    metric_unit=f"u{n}",
                )
                for n in range(200)
            ]
        )
        for s in range(3)
    ]
    for number, each in enumerate(tables):
        written(MergeKind.SAMPLES, tmp_path / f"s{number}", [each])
    sources = [tmp_path / f"s{number}" for number in range(3)]
    written(MergeKind.SAMPLES, tmp_path / "expected", tables)
    result = merged(MergeKind.SAMPLES, tmp_path / "out", sources, memory_bytes=1)
    assert_same(only(result), tmp_path / "expected")


def test_two_label_sets_with_one_id_stay_two_series(tmp_path: Path) -> None:
    rows = [
        {
            **row(n, {"__name__": "up", "instance": "ab"[n % 2]}, n, float(n), chq_object=n // 10),
            "chq_tid": 42,
        }
        for n in range(40)
    ]
    for number in range(4):
        written(MergeKind.SAMPLES, tmp_path / f"s{number}", [table(rows[number * 10 : number * 10 + 10])])
    written(MergeKind.SAMPLES, tmp_path / "expected", [table(rows)])
    result = merged(MergeKind.SAMPLES, tmp_path / "out", [tmp_path / f"s{n}" for n in (3, 1, 0, 2)])
    assert_same(only(result), tmp_path / "expected")


def damaged(path: Path, how: str) -> None:
    raw = bytearray(path.read_bytes())
    facts = read_facts(pq.read_metadata(path))
    if how == "truncated":
        raw = raw[: len(raw) // 2]
    elif how == "no series table":
        raw[facts.series_offset : facts.series_offset + facts.series_length] = bytes(facts.series_length)
    elif how == "pages":
        raw[4 : facts.series_offset] = bytes(facts.series_offset - 4)
    path.write_bytes(raw)


@pytest.mark.parametrize("how", ["truncated", "no series table", "pages"])
@pytest.mark.parametrize("kind", [MergeKind.LOGS, MergeKind.SAMPLES])
def test_a_damaged_source_is_named_and_nothing_is_left(tmp_path: Path, how: str, kind: MergeKind) -> None:
    tables = [log_table(1)] if kind is MergeKind.LOGS else [samples({"a": np.arange(99.0)})]
    for name in ("good", "bad"):
        written(kind, tmp_path / name, tables)
    damaged(tmp_path / "bad", how)
    with pytest.raises(SourceError, match="bad: "):
        merged(kind, tmp_path / "out", [tmp_path / "good", tmp_path / "bad"])
    assert list((tmp_path / "out").iterdir()) == []


def test_segments_of_something_else_are_refused(tmp_path: Path) -> None:
    written(MergeKind.LOGS, tmp_path / "logs", [log_table(1)])
    (hour,) = hours(tmp_path, 1)
    with pytest.raises(SourceError, match=r"logs: sorted by .*expected samples"):
        merged(MergeKind.SAMPLES, tmp_path / "out", [hour, tmp_path / "logs"])
    with pytest.raises(SourceError, match="of acme, metrics: expected other, metrics"):
        merged(MergeKind.SAMPLES, tmp_path / "out", [hour], org="other")
    with pytest.raises(SourceError, match="missing"):
        merged(MergeKind.SAMPLES, tmp_path / "out", [tmp_path / "missing"])
    with pytest.raises(ValueError, match="without sources"):
        merged(MergeKind.SAMPLES, tmp_path / "out", [])
