"""Identity and facts of segments are plain values, which definitions and answers load without pyarrow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SegmentIdentity:
    """The place of a segment, fixed before a row of it is written."""

    org: str
    collector: str
    dataset: str
    hour_ns: int
    segment_id: str
    generation: int = 0


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """Facts for the segment's row in the index; times are exact and inclusive."""

    rows: int
    bytes: int
    min_ns: int
    max_ns: int
    format_version: int
    sort_version: int
    terms: tuple[int, ...]
    label_names: tuple[str, ...]
    metric_names: tuple[str, ...]
    series_offset: int
    series_length: int
    bloom_offset: int
    bloom_length: int
    object_ids: tuple[int, ...]
    row_groups: int
