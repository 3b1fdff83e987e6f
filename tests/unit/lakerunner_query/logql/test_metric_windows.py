"""Kernels over windows give what the definitions give, whatever the windows and samples are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.logql.metrics.context import LogGrid
from lakerunner_query.logql.metrics.counts import (
    SAMPLE_ROWS,
    LineCounter,
    Sampler,
    over_samples,
)
from lakerunner_query.windows.sums_kernels import are_whole
from tests.support.query.logql_metrics.naive import inside, value, windows

SECOND = 10**9
GRIDS = st.builds(
    LogGrid,
    st.integers(-50, 250).map(lambda t: t * SECOND),
    st.integers(1, 60).map(lambda t: t * SECOND),
    st.integers(1, 9),
    st.integers(1, 90).map(lambda t: t * SECOND),
)
NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False) | st.integers(-1000, 1000).map(float)
ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-100, 300), NUMBERS),
    max_size=40,
    unique_by=lambda row: (row[0], row[1]),
)


def sampled(rows: list[tuple[int, int, float]]) -> Sampler:
    """In two frames, in the order given."""
    sampler = Sampler()
    for part in (rows[::2], rows[1::2]):
        series, times, numbers = (np.array([row[at] for row in part]) for at in range(3))
        frame = LogFrame(times.astype(np.int64) * SECOND, None)
        sampler.add(series.astype(np.int64), frame, numbers.astype(np.float64))
    return sampler


@pytest.mark.parametrize("op", sorted(SAMPLE_ROWS))
@settings(deadline=None, max_examples=60)
@given(rows=ROWS, grid=GRIDS, wanted=st.floats(-0.5, 1.5))
def test_functions_of_samples(
    op: str, rows: list[tuple[int, int, float]], grid: LogGrid, wanted: float
) -> None:
    found = over_samples(op, wanted, sampled(rows).samples(3), grid)
    places = windows(grid.first_end_ns, grid.step_ns, grid.steps, grid.range_ns)
    for series in range(3):
        samples = sorted((time * SECOND, number) for one, time, number in rows if one == series)
        for step, place in enumerate(places):
            expected = value(op, samples, place, wanted)
            assert found.present[series, step] == (expected is not None)
            if expected is not None:
                assert found.values[series, step] == pytest.approx(expected, rel=1e-9, abs=1e-4)


@settings(deadline=None, max_examples=100)
@given(rows=ROWS, grid=GRIDS, sizes=st.lists(st.integers(0, 1000), min_size=40, max_size=40))
def test_lines_and_bytes(rows: list[tuple[int, int, float]], grid: LogGrid, sizes: list[int]) -> None:
    counter = LineCounter(grid, with_bytes=True)
    for at, row in enumerate(rows):
        one = (np.array([row[0]]), row[0] + 1, np.array([row[1] * SECOND]), np.array([sizes[at]]))
        counter.add(*one)
    found = counter.counts()
    for series in range(len(found.lines)):
        lines = [
            (time * SECOND, float(size))
            for (one, time, _), size in zip(rows, sizes, strict=False)
            if one == series
        ]
        for step, place in enumerate(windows(grid.first_end_ns, grid.step_ns, grid.steps, grid.range_ns)):
            counted = inside(lines, place)
            assert found.lines[series, step] == len(counted)
            assert found.bytes[series, step] == sum(size for _, size in counted)


def test_a_window_is_open_on_its_left() -> None:
    samples = sampled([(0, 30, 1.0), (0, 60, 2.0), (0, 61, 4.0)]).samples(1)
    found = over_samples("sum_over_time", 0, samples, LogGrid(60 * SECOND, SECOND, 1, 30 * SECOND))
    assert found.values.tolist() == [[2.0]]


def test_infinity_is_forgotten_when_it_leaves_the_window() -> None:
    samples = sampled([(0, 10, np.inf), (0, 20, 5.0)]).samples(1)
    grid = LogGrid(10 * SECOND, 10 * SECOND, 2, 10 * SECOND)
    for op in ("sum_over_time", "avg_over_time", "max_over_time"):
        assert over_samples(op, 0, samples, grid).values.tolist() == [[np.inf, 5.0]]


def test_two_samples_of_one_time_have_no_growth() -> None:
    sampler = sampled([(0, 10, 1.0)])
    sampler.add(np.zeros(1, np.int64), LogFrame(np.array([10 * SECOND]), None), np.array([2.0]))
    found = over_samples("rate_counter", 0, sampler.samples(1), LogGrid(10 * SECOND, 1, 1, 10 * SECOND))
    assert np.isnan(found.values[0, 0])


def test_of_equal_times_the_row_that_was_stored_first_is_first() -> None:
    sampler, times = Sampler(), np.array([10, 10])
    for position, number in ((7, 70.0), (3, 30.0)):
        rows = LogFrame(times[:1], None, row_object=np.zeros(1, np.int64), row_position=np.array([position]))
        sampler.add(np.zeros(1, np.int64), rows, np.array([number]))
    grid = LogGrid(10, 1, 1, 5)
    assert over_samples("first_over_time", 0, sampler.samples(1), grid).values.tolist() == [[30.0]]
    assert over_samples("last_over_time", 0, sampler.samples(1), grid).values.tolist() == [[70.0]]


def test_what_is_whole() -> None:
    assert are_whole(np.array([1.0, -5.0, 2.0**52]))
    for wrong in (0.5, np.nan, np.inf, 2.0**53):
        assert not are_whole(np.array([1.0, wrong]))
