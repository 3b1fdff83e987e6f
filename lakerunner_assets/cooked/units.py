"""Units of cooking go to Spark tasks as JSON, and answers come back.

A unit is a bin of raw objects of one batch. Its answer has one entry per object and one per segment, so that
a bad object is known by name and its neighbours are published.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import xxhash

from lakerunner_assets.task_results import Answer, ObjectAnswer
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions


@dataclass(frozen=True, slots=True)
class UnitObject:
    object_id: int
    bucket: str
    key: str
    arrival_hour_ns: int
    expect_etag: str = ""
    """Etag that a rebuild expects: the content must be what was ingested."""


@dataclass(frozen=True, slots=True)
class Target:
    """The batch and attempt that publishes a segment."""

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
    """Batch of every hour, when cooking."""
    targets: dict[int, Target]
    """Batch of each hour, when rebuilding; no other hours are cooked."""
    buckets: dict[str, tuple[str, str]]
    """(URL, credentials_ref) of each bucket."""
    lake_url: str
    horizon_ns: int
    future_tolerance_ns: int
    object_max_bytes: int
    slice_bytes: int
    options: DecodeOptions
    """The organisation's choices at planning time."""


@dataclass(frozen=True, slots=True)
class Errand:
    """A unit on its way to the child process that cooks it."""

    unit: Unit
    left_out: tuple[ObjectAnswer, ...] = ()
    """Answers of objects that crashed a child before."""
    first_part: int = 0
    """Number of the first segment, when an earlier child has written some; else 0."""


def segment_id(target: Target, hour_ns: int, dataset: str, part: int) -> str:
    """Name a segment: the same if Spark repeats a task, another for every attempt.

    No key is ever written twice.
    """
    text = f"{target.batch_id}/{target.attempt}/{dataset}/{hour_ns}/{part}"
    return xxhash.xxh128_hexdigest(text.encode())


def encode(value: Unit | Answer) -> bytes:
    return msgspec.json.encode(value)


def encode_errand(errand: Errand) -> bytes:
    return msgspec.json.encode(errand)


def decode_errand(data: bytes) -> Errand:
    return msgspec.json.decode(data, type=Errand)


def decode_unit(data: bytes) -> Unit:
    return msgspec.json.decode(data, type=Unit)


def decode_answer(data: bytes) -> Answer:
    return msgspec.json.decode(data, type=Answer)
