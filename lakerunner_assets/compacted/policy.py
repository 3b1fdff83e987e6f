"""Pure rules over sizes choose which segments of a group are merged.

An hour that still grows is merged for two reasons only, so that a row is rewritten about once: enough bytes
for a full segment, or too many files of one size. An hour that is over ends with at most as many segments as
its bytes need and one more; the largest is left out where that is enough.

    over, target 1 GB:  1 1 1 … 1 (84 of them), 32, 64 MB   →   merge 84 and 32, leave 64
    late, 1 settled:    1, 3, 700 MB                        →   merge 1 and 3, leave 700
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from resources.index.types import BatchKind, LiveSegment
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, SECOND_NS, from_datetime, to_datetime
from resources.settings import Settings

MIB = 1 << 20
QUIET_S = 900
"""Time without new rows after which an hour that is over closes: late rows rarely come alone."""


@dataclass(frozen=True, slots=True)
class Policy:
    target_bytes: int
    files: int
    """Number of segments of one size that are too many for an hour that still grows."""
    close_ns: int
    """Time after its end from which an hour is over."""
    seal_after_ns: int
    """Time after its end from which a day (for day-wide rollups a month) is sealed."""
    quiet_ns: int = QUIET_S * SECOND_NS
    closed: bool = False
    """True if hours count as over whatever the time is: a person requested them."""

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        return cls(
            settings.merge_target_bytes,
            settings.compact_files,
            settings.compact_close_s * SECOND_NS,
            settings.seal_after_s * SECOND_NS,
        )

    @property
    def full_bytes(self) -> int:
        """Return the size from which a segment is left alone."""
        return self.target_bytes // 2

    @property
    def merge_bytes(self) -> int:
        """Return about how much one merge reads; what it writes is smaller."""
        return self.target_bytes * 5 // 4


@dataclass(frozen=True, slots=True)
class Merge:
    """Segments of one collector, dataset and frequency that are to become few."""

    kind: BatchKind
    signal: Signal
    org: str
    collector: str
    dataset: str
    frequency_ms: int
    start_ns: int
    width_ns: int
    """Width of the output's window; those of all inputs lie in it."""
    inputs: tuple[LiveSegment, ...]
    reason: str

    @property
    def level(self) -> int:
        return 1 + max(segment.level for segment in self.inputs)

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.inputs)

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.inputs)


@dataclass(frozen=True, slots=True)
class Plans:
    merges: tuple[Merge, ...]
    """Merges of which no two share a segment."""
    settle: tuple[str, ...]
    """Segments that have nothing to be merged with.

    Only this settles, no merge does by itself: a group may have members that are hidden in somebody's claim,
    and what comes of them must make the planner look at the whole group again.
    """


def day_of(start_ns: int) -> tuple[int, int]:
    """Return (start, width) of the day that a window starting here lies in."""
    return start_ns // DAY_NS * DAY_NS, DAY_NS


def month_of(start_ns: int) -> tuple[int, int]:
    """Return (start, width) of the calendar month that a window starting here lies in."""
    first = to_datetime(start_ns).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + dt.timedelta(days=32)).replace(day=1)
    start = from_datetime(first)
    return start, from_datetime(following) - start


MIN_INPUTS, MAX_INPUTS = 8, 64
"""Limits of a merge in an hour that still grows."""
CLOSING_INPUTS = 256
"""Limit of a closing merge: two passes over small segments cost more than many open files."""
MAX_PATIENCE = 4
FIRST_TIME, AGAIN = 0.5, 4.0
"""Greatest size of what is taken along, as a multiple of what has to be merged.

The first time little: what is large was merged in the open hour, and once more is enough for late rows that
may never come. When they do, one large segment beside the small ones makes all further ones cheap.
"""


@dataclass(frozen=True, slots=True)
class Choice:
    inputs: tuple[LiveSegment, ...]
    reason: str


def open_choices(segments: Iterable[LiveSegment], policy: Policy) -> list[Choice]:
    """Choose merges for a window that still grows."""
    small = _small(segments, policy)
    chosen = _filling(small, policy)
    taken = {segment.segment_id for choice in chosen for segment in choice.inputs}
    return chosen + _crowds([s for s in small if s.segment_id not in taken], policy)


def closing_choices(segments: Sequence[LiveSegment], policy: Policy) -> list[Choice]:
    """Choose merges for a window that is over; none if it has few enough segments."""
    small = _small(segments, policy)
    limit = segment_limit(small, policy)
    if len(small) <= limit:
        return []
    along = AGAIN if any(segment.settled for segment in segments) else FIRST_TIME
    prefix = small[: _prefix(small, limit, along, policy)]
    reason = f"over: {len(small)} small segments, at most {limit} may stay"
    return [Choice(tuple(b), reason) for b in _bins(prefix, policy) if len(b) > 1]


def segment_limit(small: Sequence[LiveSegment], policy: Policy) -> int:
    """Return how many segments a window that is over may have beside full ones."""
    return -(-sum(segment.bytes for segment in small) // policy.target_bytes) + 1


def _small(segments: Iterable[LiveSegment], policy: Policy) -> list[LiveSegment]:
    found = [segment for segment in segments if segment.bytes < policy.full_bytes]
    return sorted(found, key=lambda s: (s.bytes, s.segment_id))


def _classes(policy: Policy) -> tuple[int, ...]:
    """Return upper bounds of the sizes that are merged with each other."""
    return tuple(min(bound, policy.full_bytes) for bound in (8 * MIB, 64 * MIB, policy.full_bytes))


def _filling(small: list[LiveSegment], policy: Policy) -> list[Choice]:
    """Choose full segments, largest first; rows in them are never rewritten here again."""
    found: list[Choice] = []
    for bound in reversed(_classes(policy)):
        while True:
            taken = {segment.segment_id for choice in found for segment in choice.inputs}
            left = [s for s in reversed(small) if s.bytes < bound and s.segment_id not in taken]
            inputs = _first(left, MAX_INPUTS, policy.merge_bytes)
            size = sum(segment.bytes for segment in inputs)
            if len(inputs) < MIN_INPUTS or size < policy.target_bytes * 3 // 4:
                break
            found.append(Choice(tuple(inputs), f"{len(inputs)} segments fill one"))
    return found


def _crowds(small: Sequence[LiveSegment], policy: Policy) -> list[Choice]:
    """Choose crowds of one size and level.

    The more was merged before, the later: closing rewrites it anyway.
    """
    groups: dict[tuple[int, int], list[LiveSegment]] = defaultdict(list)
    for segment in small:
        size = sum(segment.bytes >= bound for bound in _classes(policy))
        groups[segment.level, size].append(segment)
    merged = sum(segment.level > 0 for segment in small)
    found: list[Choice] = []
    for (level, _), group in sorted(groups.items()):
        crowd = MAX_INPUTS if level else policy.files * min(1 + merged, MAX_PATIENCE)
        left: Sequence[LiveSegment] = group if len(group) >= crowd else ()
        while len(left) >= policy.files:
            inputs = _first(left, MAX_INPUTS, policy.merge_bytes)
            left = left[len(inputs) :]
            if len(inputs) >= MIN_INPUTS:
                found.append(Choice(tuple(inputs), f"{len(group)} segments of one size and level {level}"))
    return found


def _first(segments: Sequence[LiveSegment], count: int, max_bytes: int) -> list[LiveSegment]:
    chosen: list[LiveSegment] = []
    size = 0
    for segment in segments[:count]:
        size += segment.bytes
        if size > max_bytes:
            break
        chosen.append(segment)
    return chosen


def _prefix(small: Sequence[LiveSegment], limit: int, along: float, policy: Policy) -> int:
    """Count the smallest that have to go together, and those that cost little beside them."""
    bins, count, room, size = 0, 0, -1, 0
    for number, segment in enumerate(small, 1):
        if segment.bytes > room or count == CLOSING_INPUTS:
            bins, count, room = bins + 1, 0, policy.merge_bytes
        count, room, size = count + 1, room - segment.bytes, size + segment.bytes
        following = small[number].bytes if number < len(small) else None
        enough = number > 1 and len(small) - number + bins <= limit
        if enough and (following is None or following > along * size):
            return number
    return len(small)


def _bins(segments: Sequence[LiveSegment], policy: Policy) -> list[list[LiveSegment]]:
    """Split by size into bins, each as large as one merge may be."""
    bins: list[list[LiveSegment]] = []
    left = segments
    while left:
        bins.append(_first(left, CLOSING_INPUTS, policy.merge_bytes))
        left = left[len(bins[-1]) :]
    return bins
