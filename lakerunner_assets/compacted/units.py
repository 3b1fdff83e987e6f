"""Units of merges go to Spark tasks as JSON, and answers come back.

One merge is one task. Its answer names the source that could not be read, if there is one, so that the others
can be merged without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import xxhash

from lakerunner_assets.segments.merge.request import MergeKind, Window
from lakerunner_assets.signals import SIGNALS
from lakerunner_assets.task_results import Fault, SegmentAnswer
from resources.index.types import Claim
from resources.lake.layout import Signal, segment_key
from resources.lake.timecut import HOUR_NS, hour_of_day


@dataclass(frozen=True, slots=True)
class Source:
    segment_id: str
    key: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MergeUnit:
    batch_id: int
    attempt: int
    kind: MergeKind
    org: str
    collector: str
    dataset: str
    sources: tuple[Source, ...]
    target: Window
    carve: tuple[Window, ...]
    generation: int
    target_bytes: int
    memory_bytes: int
    lake_url: str

    @property
    def bytes(self) -> int:
        return sum(source.bytes for source in self.sources)


@dataclass(frozen=True, slots=True)
class Output:
    """One written segment; parts of a window are in the order of their sort keys."""

    segment: SegmentAnswer
    width_ns: int
    first_key: str
    last_key: str


@dataclass(frozen=True, slots=True)
class MergeAnswer:
    outputs: tuple[Output, ...] = ()
    rows_read: int = 0
    rows_written: int = 0
    duplicates: int = 0
    seconds: float = 0.0
    fault: Fault | None = None
    error: str = ""
    damaged: tuple[str, ...] = ()
    """Ids of the sources at fault."""


def merge_kind(signal: Signal, frequency_ms: int) -> MergeKind:
    return MergeKind.ROLLUP if frequency_ms else SIGNALS[signal].merge_kind


def segment_id(unit: MergeUnit, window: Window, part: int) -> str:
    """Name a segment: the same if Spark repeats a task, another for every attempt.

    No key is ever written twice.
    """
    place = f"{unit.dataset}/{window.start_ns}/{window.width_ns}/{part}"
    return xxhash.xxh128_hexdigest(f"{unit.batch_id}/{unit.attempt}/{place}".encode())


def output_key(unit: MergeUnit, window: Window, name: str) -> str:
    hour = hour_of_day(window.start_ns) if window.width_ns == HOUR_NS else None
    return segment_key(unit.org, unit.collector, unit.dataset, window.start_ns, hour, name)


def job_tag(claim: Claim) -> str:
    return f"batch-{claim.batch_id}-{claim.attempt}"


def encode(value: MergeUnit | MergeAnswer) -> bytes:
    return msgspec.json.encode(value)


def decode_unit(data: bytes) -> MergeUnit:
    return msgspec.json.decode(data, type=MergeUnit)


def decode_answer(data: bytes) -> MergeAnswer:
    return msgspec.json.decode(data, type=MergeAnswer)
