"""Cutting a metric query along its evaluation times: each part runs the whole expression for its steps.

A part reads what its steps need, so cutting repeats what windows of neighbouring parts share: parts are not
cut smaller than the widest window, unless what they read would be too much at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.plan.logql_samples import LogReads
from lakerunner_query.plan.promql import Reads
from lakerunner_query.vectors.vector import Steps
from resources.index.types import Segment

NS_PER_MS = 1_000_000
BYTES_OF_A_ROW = 2
"""In the file, of a plain sample; histograms take more, and as much longer to read."""


@dataclass(frozen=True, slots=True)
class SampleSliceSizes:
    rows: int = 8_000_000
    """About as many rows are read for one part."""
    at_least: int = 400_000
    """Not worth cutting for the sake of more workers."""


@dataclass(frozen=True, slots=True)
class Part:
    """Steps that are evaluated together."""

    number: int
    """Of the stretch of time they lie in, the same in every query with this step: it chooses the worker."""
    steps: Steps


def cut_steps(
    steps: Steps, loads: Sequence[tuple[Reads, Sequence[Segment]]], workers: int, sizes: SampleSliceSizes
) -> list[Part]:
    """Runs of steps, in order."""
    rows = rows_to_read(loads)
    parts = max(1, -(-rows // sizes.rows))
    if rows > sizes.at_least:
        parts = max(parts, workers)
    if steps.count == 1 or parts == 1:
        return [Part(0, steps)]
    width = max((read.to_ms - read.from_ms for read, _ in loads), default=0)
    span = steps.end_ms - steps.start_ms
    window = max(1, width - span)
    parts = min(parts, steps.count, max(workers if rows > sizes.at_least else 1, span // window, 1))
    return list(steady_parts(steps, parts))


def rows_to_read(loads: Sequence[tuple[Reads, Sequence[Segment]]]) -> int:
    """About as many, of all selectors together."""
    return sum(_rows(read, segments) for read, segments in loads)


def steady_parts(steps: Steps, parts: int) -> Iterator[Part]:
    """At least so many if there are steps enough, cut at times that do not depend on where the query begins.

    A dashboard that moves on by a step asks for the same stretches again but the outermost, and a worker
    still knows their answers. There are half as many parts more than asked for, so that the outermost ones,
    which are narrower, do not leave a worker with far less to do than another. Nothing is cut to a single
    step: that is an instant query, which says other things.

    >>> [(p.number, p.steps.start_ms, p.steps.count) for p in steady_parts(Steps(30, 10, 9), 2)]
    [(1, 30, 3), (2, 60, 3), (3, 90, 3)]
    """
    width = _even_width(steps.count * 2 // (3 * max(1, parts)))
    first = steps.start_ms // steps.step_ms if steps.step_ms else 0
    at = 0
    while at < steps.count:
        number = (first + at) // width
        end = min(steps.count, (number + 1) * width - first)
        if end - at < 2 and end < steps.count:
            number, end = number + 1, min(steps.count, end + width)
        if steps.count - end == 1:
            end = steps.count
        yield Part(number, Steps(steps.start_ms + at * steps.step_ms, steps.step_ms, end - at))
        at = end


def _even_width(most: int) -> int:
    """The largest power of two, or three times one, that is not above; two at least.

    >>> [_even_width(most) for most in (0, 3, 5, 6, 460, 700)]
    [2, 3, 4, 6, 384, 512]
    """
    power = 1 << (max(2, most).bit_length() - 1)
    return power * 3 // 2 if power * 3 // 2 <= most else power


def needed(reads: Sequence[Reads], segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Those that overlap any of the stretches."""
    return tuple(
        segment
        for segment in segments
        if any(
            segment.min_ns < (read.to_ms + 1) * NS_PER_MS and segment.max_ns > read.from_ms * NS_PER_MS
            for read in reads
        )
    )


def _rows(read: Reads, segments: Sequence[Segment]) -> int:
    """Of plain samples that take as long."""
    total = 0.0
    for segment in segments:
        low = max(segment.min_ns, read.from_ms * NS_PER_MS)
        high = min(segment.max_ns, read.to_ms * NS_PER_MS)
        share = (high - low + 1) / (segment.max_ns - segment.min_ns + 1)
        total += max(segment.rows, segment.bytes / BYTES_OF_A_ROW) * min(1.0, max(0.0, share))
    return int(total)


# << Cutting a metric query over logs along its evaluation times, as `metric_slices.py` does for samples.
# <<
# << Rows that have to be looked at one by one cost more than samples, so that a part is of fewer rows.

Load = tuple[LogReads, Sequence[Segment]]


@dataclass(frozen=True, slots=True)
class LogSliceSizes:
    rows: int = 4_000_000
    """About as many rows are read for one part."""
    at_least: int = 400_000
    """Not worth cutting for the sake of more workers."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Steps that are evaluated together."""

    number: int
    """Of the stretch of time they lie in, the same in every query with this step: it chooses the worker."""
    steps: LogSteps


def cut_log_steps(
    steps: LogSteps, loads: Sequence[Load], workers: int, sizes: LogSliceSizes
) -> list[LogPart]:
    """Runs of steps, in order; not narrower than the widest window, whose rows would be read repeatedly."""
    rows = sum(_log_rows(read, segments) for read, segments in loads)
    parts = max(1, -(-rows // sizes.rows))
    if rows > sizes.at_least:
        parts = max(parts, workers)
    if steps.count == 1 or parts == 1:
        return [LogPart(0, steps)]
    span = steps.end_ns - steps.start_ns
    width = max((read.to_ns - read.from_ns for read, _ in loads), default=0)
    window = max(1, width - span)
    parts = max(1, min(parts, steps.count, max(workers if rows > sizes.at_least else 1, span // window)))
    plain = Steps(steps.start_ns, steps.step_ns, steps.count)
    return [
        LogPart(part.number, LogSteps(part.steps.start_ms, part.steps.step_ms, part.steps.count))
        for part in steady_parts(plain, parts)
    ]


def needed_log_segments(reads: Sequence[LogReads], segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Those that overlap any of the stretches."""
    return tuple(
        segment
        for segment in segments
        if any(segment.min_ns <= read.to_ns and segment.max_ns > read.from_ns for read in reads)
    )


def _log_rows(read: LogReads, segments: Sequence[Segment]) -> int:
    total = 0.0
    for segment in segments:
        low, high = max(segment.min_ns, read.from_ns), min(segment.max_ns, read.to_ns)
        share = (high - low + 1) / (segment.max_ns - segment.min_ns + 1)
        total += segment.rows * min(1.0, max(0.0, share))
    return int(total)


# << Cutting a log query into units that are disjoint in time, in the order in which they can answer.
# <<
# << Because units do not share an instant, their answers are concatenated and never merged, and the query may
# << stop as soon as `limit` rows exist: no row of an unread unit can come before them. Early units are small
# << ("the last 100 lines" should read little), later ones grow to a full load.
# <<
# << The cut points come from segment bounds, and inside a long segment from its average density.


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
class RowSliceSizes:
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
    segments: Sequence[Held], start_ns: int, end_ns: int, *, reverse: bool, sizes: RowSliceSizes | None = None
) -> Iterator[Slice[Held]]:
    """Oldest first, or newest first when `reverse` (by doing the same on mirrored time)."""
    chosen = sizes or RowSliceSizes()
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
    segment: Held, start_ns: int, end_ns: int, reverse: bool, sizes: RowSliceSizes
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


def _grow(stretches: Iterable[_Stretch[Held]], sizes: RowSliceSizes) -> Iterator[_Part[Held]]:
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
