"""A Spark task evaluates recording rules over one hour, and stores the samples.

Units travel to it as JSON, and answers come back. A segment that cannot be read fails this hour only; a rule
that cannot be evaluated fails alone.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import msgspec
import pyarrow as pa
import xxhash

from lakerunner_assets.lake_files import fetch_segments, put_segment
from lakerunner_assets.recorded.evaluate import RecordedHour, RecordedRule, record_hour
from lakerunner_assets.recorded.samples import sample_table
from lakerunner_assets.recorded.sources import open_sources
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_assets.task_results import SegmentAnswer
from lakerunner_query.errors import QueryError
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.rules.catalog import group_of
from resources.index.rule_types import StoredRule
from resources.lake.layout import Signal, segment_key
from resources.lake.signals import FACTS
from resources.lake.timecut import HOUR_NS, hour_of_day
from resources.objects.client import ObjectStore
from resources.objects.errors import NotFoundError, StoreError
from resources.objects.store import open_store
from resources.settings import Settings

COLLECTOR = "all"
"""Collector of recorded metrics, which are made of the samples of all."""
MOST_SAMPLES = 2_000_000
"""Samples that the rules of an organisation may record in an hour."""


class RecordFault(StrEnum):
    STORE = "store"  # the object store did not answer: try again later
    SOURCE = "source"  # a segment cannot be read: somebody has to look at it
    GONE = "gone"  # a segment was swept since planning: plan again


@dataclass(frozen=True, slots=True)
class RecordUnit:
    batch_id: int
    attempt: int
    org: str
    hour_ns: int
    groups: tuple[StoredRule, ...]
    interval_ms: int
    """Interval of groups that have none of their own."""
    metrics: tuple[SegmentRef, ...]
    logs: tuple[SegmentRef, ...]
    lake_url: str


@dataclass(frozen=True, slots=True)
class RecordAnswer:
    batch_id: int
    segments: tuple[SegmentAnswer, ...] = ()
    """One segment, none where nothing was recorded."""
    rules: tuple[RecordedRule, ...] = ()
    fault: RecordFault | None = None
    error: str = ""
    seconds: float = 0.0


def encode(value: RecordUnit | RecordAnswer) -> bytes:
    return msgspec.json.encode(value)


def decode_unit(data: bytes) -> RecordUnit:
    return msgspec.json.decode(data, type=RecordUnit)


def decode_answer(data: bytes) -> RecordAnswer:
    return msgspec.json.decode(data, type=RecordAnswer)


def record(payload: bytes) -> bytes:
    """Record one encoded unit; return an encoded answer."""
    unit = decode_unit(payload)
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="lakerunner-record-") as folder:
            answer = _record(unit, Path(folder))
    except NotFoundError as error:
        return encode(RecordAnswer(unit.batch_id, fault=RecordFault.GONE, error=str(error)))
    except StoreError as error:
        return encode(RecordAnswer(unit.batch_id, fault=RecordFault.STORE, error=str(error)))
    except (ValueError, OSError, pa.ArrowException, QueryError) as error:
        return encode(RecordAnswer(unit.batch_id, fault=RecordFault.SOURCE, error=str(error)))
    return encode(replace(answer, seconds=time.monotonic() - started))


def _record(unit: RecordUnit, folder: Path) -> RecordAnswer:
    lake: ObjectStore = open_store(unit.lake_url, Settings.load())
    refs = (*unit.metrics, *unit.logs)
    here = _here(refs, fetch_segments(lake, [one.key for one in refs], folder))
    found = _evaluate(unit, here[: len(unit.metrics)], here[len(unit.metrics) :], folder)
    if not found.samples:
        return RecordAnswer(unit.batch_id, rules=found.rules)
    return RecordAnswer(unit.batch_id, (_write(unit, found, lake, folder),), found.rules)


def _evaluate(
    unit: RecordUnit, metrics: Sequence[SegmentRef], logs: Sequence[SegmentRef], folder: Path
) -> RecordedHour:
    groups = [group_of(one) for one in unit.groups]
    if not groups:
        return RecordedHour((), ())
    with open_sources(metrics, logs, folder, unit.hour_ns + HOUR_NS) as sources:
        return record_hour(groups, unit.hour_ns, unit.interval_ms, sources.made, sources.ask, MOST_SAMPLES)


def _here(refs: Sequence[SegmentRef], paths: Sequence[Path]) -> list[SegmentRef]:
    """Name segments as they lie in the folder."""
    return [msgspec.structs.replace(ref, key=path.name) for ref, path in zip(refs, paths, strict=True)]


def _write(unit: RecordUnit, found: RecordedHour, lake: ObjectStore, folder: Path) -> SegmentAnswer:
    dataset = FACTS[Signal.METRICS].dataset
    # the same name if Spark repeats a task, another for every batch
    name = xxhash.xxh128_hexdigest(f"{unit.batch_id}/{unit.attempt}/recorded/{unit.hour_ns}".encode())
    path = folder / f"{name}.parquet"
    identity = SegmentIdentity(unit.org, COLLECTOR, dataset, unit.hour_ns, name)
    written = write_metric_segment([sample_table(found.samples)], path, identity)
    key = segment_key(unit.org, COLLECTOR, dataset, unit.hour_ns, hour_of_day(unit.hour_ns), name)
    put_segment(lake, key, path)
    facts = replace(written, object_ids=())  # of no raw object
    return SegmentAnswer(unit.batch_id, name, key, COLLECTOR, dataset, unit.hour_ns, facts)
