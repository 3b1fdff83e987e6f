"""Segments, claims and the passing of time, for tests of the sweeper over any index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from resources.index.memory import MemoryIndex
from resources.index.postgres import PostgresIndex
from resources.index.sweeping_types import OldTier, OldWindow
from resources.index.types import (
    BatchKind,
    BatchPlan,
    Claim,
    Intake,
    ObjectDone,
    ObjectNotice,
    Publication,
    Segment,
)
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS

DAY_START = 20_458 * DAY_NS
HOUR = DAY_START + 12 * HOUR_NS
Index = MemoryIndex | PostgresIndex


class Clocked:
    """The index and its time machine: of rows it moves what is in the past further back."""

    def __init__(self, index: Index, dsn: str) -> None:
        self.index = index
        self._dsn = dsn
        self._now = 1_000_000_000.0
        if isinstance(index, MemoryIndex):
            index._clock = lambda: self._now

    def pass_seconds(self, seconds: float) -> None:
        self._now += seconds
        if isinstance(self.index, PostgresIndex):
            with psycopg.connect(self._dsn) as connection:
                for table, column in STAMPS:
                    connection.execute(
                        f"UPDATE lakerunner.{table} SET {column} = {column} - make_interval(secs => %s)",  # type: ignore[arg-type]
                        (seconds,),
                    )


STAMPS = (
    ("segment", "retired_at"),
    ("raw_object", "expired_at"),
    ("retention", "updated_at"),
    ("orphan", "found_at"),
    ("batch", "created_at"),
    ("batch", "finished_at"),
    ("outbox", "created_at"),
    ("run_heartbeat", "beat_at"),
)


def segment(number: int, start: int = HOUR, width: int = HOUR_NS, **more: Any) -> Segment:
    values: dict[str, Any] = {
        "segment_id": f"{number:032x}",
        "key": f"db/{number}",
        "org": "acme",
        "collector": "c",
        "signal": Signal.METRICS,
        "dataset": "metrics",
        "frequency_ms": 0,
        "hour_ns": start,
        "width_ns": width,
        "min_ns": start + 1,
        "max_ns": start + width,
        "rows": 5,
        "bytes": 50,
        "level": 0,
        "origin": "",
        "format_version": 1,
        "sort_version": 1,
        "terms": (),
        "label_names": (),
        "metric_names": (),
        "series_offset": 1,
        "series_length": 2,
        "bloom_offset": 3,
        "bloom_length": 4,
        **more,
    }
    return Segment(**values)


def notice(name: str, hour: int = HOUR, etag: str = "e") -> ObjectNotice:
    key = f"otel-raw/acme/c/metrics/{name}"
    return ObjectNotice("raw", key, "acme", "c", Signal.METRICS, hour, 10, etag)


def one_batch(index: Index, *names: str, hour: int = HOUR) -> Claim:
    index.take_in(Intake("k", tuple(notice(name, hour) for name in names)))
    index.plan_batches(
        Signal.METRICS,
        lambda found: [
            BatchPlan(BatchKind.COOK, "acme", "c", Signal.METRICS, hour, tuple(o.object_id for o in found))
        ],
    )
    (claim,) = index.claim_due(Signal.METRICS, BatchKind.COOK, 10**9)
    return claim


def cook(index: Index, number: int, hour: int = HOUR) -> int:
    """One object with rows in one hour becomes one live segment; its id."""
    claim = one_batch(index, str(number), hour=hour)
    (obj,) = claim.inputs
    done = (ObjectDone(obj.object_id, "e", 5, 0, 0, ((hour, 5),)),)
    mine = segment(number, hour, object_ids=(obj.object_id,))
    index.publish(Publication(claim, (mine,), done, hours=(hour,)))
    return obj.object_id


def work(index: Index, kind: BatchKind, *segments: int, org: str = "acme") -> Claim:
    ids = tuple(f"{number:032x}" for number in segments)
    return index.create_claimed(BatchPlan(kind, org, "c", Signal.METRICS, HOUR, (), ids))


def retire(index: Index, *numbers: int, by: int = 90) -> None:
    """By a merge, as compaction does it."""
    claim = work(index, BatchKind.COMPACT, *numbers)
    merged = segment(by, level=1)
    index.publish(Publication(claim, (merged,), retire=tuple(f"{n:032x}" for n in numbers)))


def tier(ended_by: int = HOUR + HOUR_NS, frequency_ms: int = 0) -> OldTier:
    return OldTier("acme", Signal.METRICS, frequency_ms, ended_by)


def whole(index: Index, old: OldTier) -> OldWindow:
    """All that ages, as one window."""
    aging = index.aging(old, 100)
    ends = [s.start_ns + s.width_ns for s in aging.segments] + [p + HOUR_NS for p in aging.partitions]
    starts = [s.start_ns for s in aging.segments] + list(aging.partitions)
    return OldWindow(min(starts), max(ends), aging.segments, aging.partitions)


def live(index: Index) -> list[int]:
    found = index.live_in(Signal.METRICS, "acme", 0, 2**62)
    return sorted(int(s.segment_id, 16) for s in found)


def numbers(keys: Sequence[str]) -> list[int]:
    return sorted(int(key.removeprefix("db/")) for key in keys)
