"""What differs between signals, as one frozen value of data and functions.

Tiers never ask which signal they work on; they call what the spec holds. The functions import their heavy
libraries when called, so that definitions load fast and offline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from resources.lake.layout import Signal

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one task's memory."""

    object_max_bytes: int
    slice_bytes: int


@dataclass(frozen=True, slots=True)
class DecodedSlice:
    """Some rows of one raw object, in its order."""

    table: pa.Table
    rejected: int


@dataclass(frozen=True, slots=True)
class SegmentIdentity:
    """Where a segment belongs, fixed before a row of it is written."""

    org: str
    collector: str
    dataset: str
    hour_ns: int
    segment_id: str


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What the index must know about a written segment."""

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


class Decode(Protocol):
    def __call__(
        self, data: bytes, *, object_id: int, arrival_ns: int, limits: Limits
    ) -> Iterator[DecodedSlice]: ...


class Write(Protocol):
    def __call__(self, tables: Sequence[pa.Table], path: Path, identity: SegmentIdentity) -> SegmentFacts: ...


@dataclass(frozen=True, slots=True)
class SignalSpec:
    signal: Signal
    dataset: str
    time_column: str
    decode: Decode
    write: Write
    description: str

    @property
    def quarantine_dataset(self) -> str:
        return f"{self.dataset}-quarantine"
