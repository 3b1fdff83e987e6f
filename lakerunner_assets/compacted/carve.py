"""Hours are cut out of wider segments, so that they can be swapped alone.

    one day-wide segment, hours {3, 4}   →   hour 3, hour 4, and a day-wide segment of all the others

What is left still overlaps the hours in the index without holding a row of them. Whoever swaps an hour checks
with `segments_of_window` that it sees the hour and such rests only: a seal in between makes it carve again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence

from lakerunner_assets.compacted.policy import Merge
from lakerunner_assets.compacted.run import Job, answers, claim_merge, publish_merge
from lakerunner_assets.run_context import RunContext, abandon
from lakerunner_assets.segments.merge.request import Window
from resources.index.types import BatchKind, LiveSegment, PublishConflictError, Segment
from resources.lake.frequency import DAY
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS

MAX_TRIES = 8
MAX_PAUSE_S = 30.0


class CarveError(RuntimeError):
    """The hours could not be cut out; this try changed nothing."""


class CarveConflictError(PublishConflictError):
    """Others worked on the same segments all the time."""


def carve(
    run: RunContext,
    signal: Signal,
    org: str,
    frequency_ms: int,
    dataset: str,
    hours: Collection[int],
    pause_s: float = 0.5,
) -> frozenset[str]:
    """Cut out the hours; return the rests, wider segments over them that hold no row of them.

    `hours` are starts of hours, of days for day-wide rollups. Tried again while others have the segments.
    """
    free: set[str] = set()
    trouble: list[str] = []
    for number in range(MAX_TRIES):
        if trouble:
            run.log(f"{org} {dataset}: hours are carved out again: {trouble[-1]}")
            time.sleep(min(MAX_PAUSE_S, pause_s * 2**number))
        wide = wider_segments(run, signal, org, frequency_ms, dataset, hours)
        todo = [segment for segment in wide if segment.segment_id not in free]
        if not todo:
            return frozenset(segment.segment_id for segment in wide)
        rests, trouble = _carve_once(run, todo, unit_ns(frequency_ms), hours)
        free |= rests  # and another look: a seal may have written the next one meanwhile
    raise CarveConflictError(f"{org} {dataset}: {MAX_TRIES} tries to carve hours out failed: {trouble}")


def unit_ns(frequency_ms: int) -> int:
    """Return the width of what is carved out."""
    return DAY_NS if frequency_ms == DAY else HOUR_NS


def wider_segments(
    run: RunContext, signal: Signal, org: str, frequency_ms: int, dataset: str, hours: Collection[int]
) -> list[Segment]:
    """List live segments over any of the hours that are wider than one."""
    if not hours:
        return []
    unit = unit_ns(frequency_ms)
    view = run.index.tier_view(org, signal, [frequency_ms], min(hours), max(hours) + unit, dataset)
    return [s for s in view.segments if s.width_ns > unit and _hours_in(s, unit, hours)]


def segments_of_window(
    segments: Iterable[Segment], start_ns: int, width_ns: int, rests: Collection[str]
) -> list[Segment]:
    """Return the segments of exactly this window.

    A wider one that may hold rows of it is a `PublishConflictError`.
    """
    end_ns = start_ns + width_ns
    over = [s for s in segments if s.hour_ns < end_ns and s.hour_ns + s.width_ns > start_ns]
    mine = [s for s in over if (s.hour_ns, s.width_ns) == (start_ns, width_ns)]
    strange = {s.segment_id for s in over} - {s.segment_id for s in mine} - set(rests)
    if strange:
        raise PublishConflictError(
            f"window {start_ns} lies in wider segments that appeared since: {sorted(strange)}"
        )
    return mine


def _carve_once(
    run: RunContext, wide: Sequence[Segment], unit: int, hours: Collection[int]
) -> tuple[set[str], list[str]]:
    """Carve each wide segment by itself, in one Spark job; return ids of rests, and errors."""
    jobs: list[Job] = []
    trouble: list[str] = []
    rests: set[str] = set()
    done: set[int] = set()
    try:
        for segment in wide:
            windows = [Window(hour, unit) for hour in _hours_in(segment, unit, hours)]
            job = claim_merge(run, _as_merge(segment), windows)
            if isinstance(job, str):
                trouble.append(job)
            else:
                jobs.append(job)
        for job, answer in answers(run, jobs):
            if answer.fault is not None:
                raise CarveError(answer.error)
            try:
                made = publish_merge(run, job, answer, settled=True)
            except PublishConflictError as error:
                trouble.append(str(error))
                abandon(run, job.claim, str(error))
            else:
                rests |= {s.segment_id for s in made if s.width_ns > unit}
            done.add(job.claim.batch_id)
    finally:
        for job in jobs:
            if job.claim.batch_id not in done:
                abandon(run, job.claim, "the carving stopped before this segment")
            run.heart.release(job.claim.token)
    return rests, trouble


def _hours_in(segment: Segment, unit: int, hours: Iterable[int]) -> list[int]:
    end = segment.hour_ns + segment.width_ns
    return sorted(hour for hour in set(hours) if segment.hour_ns <= hour and hour + unit <= end)


def _as_merge(s: Segment) -> Merge:
    live = LiveSegment(
        s.segment_id, s.key, s.org, s.collector, s.signal, s.dataset, s.frequency_ms, s.hour_ns, s.width_ns,
        s.rows, s.bytes, s.level, s.settled, 0,
    )  # fmt: skip
    return Merge(
        BatchKind.CARVE, s.signal, s.org, s.collector, s.dataset, s.frequency_ms, s.hour_ns, s.width_ns,
        (live,), "hours of a sealed window are swapped",
    )  # fmt: skip
