"""Units of rollups go to Spark tasks as JSON, and answers come back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec
import xxhash

from lakerunner_assets.task_results import SegmentAnswer


class RollFault(StrEnum):
    STORE = "store"  # the object store did not answer: try again later
    SOURCE = "source"  # a segment cannot be read: somebody has to look at it
    GONE = "gone"  # a segment was swept since planning: plan again


@dataclass(frozen=True, slots=True)
class RollUnit:
    batch_id: int
    attempt: int
    org: str
    source_ms: int
    target_ms: int
    start_ns: int
    width_ns: int
    sources: tuple[str, ...]
    side: tuple[str, ...]
    """Keys of the cardinality of its hours; for days only."""
    lake_url: str
    target_bytes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class RollAnswer:
    batch_id: int
    segments: tuple[SegmentAnswer, ...] = ()
    fault: RollFault | None = None
    error: str = ""
    seconds: float = 0.0
    unequal: str = ""
    """Difference of samples or sums from those of the sources; there should be none."""


def roll_id(unit: RollUnit, dataset: str, part: int) -> str:
    """Name a segment: the same if Spark repeats a task, another for every batch.

    No key is ever written twice.
    """
    text = f"{unit.batch_id}/{unit.attempt}/{dataset}/{unit.start_ns}/{part}"
    return xxhash.xxh128_hexdigest(text.encode())


def encode(value: RollUnit | RollAnswer) -> bytes:
    return msgspec.json.encode(value)


def decode_unit(data: bytes) -> RollUnit:
    return msgspec.json.decode(data, type=RollUnit)


def decode_answer(data: bytes) -> RollAnswer:
    return msgspec.json.decode(data, type=RollAnswer)
