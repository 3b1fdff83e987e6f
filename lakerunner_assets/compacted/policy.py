"""The values of merge planning: how much, how long, and what came of it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from resources.index.types import BatchKind, LiveSegment
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, SECOND_NS, from_datetime, to_datetime
from resources.settings import Settings

MIB = 1 << 20
QUIET_S = 900
"""Late rows rarely come alone: an hour that is over is closed when nothing was added for this long."""


@dataclass(frozen=True, slots=True)
class Policy:
    target_bytes: int
    files: int
    """So many segments of one size are too many for an hour that still grows."""
    close_ns: int
    """An hour is over this long after its end."""
    seal_after_ns: int
    """A day (for day-wide rollups a month) is sealed this long after its end."""
    quiet_ns: int = QUIET_S * SECOND_NS
    closed: bool = False
    """Hours count as over whatever the time is: a person asked for them."""

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
        """A segment of this size is left alone."""
        return self.target_bytes // 2

    @property
    def merge_bytes(self) -> int:
        """One merge takes about so much; what it writes is smaller."""
        return self.target_bytes * 5 // 4


@dataclass(frozen=True, slots=True)
class Merge:
    """Segments of one collector, dataset and frequency that are to become as few as their bytes need."""

    kind: BatchKind
    signal: Signal
    org: str
    collector: str
    dataset: str
    frequency_ms: int
    start_ns: int
    width_ns: int
    """The window of the output; those of all inputs lie in it."""
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
    """No two of them share a segment."""
    settle: tuple[str, ...]
    """Segments that have nothing to be merged with.

    Only this settles, no merge does by itself: a group may have members that are hidden in somebody's claim,
    and what comes of them must make the planner look at the whole group again.
    """


def day_of(start_ns: int) -> tuple[int, int]:
    """(start, width) of the day that a window starting here lies in."""
    return start_ns // DAY_NS * DAY_NS, DAY_NS


def month_of(start_ns: int) -> tuple[int, int]:
    """(start, width) of the calendar month that a window starting here lies in."""
    first = to_datetime(start_ns).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + dt.timedelta(days=32)).replace(day=1)
    start = from_datetime(first)
    return start, from_datetime(following) - start
