"""A query reads each part of its windows at the coarsest current frequency. Pure.

    sum_over_time(m[2h30m]) at 14:40, everything current:

    (12:10 -- 5 m -- 13:00] (13:00 -- 1 h -- 14:00] (14:00 -- 5 m -- 14:40]

    the same, but the hour from 13:00 changed and is so far rolled up to 1 m only:

    (12:10 -- 5 m -- 13:00] (13:00 -- 1 m -- 14:00] (14:00 -- 5 m -- 14:40]

Windows of a range query are cut at the same places modulo the step, so a rollup serves them iff its width
divides step, range and the ends. A single window may take coarse buckets inside and finer ones at its edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lakerunner_query.windows.grid import Grid
from resources.lake.frequency import AS_SENT, ROLLUPS, Rollup
from resources.lake.timecut import cut

NS_PER_MS = 1_000_000
Current = Mapping[int, AbstractSet[int]]
"""Begins (ns) of the partitions that may be used, by frequency in ms: hours, days for 1 d."""
COARSEST_FIRST: tuple[Rollup, ...] = tuple(sorted(ROLLUPS, key=lambda rollup: -rollup.frequency_ms))


@dataclass(frozen=True, slots=True)
class Piece:
    """An interval `(from_ns, to_ns]` to read at this frequency; 0: as it was sent."""

    frequency_ms: int
    from_ns: int
    to_ns: int


def choose_pieces(grid: Grid, current: Current, *, look_back: bool = False) -> tuple[Piece, ...]:
    """Return pieces in order of time, without gap or overlap, from the first window's begin to the last end.

    With `look_back` (the instant selector) a range query may begin a little earlier, at a whole bucket.
    """
    serving = fitting_rollups(grid, look_back=look_back)
    start, end = grid.from_ms * NS_PER_MS, grid.to_ms * NS_PER_MS
    if look_back and grid.steps > 1 and serving:
        start = _floor(start, serving[0].frequency_ms * NS_PER_MS)
    return tuple(_joined(_tiles(start, end, serving, current)))


def fitting_rollups(grid: Grid, *, look_back: bool = False) -> tuple[Rollup, ...]:
    """Return the rollups whose buckets fit these windows, coarsest first; a single window takes all.

    >>> hourly = Grid(start_ms=7_200_000, step_ms=3_600_000, steps=24, range_ms=300_000)
    >>> [rollup.label for rollup in fitting_rollups(hourly)]
    ['5m', '1m', '10s']
    """
    if grid.steps == 1:
        return COARSEST_FIRST
    return tuple(
        rollup for rollup in COARSEST_FIRST if grid.is_cut_by(rollup.frequency_ms, look_back=look_back)
    )


def _tiles(start: int, end: int, serving: Sequence[Rollup], current: Current) -> Iterator[Piece]:
    """Tile with current buckets of the first rollup, and the gaps with those of the others."""
    if start >= end:
        return
    if not serving:
        yield Piece(AS_SENT, start, end)
        return
    at = start
    for piece in _current_parts(start, end, serving[0], current.get(serving[0].frequency_ms, frozenset())):
        yield from _tiles(at, piece.from_ns, serving[1:], current)
        yield piece
        at = piece.to_ns
    yield from _tiles(at, end, serving[1:], current)


def _current_parts(start: int, end: int, rollup: Rollup, partitions: AbstractSet[int]) -> Iterator[Piece]:
    """Yield the parts of current partitions that are whole buckets inside of (start, end]."""
    width = rollup.frequency_ms * NS_PER_MS
    first, last = cut(start, width) + width, _floor(end, width)
    if first >= last:
        return
    for begin in range(_floor(first, rollup.partition_ns), last, rollup.partition_ns):
        if begin in partitions:
            yield Piece(rollup.frequency_ms, max(begin, first), min(begin + rollup.partition_ns, last))


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Merge neighbours of one frequency into one piece."""
    before: Piece | None = None
    for piece in pieces:
        if before is not None and before.frequency_ms == piece.frequency_ms:
            before = Piece(piece.frequency_ms, before.from_ns, piece.to_ns)
            continue
        if before is not None:
            yield before
        before = piece
    if before is not None:
        yield before


def _floor(t: int, width: int) -> int:
    """Return the last multiple of the width that is not after t."""
    return cut(t + 1, width)
