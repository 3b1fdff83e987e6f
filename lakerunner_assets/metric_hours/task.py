"""A Spark task fetches segments and writes the samples of one hour.

Units travel to it as JSON, and answers come back. A segment that cannot be read fails this hour only.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa
import xxhash

from lakerunner_assets.lake_files import fetch_segments, put_segment
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_assets.task_results import SegmentAnswer
from lakerunner_query.errors import QueryError
from lakerunner_query.protocol.units import SegmentRef
from resources.lake.layout import Signal, segment_key
from resources.lake.signals import FACTS
from resources.lake.timecut import hour_of_day
from resources.objects.client import ObjectStore
from resources.objects.errors import NotFoundError, StoreError
from resources.objects.store import open_store
from resources.settings import Settings

COLLECTOR = "all"
"""Collector of metrics that are made of records of all."""


class HourFault(StrEnum):
    STORE = "store"  # the object store did not answer: try again later
    SOURCE = "source"  # a segment cannot be read: somebody has to look at it
    GONE = "gone"  # a segment was swept since planning: plan again


@dataclass(frozen=True, slots=True)
class HourUnit:
    """An hour to be made; each tier adds what it makes it of."""

    batch_id: int
    attempt: int
    org: str
    hour_ns: int
    lake_url: str


@dataclass(frozen=True, slots=True)
class HourAnswer:
    """Segments of an hour; each tier adds what its rules came to."""

    batch_id: int
    segments: tuple[SegmentAnswer, ...] = ()
    fault: HourFault | None = None
    error: str = ""
    seconds: float = 0.0


Unit = TypeVar("Unit", bound=HourUnit)
Answer = TypeVar("Answer", bound=HourAnswer)


def run_unit(
    payload: bytes,
    units: type[Unit],
    answers: type[Answer],
    make: Callable[[Unit, ObjectStore, Path], Answer],
) -> bytes:
    """Make the hour of an encoded unit in a folder of its own; return an encoded answer."""
    unit = msgspec.json.decode(payload, type=units)
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="lakerunner-hour-") as folder:
            answer = make(unit, open_store(unit.lake_url, Settings.load()), Path(folder))
    except NotFoundError as error:
        answer = answers(unit.batch_id, fault=HourFault.GONE, error=str(error))
    except StoreError as error:
        answer = answers(unit.batch_id, fault=HourFault.STORE, error=str(error))
    except (ValueError, OSError, pa.ArrowException, QueryError) as error:
        answer = answers(unit.batch_id, fault=HourFault.SOURCE, error=str(error))
    return msgspec.json.encode(replace(answer, seconds=time.monotonic() - started))


def fetch(lake: ObjectStore, refs: Sequence[SegmentRef], folder: Path) -> list[SegmentRef]:
    """Fetch segments, and name them as they lie in the folder.

    One that is gone is noticed before any is fetched: the hour is planned again, and fetches all of them.
    """
    keys = [one.key for one in refs]
    for key in keys:
        lake.head(key)
    paths = fetch_segments(lake, keys, folder)
    return [msgspec.structs.replace(ref, key=path.name) for ref, path in zip(refs, paths, strict=True)]


def write_hour(
    unit: HourUnit, origin: str, tables: Sequence[pa.Table], lake: ObjectStore, folder: Path
) -> SegmentAnswer:
    """Put the samples of an hour into the lake.

    The segment has the same name if Spark repeats a task, and another for every batch.
    """
    dataset = FACTS[Signal.METRICS].dataset
    name = xxhash.xxh128_hexdigest(f"{unit.batch_id}/{unit.attempt}/{unit.hour_ns}/{origin}".encode())
    path = folder / f"{name}.parquet"
    identity = SegmentIdentity(unit.org, COLLECTOR, dataset, unit.hour_ns, name)
    written = replace(write_metric_segment(tables, path, identity), object_ids=())  # of no raw object
    key = segment_key(unit.org, COLLECTOR, dataset, unit.hour_ns, hour_of_day(unit.hour_ns), name)
    put_segment(lake, key, path)
    return SegmentAnswer(unit.batch_id, name, key, COLLECTOR, dataset, unit.hour_ns, written)
