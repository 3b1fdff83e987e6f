"""Cooking runs are requested for batches that are due.

Requests derive from batch rows. A key contains how often its batches were requested, because Dagster drops a
repeated run key silently: a run that died before claiming must not block its batches for ever.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg
import xxhash

from lakerunner_assets.cooked.asset import INGEST
from lakerunner_assets.keys import MODE_TAG, cook_job_name
from lakerunner_assets.partitions import in_window, partition_key
from resources.index.contract import PipelineIndex
from resources.index.types import BatchKind, DueBatch
from resources.lake.layout import Signal
from resources.lake.timecut import hour_start
from resources.settings import Settings

MAX_PAUSE_S = 60.0
PRIORITY_TAG = "dagster/priority"
WAITING = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING)


@dataclass(frozen=True, slots=True)
class RunSight:
    """A run that Dagster believes is under way."""

    run_id: str
    waiting: bool


def run_key(signal: Signal, due: Sequence[DueBatch]) -> str:
    """Name exactly this request for exactly these batches."""
    text = ",".join(f"{b.batch_id}.{b.attempt}.{b.requests}" for b in due)
    return f"cook-{signal.value}-{due[0].batch_id}-{xxhash.xxh64_hexdigest(text.encode())}"


def range_tags(due: Sequence[DueBatch], known: Sequence[str], horizon: str, now_ns: int) -> dict[str, str]:
    """Return tags of the partitions the run is shown under.

    They are all organisations of its batches, in their newest arrival hour.

    `known` are the organisations in Dagster's order, which is the order of a range. Dagster refuses to create
    a run for an hour that is no partition, so batches that arrived outside the window are shown under now.

    Dagster wants a run of a partitioned asset to name partitions. What the run really changes is logged by
    itself, one event per hour, since late rows go elsewhere.
    """
    hours = [batch.hour_ns for batch in due if in_window(batch.hour_ns, horizon, now_ns)]
    hour = max(hours, default=hour_start(now_ns))
    wanted = {batch.org for batch in due}
    orgs = [org for org in known if org in wanted]
    return {
        "dagster/asset_partition_range_start": partition_key(orgs[0], hour),
        "dagster/asset_partition_range_end": partition_key(orgs[-1], hour),
    }


def is_backing_off(due: Sequence[DueBatch]) -> bool:
    """Tell if a request was so recent that another would only repeat its failure.

    Runs that die before they claim (Spark is away, say) leave their batches due; without a pause every tick
    would start another.
    """
    often = max(batch.requests for batch in due)
    return min(batch.requested_s for batch in due) < min(MAX_PAUSE_S, 2.0**often)


def in_flight(runs: Sequence[RunSight], beats: Mapping[str, float], lease_s: float) -> int:
    """Count runs that will still take batches: waiting to start, or started and beating.

    A started run that has not beaten yet is younger than its first beat, so it counts.
    """
    return sum(run.waiting or beats.get(run.run_id, 0.0) < lease_s for run in runs)


def cook_requests(
    index: PipelineIndex,
    instance: dg.DagsterInstance,
    settings: Settings,
    signal: Signal,
    waited_s: float = 0.0,
) -> list[dg.RunRequest]:
    """Request at most one run for due batches, unless one is about to take them."""
    orgs = instance.get_dynamic_partitions("org")
    everything = index.due_batches(signal, BatchKind.COOK)
    due = [batch for batch in everything if batch.waited_s >= waited_s and batch.org in orgs]
    if not due or is_backing_off(due):
        return []
    flying = in_flight(_sights(instance, signal), index.run_heartbeats(), settings.lease_s)
    if flying >= settings.max_runs_in_flight:
        return []
    index.note_requested([batch.batch_id for batch in due])
    shown = range_tags(due, orgs, settings.horizon, time.time_ns())
    return [
        dg.RunRequest(
            run_key=run_key(signal, due),
            job_name=cook_job_name(signal),
            tags={MODE_TAG: INGEST, PRIORITY_TAG: "10", "lakerunner/batches": str(len(due)), **shown},
        )
    ]


def _sights(instance: dg.DagsterInstance, signal: Signal) -> list[RunSight]:
    wanted = dg.RunsFilter(
        job_name=cook_job_name(signal),
        tags={MODE_TAG: INGEST},
        statuses=[*WAITING, dg.DagsterRunStatus.STARTED],
    )
    return [
        RunSight(run.run_id, run.status in WAITING) for run in instance.get_runs(filters=wanted, limit=50)
    ]
