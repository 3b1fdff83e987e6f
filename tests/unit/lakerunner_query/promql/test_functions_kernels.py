"""The kernels against plain Python, window by window: ranks, trends, times, reach, start timestamps."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.windows.extremes_kernels import times_of_extremes
from lakerunner_query.windows.functions import Function, Windows
from lakerunner_query.windows.grid import Grid
from lakerunner_query.windows.ranks_kernels import ranks, smoothings, trends
from lakerunner_query.windows.samples import Samples, over_samples
from lakerunner_query.windows.start_time_kernels import reaching, since_starts
from tests.support.query.windows.generated import grids, many, samples
from tests.support.query.windows.oracle import Point, is_stale, kahan

LOOK_BACK = 120_000
Answer = Callable[[Sequence[Point], int, int], float | None]


def asked(
    all_points: Sequence[Sequence[Point]],
    windows: Windows,
    kernel: Callable[[Samples, np.ndarray, np.ndarray], None],
) -> list[list[float | None]]:
    real = samples([[point for point in points if not is_stale(point.value)] for points in all_points])
    shape = (len(all_points), windows.steps)
    values, states = np.full(shape, np.nan), np.zeros(shape, np.int8)
    kernel(real, values, states)
    return [
        [value if state else None for value, state in zip(*row, strict=True)]
        for row in zip(values.tolist(), states.tolist(), strict=True)
    ]


def expected(
    all_points: Sequence[Sequence[Point]], windows: Windows, answer: Answer
) -> list[list[float | None]]:
    """`answer` gets all real samples of a series, and the end and width of the window."""
    ends = [windows.first_end + step * windows.step for step in range(windows.steps)]
    real = [[point for point in points if not is_stale(point.value)] for points in all_points]
    return [[answer(points, end, windows.range) for end in ends] for points in real]


def same(found: list[list[float | None]], wanted: list[list[float | None]]) -> bool:
    """Bit by bit, all NaN alike."""
    return [[bits(one) for one in row] for row in found] == [[bits(one) for one in row] for row in wanted]


def bits(value: float | None) -> bytes | None:
    return None if value is None else b"nan" if math.isnan(value) else struct.pack("d", value)


def inside(points: Sequence[Point], end: int, width: int) -> list[Point]:
    return [point for point in points if end - width < point.ts <= end]


def slow_quantile(q: float, values: Sequence[float]) -> float:
    if math.isnan(q):
        return math.nan
    if not 0 <= q <= 1:
        return math.copysign(math.inf, q)
    ordered = sorted(values, key=lambda value: (not math.isnan(value), value))
    rank = q * (len(ordered) - 1)
    lower = math.floor(rank)
    upper = min(len(ordered) - 1, lower + 1)
    return ordered[lower] * (1 - (rank - lower)) + ordered[upper] * (rank - lower)


@settings(max_examples=40, deadline=None)
@given(many, grids(), st.sampled_from([0.0, 0.3, 0.5, 0.99, 1.0, -0.1, 1.2, math.nan]))
def test_quantiles_are_those_of_the_sorted_window(all_points, grid: Grid, q: float) -> None:
    windows = grid.windows
    quantiles = np.full(grid.steps, q)
    found = asked(
        all_points,
        windows,
        lambda real, values, states: ranks(
            real.offsets, real.time_ms, real.value, windows, quantiles, values, states
        ),
    )

    def answer(points: Sequence[Point], end: int, width: int) -> float | None:
        values = [point.value for point in inside(points, end, width)]
        return slow_quantile(q, values) if values else None

    assert equal_but_zeros(found, expected(all_points, windows, answer))


def equal_but_zeros(found: list[list[float | None]], wanted: list[list[float | None]]) -> bool:
    """Zeros of both signs sort as they please."""
    clean = [[None if one is None else one + 0.0 for one in row] for row in found]
    return same(clean, [[None if one is None else one + 0.0 for one in row] for row in wanted])


def test_a_window_that_moves_little_is_sorted_in_and_out() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 50, 3_000) / 4
    values[rng.integers(0, 3_000, 100)] = np.nan
    points = [Point(1_000 * i, float(value), False) for i, value in enumerate(values)]
    windows = Windows(400_000, 5_000, 500, 300_000)
    quantiles = np.full(500, 0.37)
    found = asked(
        [points],
        windows,
        lambda real, out, states: ranks(
            real.offsets, real.time_ms, real.value, windows, quantiles, out, states
        ),
    )

    def answer(points: Sequence[Point], end: int, width: int) -> float | None:
        return slow_quantile(0.37, [point.value for point in inside(points, end, width)])

    assert same(found, expected([points], windows, answer))


@settings(max_examples=40, deadline=None)
@given(many, grids())
def test_the_median_deviation_is_that_of_the_distances(all_points, grid: Grid) -> None:
    windows = grid.windows
    found = asked(
        all_points,
        windows,
        lambda real, values, states: ranks(
            real.offsets, real.time_ms, real.value, windows, np.zeros(0), values, states
        ),
    )

    def answer(points: Sequence[Point], end: int, width: int) -> float | None:
        values = [point.value for point in inside(points, end, width)]
        if not values:
            return None
        if any(math.isnan(value) for value in values):
            return math.nan
        median = slow_quantile(0.5, values)
        return slow_quantile(0.5, [abs(value - median) for value in values])

    assert equal_but_zeros(found, expected(all_points, windows, answer))


def slow_line(points: Sequence[Point], origin: int) -> tuple[float, float]:
    first = points[0].value
    if all(point.value == first for point in points[1:]):
        return (math.nan, math.nan) if math.isinf(first) else (0.0, first)
    xs = [(point.ts - origin) / 1e3 for point in points]
    ys = [point.value for point in points]
    sums = [
        kahan_total(numbers)
        for numbers in (xs, ys, [x * y for x, y in zip(xs, ys, strict=True)], [x * x for x in xs])
    ]
    sum_x, sum_y, sum_xy, sum_xx = sums
    count = float(len(points))
    slope = divided(sum_xy - sum_x * sum_y / count, sum_xx - sum_x * sum_x / count)
    return slope, sum_y / count - slope * sum_x / count


def divided(one: float, other: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(one) / np.float64(other))


def kahan_total(numbers: Sequence[float]) -> float:
    total, lost = 0.0, 0.0
    for number in numbers:
        total, lost = kahan(total, lost, number)
    return total + lost


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=40, deadline=None)
@given(many, grids(), st.booleans())
def test_trends_are_lines_through_the_window(all_points, grid: Grid, at_step: bool) -> None:
    windows = grid.windows
    origins = (
        windows.first_end + windows.step * np.arange(windows.steps) if at_step else np.zeros(0, np.int64)
    )
    for part in (0, 1):

        def kernel(real: Samples, values: np.ndarray, states: np.ndarray, part: int = part) -> None:
            both = (values, np.zeros_like(values))
            slopes, heights = both if part == 0 else both[::-1]
            trends(real.offsets, real.time_ms, real.value, windows, origins, slopes, heights, states)

        def answer(points: Sequence[Point], end: int, width: int, part: int = part) -> float | None:
            window = inside(points, end, width)
            return None if len(window) < 2 else slow_line(window, end if at_step else window[0].ts)[part]

        assert same(asked(all_points, windows, kernel), expected(all_points, windows, answer))


@settings(max_examples=25, deadline=None)
@given(many, grids(), st.sampled_from([0.01, 0.5, 0.9]), st.sampled_from([0.1, 0.6]))
def test_smoothing_is_double_exponential(all_points, grid: Grid, smoothing: float, trend: float) -> None:
    windows = grid.windows
    factors = np.full(grid.steps, smoothing), np.full(grid.steps, trend)
    found = asked(
        all_points,
        windows,
        lambda real, values, states: smoothings(
            real.offsets, real.time_ms, real.value, windows, *factors, values, states
        ),
    )

    def answer(points: Sequence[Point], end: int, width: int) -> float | None:
        values = [point.value for point in inside(points, end, width)]
        if len(values) < 2:
            return None
        levels, slope = [values[0]], values[1] - values[0]
        for i, value in enumerate(values[1:]):
            if i:
                slope = trend * (levels[-1] - levels[-2]) + (1 - trend) * slope
            levels.append(smoothing * value + (1 - smoothing) * (levels[-1] + slope))
        return levels[-1]

    assert same(found, expected(all_points, windows, answer))


@settings(max_examples=40, deadline=None)
@given(many, grids(), st.booleans())
def test_extremes_are_timed_by_their_last_appearance(all_points, grid: Grid, is_maximum: bool) -> None:
    windows = grid.windows
    found = asked(
        all_points,
        windows,
        lambda real, values, states: times_of_extremes(
            is_maximum, real.offsets, real.time_ms, real.value, windows, values, states
        ),
    )

    def answer(points: Sequence[Point], end: int, width: int) -> float | None:
        window = inside(points, end, width)
        numbers = [point.value for point in window if not math.isnan(point.value)]
        if not window:
            return None
        if not numbers:
            return window[-1].ts / 1000
        extreme = max(numbers) if is_maximum else min(numbers)
        return [point.ts for point in window if point.value == extreme][-1] / 1000

    assert same(found, expected(all_points, windows, answer))


def slow_reach(function: Function, is_smoothed: bool) -> Answer:  # noqa: C901 - in one piece, to be read
    """Compute as Prometheus defines it, on the samples that its iterator hands out."""
    is_counter = function != Function.DELTA

    def line(one: Point, two: Point, at: int) -> float:
        before = 0.0 if is_counter and two.value < one.value else one.value
        return before + (two.value - before) * float(at - one.ts) / float(two.ts - one.ts)

    def answer(points: Sequence[Point], end: int, width: int) -> float | None:
        since = end - width
        last_seen = end + LOOK_BACK if is_smoothed else end
        seen = [point for point in points if since - LOOK_BACK < point.ts <= last_seen]
        earlier = [at for at, point in enumerate(seen) if point.ts <= since]
        first = earlier[-1] if earlier else 0
        if function in (Function.RESETS, Function.CHANGES):
            if not seen or seen[-1].ts <= since:
                return None
            pairs = pairwise(point.value for point in seen[first:])
            if function == Function.RESETS:
                return float(sum(after < before for before, after in pairs))
            return float(sum(bits(before) != bits(after) and before != after for before, after in pairs))
        if not seen or seen[-1].ts <= since:
            return None
        last = len(seen) - 1
        if is_smoothed:
            last = next((at for at, point in enumerate(seen) if point.ts >= end), last)
            if seen[first].ts > end or seen[last].ts <= since:
                return None
        left, right = seen[first].value, seen[last].value
        if is_smoothed and seen[first].ts < since:
            left = line(seen[first], seen[first + 1], since)
        if is_smoothed and last > 0 and seen[last].ts > end:
            right = line(seen[last - 1], seen[last], end)
        growth = right - left
        if is_counter:
            within = [point.value for point in seen if since < point.ts < end]
            growth += correction(left, within, right)
        return growth / (width / 1000) if function == Function.RATE else growth

    return answer


def correction(left: float, within: Sequence[float], right: float) -> float:
    total = 0.0
    for before, after in pairwise([left, *within, right]):
        if after < before:
            total += before
    return total


@pytest.mark.parametrize(
    ("function", "is_smoothed"),
    [
        (Function.RATE, False), (Function.INCREASE, False), (Function.DELTA, False), (Function.RESETS, False),
        (Function.CHANGES, False), (Function.RATE, True), (Function.INCREASE, True), (Function.DELTA, True),
    ],
)  # fmt: skip
@settings(max_examples=25, deadline=None)
@given(all_points=many, grid=grids())
def test_reach_takes_what_is_just_outside(
    function: Function, is_smoothed: bool, all_points: list[list[Point]], grid: Grid
) -> None:
    windows = grid.windows
    found = asked(
        all_points,
        windows,
        lambda real, values, states: reaching(
            int(function),
            is_smoothed,
            LOOK_BACK,
            real.offsets,
            real.time_ms,
            real.value,
            np.zeros(len(real.time_ms), np.int64),
            windows,
            values,
            states,
        ),
    )
    assert same(found, expected(all_points, windows, slow_reach(function, is_smoothed)))


def started(points: Sequence[tuple[int, float, int]], function: Function, windows: Windows):
    """Values, or None, and whether beginnings overlap; points are (time, value, start)."""
    times, numbers, starts = (np.array(column) for column in zip(*points, strict=True))
    values, states = np.full((1, windows.steps), np.nan), np.zeros((1, windows.steps), np.int8)
    overlapping = np.zeros(1, np.bool_)
    offsets = np.array([0, len(times)], np.int64)
    since_starts(
        int(function), offsets, times, numbers.astype(float), starts, windows, values, states, overlapping
    )
    found = [v if s else None for v, s in zip(values[0].tolist(), states[0].tolist(), strict=True)]
    return found[0] if windows.steps == 1 else found, bool(overlapping[0])


MINUTES_3 = Windows(180_000, 0, 1, 180_000)


@pytest.mark.parametrize(
    ("points", "function", "value"),
    [
        # Began at 30 s: a zero stood there, so 30 s to 180 s are covered and nothing is drawn out.
        ([(60_000, 5, 30_000), (120_000, 7, 30_000), (180_000, 9, 30_000)], Function.INCREASE, 9.0),
        # Unknown beginnings: 4 over 120 s, drawn out by 60 s to the left, as zero is farther away.
        ([(60_000, 5, 0), (120_000, 7, 0), (180_000, 9, 0)], Function.INCREASE, 6.0),
        # Deltas: each began where the last one ended; the first one's beginning is at the window's edge.
        ([(60_000, 5, 1), (120_000, 7, 60_000), (180_000, 9, 120_000)], Function.RESETS, 2.0),
        # A beginning that is the sample's own time, or later, tells nothing.
        ([(60_000, 5, 60_000), (120_000, 7, 120_000), (180_000, 9, 190_000)], Function.RESETS, 0.0),
        # An unknown beginning at the first sample: the second's is that of the series, no reset.
        ([(60_000, 5, 0), (120_000, 7, 60_000)], Function.RESETS, 0.0),
        # The newer one began after the older one was taken: all of it is growth, over the 60 s between.
        ([(60_000, 5, 1), (120_000, 6, 90_000)], Function.IRATE, 0.1),
        # One sample alone counts from its beginning on.
        ([(120_000, 6, 60_000)], Function.INCREASE, 6.0),
        ([(120_000, 6, 60_000)], Function.RATE, 6 / 180),
        ([(120_000, 6, 0)], Function.INCREASE, None),
    ],
)
def test_beginnings_tell_of_resets(points, function: Function, value: float | None) -> None:
    found, _ = started(points, function, MINUTES_3)
    assert found == (value if value is None else pytest.approx(value))


def test_a_beginning_before_the_last_sample_overlaps_unless_it_is_the_same_one() -> None:
    assert started([(60_000, 5, 1), (120_000, 7, 1)], Function.RATE, MINUTES_3)[1] is False
    assert started([(60_000, 5, 1), (120_000, 7, 30_000)], Function.RATE, MINUTES_3)[1] is True


@settings(max_examples=40, deadline=None)
@given(many, grids(), st.sampled_from([Function.RATE, Function.INCREASE]))
def test_without_beginnings_counters_are_as_without_looking(
    all_points, grid: Grid, function: Function
) -> None:
    cumulative = [[replace(point, delta=False) for point in points] for points in all_points]
    windows = grid.windows

    def kernel(real: Samples, values: np.ndarray, states: np.ndarray) -> None:
        none = np.zeros(len(real.time_ms), np.int64)
        overlapping = np.zeros(len(cumulative), np.bool_)
        since_starts(
            int(function),
            real.offsets,
            real.time_ms,
            real.value,
            none,
            windows,
            values,
            states,
            overlapping,
        )

    found = asked(cumulative, windows, kernel)
    plain = over_samples(function, samples(cumulative), grid)
    wanted = [
        [value if is_there else None for value, is_there in zip(*row, strict=True)]
        for row in zip(plain.values.tolist(), plain.present.tolist(), strict=True)
    ]
    assert same(found, wanted)
