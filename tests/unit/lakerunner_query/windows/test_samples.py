"""Range functions from samples: against plain Python, and against numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from lakerunner_query.windows.edge_kernels import edges
from lakerunner_query.windows.functions import BY_GROWTH, PRESENT, Function
from lakerunner_query.windows.grid import Grid, MixedTemporalityError, absent
from lakerunner_query.windows.samples import Samples, over_samples
from tests.support.query.windows.generated import grids, many, samples
from tests.support.query.windows.oracle import STALE, Point
from tests.support.query.windows.slow_promql import evaluate

F = Function
MINUTE = 60_000


@settings(max_examples=60)
@given(many, grids())
def test_every_function_is_what_plain_python_gives_to_the_bit(
    all_points: list[list[Point]], grid: Grid
) -> None:
    given_samples = samples(all_points)
    for function in Function:
        found = over_samples(function, given_samples, grid)
        for code, points in enumerate(all_points):
            for step in range(grid.steps):
                t = grid.start_ms + step * grid.step_ms - grid.offset_ms
                expected = evaluate(function, points, t, grid.range_ms)
                assert found.present[code, step] == (expected is not None), (function, code, step)
                if expected is not None:
                    value = found.values[code, step]
                    assert value == expected or (math.isnan(value) and math.isnan(expected)), (
                        function,
                        code,
                        step,
                    )
                    assert math.isnan(value) or math.copysign(1, value) == math.copysign(1, expected)


def one(*points: tuple[float, float], delta: bool = False) -> Samples:
    """A series of (seconds, value)."""
    return samples([[Point(int(seconds * 1000), value, delta) for seconds, value in points]])


def at(function: Function, given_samples: Samples, t: float, width: float) -> float | None:
    """The value over (t - width, t], in seconds."""
    found = over_samples(function, given_samples, Grid(int(t * 1000), 0, 1, int(width * 1000)))
    return float(found.values[0, 0]) if found.present[0, 0] else None


def test_a_window_leaves_out_its_left_edge_and_holds_its_right_one() -> None:
    edges = one((60, 1), (90, 2), (120, 4))
    assert at(F.COUNT, edges, 120, 60) == 2
    assert at(F.SUM, edges, 120, 60) == 6
    assert at(F.FIRST, edges, 120, 60) == 2
    assert at(F.COUNT, edges, 119.999, 60) == 2  # the sample at 60 is in, that at 120 is not
    assert at(F.SUM, edges, 119.999, 60) == 3


def test_the_look_back_leaves_out_its_left_edge() -> None:
    assert at(F.INSTANT, one((0, 7)), 299.999, 300) == 7
    assert at(F.INSTANT, one((0, 7)), 300, 300) is None
    assert at(F.TIMESTAMP, one((12.5, 7)), 300, 300) == 12.5


def test_a_stale_marker_ends_the_instant_selector_and_is_nothing_to_ranges() -> None:
    ended = one((10, 7), (20, STALE))
    assert at(F.INSTANT, ended, 19, 300) == 7
    assert at(F.INSTANT, ended, 20, 300) is None
    assert at(F.LAST, ended, 20, 300) == 7
    assert at(F.COUNT, ended, 20, 300) == 1
    assert at(F.COUNT, ended, 20, 5) is None


def test_rate_draws_out_to_edges_that_are_near() -> None:
    # 4 samples, 15 s apart, 10 s and 5 s from the edges: both nearer than 16.5 s. growth 9 over 45 s, drawn
    # out over 60 s: 9 * 60 / 45 = 12; zero would have been 500 s before the first
    steady = one((10, 100), (25, 103), (40, 106), (55, 109))
    assert at(F.INCREASE, steady, 60, 60) == pytest.approx(12, rel=1e-15)
    assert at(F.RATE, steady, 60, 60) == pytest.approx(0.2, rel=1e-15)
    assert at(F.DELTA, steady, 60, 60) == pytest.approx(12, rel=1e-15)


def test_rate_draws_out_by_half_an_interval_where_the_series_begins_and_ends_within() -> None:
    # 100 to 130 s in (0, 300]: 100 and 170 s to the edges, more than 16.5 s: 7.5 s on each side, 45 in all
    short = one((100, 50), (115, 53), (130, 56))
    assert at(F.INCREASE, short, 300, 300) == pytest.approx(6 * 45 / 30, rel=1e-15)
    assert at(F.RATE, short, 300, 300) == pytest.approx(9 / 300, rel=1e-15)


def test_the_threshold_is_exclusive_at_eleven_tenths() -> None:
    # samples 10 s apart: 10.999 s to the edge is near, 11 s is not
    near = one((10.999, 50), (20.999, 51), (30.999, 52))
    assert at(F.DELTA, near, 30.999, 30.999) == pytest.approx(2 * 30.999 / 20, rel=1e-15)
    far = one((11, 50), (21, 51), (31, 52))
    assert at(F.DELTA, far, 31, 31) == pytest.approx(2 * 25 / 20, rel=1e-15)


def test_a_counter_is_not_drawn_out_below_zero() -> None:
    # growth 30 over 30 s from 5: zero was 5 s before the first sample, less than the 15 s to the edge
    young = one((15, 5), (30, 20), (45, 35))
    assert at(F.INCREASE, young, 45, 45) == pytest.approx(30 * 35 / 30, rel=1e-15)
    assert at(F.DELTA, young, 45, 45) == pytest.approx(30 * 45 / 30, rel=1e-15)  # a gauge may have been


def test_a_reset_adds_what_was_there_before() -> None:
    # 100 → 110, reset, 4 → 10: grew by 10, 4 and 6; the first is 100, so zero is far
    fallen = one((0.001, 100), (20, 110), (40, 4), (60, 10))
    assert at(F.RESETS, fallen, 60, 60) == 1
    assert at(F.CHANGES, fallen, 60, 60) == 3
    assert at(F.INCREASE, fallen, 60, 60) == pytest.approx(20 * 60 / 59.999, rel=1e-12)


@pytest.mark.parametrize("function", [F.RATE, F.INCREASE, F.DELTA, F.IRATE, F.IDELTA])
def test_one_sample_has_no_slope(function: Function) -> None:
    assert at(function, one((30, 5), (31, STALE)), 60, 60) is None


def test_the_last_two_samples() -> None:
    rising, falling = one((10, 1), (20, 4), (25, 9)), one((10, 1), (20, 9), (25, 4))
    assert at(F.IRATE, rising, 60, 60) == 1.0
    assert at(F.IDELTA, rising, 60, 60) == 5
    assert at(F.IRATE, falling, 60, 60) == 0.8  # began again at zero: 4 in 5 s
    assert at(F.IDELTA, falling, 60, 60) == -5


def test_deltas_are_summed_and_not_drawn_out() -> None:
    deltas = one((10, 3), (20, 1), (50, 2), delta=True)
    assert at(F.INCREASE, deltas, 60, 60) == 6
    assert at(F.RATE, deltas, 60, 60) == 0.1
    assert at(F.IRATE, deltas, 60, 60) == pytest.approx(2 / 30, rel=1e-15)
    assert at(F.RESETS, deltas, 60, 60) == 0
    assert at(F.INCREASE, one((10, 3), delta=True), 60, 60) == 3  # one is enough
    assert at(F.SUM, deltas, 60, 60) == 6


@pytest.mark.parametrize("function", [F.RATE, F.INCREASE, F.IRATE, F.RESETS])
def test_a_window_of_both_temporalities_is_an_error_that_names_the_series(function: Function) -> None:
    both = [Point(10_000, 1), Point(20_000, 2), Point(70_000, 1, True), Point(80_000, 1, True)]
    mixed = samples([[], both])
    apart = over_samples(function, mixed, Grid(MINUTE, MINUTE, 2, MINUTE))  # each window has one
    assert apart.present[1].all()
    with pytest.raises(MixedTemporalityError, match="series 1, window ending at 120000 ms"):
        over_samples(function, mixed, Grid(120_000, MINUTE, 1, 120_000))
    assert over_samples(F.SUM, mixed, Grid(120_000, MINUTE, 1, 120_000)).values[1, 0] == 5


def test_a_sum_keeps_what_rounding_loses() -> None:
    assert at(F.SUM, one((1, 1e100), (2, 1.0), (3, -1e100)), 60, 60) == 1.0
    assert at(F.AVG, one((1, 1e100), (2, 1.0), (3, -1e100), (4, 1.0)), 60, 60) == 0.5


def test_a_mean_does_not_overflow_where_the_sum_does() -> None:
    large = one((1, 1e308), (2, 1e308), (3, 1e308))
    assert at(F.SUM, large, 60, 60) == math.inf
    assert at(F.AVG, large, 60, 60) == pytest.approx(1e308, rel=1e-15)
    assert at(F.AVG, one((1, math.inf), (2, 1.0)), 60, 60) == math.inf
    assert math.isnan(at(F.AVG, one((1, math.inf), (2, -math.inf)), 60, 60) or 0.0)


def test_nan_is_an_extreme_only_where_nothing_else_is() -> None:
    assert at(F.MIN, one((1, math.nan), (2, 5), (3, 3)), 60, 60) == 3
    assert at(F.MAX, one((1, 3), (2, math.nan), (3, 5)), 60, 60) == 5
    assert math.isnan(at(F.MAX, one((1, math.nan), (2, math.nan)), 60, 60) or 0.0)
    assert at(F.CHANGES, one((1, math.nan), (2, math.nan), (3, 1)), 60, 60) == 1
    assert at(F.RESETS, one((1, 5), (2, math.nan), (3, 1)), 60, 60) == 0


def test_deviations_are_of_the_population() -> None:
    spread = one((1, 2), (2, 4), (3, 4), (4, 4), (5, 5), (6, 5), (7, 7), (8, 9))  # mean 5, squares 32
    assert at(F.STDVAR, spread, 60, 60) == 4
    assert at(F.STDDEV, spread, 60, 60) == 2
    assert at(F.STDVAR, one((1, 0.1)), 60, 60) == 0


def test_extremes_slide() -> None:
    points = one(*((second, value) for second, value in enumerate([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], 1)))
    found = over_samples(F.MAX, points, Grid(3000, 1000, 9, 3000))
    assert found.values[0].tolist() == [4, 4, 5, 9, 9, 9, 6, 6, 5]
    found = over_samples(F.MIN, points, Grid(3000, 1000, 9, 3000))
    assert found.values[0].tolist() == [1, 1, 1, 1, 2, 2, 2, 3, 3]


def test_absent_is_where_no_series_has_anything() -> None:
    found = over_samples(
        F.PRESENT, samples([[Point(30_000, 1)], [Point(90_000, 1)], []]), Grid(0, MINUTE, 4, MINUTE)
    )
    assert absent(found.present).tolist() == [True, False, False, True]


def test_rows_out_of_order_are_refused() -> None:
    for codes, times in (([0, 0], [2, 2]), ([1, 0], [1, 2]), ([0, 2], [1, 2]), ([-1, 0], [1, 2])):
        with pytest.raises(ValueError, match=r"row [01] of 2: series"):
            Samples.of_codes(np.array(codes), np.array(times), np.zeros(2), 2)


@pytest.mark.parametrize("function", sorted(BY_GROWTH))
@given(all_points=many, grid=grids())
def test_growth_in_one_pass_is_growth_by_runs(function: F, all_points: list[list[Point]], grid: Grid) -> None:
    """To the last bit, with resets, stale markers and values that are no numbers."""
    real = samples([[replace(point, delta=False) for point in points] for points in all_points]).real
    plain = Samples(real.offsets, real.time_ms, real.value)
    shape = (plain.count, grid.steps)
    values, states = np.full(shape, np.nan), np.zeros(shape, np.int8)
    edges(int(function), plain.runs, grid.windows, values, states)
    found = over_samples(function, plain, grid)
    assert found.present.tolist() == (states == PRESENT).tolist()
    assert found.values.tobytes() == values.tobytes()


@pytest.mark.parametrize("wrong", [(0, 0, 2, 1), (0, 1, 0, 1), (0, 1, 1, 0)])
def test_a_grid_has_steps_and_a_range(wrong: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="expected at least one step"):
        Grid(*wrong)
