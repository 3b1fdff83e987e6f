"""Histograms: real segments rolled up and read back against plain Python over the samples."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.rollup.build import RollupRequest, roll_up
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_query.windows.classic import (
    CLASSIC,
    over_classic_buckets,
    over_classic_counts,
    over_classic_sums,
)
from lakerunner_query.windows.functions import Function, Grid
from lakerunner_query.windows.histogram_rows import histograms_of
from lakerunner_query.windows.histograms import OF_HISTOGRAMS, HistogramRows, over_histograms
from resources.lake.frequency import ROLLUPS
from resources.lake.rollup_columns import HIST, filled
from tests.unit.query.windows import slow_promql
from tests.unit.query.windows.histogram_oracle import Histogram, HistogramPoint, evaluate, fell, inside
from tests.unit.query.windows.oracle import STALE, Point
from tests.unit.segments import metric_tables

HOUR_MS = 3_600_000
NOON = 1_768_392_000_000
F = Function


def drawn(rng: np.random.Generator, kind: str, delta: bool) -> list[HistogramPoint]:
    """A histogram that grows for a quarter of an hour, falls now and then, sometimes with another layout."""
    bounds = (0.0, 1.0, 5.0) if rng.random() < 0.5 else (0.1, 0.5)
    calm = rng.random() < 0.5
    counts = np.zeros(len(bounds) + 1 if kind == "explicit" else 6)
    total, schema, points = 0.0, 2, []
    for ts in np.cumsum(rng.choice([5_000, 15_000, 15_000, 15_000, 70_000], 40)).tolist():
        if delta or (not calm and rng.random() < 0.06):
            counts, total = np.zeros(len(counts)), 0.0
        if not calm and rng.random() < 0.02:
            bounds, schema = tuple(b + 1 for b in bounds), schema - 1
        grown = rng.integers(0, 4, len(counts)) * (rng.random(len(counts)) < 0.6)
        if calm:
            grown[0] = 0
        counts, total = counts + grown, total + float(grown.sum()) * 0.25 - 0.5 * float(grown[0])
        numbers: Histogram = {"count": float(counts.sum()), "sum": total, "zeros": 0.0}
        if kind == "explicit":
            numbers |= {("p", i): float(c) for i, c in enumerate(counts)}
        else:
            numbers["zeros"] = float(counts[0])
            numbers |= {("p", i - 3): float(c) for i, c in enumerate(counts[1:4]) if c}
            numbers |= {("n", i + 1): float(c) for i, c in enumerate(counts[4:]) if c}
        stale = rng.random() < 0.04
        explicit = kind == "explicit"
        points.append(
            HistogramPoint(
                NOON + 1 + ts,
                None if stale else numbers,
                bounds if explicit else None,
                None if explicit else schema,
                delta,
            )
        )
    return points


def side(numbers: Histogram, name: str) -> tuple[int, list[float]]:
    found = sorted(key[1] for key in numbers if isinstance(key, tuple) and key[0] == name)
    return (0, []) if not found else (
        found[0], [numbers.get((name, i), 0.0) for i in range(found[0], found[-1] + 1)]
    )  # fmt: skip


def sent(position: int, name: str, point: HistogramPoint) -> dict[str, Any]:
    """The row of a sample."""
    row = {
        **metric_tables.row(position, {"__name__": name}, 0, STALE if point.numbers is None else None),
        "chq_timestamp": point.ts,
        "chq_metric_type": "histogram",
        "metric_temporality": "delta" if point.delta else "cumulative",
    }
    if point.numbers is None:
        return row
    low, positive = side(point.numbers, "p")
    row |= {"chq_hist_count_float": point.numbers["count"], "chq_hist_sum": point.numbers["sum"]}
    if point.bounds is not None:
        return row | {"chq_hist_bounds": list(point.bounds), "chq_hist_counts": [int(c) for c in positive]}
    negative_low, negative = side(point.numbers, "n")
    return row | {
        "chq_hist_schema": point.schema, "chq_hist_zero_threshold": 0.0,
        "chq_hist_zero_count_float": point.numbers["zeros"],
        "chq_hist_positive_offset": low, "chq_hist_positive_counts_float": positive,
        "chq_hist_negative_offset": negative_low, "chq_hist_negative_counts_float": negative,
    }  # fmt: skip


def rolled_up(folder: Path, series: list[list[HistogramPoint]]) -> dict[int, HistogramRows]:
    """By frequency; series are named so that their order stays."""
    rows = [
        sent(i, f"m{code}", point) for code, points in enumerate(series) for i, point in enumerate(points)
    ]
    source = folder / "tbl_s.parquet"
    write_metric_segment(
        [metric_tables.table(rows)], source, SegmentIdentity("acme", "eu", "metrics", 0, "s")
    )
    paths, found = {0: source}, {}
    for rollup in ROLLUPS[:4]:
        (part,) = roll_up(
            RollupRequest(
                [paths[rollup.source_ms]], rollup.source_ms, rollup.frequency_ms, NOON * 1_000_000,
                HOUR_MS * 1_000_000, folder, "acme", "eu", rollup.dataset, 1 << 30, 64 << 20,
                lambda number, label=rollup.label: f"{label}_{number}",
            )
        )  # fmt: skip
        paths[rollup.frequency_ms] = part.path
        table = filled(pq.read_table(part.path))
        codes = np.array([int(name[1:]) for name in table.column("metric_name").to_pylist()], np.int64)
        found[rollup.frequency_ms] = histograms_of(table, codes, rollup.frequency_ms, len(series))
    return found


def as_samples(series: list[list[HistogramPoint]]) -> HistogramRows:
    """Each sample a row of its own."""
    rows = [(code, point) for code, points in enumerate(series) for point in points]

    def struct(point: HistogramPoint) -> dict[str, Any] | None:
        if point.numbers is None:
            return None
        (low, positive), (negative_low, negative) = side(point.numbers, "p"), side(point.numbers, "n")
        explicit = point.bounds is not None
        return {
            "schema": point.schema, "bounds": point.bounds, "counts": positive if explicit else None,
            "zero_threshold": None if explicit else 0.0,
            "zero_count": None if explicit else point.numbers["zeros"],
            "positive_offset": None if explicit else low, "positive_counts": None if explicit else positive,
            "negative_offset": None if explicit else negative_low,
            "negative_counts": None if explicit else negative,
            "count": point.numbers["count"], "sum": point.numbers["sum"],
        }  # fmt: skip

    histograms = pa.array([struct(point) for _, point in rows], HIST)
    times = np.array([point.ts for _, point in rows], np.int64)
    stale = np.array([point.numbers is None for _, point in rows], np.bool_)
    nothing = np.zeros(len(rows), np.int64)
    return HistogramRows(
        np.array([code for code, _ in rows], np.int64), times, np.ones(len(rows), np.int64),
        histograms, histograms, histograms, times, times, stale, (~stale).astype(np.int64), nothing,
        np.zeros(len(rows), np.bool_), np.array([point.delta for _, point in rows], np.int8), len(series),
    )  # fmt: skip


def check(
    rows: HistogramRows, series: list[list[HistogramPoint]], grid: Grid, *, are_samples: bool = False
) -> int:
    """Every function that gives histograms; how many windows were compared."""
    compared = 0
    for function in OF_HISTOGRAMS:
        found = over_histograms(function, rows, grid)
        for code, points in enumerate(series):
            for step in range(grid.steps):
                t = grid.first_end_ms + step * grid.step_ms
                where = (function.name, code, step, grid)
                real = inside(points, t, grid.range_ms)
                if found.needs_samples[code, step]:
                    assert may_ask(function, points, real, are_samples), where
                    continue
                expected = evaluate(function, points, t, grid.range_ms)
                assert found.present[code, step] == (expected is not None), where
                if expected is not None:
                    compared += 1
                    numbers = told(found.at(code, step))
                    size = sum(abs(v) for p in real for v in p.numbers.values()) * grid.range_ms
                    for key in numbers.keys() | expected.keys():
                        assert math.isclose(
                            numbers.get(key, 0.0), expected.get(key, 0.0), rel_tol=1e-12, abs_tol=1e-15 * size
                        ), (*where, key, numbers, expected)
    return compared


def may_ask(
    function: Function, points: list[HistogramPoint], real: list[HistogramPoint], are_samples: bool
) -> bool:
    if function in (F.INSTANT, F.FIRST, F.LAST):
        return not are_samples and len({point.layout for point in points}) > 1
    if len({point.layout for point in real}) > 1:
        return True
    is_rate = function in (F.RATE, F.INCREASE) and not real[0].delta
    return (
        is_rate
        and not are_samples
        and any(fell(a, b) or b.numbers["sum"] < a.numbers["sum"] for a, b in pairwise(real))
    )


def told(found: Any) -> Histogram:
    return {
        "count": found.count, "sum": found.sum, "zeros": found.zeros,
        **{("p", found.positive_low + i): float(c) for i, c in enumerate(found.positive)},
        **{("n", found.negative_low + i): float(c) for i, c in enumerate(found.negative)},
    }  # fmt: skip


def check_classic(rows: HistogramRows, series: list[list[HistogramPoint]], grid: Grid) -> int:
    """Buckets, counts and sums of explicit histograms, as float series of their own."""
    compared = 0
    for function in CLASSIC:
        buckets = over_classic_buckets(function, rows, grid)
        for row, (code, le) in enumerate(zip(buckets.series.tolist(), buckets.le.tolist(), strict=True)):
            compared += _check_floats(function, buckets.found, row, bucket_points(series[code], le), grid)
        for over, name in ((over_classic_counts, "count"), (over_classic_sums, "sum")):
            found = over(function, rows, grid)
            for row, code in enumerate(found.series.tolist()):
                points = series[code]
                floats = [
                    Point(p.ts, STALE if p.numbers is None else p.numbers[name], p.delta) for p in points
                ]
                compared += _check_floats(function, found.found, row, floats, grid)
    return compared


def bucket_points(points: list[HistogramPoint], le: float) -> list[Point]:
    found = []
    for point in points:
        if point.numbers is None:
            found.append(Point(point.ts, STALE, point.delta))
        elif le in (*point.bounds, math.inf):
            cumulated = list(accumulate(side(point.numbers, "p")[1]))
            found.append(Point(point.ts, cumulated[(*point.bounds, math.inf).index(le)], point.delta))
    return found


def _check_floats(function: Function, found: Any, row: int, points: list[Point], grid: Grid) -> int:
    compared = 0
    for step in range(grid.steps):
        if found.needs_samples[row, step]:
            continue
        t = grid.first_end_ms + step * grid.step_ms
        expected = slow_promql.evaluate(function, points, t, grid.range_ms)
        where = (function.name, row, step, grid)
        assert found.present[row, step] == (expected is not None), where
        if expected is not None:
            compared += 1
            assert math.isclose(found.values[row, step], expected, rel_tol=1e-11, abs_tol=1e-12), where
    return compared


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["explicit", "exponential"]))
def test_every_frequency_gives_what_samples_give(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    series = [drawn(rng, kind, delta) for delta in (False, False, True)]
    units = {0: 1000}
    with TemporaryDirectory() as folder:
        lake = {0: as_samples(series), **rolled_up(Path(folder), series)}
        for frequency, rows in lake.items():
            unit = frequency or units[0] * int(rng.integers(1, 100))
            width = int(rng.integers(1, max(2, 1_200_000 // unit))) * unit
            step = int(rng.integers(1, max(2, 300_000 // unit))) * unit
            steps = 1 if unit == HOUR_MS else 5
            start = NOON // unit * unit + unit * int(rng.integers(1, max(2, 900_000 // unit)))
            grid = Grid(start, step, steps, width)
            check(rows, series, grid, are_samples=frequency == 0)
            if kind == "explicit":
                check_classic(rows, series, grid)


def test_calm_histograms_are_answered_without_samples(tmp_path: Path) -> None:
    """Without resets and changes of layout every window is compared, none left to the samples."""
    counts = [[0, 2 * n, 3 * n, n] for n in range(1, 60)]
    points = [
        HistogramPoint(
            NOON + 15_000 * n,
            {"count": float(sum(c)), "sum": n * 2.5, "zeros": 0.0}
            | {("p", i): float(v) for i, v in enumerate(c)},
            (0.0, 1.0, 5.0), None,
        )
        for n, c in enumerate(counts, 1)
    ]  # fmt: skip
    for rows in list(rolled_up(tmp_path, [points]).values())[:3]:
        grid = Grid(NOON + 300_000, 300_000, 3, 300_000)
        for function in OF_HISTOGRAMS:
            assert not over_histograms(function, rows, grid).needs_samples.any()
        assert check(rows, [points], grid) == 3 * len(OF_HISTOGRAMS)
        for over in (over_classic_buckets, over_classic_counts, over_classic_sums):
            assert not over(F.RATE, rows, grid).found.needs_samples.any()
        assert check_classic(rows, [points], grid) == 3 * 6 * len(CLASSIC)


def test_an_increase_by_hand() -> None:
    # the example of the module: 30 s apart, both edges within 33 s: zero of the count is 30 s * 5/11 before
    first = {"count": 5.0, "sum": 1.0, "zeros": 0.0, ("p", 0): 1.0, ("p", 1): 2.0, ("p", 2): 2.0}
    last = {"count": 16.0, "sum": 4.0, "zeros": 0.0, ("p", 0): 3.0, ("p", 1): 6.0, ("p", 2): 7.0}
    points = [
        HistogramPoint(15_000, first, (0.1, 0.5), None), HistogramPoint(45_000, last, (0.1, 0.5), None)
    ]  # fmt: skip
    found = over_histograms(F.INCREASE, as_samples([points]), Grid(60_000, 0, 1, 60_000)).at(0, 0)
    factor = (30 + 30 * 5 / 11 + 15) / 30
    assert found.positive.tolist() == pytest.approx([2 * factor, 4 * factor, 5 * factor], rel=1e-15)
    assert found.count == pytest.approx(11 * factor, rel=1e-15)
    # the classic series each have a zero of their own: le 0.1 at 15 s before the first, as far as the edge
    classic = over_classic_buckets(F.INCREASE, as_samples([points]), Grid(60_000, 0, 1, 60_000))
    assert classic.le.tolist() == [0.1, 0.5, math.inf]
    assert classic.found.values[:, 0].tolist() == pytest.approx(
        [2 * 60 / 30, 6 * (45 + 15) / 30, 11 * (45 + 30 * 5 / 11) / 30], rel=1e-15
    )


def falling(totals: list[float]) -> list[HistogramPoint]:
    """A sample a second; values below zero: the sum falls while no bucket does."""
    return [
        HistogramPoint(
            NOON + 1_000 * n,
            {"count": float(n), "sum": total, "zeros": 0.0, ("p", 0): float(n), ("p", 1): 0.0},
            (1.0,), None,
        )
        for n, total in enumerate(totals, 1)
    ]  # fmt: skip


def test_a_sum_that_fell_in_between_is_left_to_the_samples(tmp_path: Path) -> None:
    rows = rolled_up(tmp_path, [falling([5.0, 2.0, 9.0, 9.5])])[10_000]
    grid = Grid(NOON + 10_000, 0, 1, 10_000)
    assert over_classic_sums(F.RATE, rows, grid).found.needs_samples.tolist() == [[True]]
    assert over_classic_sums(F.DELTA, rows, grid).found.present.tolist() == [[True]]
    # what fell is not kept, so it may have been the count as well
    assert over_classic_counts(F.RATE, rows, grid).found.needs_samples.tolist() == [[True]]


def test_a_sum_that_falls_between_two_samples_or_not_at_all_is_answered(tmp_path: Path) -> None:
    grid = Grid(NOON + 10_000, 0, 1, 10_000)
    for totals in ([5.0, 2.0], [-5.0, -4.0, -4.0, 3.0]):
        points = falling(totals)
        rows = rolled_up(tmp_path, [points])[10_000]
        for over in (over_classic_sums, over_classic_counts):
            assert not over(F.RATE, rows, grid).found.needs_samples.any()
        assert check_classic(rows, [points], grid) == 4 * len(CLASSIC)


def test_functions_that_give_no_histogram_are_refused() -> None:
    with pytest.raises(ValueError, match="count of histograms gives none"):
        over_histograms(F.COUNT, as_samples([[]]), Grid(0, 0, 1, 1))
    with pytest.raises(ValueError, match="changes of classic histogram series is not kept"):
        over_classic_buckets(F.CHANGES, as_samples([[]]), Grid(0, 0, 1, 1))
