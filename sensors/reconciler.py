"""The reconciler requests whatever the tables say is due, whoever forgot about it.

It needs only Postgres: it releases the claims of dead holders, plans batches for pending objects, requests
runs for them and for rollups that lineage forgot. Events are lost when a run dies, or when an hour has no
partition any more.

The index knows what is due. One request per organisation and stretch of neighbouring partitions, a few per
tick, and none while runs of an earlier tick are under way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakerunner_assets.keys import DAY_ROLLUP_JOB, LINEAGE_TAG, RECORD_JOB, ROLLUP_JOB, materialize_job_name
from lakerunner_assets.partitions import day_in_window, day_partition_key, in_window, partition_key
from lakerunner_assets.signals import SIGNALS
from resources.bindings import Lakerunner
from resources.index.contract import PipelineIndex
from resources.index.types import DuePartition
from resources.lake.frequency import DAY, ROLLUPS
from resources.lake.layout import Signal
from resources.lake.signals import FACTS, MATERIALIZED_MS, RECORDED_MS
from resources.lake.timecut import DAY_NS, HOUR_NS
from resources.settings import Settings
from sensors.ingest import plan_batches
from sensors.requests import WAITING, cook_requests

OVERDUE_TAG = "lakerunner/overdue"
MAX_REQUESTS = 4
MAX_STRETCH = 48
PATIENCE = 5
"""Multiple of the usual wait; a run of lineage that died is no reason to wait for ever."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring partitions of one organisation."""

    org: str
    first_ns: int
    last_ns: int


def stretches(partitions: Sequence[tuple[str, int]], width_ns: int) -> list[Stretch]:
    """Join neighbouring partitions, at most `MAX_STRETCH` in one stretch.

    >>> stretches([("b", 0), ("a", 0), ("a", 10), ("a", 30)], 10)
    [Stretch(org='a', first_ns=0, last_ns=10), Stretch(org='a', first_ns=30, last_ns=30), \
Stretch(org='b', first_ns=0, last_ns=0)]
    """
    found: list[Stretch] = []
    for org, start in sorted(set(partitions)):
        newest = found[-1] if found else None
        if (
            newest is not None
            and newest.org == org
            and start - newest.last_ns == width_ns
            and start - newest.first_ns < MAX_STRETCH * width_ns
        ):
            found[-1] = Stretch(org, newest.first_ns, start)
        else:
            found.append(Stretch(org, start, start))
    return found


def overdue_requests(
    index: PipelineIndex, instance: dg.DagsterInstance, settings: Settings
) -> list[dg.RunRequest]:
    """Request overdue derived and recorded metrics, and rollups; hours before days, which need them.

    Lineage gets more time while runs of it are under way.
    """
    now = time.time_ns()
    waited_s = settings.rollup_overdue_s * (PATIENCE if _lineage_works(instance) else 1)
    orgs = set(instance.get_dynamic_partitions("org"))
    requests: list[dg.RunRequest] = []
    made = [
        (materialize_job_name(signal), signal, MATERIALIZED_MS, _patience(settings, signal, waited_s))
        for signal in Signal
    ]
    recorded = (RECORD_JOB, Signal.METRICS, RECORDED_MS, float(settings.rollup_interval_s))
    for job, signal, frequency_ms, wait_s in (*made, recorded):
        if not _under_way(instance, job):
            hours = index.due_partitions(signal, frequency_ms, wait_s)
            open_ = [d for d in hours if in_window(d.start_ns, settings.horizon, now) and d.org in orgs]
            requests += _requests(job, open_, HOUR_NS)
    if not _under_way(instance, ROLLUP_JOB):
        hours = [d for d in _due(index, waited_s, days=False) if in_window(d.start_ns, settings.horizon, now)]
        requests += _requests(ROLLUP_JOB, [d for d in hours if d.org in orgs], HOUR_NS)
    if not requests and not _under_way(instance, DAY_ROLLUP_JOB):
        days = [
            d
            for d in _due(index, waited_s, days=True)
            if d.start_ns + DAY_NS <= now and day_in_window(d.start_ns, settings.horizon, now)
        ]
        requests += _requests(DAY_ROLLUP_JOB, [d for d in days if d.org in orgs], DAY_NS)
    return requests


def _patience(settings: Settings, signal: Signal, waited_s: float) -> float:
    """Return how long hours wait for lineage; without a preset the index alone tells that they are due."""
    return waited_s if FACTS[signal].has_preset else settings.rollup_interval_s


def _due(index: PipelineIndex, waited_s: float, *, days: bool) -> Iterator[DuePartition]:
    for rollup in ROLLUPS:
        if (rollup.frequency_ms == DAY) == days:
            yield from index.due_partitions(Signal.METRICS, rollup.frequency_ms, waited_s)


def _requests(job: str, due: Sequence[DuePartition], width_ns: int) -> list[dg.RunRequest]:
    spell = day_partition_key if width_ns == DAY_NS else partition_key
    return [
        dg.RunRequest(
            job_name=job,
            tags={
                OVERDUE_TAG: "true",
                "dagster/asset_partition_range_start": spell(each.org, each.first_ns),
                "dagster/asset_partition_range_end": spell(each.org, each.last_ns),
            },
        )
        for each in stretches([(d.org, d.start_ns) for d in due], width_ns)[:MAX_REQUESTS]
    ]


def _under_way(instance: dg.DagsterInstance, job: str) -> bool:
    wanted = dg.RunsFilter(job_name=job, statuses=[*WAITING, dg.DagsterRunStatus.STARTED])
    return bool(instance.get_runs(filters=wanted, limit=1))


def _lineage_works(instance: dg.DagsterInstance) -> bool:
    wanted = dg.RunsFilter(tags={LINEAGE_TAG: "true"}, statuses=[*WAITING, dg.DagsterRunStatus.STARTED])
    return bool(instance.get_runs(filters=wanted, limit=1))


INTERVAL_S = 10
OVERDUE_S = 20.0
"""Age of an overdue batch: the ingest sensor has had several chances by then."""


def reconciler_sensor(jobs: Sequence[UnresolvedAssetJobDefinition]) -> dg.SensorDefinition:
    @dg.sensor(
        name="reconciler",
        jobs=jobs,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Requests every due batch and every overdue rollup, releases claims whose holder died.",
    )
    def reconciler(
        context: dg.SensorEvaluationContext, lakerunner: Lakerunner
    ) -> dg.SensorResult | dg.SkipReason:
        index, settings = lakerunner.index, lakerunner.settings
        released = index.release_expired(settings.lease_s)
        if released:
            context.log.warning(f"{released} claims were released: their holders stopped beating")
        requests: list[dg.RunRequest] = []
        for signal in SIGNALS:
            plan_batches(index, settings, signal)
            requests += cook_requests(index, context.instance, settings, signal, OVERDUE_S)
        requests += overdue_requests(index, context.instance, settings)
        return dg.SensorResult(run_requests=requests) if requests else dg.SkipReason("nothing is overdue")

    return reconciler
