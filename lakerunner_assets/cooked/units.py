"""What goes to a Spark task and what comes back: frozen values, encoded as JSON.

A unit is a bin of raw objects of one batch. Its answer has one entry per object and one per segment, so that
a bad object is known by name and its neighbours are published.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import xxhash

from lakerunner_assets.task_results import Answer
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions


@dataclass(frozen=True, slots=True)
class UnitObject:
    object_id: int
    bucket: str
    key: str
    arrival_hour_ns: int
    expect_etag: str = ""
    """Rebuild only: the content must still be what was ingested."""


@dataclass(frozen=True, slots=True)
class Target:
    """A batch and attempt that a segment will be published by."""

    batch_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Unit:
    signal: Signal
    org: str
    collector: str
    part: int
    objects: tuple[UnitObject, ...]
    target: Target | None
    """Cooking: every hour goes to this batch."""
    targets: dict[int, Target]
    """Rebuilding: only these hours are wanted, each for its own batch."""
    buckets: dict[str, tuple[str, str]]
    """bucket → (URL, credentials_ref)"""
    lake_url: str
    horizon_ns: int
    future_tolerance_ns: int
    object_max_bytes: int
    slice_bytes: int
    options: DecodeOptions
    """The organisation's choices at planning time."""


def segment_id(target: Target, hour_ns: int, dataset: str, part: int) -> str:
    """The same for a repeated Spark task, different for every attempt: no key is ever written twice."""
    text = f"{target.batch_id}/{target.attempt}/{dataset}/{hour_ns}/{part}"
    return xxhash.xxh128_hexdigest(text.encode())


def encode(value: Unit | Answer) -> bytes:
    return msgspec.json.encode(value)


def decode_unit(data: bytes) -> Unit:
    return msgspec.json.decode(data, type=Unit)


def decode_answer(data: bytes) -> Answer:
    return msgspec.json.decode(data, type=Answer)
