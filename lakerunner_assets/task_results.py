"""Tasks answer with one entry per raw object and one per segment.

Values only, shared by the tiers that produce them and by `publish.py` that turns them into index changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakerunner_assets.segments.written import WrittenSegment


class Fault(StrEnum):
    OBJECT = "object"  # this object's bytes or absence: counts as one of its tries
    STORE = "store"  # the object store did not answer: nobody's fault, the batch waits


@dataclass(frozen=True, slots=True)
class ObjectAnswer:
    object_id: int
    etag: str = ""
    rows: int = 0
    rejected: int = 0
    quarantined: int = 0
    notes: tuple[tuple[str, int], ...] = ()
    """Oddities, counted."""
    hours: tuple[tuple[int, int], ...] = ()
    fault: Fault | None = None
    error: str = ""
    """Reason of a failure; of a good object, place and reason of its first rejected record."""


@dataclass(frozen=True, slots=True)
class SegmentAnswer:
    batch_id: int
    segment_id: str
    key: str
    collector: str
    dataset: str
    hour_ns: int
    facts: WrittenSegment


@dataclass(frozen=True, slots=True)
class Answer:
    objects: tuple[ObjectAnswer, ...]
    segments: tuple[SegmentAnswer, ...]
    seconds: float
    raw_bytes: int
