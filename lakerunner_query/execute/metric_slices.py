"""Cutting a metric query along its evaluation times: each part runs the whole expression for its steps.

A part reads what its steps need, so cutting repeats what windows of neighbouring parts share: parts are not
cut smaller than the widest window, unless what they read would be too much at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakerunner_query.execute.work import RollupRef, segment_ref
from lakerunner_query.plan.metrics import Reads
from lakerunner_query.vectors.vector import Steps
from resources.index.types import Segment, TierView
from resources.lake.currency import current_partitions
from resources.lake.frequency import AS_SENT, rollup_of
from resources.lake.timecut import HOUR_NS, cut

NS_PER_MS = 1_000_000
BYTES_OF_A_ROW = 2
"""In the file, of a plain sample; histograms take more, and as much longer to read."""
READING_A_ROLLUP_ROW = 24
"""It takes about as long as so many samples: ten the first time, fifty where samples are in memory."""


@dataclass(frozen=True, slots=True)
class SliceSizes:
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
    steps: Steps, loads: Sequence[tuple[Reads, Sequence[Segment]]], workers: int, sizes: SliceSizes
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


def rollup_refs(tiers: TierView, reads: Sequence[Reads]) -> tuple[RollupRef, ...]:
    """What of the rollups may be used for these stretches."""
    return narrowed(worth_reading(tiers), reads)


def worth_reading(tiers: TierView) -> tuple[RollupRef, ...]:
    """What of the rollups is current, and read faster than the samples that it stands for."""
    if not tiers.partitions:
        return ()
    found: list[RollupRef] = []
    as_sent = rows_per_hour(tiers.segments, AS_SENT)
    for frequency, starts in current_partitions(tiers.partitions).items():
        mine = [segment for segment in tiers.segments if segment.frequency_ms == frequency]
        if frequency == AS_SENT or not starts:
            continue
        if as_sent and rows_per_hour(mine, frequency) * READING_A_ROLLUP_ROW > as_sent:
            continue
        found.append(RollupRef(frequency, tuple(sorted(starts)), tuple(map(segment_ref, mine))))
    return tuple(found)


def narrowed(rollups: Sequence[RollupRef], reads: Sequence[Reads]) -> tuple[RollupRef, ...]:
    """As much of them as these stretches touch."""
    if not rollups or not reads:
        return ()
    from_ns = min(read.from_ms for read in reads) * NS_PER_MS
    to_ns = max(read.to_ms for read in reads) * NS_PER_MS
    found: list[RollupRef] = []
    for rollup in rollups:
        width = rollup_of(rollup.frequency_ms).partition_ns
        starts = tuple(start for start in rollup.starts if start + width > from_ns and start < to_ns)
        segments = tuple(s for s in rollup.segments if s.max_ns > from_ns and s.min_ns <= to_ns)
        if starts:
            found.append(RollupRef(rollup.frequency_ms, starts, segments))
    return tuple(found)


def rows_per_hour(segments: Sequence[Segment], frequency_ms: int) -> float:
    """Of the hours that have any; told from whole segments, of all metrics together."""
    mine = [segment for segment in segments if segment.frequency_ms == frequency_ms]
    hours = {
        hour for s in mine for hour in range(cut(s.min_ns, HOUR_NS), cut(s.max_ns, HOUR_NS) + 1, HOUR_NS)
    }
    return sum(segment.rows for segment in mine) / len(hours) if hours else 0.0


def _rows(read: Reads, segments: Sequence[Segment]) -> int:
    """Of plain samples that take as long."""
    total = 0.0
    for segment in segments:
        low = max(segment.min_ns, read.from_ms * NS_PER_MS)
        high = min(segment.max_ns, read.to_ms * NS_PER_MS)
        share = (high - low + 1) / (segment.max_ns - segment.min_ns + 1)
        total += max(segment.rows, segment.bytes / BYTES_OF_A_ROW) * min(1.0, max(0.0, share))
    return int(total)
