"""The assets `rollup/{10s,1m,5m,1h,1d}` hold metrics in buckets, each built from the one below.

The hourly ones fire together, in one run, whenever cooking changed an hour; the day follows once it has
closed, and again when late rows change it. Materialising partitions by hand builds those that are not
current, with the tag `lakerunner/force=true` all of them.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from lakerunner_assets.keys import FORCE_TAG, LINEAGE_TAG, Tier, asset_key, rollup_key
from lakerunner_assets.partitions import (
    day_partition_key,
    hours_of_days,
    org_days,
    org_hours,
    parse_day_partition_key,
    parse_partition_key,
    partition_key,
)
from lakerunner_assets.run_context import heartbeat
from resources.bindings import Lakerunner
from resources.lake.frequency import AS_SENT, DAY, Rollup, rollup_of
from resources.lake.layout import Signal
from resources.lake.signals import FACTS

if TYPE_CHECKING:
    from lakerunner_assets.rollup.run import PartitionChange, RollReport

BUILT, CONSERVED = "built", "samples_and_sums_conserved"
COOKED = asset_key(Tier.COOKED, Signal.METRICS)
DERIVED = [asset_key(Tier.MATERIALIZED, signal) for signal in FACTS]
SAMPLES = [COOKED, *DERIVED, asset_key(Tier.RECORDED, Signal.METRICS)]
"""Assets that bring samples."""
OPEN_DAYS = dt.timedelta(days=2)
"""Width of the newest partitions that are not closed: today and the day ahead."""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Partitions by hour or by day, and the spelling of their keys."""

    definition: dg.MultiPartitionsDefinition
    parse: Callable[[str], tuple[str, int]]
    key: Callable[[str, int], dg.MultiPartitionKey]


def rollup_asset(rollup: Rollup, horizon: str) -> dg.AssetsDefinition:
    partitions = _partitioning(rollup, horizon)
    key = rollup_key(rollup)

    @dg.asset(
        key=key,
        deps=_parents(rollup),
        partitions_def=partitions.definition,
        backfill_policy=dg.BackfillPolicy.single_run(),
        automation_condition=_condition(rollup),
        check_specs=[
            dg.AssetCheckSpec(
                BUILT,
                asset=key,
                description="Every partition was built, or was current; what could not be built is listed.",
            ),
            dg.AssetCheckSpec(
                CONSERVED, asset=key, description="Samples and sums are those of the frequency below."
            ),
        ],
        group_name="metrics",
        kinds={"parquet", "pyspark"},
        description=f"Metrics in buckets of {rollup.label}: count, sum, extremes, first and last values, "
        "resets, a quantile sketch. A partition is swapped whole when what it is built from has changed.",
    )
    def rollup_partitions(
        context: dg.AssetExecutionContext, lakerunner: Lakerunner
    ) -> Iterator[dg.MaterializeResult[None]]:
        from lakerunner_assets.rollup.run import RollReport, by_org, roll_partitions, with_due
        from lakerunner_assets.run_context import RunContext

        if not context.has_partition_key and not context.has_partition_key_range:
            raise dg.Failure("choose partitions to roll up")
        report = RollReport()
        own = by_org(partitions.parse(each) for each in context.partition_keys)
        wanted = own
        if context.run.tags.get(LINEAGE_TAG) == "true":
            wanted = with_due(lakerunner.index, rollup, own, lakerunner.settings.horizon)
        force = context.run.tags.get(FORCE_TAG) == "true"
        with heartbeat(lakerunner.index, context.run_id, lakerunner.settings) as heart:
            run = RunContext(
                lakerunner.index, lakerunner.spark_tasks(), lakerunner.settings, heart, context.log.warning
            )
            for change in roll_partitions(run, rollup, wanted, report, force=force):
                partition = partitions.key(change.org, change.start_ns)
                if change.start_ns in own.get(change.org, ()):
                    context.add_asset_metadata(_metadata(change), partition_key=partition)
                else:
                    event = dg.AssetMaterialization(key, partition=partition, metadata=_metadata(change))
                    context.log_event(event)
            _count(lakerunner, rollup, report)
            yield dg.MaterializeResult(check_results=_checks(report))
        if report.failed:
            raise dg.Failure("\n".join(report.failed))

    return rollup_partitions


def _partitioning(rollup: Rollup, horizon: str) -> Partitioning:
    if rollup.frequency_ms == DAY:
        return Partitioning(org_days(horizon), parse_day_partition_key, day_partition_key)
    return Partitioning(org_hours(horizon), parse_partition_key, partition_key)


def _parents(rollup: Rollup) -> list[dg.AssetKey | dg.AssetDep]:
    if rollup.frequency_ms == DAY:
        hours = rollup_key(rollup_of(rollup.source_ms))
        return [dg.AssetDep(hours, partition_mapping=hours_of_days())]
    if rollup.source_ms == AS_SENT:
        return [*SAMPLES]
    return [rollup_key(rollup_of(rollup.source_ms)), *SAMPLES]


def _condition(rollup: Rollup) -> dg.AutomationCondition:  # type: ignore[type-arg]
    """Require a change since the last request, and no run under way: no update is lost, none loops.

    All hourly rollups look at what brings samples and nothing else, so that one tick requests them together.
    """
    condition = dg.AutomationCondition
    updated = condition.any_deps_match(condition.newly_updated())
    if rollup.frequency_ms != DAY:
        updated = updated.allow(dg.AssetSelection.assets(*SAMPLES))
    changed = updated.since(condition.newly_requested()) & ~condition.in_progress()
    if rollup.frequency_ms == DAY:
        changed &= ~condition.in_latest_time_window(lookback_delta=OPEN_DAYS)
    return changed.with_label("changed since it was requested")


def _metadata(change: "PartitionChange") -> dict[str, int | float]:
    return {
        "rows": change.rows,
        "bytes": change.bytes,
        "segments": change.segments,
        "version": change.version,
        "seconds": round(change.seconds, 3),
    }


def _checks(report: "RollReport") -> list[dg.AssetCheckResult]:
    conserved = dg.AssetCheckResult(
        check_name=CONSERVED,
        passed=not report.unequal,
        metadata={"unequal": dg.MetadataValue.json(report.unequal[:100])},
    )
    built = dg.AssetCheckResult(
        check_name=BUILT,
        passed=not report.failed,
        metadata={
            "partitions built": report.built,
            "partitions current": report.current,
            "rows": report.rows,
            "bytes": report.bytes,
            "source bytes": report.source_bytes,
            "task seconds": round(report.seconds, 3),
            "plans out of date": len(report.conflicts),
            "refused": dg.MetadataValue.json(report.refused[:100]),
            "failed": dg.MetadataValue.json(report.failed[:100]),
            "bytes per source byte": round(report.bytes / max(1, report.source_bytes), 4),
        },
    )
    return [built, conserved]


def _count(lakerunner: Lakerunner, rollup: Rollup, report: "RollReport") -> None:
    """Add to counters, which outlive the run; one exporter serves them all."""
    totals = {
        "partitions": report.built,
        "rows": report.rows,
        "bytes": report.bytes,
        "failures": len(report.failed),
        "publish_conflicts": len(report.conflicts),
    }
    label = rollup.label
    lakerunner.index.add_counters(
        {f'lakerunner_rollup_{k}_total{{frequency="{label}"}}': float(v) for k, v in totals.items()}
    )
