"""Slices of queries: along evaluation times, or along the times of rows.

A slice along evaluation times runs the whole expression for its steps. It reads what its steps need, so
cutting repeats what windows of neighbouring slices share: slices are not narrower than the widest window,
unless they would read too much at once.

Slices of log lines are disjoint in time and come in the order in which they can answer. Their answers are
concatenated and never merged, and the query may stop as soon as `limit` rows exist: no row of an unread slice
can come before them. Early slices are small ("the last 100 lines" should read little), later ones grow to a
full load. Cut points come from segment bounds, and inside a long segment from its average density.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.plan.logql_samples import LogReads
from lakerunner_query.plan.promql import Reads
from lakerunner_query.vectors.vector import Steps
from resources.index.types import Segment

BYTES_OF_A_ROW = 2
"""Bytes of a plain sample in a file; histograms take more, and as much longer to read."""
FEW_SEGMENTS = 4
"""Segments of the first part of a unit of log lines."""
NEARLY = 0.99
"""Part of its load from which on a slice is full."""
ONE_PART = 0.98
"""Part of the first slice's load up to which all segments surely fit in it."""
AnySteps = TypeVar("AnySteps", Steps, LogSteps)


class TimedReads(Protocol):
    """Reads of a query in an interval of time."""

    @property
    def interval_ns(self) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True)
class StepSliceSizes:
    """Sizes of slices along evaluation times."""

    rows: int
    """Rows that one slice reads, about."""
    at_least: int
    """Rows below which cutting for the sake of more workers does not pay."""


@dataclass(frozen=True, slots=True)
class SampleSliceSizes(StepSliceSizes):
    """Sizes for stored samples."""

    rows: int = 8_000_000
    at_least: int = 400_000


@dataclass(frozen=True, slots=True)
class LogSliceSizes(StepSliceSizes):
    """Sizes for samples of log lines, which cost more per row."""

    rows: int = 4_000_000
    at_least: int = 400_000


@dataclass(frozen=True, slots=True)
class StepSlice(Generic[AnySteps]):
    """Steps that are evaluated together."""

    number: int
    """Number of the interval, the same in every query with this step: it chooses the worker."""
    steps: AnySteps


def cut_steps(
    steps: Steps, loads: Sequence[tuple[Reads, Sequence[Segment]]], workers: int, sizes: StepSliceSizes
) -> list[StepSlice[Steps]]:
    """Cut a PromQL query into runs of steps, in order."""
    width_ms = max((read.to_ms - read.from_ms for read, _ in loads), default=0)
    extent = _Extents(steps.count, steps.end_ms - steps.start_ms, width_ms)
    slices = _slice_count(extent, rows_to_read(loads), workers, sizes)
    return list(steady_parts(steps, slices)) if slices else [StepSlice(0, steps)]


def cut_log_steps(
    steps: LogSteps, loads: Sequence[tuple[LogReads, Sequence[Segment]]], workers: int, sizes: StepSliceSizes
) -> list[StepSlice[LogSteps]]:
    """Cut a metric query over logs into runs of steps, in order."""
    width_ns = max((read.to_ns - read.from_ns for read, _ in loads), default=0)
    extent = _Extents(steps.count, steps.end_ns - steps.start_ns, width_ns)
    slices = _slice_count(extent, _rows(loads, lambda segment: segment.rows), workers, sizes)
    if not slices:
        return [StepSlice(0, steps)]
    return [
        StepSlice(part.number, LogSteps(part.steps.start_ms, part.steps.step_ms, part.steps.count))
        for part in steady_parts(Steps(steps.start_ns, steps.step_ns, steps.count), slices)
    ]


@dataclass(frozen=True, slots=True)
class _Extents:
    """Steps of a query, the time between its first and last, and the widest interval it reads."""

    steps: int
    span: int
    widest: int


def _slice_count(extent: _Extents, rows: int, workers: int, sizes: StepSliceSizes) -> int:
    """Return the number of slices, 0 for a query that is not cut."""
    for_workers = workers if rows > sizes.at_least else 1
    slices = max(1, -(-rows // sizes.rows), for_workers)
    if extent.steps == 1 or slices == 1:
        return 0
    window = max(1, extent.widest - extent.span)
    return max(1, min(slices, extent.steps, max(for_workers, extent.span // window)))


def rows_to_read(loads: Sequence[tuple[Reads, Sequence[Segment]]]) -> int:
    """Estimate the samples that all selectors read; larger ones count as several."""
    return _rows(loads, lambda segment: max(segment.rows, segment.bytes / BYTES_OF_A_ROW))


def _rows(loads: Sequence[tuple[TimedReads, Sequence[Segment]]], rows_of: Callable[[Segment], float]) -> int:
    """Add up rows of segments by the share of their time that is read."""
    total = 0
    for read, segments in loads:
        low_ns, high_ns = read.interval_ns
        rows = 0.0
        for segment in segments:
            common = min(segment.max_ns, high_ns) - max(segment.min_ns, low_ns) + 1
            share = common / (segment.max_ns - segment.min_ns + 1)
            rows += rows_of(segment) * min(1.0, max(0.0, share))
        total += int(rows)
    return total


def overlapping_segments(
    reads: Sequence[TimedReads], segments: Sequence[Sequence[Segment]], before_ns: int = 0
) -> list[list[Segment]]:
    """Return the segments of each selector that overlap what it reads, and the time before it."""
    return [
        [segment for segment in each if segment.min_ns <= high and segment.max_ns > low - before_ns]
        for (low, high), each in zip((read.interval_ns for read in reads), segments, strict=True)
    ]


def steady_parts(steps: Steps, parts: int) -> Iterator[StepSlice[Steps]]:
    """Cut steps at times that do not depend on where the query begins.

    A dashboard that moves on by a step asks for the same intervals again except the outermost, and a worker
    still has their answers. There are half as many slices more than `parts`, so that the outermost ones,
    which are narrower, do not leave a worker with far less to do than another. No slice has a single step:
    that is an instant query, which has another meaning.

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
        yield StepSlice(number, Steps(steps.start_ms + at * steps.step_ms, steps.step_ms, end - at))
        at = end


def _even_width(most: int) -> int:
    """Return the largest power of two, or three times one, that is not above `most`; two at least.

    >>> [_even_width(most) for most in (0, 3, 5, 6, 460, 700)]
    [2, 3, 4, 6, 384, 512]
    """
    power = 1 << (max(2, most).bit_length() - 1)
    return power * 3 // 2 if power * 3 // 2 <= most else power


class Extent(Protocol):
    """Fields of a segment that decide about cutting."""

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


Seg = TypeVar("Seg", bound=Extent)


@dataclass(frozen=True, slots=True)
class RowSliceSizes:
    """Full load of a slice of rows, whichever bound is reached first; the first slice is a part of it."""

    rows: int = 2_000_000
    bytes: int = 256 * 1024 * 1024
    segments: int = 500
    first: float = 1 / 16
    growth: float = 2.0


@dataclass(frozen=True, slots=True)
class Slice(Generic[Seg]):
    """Interval `[start_ns, end_ns)` and every segment that overlaps it."""

    start_ns: int
    end_ns: int
    segments: tuple[Seg, ...]


def cut_slices(
    segments: Sequence[Seg],
    start_ns: int,
    end_ns: int,
    *,
    reverse: bool,
    sizes: RowSliceSizes | None = None,
) -> Iterator[Slice[Seg]]:
    """Cut an interval, oldest first, or newest first when `reverse` (by cutting mirrored time)."""
    chosen = sizes or RowSliceSizes()
    if sum(_load(one, chosen) for one in segments) < ONE_PART * chosen.first:
        there = [one for one in segments if one.min_ns < end_ns and one.max_ns >= start_ns]
        if there:
            yield _whole(there, start_ns, end_ns)
        return
    pieces = [p for p in (_piece(s, start_ns, end_ns, reverse, chosen) for s in segments) if p is not None]
    if pieces and sum(p.density * (p.hi - p.lo) for p in pieces) < ONE_PART * chosen.first:
        first, last = min(p.lo for p in pieces), max(p.hi for p in pieces)
        lo, hi = (-last, -first) if reverse else (first, last)
        yield Slice(lo, hi, _oldest_first(p.segment for p in pieces))
        return
    for part in _grow(_sweep(pieces), chosen):
        lo, hi = (-part.hi, -part.lo) if reverse else (part.lo, part.hi)
        yield Slice(lo, hi, _oldest_first(part.members))


def first_few(segments: Sequence[Seg], start_ns: int, end_ns: int, *, reverse: bool) -> Iterator[Slice[Seg]]:
    """Cut an interval where no segment is cut: few segments first, since their rows are often enough."""
    mirrored = [
        (-one.max_ns, -one.min_ns, one) if reverse else (one.min_ns, one.max_ns, one) for one in segments
    ]
    few, part, behind = FEW_SEGMENTS, list[Seg](), 0
    for low, high, segment in sorted(mirrored, key=lambda each: each[:2]):
        if len(part) >= few and low > behind:
            yield _whole(part, start_ns, end_ns)
            few, part = few * 4, []
        behind = max(behind, high) if part else high
        part.append(segment)
    if part:
        yield _whole(part, start_ns, end_ns)


def _whole(part: Sequence[Seg], start_ns: int, end_ns: int) -> Slice[Seg]:
    first, last = min(one.min_ns for one in part), max(one.max_ns for one in part)
    return Slice(max(start_ns, first), min(end_ns, last + 1), _oldest_first(part))


def _oldest_first(segments: Iterable[Seg]) -> tuple[Seg, ...]:
    return tuple(sorted(segments, key=lambda one: (one.min_ns, one.segment_id)))


@dataclass(frozen=True, slots=True)
class _Piece(Generic[Seg]):
    """Segment inside the interval, on the (possibly mirrored) time line; load per nanosecond."""

    lo: int
    hi: int
    density: float
    segment: Seg


@dataclass(frozen=True, slots=True)
class _Interval(Generic[Seg]):
    """Time between two neighbouring bounds: the same segments all along."""

    lo: int
    hi: int
    density: float
    active: dict[Seg, None]


@dataclass(slots=True)
class _Part(Generic[Seg]):
    lo: int
    hi: int
    load: float = 0.0
    members: dict[Seg, None] = field(default_factory=dict)


def _load(segment: Extent, sizes: RowSliceSizes) -> float:
    """Return the part of a full slice that a whole segment is."""
    return max(segment.rows / sizes.rows, segment.bytes / sizes.bytes, 1 / sizes.segments)


def _piece(
    segment: Seg, start_ns: int, end_ns: int, reverse: bool, sizes: RowSliceSizes
) -> _Piece[Seg] | None:
    lo, hi = max(segment.min_ns, start_ns), min(segment.max_ns + 1, end_ns)
    if lo >= hi:
        return None
    density = _load(segment, sizes) / (segment.max_ns - segment.min_ns + 1)
    return _Piece(-hi, -lo, density, segment) if reverse else _Piece(lo, hi, density, segment)


def _sweep(pieces: Sequence[_Piece[Seg]]) -> Iterator[_Interval[Seg]]:
    events = sorted(
        [(p.lo, 1, p) for p in pieces] + [(p.hi, 0, p) for p in pieces],
        key=lambda e: (e[0], e[1], e[2].segment.segment_id),
    )
    active: dict[Seg, None] = {}
    density = 0.0
    at = 0
    for time, opens, piece in events:
        if active and time > at:
            yield _Interval(at, time, density, active)
        at = time
        if opens:
            active[piece.segment] = None
            density += piece.density
        else:
            del active[piece.segment]
            density = density - piece.density if active else 0.0  # no drift across gaps


def _grow(intervals: Iterable[_Interval[Seg]], sizes: RowSliceSizes) -> Iterator[_Part[Seg]]:
    target = sizes.first
    part: _Part[Seg] | None = None
    for interval in intervals:
        at = interval.lo
        while at < interval.hi:
            part = part or _Part(at, at)
            room = target - part.load
            reach = min(interval.hi, at + max(1, int(room / max(interval.density, 1e-300))))
            if (interval.hi - reach) * interval.density < (1 - NEARLY) * target:
                reach = interval.hi  # the end of a segment is a better cut than one close to it
            part.hi, part.load = reach, part.load + (reach - at) * interval.density
            part.members.update(interval.active)
            at = reach
            if part.load >= target * NEARLY:
                yield part
                part, target = None, min(1.0, target * sizes.growth)
    if part is not None:
        yield part
