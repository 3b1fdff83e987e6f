"""A Spark task derives the metrics of one hour and puts them into the lake.

Units travel to it as JSON, and answers come back. A segment that cannot be read fails this hour only.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import msgspec
import pyarrow as pa
import xxhash

from lakerunner_assets.lake_files import fetch_segments, put_segment
from lakerunner_assets.materialized.preset import derive
from lakerunner_assets.materialized.spans import Hour
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_assets.task_results import SegmentAnswer
from resources.lake.layout import Signal, segment_key
from resources.lake.signals import FACTS
from resources.lake.timecut import hour_of_day
from resources.objects.client import ObjectStore
from resources.objects.errors import NotFoundError, StoreError
from resources.objects.store import open_store
from resources.settings import Settings

COLLECTOR = "all"
"""Collector of derived metrics: a trace may come in through several."""


class DeriveFault(StrEnum):
    STORE = "store"  # the object store did not answer: try again later
    SOURCE = "source"  # a segment cannot be read: somebody has to look at it
    GONE = "gone"  # a segment was swept since planning: plan again


@dataclass(frozen=True, slots=True)
class DeriveUnit:
    batch_id: int
    attempt: int
    org: str
    hour_ns: int
    own: tuple[str, ...]
    beside: tuple[str, ...]
    lake_url: str


@dataclass(frozen=True, slots=True)
class DeriveAnswer:
    batch_id: int
    segments: tuple[SegmentAnswer, ...] = ()
    records: int = 0
    """Distinct records of the hour."""
    fault: DeriveFault | None = None
    error: str = ""
    seconds: float = 0.0


def encode(value: DeriveUnit | DeriveAnswer) -> bytes:
    return msgspec.json.encode(value)


def decode_unit(data: bytes) -> DeriveUnit:
    return msgspec.json.decode(data, type=DeriveUnit)


def decode_answer(data: bytes) -> DeriveAnswer:
    return msgspec.json.decode(data, type=DeriveAnswer)


def materialize(payload: bytes) -> bytes:
    """Derive one encoded unit; return an encoded answer."""
    unit = decode_unit(payload)
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="lakerunner-derive-") as folder:
            segments, records = _derive(unit, Path(folder))
    except NotFoundError as error:
        return encode(DeriveAnswer(unit.batch_id, fault=DeriveFault.GONE, error=str(error)))
    except StoreError as error:
        return encode(DeriveAnswer(unit.batch_id, fault=DeriveFault.STORE, error=str(error)))
    except (ValueError, OSError, pa.ArrowException) as error:
        return encode(DeriveAnswer(unit.batch_id, fault=DeriveFault.SOURCE, error=str(error)))
    return encode(DeriveAnswer(unit.batch_id, segments, records, seconds=time.monotonic() - started))


def _derive(unit: DeriveUnit, folder: Path) -> tuple[tuple[SegmentAnswer, ...], int]:
    lake: ObjectStore = open_store(unit.lake_url, Settings.load())
    paths = fetch_segments(lake, (*unit.own, *unit.beside), folder)
    tables, records = derive(Hour(unit.hour_ns, paths[: len(unit.own)], paths[len(unit.own) :]))
    if not tables:
        return (), records
    dataset = FACTS[Signal.METRICS].dataset
    name = _segment_id(unit)
    path = folder / "derived.parquet"
    identity = SegmentIdentity(unit.org, COLLECTOR, dataset, unit.hour_ns, name)
    written = replace(write_metric_segment(tables, path, identity), object_ids=())  # of no raw object
    key = segment_key(unit.org, COLLECTOR, dataset, unit.hour_ns, hour_of_day(unit.hour_ns), name)
    put_segment(lake, key, path)
    return (SegmentAnswer(unit.batch_id, name, key, COLLECTOR, dataset, unit.hour_ns, written),), records


def _segment_id(unit: DeriveUnit) -> str:
    """Name the segment: the same if Spark repeats a task, another for every batch."""
    return xxhash.xxh128_hexdigest(f"{unit.batch_id}/{unit.attempt}/derived/{unit.hour_ns}".encode())
