"""Cutting a log query into units that are disjoint in time, in the order in which they can answer.

Because units do not share an instant, their answers are concatenated and never merged, and the query may
stop as soon as `limit` rows exist: no row of an unread unit can come before them. Early units are small
("the last 100 lines" should read little), later ones grow to a full load.

The cut points come from segment bounds, and inside a long segment from its average density.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Extent(Protocol):
    """What of a segment decides about cutting."""

    @property
    def segment_id(self) -> str: ...
    @property
    def min_ns(self) -> int: ...
    @property
    def max_ns(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...


Held = TypeVar("Held", bound=Extent)


@dataclass(frozen=True, slots=True)
class SliceSizes:
    """A full load is so many rows, bytes or segments, whichever is reached first."""

    rows: int = 2_000_000
    bytes: int = 256 * 1024 * 1024
    segments: int = 500
    first: float = 1 / 16
    growth: float = 2.0


@dataclass(frozen=True, slots=True)
class Slice(Generic[Held]):
    """`[start_ns, end_ns)` and every segment that overlaps it."""

    start_ns: int
    end_ns: int
    segments: tuple[Held, ...]


def cut_slices(
    segments: Sequence[Held], start_ns: int, end_ns: int, *, reverse: bool, sizes: SliceSizes | None = None
) -> Iterator[Slice[Held]]:
    """Oldest first, or newest first when `reverse` (by doing the same on mirrored time)."""
    chosen = sizes or SliceSizes()
    pieces = [p for p in (_piece(s, start_ns, end_ns, reverse, chosen) for s in segments) if p is not None]
    for part in _grow(_sweep(pieces), chosen):
        lo, hi = (-part.hi, -part.lo) if reverse else (part.lo, part.hi)
        yield Slice(lo, hi, tuple(sorted(part.members, key=lambda s: (s.min_ns, s.segment_id))))


@dataclass(frozen=True, slots=True)
class _Piece(Generic[Held]):
    """A segment inside the range, on the (possibly mirrored) time line; load per nanosecond."""

    lo: int
    hi: int
    density: float
    segment: Held


@dataclass(frozen=True, slots=True)
class _Stretch(Generic[Held]):
    """Time between two neighbouring bounds: the same segments all along."""

    lo: int
    hi: int
    density: float
    active: dict[Held, None]


@dataclass(slots=True)
class _Part(Generic[Held]):
    lo: int
    hi: int
    load: float = 0.0
    members: dict[Held, None] = field(default_factory=dict)


def _piece(
    segment: Held, start_ns: int, end_ns: int, reverse: bool, sizes: SliceSizes
) -> _Piece[Held] | None:
    lo, hi = max(segment.min_ns, start_ns), min(segment.max_ns + 1, end_ns)
    if lo >= hi:
        return None
    load = max(segment.rows / sizes.rows, segment.bytes / sizes.bytes, 1 / sizes.segments)
    density = load / (segment.max_ns - segment.min_ns + 1)
    return _Piece(-hi, -lo, density, segment) if reverse else _Piece(lo, hi, density, segment)


def _sweep(pieces: Sequence[_Piece[Held]]) -> Iterator[_Stretch[Held]]:
    events = sorted(
        [(p.lo, 1, p) for p in pieces] + [(p.hi, 0, p) for p in pieces],
        key=lambda e: (e[0], e[1], e[2].segment.segment_id),
    )
    active: dict[Held, None] = {}
    density = 0.0
    at = 0
    for time, opens, piece in events:
        if active and time > at:
            yield _Stretch(at, time, density, active)
        at = time
        if opens:
            active[piece.segment] = None
            density += piece.density
        else:
            del active[piece.segment]
            density = density - piece.density if active else 0.0  # no drift across gaps


def _grow(stretches: Iterable[_Stretch[Held]], sizes: SliceSizes) -> Iterator[_Part[Held]]:
    target = sizes.first
    part: _Part[Held] | None = None
    for stretch in stretches:
        at = stretch.lo
        while at < stretch.hi:
            part = part or _Part(at, at)
            room = target - part.load
            reach = min(stretch.hi, at + max(1, int(room / max(stretch.density, 1e-300))))
            part.hi, part.load = reach, part.load + (reach - at) * stretch.density
            part.members.update(stretch.active)
            at = reach
            if part.load >= target * 0.99:
                yield part
                part, target = None, min(1.0, target * sizes.growth)
    if part is not None:
        yield part
