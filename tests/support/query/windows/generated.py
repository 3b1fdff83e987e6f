"""Random series for the tests of windows: what real ones do, and what they should not do but will."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from lakerunner_query.windows.grid import Grid
from lakerunner_query.windows.samples import Samples
from tests.support.query.windows.oracle import STALE, Point

GAPS = st.sampled_from([1, 4_999, 10_000, 15_000, 15_000, 15_000, 30_000, 61_000, 400_000])
ODD = st.sampled_from([math.nan, STALE, math.inf, -math.inf, 0.0, -0.0])


@st.composite
def counter(draw: st.DrawFn, size: int) -> list[float]:
    """Grows, falls back now and then."""
    steps = draw(st.lists(st.floats(0, 1e6) | st.just(-1.0), min_size=size, max_size=size))
    values, at = [], draw(st.floats(0, 1e9))
    for step in steps:
        at = 0.0 if step < 0 else at + step
        values.append(at)
    return values


def _listed(numbers: st.SearchStrategy[float], size: int) -> st.SearchStrategy[list[float]]:
    return st.lists(numbers, min_size=size, max_size=size)


def values(size: int) -> st.SearchStrategy[list[float]]:
    around = st.tuples(st.sampled_from([1.0, 1e3, 1e7, 1e12, 1e-200]), _listed(st.floats(-1, 1), size))
    return st.one_of(
        counter(size),
        _listed(st.integers(0, 5).map(float), size),
        _listed(st.floats(-1e6, 1e6), size),
        _listed(st.floats(-1e6, 1e6) | ODD, size),
        _listed(st.sampled_from([1e308, -1e308, 1.7e308, 5.0]), size),
        around.map(lambda drawn: [drawn[0] + small * min(drawn[0], 1.0) for small in drawn[1]]),
        st.floats(-1e9, 1e9).map(lambda number: [number] * size),
    )


@st.composite
def series(draw: st.DrawFn) -> list[Point]:
    """Points in order of time, one per millisecond, in the hours around epoch."""
    size = draw(st.integers(0, 40))
    numbers = draw(values(size))
    stale = draw(st.lists(st.integers(0, 11), min_size=size, max_size=size))
    gaps = draw(st.lists(GAPS, min_size=size, max_size=size))
    at = draw(st.integers(-900_000, 300_000))
    delta = draw(st.integers(0, 3)) == 0
    points = []
    for number, odd, gap in zip(numbers, stale, gaps, strict=True):
        at += gap
        points.append(Point(at, STALE if odd == 0 else number, delta))
    return points


many = st.lists(series(), min_size=1, max_size=3)


@st.composite
def grids(draw: st.DrawFn, unit: int = 1) -> Grid:
    """Windows whose edges are multiples of the unit."""
    return Grid(
        start_ms=unit * draw(st.integers(-600_000 // unit, 900_000 // unit)),
        step_ms=unit * draw(st.integers(1, max(1, 400_000 // unit))),
        steps=draw(st.integers(1, 8)),
        range_ms=unit * draw(st.integers(1, max(1, 900_000 // unit))),
        offset_ms=unit * draw(st.sampled_from([0, 0, 1, -1, 7])),
    )


def samples(all_points: Sequence[Sequence[Point]]) -> Samples:
    rows = [(code, point) for code, points in enumerate(all_points) for point in points]
    return Samples.of_codes(
        np.array([code for code, _ in rows], np.int64),
        np.array([point.ts for _, point in rows], np.int64),
        np.array([point.value for _, point in rows], np.float64),
        len(all_points),
        np.array([point.delta for _, point in rows], np.bool_),
    )
