"""Histograms of all three kinds: first, last, sum, resets, and when sums cannot say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from resources.lake import rollup_columns as rollup
from resources.lake.terms import term
from tests.support.rollup.cases import content, of_rows, rolled, row, sample_segment, single, stepped
from tests.support.segments.metric_tables import STALE, Row, double

LATENCY = {"__name__": "latency", "instance": "a"}
BOTH = pytest.mark.parametrize("widths", [[60_000], [10_000, 60_000]])


def explicit(position: int, ms: int, counts: list[int], total: float | None = 1.0, **more: Any) -> Row:
    found = {
        "chq_metric_type": "histogram", "chq_hist_count": sum(counts), "chq_hist_sum": total,
        "chq_hist_bounds": [0.1, 0.5], "chq_hist_counts": counts, **more,
    }  # fmt: skip
    return row(position, ms, None, LATENCY, **found)


def exponential(position: int, ms: int, offset: int, counts: list[int], **more: Any) -> Row:
    found = {
        "chq_metric_type": "exponential_histogram", "chq_hist_count": sum(counts) + 1, "chq_hist_sum": 2.5,
        "chq_hist_schema": 3, "chq_hist_zero_count": 1, "chq_hist_zero_threshold": 0.0,
        "chq_hist_positive_offset": offset, "chq_hist_positive_counts": counts, **more,
    }  # fmt: skip
    return row(position, ms, None, LATENCY, **found)


def parts(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {
        which: tuple(found[f"chq_hist_{which}"][name] for name in names) for which in ("first", "last", "sum")
    }


@BOTH
def test_explicit_buckets(tmp_path: Path, widths: list[int]) -> None:
    rows = [
        explicit(0, 1, [1, 1, 0], 0.75),
        explicit(1, 9_000, [2, 1, 1], 1.0),
        explicit(2, 12_000, [0, 1, 0], 0.25),
        explicit(3, 30_000, [0, 4, 0], 2.0),
    ]
    found = single(stepped(tmp_path, rows, widths))
    assert parts(found, "counts", "count", "sum", "schema") == {
        "first": ([1, 1, 0], 2, 0.75, None),
        "last": ([0, 4, 0], 4, 2.0, None),
        "sum": ([3, 7, 1], 11, 4.0, None),
    }
    assert found["chq_hist_sum"]["bounds"] == [0.1, 0.5]
    assert (found[rollup.HIST_COUNT], found[rollup.HIST_RESETS], found[rollup.HIST_MIXED]) == (4, 1, False)
    assert (found[rollup.COUNT], found[rollup.FIRST_TS] % 60_000, found[rollup.LAST]) == (0, 1, None)
    assert found[rollup.LAST_TS] % 60_000 == 30_000


@BOTH
def test_a_bucket_that_falls_is_a_reset_though_the_count_rises(tmp_path: Path, widths: list[int]) -> None:
    rows = [explicit(0, 1, [5, 0, 0]), explicit(1, 9_000, [5, 0, 0]), explicit(2, 11_000, [4, 9, 0])]
    assert single(stepped(tmp_path, rows, widths))[rollup.HIST_RESETS] == 1


@BOTH
def test_a_sum_that_falls_alone_is_a_reset(tmp_path: Path, widths: list[int]) -> None:
    rows = [explicit(0, 1, [5, 0, 0], 4.0), explicit(1, 11_000, [6, 0, 0], 3.5)]
    found = single(stepped(tmp_path, rows, widths))
    assert (found[rollup.HIST_RESETS], found[rollup.HIST_MIXED]) == (1, False)
    unsaid = [explicit(0, 1, [5, 0, 0], None), explicit(1, 11_000, [6, 0, 0], 3.5)]
    assert single(stepped(tmp_path, unsaid, widths))[rollup.HIST_RESETS] == 0


UNSAID, IS_RESET, NO_RESET, GAUGE = range(4)


@pytest.mark.parametrize(
    ("hint", "counts", "total", "mixed"),
    [
        (UNSAID, [1, 1], 1.0, False),
        (UNSAID, [2, 4], 3.0, False),
        (IS_RESET, [1, 1], 1.0, False),
        (IS_RESET, [2, 4], 3.0, True),
        (NO_RESET, [1, 1], 1.0, True),
        (NO_RESET, [2, 4], 3.0, False),
        (NO_RESET, [2, 4], -3.0, False),
        (GAUGE, [1, 1], 1.0, False),
        (GAUGE, [2, 4], 3.0, False),
    ],
)
def test_a_hint_that_the_counts_contradict_is_mixed(
    tmp_path: Path, hint: int, counts: list[int], total: float, mixed: bool
) -> None:
    rows = [
        exponential(0, 1, 0, [2, 3], chq_hist_sum=2.0),
        exponential(1, 9_000, 0, counts, chq_hist_reset_hint=hint, chq_hist_sum=total),
    ]
    for widths in ([10_000], [60_000], [10_000, 60_000]):
        found = single(stepped(tmp_path, rows, widths))
        assert found[rollup.HIST_MIXED] == mixed, widths
        assert (found["chq_hist_sum"] is None) == mixed
        assert found[rollup.HIST_RESETS] == (counts == [1, 1] or total < 0)


def test_a_reset_said_of_the_first_of_a_bucket_cannot_be_checked(tmp_path: Path) -> None:
    rows = [
        exponential(0, 9_000, 0, [2, 3], chq_hist_reset_hint=NO_RESET),
        exponential(1, 11_000, 0, [1, 1], chq_hist_reset_hint=IS_RESET),
    ]
    assert [found[rollup.HIST_MIXED] for found in of_rows(tmp_path, rows).values()] == [False, True]


@BOTH
def test_exponential_buckets_are_added_by_their_number(tmp_path: Path, widths: list[int]) -> None:
    rows = [
        exponential(0, 1, -1, [1, 2], chq_hist_negative_offset=4, chq_hist_negative_counts=[7]),
        exponential(1, 11_000, 0, [2, 0, 3], chq_hist_negative_offset=3, chq_hist_negative_counts=[1, 7]),
    ]
    found = single(stepped(tmp_path, rows, widths))
    names = ("positive_offset", "positive_counts", "negative_offset", "negative_counts", "zero_count")
    assert parts(found, *names)["sum"] == (-1, [1, 4, 0, 3], 3, [1, 14], 2)
    assert (found[rollup.HIST_RESETS], found[rollup.HIST_MIXED]) == (1, False)  # bucket -1 falls to none


@BOTH
def test_custom_buckets_of_native_histograms_with_doubles(tmp_path: Path, widths: list[int]) -> None:
    def native(position: int, ms: int, counts: list[float], bounds: list[float]) -> Row:
        found = {
            "chq_metric_type": "histogram", "chq_hist_count_float": sum(counts), "chq_hist_sum": 1.0,
            "chq_hist_schema": -53, "chq_hist_zero_threshold": 0.0, "chq_hist_zero_count_float": 0.0,
            "chq_hist_bounds": bounds, "chq_hist_positive_offset": 0,
            "chq_hist_positive_counts_float": counts, "chq_hist_reset_hint": 0,
        }  # fmt: skip
        return row(position, ms, None, LATENCY, **found)

    rows = [native(0, 1, [0.5, 1.5], [1.0, 2.0]), native(1, 11_000, [0.5, 2.5], [1.0, 2.0])]
    found = single(stepped(tmp_path, rows, widths))
    assert parts(found, "bounds", "positive_counts", "count", "schema")["sum"] == (
        [1.0, 2.0],
        [1.0, 4.0],
        5.0,
        -53,
    )
    assert not found[rollup.HIST_MIXED]
    rows.append(native(2, 12_000, [1.0, 3.0], [1.0, 4.0]))
    found = single(stepped(tmp_path, rows, widths))
    assert (found[rollup.HIST_MIXED], found["chq_hist_sum"], found[rollup.HIST_COUNT]) == (True, None, 3)


@BOTH
@pytest.mark.parametrize(
    "other",
    [
        exponential(1, 11_000, 0, [1], chq_hist_schema=2),
        exponential(1, 11_000, 0, [1], chq_hist_zero_threshold=0.5),
        explicit(1, 11_000, [1, 2, 3]),
        row(1, 11_000, 4.0, LATENCY),
        row(1, 11_000, None, LATENCY, chq_metric_type="summary", chq_hist_count=3, chq_hist_sum=1.0),
        exponential(1, 11_000, 0, [1], metric_temporality="delta"),
        exponential(1, 11_000, 1 << 20, [1]),
    ],
    ids=["schema", "threshold", "explicit", "float", "summary", "temporality", "too wide"],
)
def test_what_sums_cannot_say_is_mixed(tmp_path: Path, widths: list[int], other: Row) -> None:
    rows = [exponential(0, 1, 0, [1], metric_temporality="cumulative"), other]
    found = single(stepped(tmp_path, rows, widths))
    assert found[rollup.HIST_MIXED]
    assert (found["chq_hist_sum"] is None) == (found[rollup.HIST_COUNT] > 1)


@BOTH
def test_summaries_are_counted_and_left_to_the_samples(tmp_path: Path, widths: list[int]) -> None:
    summary = {"chq_metric_type": "summary", "chq_hist_count": 3, "chq_hist_sum": 1.0,
               "chq_summary_quantiles": [{"quantile": 0.5, "value": 1.0}]}  # fmt: skip
    rows = [row(n, 9000 * n + 1, None, LATENCY, **summary) for n in range(3)]
    found = single(stepped(tmp_path, rows, widths))
    assert (found[rollup.HIST_COUNT], found[rollup.HIST_MIXED], found[rollup.COUNT]) == (3, True, 0)
    assert [found[f"chq_hist_{name}"] for name in ("first", "last", "sum")] == [None] * 3
    assert (found[rollup.FIRST_TS] % 60_000, found[rollup.LAST_TS] % 60_000) == (1, 18_001)


@BOTH
def test_stale_markers_between_histograms(tmp_path: Path, widths: list[int]) -> None:
    stale = row(1, 5_000, double(STALE), LATENCY, chq_metric_type="histogram", chq_hist_count=0)
    rows = [explicit(0, 1, [5, 0, 0]), stale, explicit(2, 11_000, [4, 0, 0])]
    found = single(stepped(tmp_path, rows, widths))
    assert (found[rollup.HIST_COUNT], found[rollup.HIST_RESETS], found[rollup.HIST_MIXED]) == (2, 1, False)
    assert not found[rollup.LAST_STALE]


def test_one_histogram_is_stored_once(tmp_path: Path) -> None:
    part = rolled(tmp_path, [sample_segment(tmp_path, "s", [explicit(0, 1, [1, 2, 3])])], 0, 10_000)[0]
    names = set(pq.read_schema(part.path).names)
    assert not names & {
        "chq_hist_first",
        "chq_hist_sum",
        "chq_hist_resets",
        "chq_hist_mixed",
        "chq_rollup_last",
    }
    found = single(content([part]))
    assert found["chq_hist_first"] == found["chq_hist_last"] == found["chq_hist_sum"]
    assert found["chq_hist_last"]["counts"] == [1, 2, 3]


def test_a_histogram_without_a_sum_leaves_the_bucket_without_one(tmp_path: Path) -> None:
    found = single(of_rows(tmp_path, [explicit(0, 1, [1, 2, 3], None), explicit(1, 2, [1, 2, 3])]))
    assert (found["chq_hist_sum"]["sum"], found["chq_hist_sum"]["counts"]) == (None, [2, 4, 6])


def test_counts_beyond_63_bits_are_what_was_sent(tmp_path: Path) -> None:
    found = single(of_rows(tmp_path, [explicit(0, 1, [-1, 0, 0], chq_hist_count=-1)]))
    assert (found["chq_hist_last"]["count"], found["chq_hist_last"]["counts"][0]) == (2.0**64, 2.0**64)


def test_names_derived_from_histograms_are_index_terms(tmp_path: Path) -> None:
    part = rolled(tmp_path, [sample_segment(tmp_path, "s", [explicit(0, 1, [1, 2, 3])])], 0, 10_000)[0]
    assert term("metric_name", "latency_bucket") in part.facts.terms
    assert part.facts.metric_names == ("latency",)
    assert set(part.facts.label_names) == {"__name__", "instance", "le"}
