"""A Spark task derives the metrics of one hour and puts them into the lake.

Units travel to it as JSON, and answers come back. A segment that cannot be read fails this hour only.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import msgspec
import pyarrow as pa
import xxhash

from lakerunner_assets.lake_files import fetch_segments, put_segment
from lakerunner_assets.materialized.preset import ORIGIN, derive
from lakerunner_assets.materialized.rule_cells import RuleOutcome, RuleTask
from lakerunner_assets.materialized.rules import derive_rules, rules_origin
from lakerunner_assets.materialized.spans import Hour
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
    own: tuple[SegmentRef, ...]
    """Segments of the hour."""
    beside: tuple[SegmentRef, ...]
    """Segments of its neighbours with records near it."""
    lake_url: str
    signal: Signal = Signal.TRACES
    with_preset: bool = True
    rules: tuple[RuleTask, ...] = ()
    most_series: int = 0
    """Series that a rule may have in an hour."""


@dataclass(frozen=True, slots=True)
class DeriveAnswer:
    batch_id: int
    segments: tuple[SegmentAnswer, ...] = ()
    """Segment of the preset, if it has samples, and that of the rules; `origins` says which is which."""
    origins: tuple[str, ...] = ()
    records: int = 0
    """Distinct spans of the hour, or rows of its segments where only rules are derived."""
    rules: tuple[RuleOutcome, ...] = ()
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
            answer = _derive(unit, Path(folder))
    except NotFoundError as error:
        return encode(DeriveAnswer(unit.batch_id, fault=DeriveFault.GONE, error=str(error)))
    except StoreError as error:
        return encode(DeriveAnswer(unit.batch_id, fault=DeriveFault.STORE, error=str(error)))
    except (ValueError, OSError, pa.ArrowException, QueryError) as error:
        return encode(DeriveAnswer(unit.batch_id, fault=DeriveFault.SOURCE, error=str(error)))
    return encode(replace(answer, seconds=time.monotonic() - started))


def _derive(unit: DeriveUnit, folder: Path) -> DeriveAnswer:
    lake: ObjectStore = open_store(unit.lake_url, Settings.load())
    keys = [one.key for one in (*unit.own, *unit.beside)]
    paths = fetch_segments(lake, keys, folder)
    own, beside = paths[: len(unit.own)], paths[len(unit.own) :]
    records = sum(one.rows for one in unit.own)
    made: list[tuple[str, SegmentAnswer]] = []
    outcomes: tuple[RuleOutcome, ...] = ()
    if unit.with_preset:
        tables, records = derive(Hour(unit.hour_ns, own, beside))
        made += _write(unit, ORIGIN, tables, lake, folder)
    if unit.rules:
        tables, outcomes = derive_rules(
            unit.rules, unit.signal, _here(unit.own, own), _here(unit.beside, beside), unit.hour_ns,
            unit.most_series, folder,
        )  # fmt: skip
        made += _write(unit, rules_origin(unit.signal), tables, lake, folder)
    origins, segments = (tuple(each) for each in zip(*made, strict=True)) if made else ((), ())
    return DeriveAnswer(unit.batch_id, segments, origins, records, outcomes)


def _here(refs: Sequence[SegmentRef], paths: Sequence[Path]) -> list[SegmentRef]:
    """Name segments as they lie in the folder."""
    return [msgspec.structs.replace(ref, key=path.name) for ref, path in zip(refs, paths, strict=True)]


def _write(
    unit: DeriveUnit, origin: str, tables: list[pa.Table], lake: ObjectStore, folder: Path
) -> Iterator[tuple[str, SegmentAnswer]]:
    """Put the samples into the lake, unless there are none."""
    if not tables:
        return
    dataset = FACTS[Signal.METRICS].dataset
    name = _segment_id(unit, origin)
    path = folder / f"{name}.parquet"
    identity = SegmentIdentity(unit.org, COLLECTOR, dataset, unit.hour_ns, name)
    written = replace(write_metric_segment(tables, path, identity), object_ids=())  # of no raw object
    key = segment_key(unit.org, COLLECTOR, dataset, unit.hour_ns, hour_of_day(unit.hour_ns), name)
    put_segment(lake, key, path)
    yield origin, SegmentAnswer(unit.batch_id, name, key, COLLECTOR, dataset, unit.hour_ns, written)


def _segment_id(unit: DeriveUnit, origin: str) -> str:
    """Name the segment: the same if Spark repeats a task, another for every batch."""
    text = f"{unit.batch_id}/{unit.attempt}/derived/{unit.hour_ns}/{origin}"
    return xxhash.xxh128_hexdigest(text.encode())
