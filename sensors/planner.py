"""The planner requests compaction when there is something to merge; one run takes all of it.

The sensor looks through the eyes of the run: both ask `due_now`. It settles what has nothing to be merged
with, so that the next look is at less. A request that changed nothing is repeated more and more rarely.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg
import xxhash
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakerunner_assets.compacted.asset import PLANNED
from lakerunner_assets.compacted.due import Scope, due_now
from lakerunner_assets.compacted.policy import Merge
from lakerunner_assets.keys import MODE_TAG, compact_job_name
from lakerunner_assets.partitions import in_window, partition_key
from resources.bindings import Lakerunner
from resources.lake.layout import Signal
from resources.lake.timecut import hour_start
from sensors.requests import WAITING, RunSight, in_flight

MAX_PAUSE_S = 900.0


@dataclass(frozen=True, slots=True)
class LastRequest:
    """The last request, kept in the sensor's cursor."""

    plan: str = ""
    times: int = 0
    at_s: float = 0.0

    @classmethod
    def of(cls, cursor: str | None) -> LastRequest:
        return cls(**json.loads(cursor)) if cursor else cls()

    def cursor(self) -> str:
        return json.dumps({"plan": self.plan, "times": self.times, "at_s": self.at_s})

    def following(self, plan: str, now_s: float) -> LastRequest:
        return LastRequest(plan, self.times + 1 if plan == self.plan else 1, now_s)

    def pause_s(self, plan: str, interval_s: float) -> float:
        """Return how long after the last request the next may be made."""
        return min(MAX_PAUSE_S, interval_s * 2.0**self.times) if plan == self.plan else 0.0


def planner_sensor(signal: Signal, job: UnresolvedAssetJobDefinition, interval_s: int) -> dg.SensorDefinition:
    @dg.sensor(
        name=f"plan_compaction_{signal.value}",
        job=job,
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Requests a run when segments of {signal.value} are to be merged.",
    )
    def planner(
        context: dg.SensorEvaluationContext, lakerunner: Lakerunner
    ) -> dg.SensorResult | dg.SkipReason:
        last = LastRequest.of(context.cursor)
        found = look(context.instance, lakerunner, signal, last, interval_s)
        if isinstance(found, str):
            return dg.SkipReason(found)
        request, following = found
        return dg.SensorResult(run_requests=[request], cursor=following.cursor())

    return planner


def look(
    instance: dg.DagsterInstance, lakerunner: Lakerunner, signal: Signal, last: LastRequest, interval_s: int
) -> tuple[dg.RunRequest, LastRequest] | str:
    """Build a request for what is to be merged, or return why there is none."""
    index, settings = lakerunner.index, lakerunner.settings
    orgs = instance.get_dynamic_partitions("org")
    job = compact_job_name(signal)
    if in_flight(_sights(instance, job), index.run_heartbeats(), settings.lease_s):
        return "a run is under way and takes whatever is due"
    now = time.time_ns()
    plans = due_now(index, settings, signal, now, Scope())
    settled = index.settle(plans.settle) if plans.settle else 0
    known = [merge for merge in plans.merges if merge.org in orgs]
    if not known:
        return f"nothing to merge, {settled} segments settled"
    name = plan_name(known)
    waited = now / 1e9 - last.at_s
    if waited < last.pause_s(name, interval_s):
        return f"{summary(known)}: asked for {last.times} times, {waited:.0f} s ago"
    tags = {MODE_TAG: PLANNED, "lakerunner/merges": str(len(known))}
    request = dg.RunRequest(
        run_key=f"compact-{signal.value}-{name}-{now // 1_000_000}",
        job_name=job,
        tags={**tags, **partition_tags(known, orgs, settings.horizon, now)},
    )
    return request, last.following(name, now / 1e9)


def plan_name(merges: Sequence[Merge]) -> str:
    """Name the work: the same for the same inputs."""
    inputs = sorted(segment.segment_id for merge in merges for segment in merge.inputs)
    return xxhash.xxh64_hexdigest(",".join(inputs).encode())


def summary(merges: Sequence[Merge]) -> str:
    segments = sum(len(merge.inputs) for merge in merges)
    return f"{len(merges)} merges of {segments} segments, {sum(merge.bytes for merge in merges)} bytes"


def partition_tags(
    merges: Sequence[Merge], known: Sequence[str], horizon: str, now_ns: int
) -> dict[str, str]:
    """Return tags of partitions: Dagster wants a run of a partitioned asset to name some.

    `known` are the organisations in Dagster's order, which is the order of a range. What the run really
    changes is logged by itself.
    """
    hours = [segment.hour_ns for merge in merges for segment in merge.inputs]
    hour = max((h for h in hours if in_window(h, horizon, now_ns)), default=hour_start(now_ns))
    wanted = {merge.org for merge in merges}
    orgs = [org for org in known if org in wanted]
    return {
        "dagster/asset_partition_range_start": partition_key(orgs[0], hour),
        "dagster/asset_partition_range_end": partition_key(orgs[-1], hour),
    }


def _sights(instance: dg.DagsterInstance, job_name: str) -> list[RunSight]:
    wanted = dg.RunsFilter(
        job_name=job_name,
        tags={MODE_TAG: PLANNED},
        statuses=[*WAITING, dg.DagsterRunStatus.STARTED],
    )
    return [
        RunSight(run.run_id, run.status in WAITING) for run in instance.get_runs(filters=wanted, limit=50)
    ]
