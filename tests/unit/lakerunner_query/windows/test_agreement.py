"""Rollups and samples agree: every function, over all kinds of series, windows and orders of merging."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from lakerunner_query.windows.rollup_buckets import Buckets, columns_of_samples, join_columns, over_buckets
from lakerunner_query.windows.samples import over_samples
from tests.support.query.windows import oracle
from tests.support.query.windows.agreeing import check, refuses
from tests.support.query.windows.generated import grids, many, samples, series
from tests.support.query.windows.oracle import Point

TEN_SECONDS, MINUTE, FIVE_MINUTES = 10_000, 60_000, 300_000
ORDERS = st.lists(st.integers(0, 1000), max_size=60)


def rolled_up(all_points: Sequence[Sequence[Point]], width: int, orders: Sequence[int]) -> Buckets:
    """Rows of 10 s, merged to that width, neighbours in the order drawn."""
    finest = [oracle.rows_of(points, TEN_SECONDS) for points in all_points]
    rows = [oracle.coarser(of_series, width, orders) for of_series in finest]
    return Buckets(oracle.columns(rows), len(all_points))


@pytest.mark.parametrize("width", [TEN_SECONDS, MINUTE, FIVE_MINUTES])
@settings(max_examples=40)
@given(all_points=many, orders=ORDERS, data=st.data())
def test_windows_of_buckets_are_what_samples_give(
    width: int, all_points: list[list[Point]], orders: list[int], data: st.DataObject
) -> None:
    grid = data.draw(grids(width))
    check(rolled_up(all_points, width, orders), all_points, grid)


@pytest.mark.parametrize(
    "values",
    [
        [0.0, -5.0, -0.0],  # the drop adds 0 to a growth of -0, which makes it 0
        [0.0, -0.0, -5.0, -0.0],  # this one adds -0, which does not
        [0.0, math.nan, -0.0],  # no drop at all
        [0.0, 3.0, math.nan, 0.0, -1.0, -0.0],
        [-0.0, -1.0, -0.0, -1.0, -0.0],
    ],
)
@pytest.mark.parametrize("width", [TEN_SECONDS, MINUTE, FIVE_MINUTES])
def test_a_growth_of_zero_has_the_sign_of_the_samples(width: int, values: list[float]) -> None:
    points = [Point(1_000 * (second + 1), value) for second, value in enumerate(values)]
    check(rolled_up([points], width, []), [points], Grid(FIVE_MINUTES, FIVE_MINUTES, 1, FIVE_MINUTES))


@settings(max_examples=35)
@given(
    all_points=many,
    orders=ORDERS,
    grid=grids(1),
    borders=st.lists(st.integers(-3, 3), min_size=2, max_size=2),
)
def test_a_single_window_of_coarse_and_fine_buckets_and_samples(
    all_points: list[list[Point]], orders: list[int], grid: Grid, borders: list[int]
) -> None:
    """Samples at both edges, 10 s before and after 1 m, 5 m inside: as a mosaic is tiled."""
    window = Grid(grid.start_ms, 0, 1, grid.range_ms, grid.offset_ms)
    low, high = window.from_ms, window.to_ms
    pieces = []
    taken_low, taken_high = high, low  # what wider buckets cover so far: nothing
    for width in (FIVE_MINUTES, MINUTE, TEN_SECONDS, 1):
        first, last = -(-low // width) * width, high // width * width
        parts = [(first, last)] if taken_low >= taken_high else [(first, taken_low), (taken_high, last)]
        for start, end in parts:
            if start < end:
                inside = [[p for p in points if start < p.ts <= end] for points in all_points]
                if width == 1:
                    pieces.append(columns_of_samples(samples(inside)))
                else:
                    pieces.append(rolled_up(inside, width, orders).columns)
        if first < last:
            taken_low = min(first, taken_low) if taken_low < taken_high else first
            taken_high = max(last, taken_high) if taken_low < taken_high else last
    assert (taken_low, taken_high) == (low, high)
    check(Buckets(join_columns(pieces), len(all_points)), all_points, window)


@settings(max_examples=35)
@given(before=series(), after=series(), data=st.data())
def test_windows_of_both_temporalities_go_to_the_samples(
    before: list[Point], after: list[Point], data: st.DataObject
) -> None:
    """Samples refuse them; windows of one temporality in the same series are answered."""
    latest = before[-1].ts if before else 0
    shift = max(0, latest + 1 - after[0].ts) if after else 0
    points = [
        *(Point(point.ts, point.value, False) for point in before),
        *(Point(point.ts + shift, point.value, True) for point in after),
    ]
    grid = data.draw(grids(MINUTE))
    buckets = rolled_up([points], MINUTE, [])
    for function in (Function.RATE, Function.INCREASE, Function.IRATE, Function.RESETS):
        found = over_buckets(function, buckets, grid)
        for step in range(grid.steps):
            window = Grid(grid.start_ms + step * grid.step_ms, 0, 1, grid.range_ms, grid.offset_ms)
            if refuses(function, [points][0], window):
                assert found.needs_samples[0, step]
            elif not found.needs_samples[0, step]:
                expected = over_samples(function, samples([points]), window)
                assert found.present[0, step] == expected.present[0, 0]


@settings(max_examples=30)
@given(many, grids(1))
def test_samples_are_buckets_of_one_millisecond(all_points: list[list[Point]], grid: Grid) -> None:
    check(Buckets(columns_of_samples(samples(all_points)), len(all_points)), all_points, grid)
