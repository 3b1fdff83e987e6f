"""Pipeline and tier metrics are read from the index and served by the ingress.

Runs come and go, so they leave their counters in the index, which also holds the state of the pipeline.
Reading them costs scans, so one reading serves every scrape until it is old, and a slow index is read less
often. While it does not answer, `lakerunner_index_up` is 0 and the other families are absent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from resources.exposition import Family, families, render, series
from resources.index.contract import StatusIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.index.sweeping_types import TierNumbers, TierStatus
from resources.lake.frequency import ROLLUPS

MAX_AGE_S = 15.0
SHARE = 20
"""Age of a reading per second it took: at most 5 % of a connection's time goes to scrapes."""
PATIENCE_S = 5.0
"""Time after which a reading counts as hanging; the numbers of the last one would hide it."""
GAUGES = {
    "pending_objects": ("lakerunner_pipeline_pending_objects", "Raw objects registered and not yet done."),
    "pending_bytes": ("lakerunner_pipeline_pending_bytes", "Bytes of the pending raw objects."),
    "oldest_pending_s": (
        "lakerunner_pipeline_oldest_pending_seconds",
        "Age of the oldest pending raw object.",
    ),
    "done_objects": ("lakerunner_pipeline_done_objects", "Raw objects whose rows can be queried."),
    "parked_objects": ("lakerunner_pipeline_parked_objects", "Raw objects given up on until retried."),
    "overwritten_objects": ("lakerunner_pipeline_overwritten_objects", "Raw objects whose key was reused."),
    "rows": ("lakerunner_pipeline_rows", "Rows taken from done raw objects."),
    "rejected": ("lakerunner_pipeline_rejected_rows", "Rows that could not be decoded."),
    "quarantined": ("lakerunner_pipeline_quarantined_rows", "Rows outside the horizon."),
    "segments": ("lakerunner_pipeline_segments", "Live segments."),
    "segment_bytes": ("lakerunner_pipeline_segment_bytes", "Bytes of live segments."),
}


def _up(value: int) -> Family:
    return Family(
        "lakerunner_index_up", "gauge", "Whether the index answered.", {"lakerunner_index_up": value}
    )


UNANSWERED = render([_up(0)])


class PipelineMetrics:
    """The last reading, as text."""

    def __init__(self, index: StatusIndex, clock: Callable[[], float] = time.monotonic) -> None:
        self._index = index
        self._clock = clock
        self._reading = threading.Lock()
        self._text = UNANSWERED
        self._keep_until = float("-inf")
        self._began = float("inf")

    def render(self) -> str:
        """Read, one at a time; callers meanwhile get the last reading, unless the new one hangs."""
        if self._clock() < self._keep_until:
            return self._text
        if self._reading.acquire(blocking=False):
            try:
                self._read()
            finally:
                self._reading.release()
        elif self._clock() - self._began > PATIENCE_S:
            return UNANSWERED
        return self._text

    def _read(self) -> None:
        self._began = self._clock()
        self._text = _read(self._index)
        ended = self._clock()
        self._keep_until = ended + max(MAX_AGE_S, SHARE * (ended - self._began))


def _read(index: StatusIndex) -> str:
    try:
        rows, tiers = index.pipeline_status(), index.tier_status()
        backlog, counters = index.backlog(), index.counters()
    except IndexUnavailableError:
        return UNANSWERED
    waiting = {
        "lakerunner_dead_letters": backlog.dead_letters,
        "lakerunner_outbox_messages": backlog.outbox_messages,
        "lakerunner_outbox_oldest_seconds": backlog.outbox_oldest_s,
    }
    gauges = [_gauge(column, rows) for column in GAUGES]
    return render([_up(1), *gauges, *tier_families(tiers), *families(waiting), *families(counters)])


def _gauge(column: str, rows: list[Mapping[str, object]]) -> Family:
    name, text = GAUGES[column]
    samples = {series(name, org=row["org"], signal=row["signal"]): float(str(row[column])) for row in rows}
    return Family(name, "gauge", text, samples)


_ROLLUP_DATASETS = frozenset(rollup.dataset for rollup in ROLLUPS)


@dataclass(frozen=True, slots=True)
class Gauge:
    """One number of a tier; None gives no sample."""

    name: str
    help: str
    value: Callable[[TierNumbers], float | None]


def _of_rollups(value: Callable[[TierNumbers], float]) -> Callable[[TierNumbers], float | None]:
    """Limit a gauge to rollups: nothing else is ever due, and a 0 would mislead."""
    return lambda tier: value(tier) if tier.dataset in _ROLLUP_DATASETS else None


TIER_GAUGES = (
    Gauge("lakerunner_tier_segments", "Live segments.", lambda tier: tier.segments),
    Gauge("lakerunner_tier_bytes", "Bytes of live segments.", lambda tier: tier.bytes),
    Gauge("lakerunner_tier_rows", "Rows of live segments.", lambda tier: tier.rows),
    Gauge(
        "lakerunner_tier_newest_event_timestamp_seconds",
        "Time of the newest event in a live segment; of a rollup, the end of its newest bucket.",
        lambda tier: None if tier.newest_ns is None else tier.newest_ns / 1e9,
    ),
    Gauge(
        "lakerunner_compaction_debt_segments",
        "Live segments that may still be merged.",
        lambda tier: tier.unsettled,
    ),
    Gauge(
        "lakerunner_compaction_debt_bytes",
        "Bytes of live segments that may still be merged.",
        lambda tier: tier.unsettled_bytes,
    ),
    Gauge(
        "lakerunner_rollup_due_partitions",
        "Partitions of rollups whose sources changed since they were built.",
        _of_rollups(lambda tier: tier.due),
    ),
    Gauge(
        "lakerunner_rollup_due_seconds",
        "How long the longest due partition has been due.",
        _of_rollups(lambda tier: tier.due_s),
    ),
    Gauge(
        "lakerunner_retired_segments",
        "Replaced segments whose files wait for the sweeper.",
        lambda tier: tier.retired,
    ),
    Gauge(
        "lakerunner_retired_bytes",
        "Bytes of replaced segments that wait for the sweeper.",
        lambda tier: tier.retired_bytes,
    ),
)


def tier_families(status: TierStatus) -> list[Family]:
    return [
        *(_tier_gauge(gauge, status.tiers) for gauge in TIER_GAUGES),
        _by_org(
            "lakerunner_orphan_files",
            "Files in the lake that the index does not know.",
            {each.org: each.files for each in status.orphans},
        ),
        _by_org(
            "lakerunner_orphan_bytes", "Bytes of orphans.", {each.org: each.bytes for each in status.orphans}
        ),
    ]


def _tier_gauge(gauge: Gauge, tiers: Iterable[TierNumbers]) -> Family:
    samples: dict[str, float] = {}
    for tier in tiers:
        value = gauge.value(tier)
        if value is not None:
            labels = {"org": tier.org, "signal": tier.signal, "dataset": tier.dataset}
            samples[series(gauge.name, **labels)] = value
    return Family(gauge.name, "gauge", gauge.help, samples)


def _by_org(name: str, text: str, values: Mapping[str, float]) -> Family:
    return Family(name, "gauge", text, {series(name, org=org): value for org, value in values.items()})
