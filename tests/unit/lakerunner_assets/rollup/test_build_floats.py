"""Every column of float series and every rule about it, small enough to compute by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_assets.rollup.buckets import Cut
from lakerunner_assets.rollup.coarser import RepeatedBucketError, roll_rollups
from resources.lake import rollup_columns as rollup
from tests.support.rollup import oracle
from tests.support.rollup.cases import (
    HOUR_MS,
    NOON,
    UP,
    content,
    of_rows,
    paths,
    rolled,
    row,
    sample_segment,
    single,
    sketch_of,
    stepped,
    told_sketch,
)
from tests.support.segments.metric_tables import OTHER_NAN, STALE, double

STALE_MARKER, NAN = double(STALE), double(OTHER_NAN)


def short(values: dict[str, object]) -> dict[str, object]:
    """Float columns without their prefix."""
    names = [name for name in rollup.LOGICAL if name.startswith("chq_rollup_")]
    return {name.removeprefix("chq_rollup_"): values[name] for name in names}


def test_a_bucket_of_four_samples(tmp_path: Path) -> None:
    found = single(of_rows(tmp_path, [row(n, 1000 * n + 1, v) for n, v in enumerate([3.0, 5.0, 1.0, 2.5])]))
    assert short(found) == {
        "count": 4, "sum": 11.5, "sum_c": 0.0, "min": 1.0, "max": 5.0,
        "first": 3.0, "first_ts": NOON + 1, "last": 2.5, "last_ts": NOON + 3001, "last_stale": False,
        "prev": 1.0, "prev_ts": NOON + 2001, "reset_sum": 5.0, "resets": 1, "changes": 3,
        "m2": pytest.approx(9 + 25 + 1 + 6.25 - 11.5**2 / 4, rel=1e-12),
    }  # fmt: skip
    assert found["chq_timestamp"] == NOON + 10_000
    assert found[rollup.SKETCH] is None
    assert told_sketch(found) == sketch_of([3.0, 5.0, 1.0, 2.5])


def test_one_sample_is_stored_with_nulls_everywhere_else(tmp_path: Path) -> None:
    parts = rolled(tmp_path, [sample_segment(tmp_path, "s", [row(0, 15, 0.1 + 0.2)])], 0, 10_000)
    (cells,) = pq.read_table(parts[0].path).to_pylist()
    assert {name: cell for name, cell in cells.items() if name.startswith(("chq_rollup", "chq_sketch"))} == {
        "chq_rollup_count": 1, "chq_rollup_last": 0.1 + 0.2, "chq_rollup_last_ts": NOON + 15,
    }  # fmt: skip
    value = 0.1 + 0.2
    assert short(single(content(parts))) == {
        "count": 1, "sum": value, "sum_c": 0.0, "min": value, "max": value, "first": value,
        "first_ts": NOON + 15, "last": value, "last_ts": NOON + 15, "last_stale": False, "prev": None,
        "prev_ts": None, "reset_sum": 0.0, "resets": 0, "changes": 0, "m2": 0.0,
    }  # fmt: skip


def test_decimal_values_are_stored_as_integers(tmp_path: Path) -> None:
    rows = [row(n, 4000 * n + 1, 17.25 + n / 4) for n in range(30)]
    parts = rolled(tmp_path, [sample_segment(tmp_path, "s", rows)], 0, 10_000)
    names = set(pq.read_schema(parts[0].path).names)
    assert {"chq_rollup_last_scaled", "chq_rollup_first_scaled", "chq_rollup_exponent"} < names
    assert not names & {"chq_rollup_last", "chq_rollup_first", "chq_rollup_sum", "chq_rollup_m2"}
    firsts = [values[rollup.FIRST] for values in content(parts).values()]
    assert firsts[:3] == [17.25, 18.0, 18.5]


@pytest.mark.parametrize(("ms", "end"), [(-1, 0), (0, 0), (1, 10_000), (10_000, 10_000), (10_001, 20_000)])
def test_buckets_are_open_on_the_left_and_closed_on_the_right(tmp_path: Path, ms: int, end: int) -> None:
    start = NOON if ms > 0 else NOON - HOUR_MS
    found = of_rows(tmp_path, [row(0, ms, 1.0)], start_ms=start)
    assert [key[1] for key in found] == [NOON + end]


def test_times_at_and_before_the_epoch(tmp_path: Path) -> None:
    rows = [row(n, ms - NOON, float(n)) for n, ms in enumerate([-10_000, -9_999, -1, 0])]
    found = of_rows(tmp_path, rows, start_ms=-HOUR_MS)
    assert [(key[1], values[rollup.COUNT]) for key, values in found.items()] == [(-10_000, 1), (0, 3)]


def test_only_rows_of_the_window_are_used_of_a_source_as_wide_as_a_day(tmp_path: Path) -> None:
    rows = [row(n, ms, float(n)) for n, ms in enumerate([-1, 0, 1, HOUR_MS, HOUR_MS + 1, 5 * HOUR_MS])]
    found = of_rows(tmp_path, rows)
    assert [values[rollup.LAST] for values in found.values()] == [2.0, 3.0]
    day = paths(rolled(tmp_path, [tmp_path / "tbl_s.parquet"], 0, 10_000, NOON - 12 * HOUR_MS, 24 * HOUR_MS))
    minutes = content(rolled(tmp_path, day, 10_000, 60_000))
    assert [(key[1] - NOON, values[rollup.LAST]) for key, values in minutes.items()] == [
        (60_000, 2.0), (HOUR_MS, 3.0)
    ]  # fmt: skip


def test_nothing_in_the_window_is_no_segment(tmp_path: Path) -> None:
    source = sample_segment(tmp_path, "s", [row(0, -5, 1.0), row(1, HOUR_MS + 1, 1.0)])
    assert rolled(tmp_path, [source], 0, 10_000) == ()
    assert rolled(tmp_path, [], 0, 10_000) == ()


def test_of_one_millisecond_the_greatest_nanosecond_counts(tmp_path: Path) -> None:
    at = (NOON + 5) * 1_000_000
    rows = [row(0, 5, 7.0, chq_tsns=at + 2), row(1, 5, 8.0, chq_tsns=at + 1), row(2, 5, 9.0)]
    found = single(of_rows(tmp_path, rows))
    assert (found[rollup.COUNT], found[rollup.SUM]) == (1, 7.0)


def test_of_one_nanosecond_real_values_count_before_stale_markers_then_the_greatest_row_id(
    tmp_path: Path,
) -> None:
    rows = [row(0, 5, 7.0), row(1, 5, 8.0), row(2, 5, STALE_MARKER)]
    found = single(of_rows(tmp_path, rows))
    assert (found[rollup.COUNT], found[rollup.LAST], found[rollup.LAST_STALE]) == (1, 8.0, False)
    later = row(3, 5, STALE_MARKER, chq_tsns=(NOON + 5) * 1_000_000 + 1)
    found = single(of_rows(tmp_path, [*rows, later]))
    assert (found[rollup.COUNT], found[rollup.LAST_STALE]) == (0, True)
    other_object = row(0, 5, 6.0, chq_object=2)
    assert single(of_rows(tmp_path, [*rows, other_object]))[rollup.LAST] == 6.0


def test_a_row_without_any_value_is_no_sample(tmp_path: Path) -> None:
    exemplar = [{"tsns": 5, "value": 0.25, "value_int": None, "trace_id": None, "span_id": None,
                 "attributes": []}]  # fmt: skip
    rows = [row(0, 5, 1.0), row(1, 6, None, chq_exemplars=exemplar), row(2, 20_000, None)]
    found = single(of_rows(tmp_path, rows))
    assert (found[rollup.COUNT], found[rollup.LAST_TS]) == (1, NOON + 5)


def test_a_bucket_with_only_a_stale_marker_is_a_row_of_nulls(tmp_path: Path) -> None:
    rows = [row(0, 5, 1.0), row(1, 15_000, STALE_MARKER), row(2, 25_000, 2.0), row(3, 26_000, STALE_MARKER)]
    first, second, third = of_rows(tmp_path, rows).values()
    empty = {"count": 0, "last_stale": True, "resets": 0, "changes": 0, "reset_sum": 0.0, "sum_c": 0.0}
    assert {**short(second), "m2": 0.0} == {**dict.fromkeys(short(second)), **empty, "m2": 0.0}
    assert (first[rollup.LAST_STALE], third[rollup.LAST_STALE], third[rollup.COUNT]) == (False, True, 1)


def test_stale_markers_are_no_change_and_no_reset_between_buckets(tmp_path: Path) -> None:
    rows = [row(0, 5, 4.0), row(1, 15_000, STALE_MARKER), row(2, 25_000, 4.0), row(3, 26_000, STALE_MARKER)]
    found = single(stepped(tmp_path, rows, [10_000, 60_000]))
    assert (found[rollup.COUNT], found[rollup.CHANGES], found[rollup.RESETS]) == (2, 0, 0)
    assert (found[rollup.PREV], found[rollup.PREV_TS], found[rollup.LAST_STALE]) == (4.0, NOON + 5, True)


@pytest.mark.parametrize("widths", [[60_000], [10_000, 60_000], [20_000, 60_000]])
def test_resets_and_changes_on_seams(tmp_path: Path, widths: list[int]) -> None:
    values = [10.0, 12.0, 3.0, 3.0, 7.0, 1.0]  # at 9, 10 | 11, 20 | 21, 30 s
    rows = [row(n, s * 1000, v) for n, (s, v) in enumerate(zip([9, 10, 11, 20, 21, 30], values, strict=True))]
    found = single(stepped(tmp_path, rows, widths))
    assert (found[rollup.RESETS], found[rollup.RESET_SUM], found[rollup.CHANGES]) == (2, 19.0, 4)
    assert (found[rollup.FIRST], found[rollup.LAST], found[rollup.PREV]) == (10.0, 1.0, 7.0)
    assert (found[rollup.SUM], found[rollup.MIN], found[rollup.MAX]) == (36.0, 1.0, 12.0)
    assert found[rollup.M2] == pytest.approx(100 + 144 + 9 + 9 + 49 + 1 - 36**2 / 6, rel=1e-12)


@pytest.mark.parametrize("widths", [[60_000], [10_000, 60_000]])
def test_nan_and_infinities_are_real_samples(tmp_path: Path, widths: list[int]) -> None:
    rows = [row(n, s * 1000, v) for n, (s, v) in enumerate([(1, NAN), (2, NAN), (11, 5.0), (21, math.inf)])]
    found = single(stepped(tmp_path, rows, widths))
    assert found[rollup.COUNT] == 4
    assert math.isnan(found[rollup.SUM] + found[rollup.SUM_C])
    assert math.isnan(found[rollup.M2])
    assert (found[rollup.MIN], found[rollup.MAX], found[rollup.LAST]) == (5.0, math.inf, math.inf)
    assert oracle.bits(found[rollup.FIRST]) == OTHER_NAN
    assert found[rollup.CHANGES] == 2  # NaN to NaN is none
    assert told_sketch(found) == sketch_of([5.0])


def test_a_bucket_of_nans_has_nan_for_everything(tmp_path: Path) -> None:
    found = single(of_rows(tmp_path, [row(n, n + 1, NAN) for n in range(3)]))
    bits = [oracle.bits(found[name]) for name in (rollup.MIN, rollup.MAX, rollup.FIRST, rollup.LAST)]
    assert bits == [OTHER_NAN] * 4
    assert told_sketch(found) is None


def test_once_the_sum_is_infinite_the_compensation_is_zero(tmp_path: Path) -> None:
    found = single(of_rows(tmp_path, [row(n, n + 1, v) for n, v in enumerate([1e308, 1e308, 0.5])]))
    assert (found[rollup.SUM], found[rollup.SUM_C]) == (math.inf, 0.0)


@pytest.mark.parametrize("widths", [[60_000], [10_000, 60_000]])
def test_sums_keep_what_rounding_takes(tmp_path: Path, widths: list[int]) -> None:
    rows = [row(n, 9000 * n + 1, v) for n, v in enumerate([1.0, 1e100, 1.0, -1e100])]
    found = single(stepped(tmp_path, rows, widths))
    assert found[rollup.SUM] + found[rollup.SUM_C] == 2.0


def test_minus_zero_keeps_its_sign(tmp_path: Path) -> None:
    found = single(of_rows(tmp_path, [row(0, 1, -0.0)]))
    assert [oracle.bits(found[n]) for n in (rollup.LAST, rollup.SUM, rollup.MIN)] == [1 << 63] * 3
    found = single(of_rows(tmp_path, [row(0, 1, -0.0), row(1, 2, 0.0)]))
    assert (oracle.bits(found[rollup.FIRST]), oracle.bits(found[rollup.LAST])) == (1 << 63, 0)
    assert (found[rollup.CHANGES], found[rollup.RESETS]) == (0, 0)


def test_equal_values_need_no_sketch(tmp_path: Path) -> None:
    rows = [row(n, n + 1, 2.5) for n in range(5)]
    found = single(of_rows(tmp_path, rows))
    assert found[rollup.SKETCH] is None
    minute = single(stepped(tmp_path, [*rows, row(5, 30_000, 2.6)], [10_000, 60_000]))
    assert minute[rollup.SKETCH] == sketch_of([2.5] * 5 + [2.6])


def test_delta_sums_add_up(tmp_path: Path) -> None:
    rows = [
        row(n, 5000 * n + 1, v, metric_temporality="delta", chq_metric_type="sum")
        for n, v in enumerate([5.0, 3.0, 8.0])
    ]
    found = single(stepped(tmp_path, rows, [10_000, 60_000]))
    assert (found[rollup.SUM], found["metric_temporality"]) == (16.0, "delta")


def test_several_temporalities_are_mixed(tmp_path: Path) -> None:
    words = ["delta", "cumulative", None, "delta"]
    rows = [row(n, 8000 * n + 1, 1.0, metric_temporality=word) for n, word in enumerate(words)]
    tens = of_rows(tmp_path, rows)
    assert [values["metric_temporality"] for values in tens.values()] == ["mixed", None, "delta"]
    assert single(stepped(tmp_path, rows, [10_000, 60_000]))["metric_temporality"] == "mixed"
    assert single(stepped(tmp_path, rows[1:3], [10_000, 60_000]))["metric_temporality"] == "cumulative"


def test_what_belongs_to_the_series_comes_from_the_newest_row(tmp_path: Path) -> None:
    old, new = (
        {"metric_unit": word, "metric_description": word, "scope_name": word, "chq_metric_type": word,
         "metric_metadata": [("k", word)], "instance": word, "chq_flags": 1, "chq_start_tsns": 5}
        for word in ("old", "new")
    )  # fmt: skip
    found = single(of_rows(tmp_path, [row(1, 9, 1.0, **new), row(0, 5, 2.0, **old)]))
    for name in ("metric_unit", "metric_description", "scope_name", "chq_metric_type", "attr_instance"):
        assert found[name] == "new"
    assert found["metric_metadata"] == [("k", "new")]
    assert not found.keys() & {"chq_flags", "chq_start_tsns", "chq_object", "chq_position", "chq_tsns"}


def test_two_rows_of_one_bucket_are_an_error(tmp_path: Path) -> None:
    part = rolled(tmp_path, [sample_segment(tmp_path, "s", [row(0, 5, 1.0)])], 0, 10_000)[0]
    with pytest.raises(ValueError, match="same series and bucket"):
        rolled(tmp_path, [part.path, part.path], 10_000, 60_000)
    table = pq.read_table(part.path)
    twice = pa.concat_tables([table, table]).combine_chunks()
    with pytest.raises(RepeatedBucketError, match="metric_name"):
        roll_rollups(twice, np.zeros(2, np.int32), Cut(NOON, NOON + HOUR_MS, 60_000))


def test_windows_and_widths_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    source = sample_segment(tmp_path, "s", [row(0, 5, 1.0)])
    with pytest.raises(ValueError, match="multiples of 10000 ms"):
        rolled(tmp_path, [source], 0, 10_000, NOON + 1)
    with pytest.raises(ValueError, match="no union"):
        rolled(tmp_path, [source], 60_000, 90_000, 0)


def test_label_sets_with_one_id_stay_apart(tmp_path: Path) -> None:
    other = {"__name__": "up", "instance": "b"}
    rows = [
        {**row(n, n + 1, float(n), labels), "chq_tid": 42} for n, labels in enumerate([UP, other, UP, other])
    ]
    found = stepped(tmp_path, rows, [10_000, 60_000])
    assert [values[rollup.SUM] for values in found.values()] == [2.0, 4.0]
