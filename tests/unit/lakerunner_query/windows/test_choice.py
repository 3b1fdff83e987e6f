"""Frequencies tile a window exactly, and no bucket crosses an edge."""

from __future__ import annotations

import doctest
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.windows import grid, rollup_choice, samples
from lakerunner_query.windows.grid import Grid
from lakerunner_query.windows.rollup_choice import Piece, choose_pieces, fitting_rollups
from resources.lake.frequency import DAY, FIVE_MINUTES, HOUR, MINUTE, ROLLUPS, TEN_SECONDS
from resources.lake.timecut import DAY_NS, HOUR_NS, MINUTE_NS

HOURS = {h * HOUR_NS for h in range(-48, 96)}
ALL = dict.fromkeys((TEN_SECONDS, MINUTE, FIVE_MINUTES, HOUR), HOURS) | {
    DAY: {d * DAY_NS for d in range(-2, 4)}
}


def at(hours: float, minutes: float = 0) -> int:
    return int(hours * 3_600_000 + minutes * 60_000)


def told(pieces: tuple[Piece, ...]) -> list[tuple[int, float, float]]:
    """Frequency, from and to in hours."""
    return [(p.frequency_ms, p.from_ns / HOUR_NS, p.to_ns / HOUR_NS) for p in pieces]


@pytest.mark.parametrize("module", [rollup_choice, grid, samples])
def test_examples_in_docstrings(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.attempted > 0
    assert results.failed == 0


def test_a_single_window_is_coarse_inside_and_fine_at_its_edges() -> None:
    # the example of the module: (12:10, 14:40]
    window = Grid(at(14, 40), 0, 1, at(2, 30))
    assert told(choose_pieces(window, ALL)) == [
        (FIVE_MINUTES, 12 + 10 / 60, 13), (HOUR, 13, 14), (FIVE_MINUTES, 14, 14 + 40 / 60)
    ]  # fmt: skip
    stale = ALL | {FIVE_MINUTES: HOURS - {13 * HOUR_NS}, HOUR: HOURS - {13 * HOUR_NS}}
    assert told(choose_pieces(window, stale)) == [
        (FIVE_MINUTES, 12 + 10 / 60, 13), (MINUTE, 13, 14), (FIVE_MINUTES, 14, 14 + 40 / 60)
    ]  # fmt: skip


def test_days_hours_and_milliseconds_in_one_window() -> None:
    window = Grid(at(50) + 5, 0, 1, at(40))  # (10:00:00.005, day 2 02:00:00.005]
    found = [
        (p.frequency_ms, p.from_ns // 1_000_000, p.to_ns // 1_000_000) for p in choose_pieces(window, ALL)
    ]
    assert found == [
        (0, at(10) + 5, at(10) + 10_000),
        (TEN_SECONDS, at(10) + 10_000, at(10, 1)),
        (MINUTE, at(10, 1), at(10, 5)),
        (FIVE_MINUTES, at(10, 5), at(11)),
        (HOUR, at(11), at(24)),
        (DAY, at(24), at(48)),
        (HOUR, at(48), at(50)),
        (0, at(50), at(50) + 5),
    ]


@pytest.mark.parametrize(
    ("grid", "labels"),
    [
        (Grid(at(1), HOUR, 24, HOUR), ["1h", "5m", "1m", "10s"]),
        (Grid(at(0), DAY, 3, DAY), ["1d", "1h", "5m", "1m", "10s"]),
        (Grid(at(1), HOUR, 24, FIVE_MINUTES), ["5m", "1m", "10s"]),  # the range
        (Grid(at(1), FIVE_MINUTES, 24, HOUR), ["5m", "1m", "10s"]),  # the step
        (Grid(at(1, 1), HOUR, 24, HOUR), ["1m", "10s"]),  # the phase
        (Grid(at(1), HOUR, 24, HOUR, offset_ms=30_000), ["10s"]),  # the offset
        (Grid(at(1) + 1, HOUR, 24, HOUR), []),
        (Grid(at(1), 15_000, 24, HOUR), []),
    ],
)
def test_a_rollup_serves_iff_it_divides_step_range_offset_and_phase(grid: Grid, labels: list[str]) -> None:
    assert [rollup.label for rollup in fitting_rollups(grid)] == labels


def test_what_is_not_current_falls_to_the_next_finer_that_serves() -> None:
    grid = Grid(at(1), HOUR, 4, HOUR)
    current = {HOUR: {0, 3 * HOUR_NS}, FIVE_MINUTES: {HOUR_NS}, DAY: {0}}
    assert told(choose_pieces(grid, current)) == [(HOUR, 0, 1), (FIVE_MINUTES, 1, 2), (0, 2, 3), (HOUR, 3, 4)]
    assert told(choose_pieces(grid, {})) == [(0, 0, 4)]


def test_a_look_back_needs_no_multiple_and_begins_with_a_whole_bucket() -> None:
    grid = Grid(at(2), HOUR, 3, FIVE_MINUTES)
    assert told(choose_pieces(grid, ALL, look_back=True)) == [(HOUR, 1, 4)]
    assert told(choose_pieces(grid, ALL)) == [(FIVE_MINUTES, 2 - 5 / 60, 4)]


CURRENT = st.fixed_dictionaries(
    {r.frequency_ms: st.sets(st.integers(-3, 6).map(lambda n, w=r.partition_ns: n * w)) for r in ROLLUPS}
)


@settings(max_examples=100)
@given(
    st.sampled_from([1, 10_000, 60_000, 300_000, 3_600_000]), st.integers(-20, 20),
    st.integers(1, 20), st.integers(1, 4), st.integers(1, 30), st.integers(-3, 3), CURRENT,
    st.booleans(),
)  # fmt: skip
def test_pieces_tile_the_windows_with_whole_current_buckets(
    unit: int, start: int, step: int, steps: int, width: int, offset: int, current: dict[int, set[int]],
    look_back: bool,
) -> None:  # fmt: skip
    grid = Grid(start * unit, step * unit, steps, width * unit, offset * unit)
    pieces = choose_pieces(grid, current, look_back=look_back)
    assert pieces[-1].to_ns == grid.to_ms * 1_000_000
    begins = pieces[0].from_ns
    assert begins == grid.from_ms * 1_000_000 or (
        look_back and steps > 1 and begins < grid.from_ms * 1_000_000
    )
    for before, after in pairwise(pieces):
        assert before.to_ns == after.from_ns
        assert before.frequency_ms != after.frequency_ms
    for piece in pieces:
        assert piece.from_ns < piece.to_ns
        if not piece.frequency_ms:
            continue
        ns = piece.frequency_ms * 1_000_000
        assert piece.from_ns % ns == piece.to_ns % ns == 0
        if steps > 1:
            assert grid.is_cut_by(piece.frequency_ms, look_back=look_back)
        partition = DAY_NS if piece.frequency_ms == DAY else HOUR_NS
        first = piece.from_ns // partition * partition
        assert all(p in current[piece.frequency_ms] for p in range(first, piece.to_ns, partition))
    _assert_coarsest(grid, pieces, current)


def _assert_coarsest(grid: Grid, pieces: tuple[Piece, ...], current: dict[int, set[int]]) -> None:
    """No whole current bucket of a rollup that serves lies in a piece of a finer one."""
    for rollup in fitting_rollups(grid):
        ns = rollup.frequency_ms * 1_000_000
        for piece in pieces:
            if piece.frequency_ms < rollup.frequency_ms:
                first = -(-piece.from_ns // ns) * ns
                if first + ns <= piece.to_ns:
                    assert (
                        first // rollup.partition_ns * rollup.partition_ns not in current[rollup.frequency_ms]
                    )


def test_minutes() -> None:
    assert told(choose_pieces(Grid(at(0, 2), 60_000, 3, 120_000), {MINUTE: {0}})) == [
        (MINUTE, 0, 4 * MINUTE_NS / HOUR_NS)
    ]
