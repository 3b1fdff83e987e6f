"""The assets `compacted/{signal}` hold the same rows in fewer segments, by event hour.

Runs of the planner sensor carry the tag `lakerunner/mode=planned`: they take everything that is due and log
one materialisation per hour they changed. Without the tag a run takes exactly its partitions, as hours that
are over; one that lineage requested waits for late rows that still come in.
"""

import datetime as dt
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from lakerunner_assets.keys import LINEAGE_TAG, MODE_TAG, Tier, asset_key
from lakerunner_assets.partitions import in_window, org_hours, parse_partition_key, partition_key
from lakerunner_assets.run_context import Heartbeat, heartbeat
from lakerunner_assets.spec import SignalSpec
from resources.bindings import Lakerunner

if TYPE_CHECKING:
    from lakerunner_assets.compacted.due import Scope
    from lakerunner_assets.compacted.report import Report
    from lakerunner_assets.compacted.run import MergeChange

PLANNED = "planned"
ROWS_CONSERVED = "rows_conserved"
KEYS_APART = "sort_keys_do_not_overlap"
OVER_SINCE = dt.timedelta(hours=3)
"""Age from which an hour is over; partitions exist two hours ahead."""
Events = Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]


def compacted_asset(spec: SignalSpec, horizon: str) -> dg.AssetsDefinition:
    key = asset_key(Tier.COMPACTED, spec.signal)

    @dg.asset(
        key=key,
        deps=[asset_key(Tier.COOKED, spec.signal)],
        partitions_def=org_hours(horizon),
        backfill_policy=dg.BackfillPolicy.single_run(),
        automation_condition=when_hour_is_over(),
        output_required=False,
        check_specs=[
            dg.AssetCheckSpec(
                ROWS_CONSERVED, asset=key, description="Rows in = rows out and duplicates, of every merge."
            ),
            dg.AssetCheckSpec(
                KEYS_APART, asset=key, description="Sort keys of the outputs of one merge do not overlap."
            ),
        ],
        group_name=spec.signal.value,
        kinds={"parquet", "pyspark"},
        description=f"{spec.description} The rows of `cooked/{spec.signal.value}` in fewer segments; "
        "materialising a partition by hand merges it as an hour that is over.",
    )
    def compacted(context: dg.AssetExecutionContext, lakerunner: Lakerunner) -> Events:
        with heartbeat(lakerunner.index, context.run_id, lakerunner.settings) as heart:
            yield from _compact(context, lakerunner, spec, heart)

    return compacted


def when_hour_is_over() -> dg.AutomationCondition[dg.AssetKey | dg.AssetCheckKey]:
    """Request a run when rows were added to an hour that is over.

    Open hours are the planner sensor's. So is an hour that got rows while it was compacted; what was just
    compacted is not requested again.

    So is an hour that got rows while it was compacted; what was just compacted is not asked for once more.
    """
    updated = dg.AutomationCondition.newly_updated()
    added = dg.AutomationCondition.any_deps_match(updated)
    waiting = added.since(dg.AutomationCondition.newly_requested() | updated)
    open_hour = dg.AutomationCondition.in_latest_time_window(OVER_SINCE)
    return waiting & ~dg.AutomationCondition.in_progress() & ~open_hour


def _compact(
    context: dg.AssetExecutionContext, lakerunner: Lakerunner, spec: SignalSpec, heart: Heartbeat
) -> Events:
    from lakerunner_assets.compacted.report import Report
    from lakerunner_assets.compacted.run import compact
    from lakerunner_assets.run_context import RunContext

    report = Report()
    run = RunContext(
        lakerunner.index, lakerunner.spark_tasks(), lakerunner.settings, heart, context.log.warning
    )
    planned = context.run.tags.get(MODE_TAG) == PLANNED
    changed: dict[str, set[int]] = defaultdict(set)
    for change in compact(run, spec.signal, report, _scope(context, planned=planned)):
        changed[change.org].update(change.hours)
        _log(context, change, lakerunner.settings.horizon)
    _count(lakerunner, spec, report)
    results = _checks(report)
    if planned:
        yield from results
    else:  # the events of its own partitions, changed or not: they were looked at
        yield dg.MaterializeResult(metadata=_metadata(report), check_results=results)
    if report.failed:
        context.log.warning(f"{len(report.failed)} merges were given up:\n" + "\n".join(report.failed))


def _scope(context: dg.AssetExecutionContext, *, planned: bool) -> "Scope":
    from lakerunner_assets.compacted.due import Scope

    if planned:
        return Scope()
    if not context.has_partition_key and not context.has_partition_key_range:
        raise dg.Failure(f"choose partitions to compact, or start the run with the tag {MODE_TAG}={PLANNED}")
    by_lineage = context.run.tags.get(LINEAGE_TAG) == "true"
    return Scope(_hours_by_org(context.partition_keys), patient=by_lineage)


def _hours_by_org(keys: Sequence[str]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for key in keys:
        org, hour = parse_partition_key(key)
        found[org].add(hour)
    return {org: frozenset(hours) for org, hours in found.items()}


def _log(context: dg.AssetExecutionContext, change: "MergeChange", horizon: str) -> None:
    """Log an event for each hour that has a partition; those of the run itself are among them."""
    metadata: dict[str, int | str] = {
        "segments before": change.segments_before,
        "segments after": change.segments_after,
        "bytes before": change.bytes_before,
        "bytes after": change.bytes_after,
        "rows": change.rows,
        "reason": change.reason,
    }
    now = time.time_ns()
    for hour in change.hours:
        if in_window(hour, horizon, now):
            context.log_event(
                dg.AssetMaterialization(
                    context.asset_key, partition=partition_key(change.org, hour), metadata=metadata
                )
            )


def _checks(report: "Report") -> list[dg.AssetCheckResult]:
    conserved = dg.AssetCheckResult(
        check_name=ROWS_CONSERVED,
        passed=report.rows_before == report.rows_after + report.duplicates,
        metadata=_metadata(report),
    )
    apart = dg.AssetCheckResult(
        check_name=KEYS_APART,
        passed=not report.overlapping,
        metadata={"overlapping segments": dg.MetadataValue.json(report.overlapping[:100])},
    )
    return [conserved, apart]


def _metadata(report: "Report") -> dict[str, dg.MetadataValue | int | float]:
    from lakerunner_assets.compacted.report import shorten

    return {
        "merges": report.merges,
        "merges by kind": dg.MetadataValue.json(dict(report.reasons)),
        "segments before": report.segments_before,
        "segments after": report.segments_after,
        "segments settled": report.settled,
        "mean fan-in": round(report.fan_in, 1),
        "largest fan-in": report.largest_fan_in,
        "bytes before": report.bytes_before,
        "bytes after": report.bytes_after,
        "bytes written per byte read": round(report.shrunk_to, 3),
        "rows before": report.rows_before,
        "rows after": report.rows_after,
        "duplicates": report.duplicates,
        "task seconds": report.task_seconds,
        "sizes": dg.MetadataValue.md(report.picture()),
        "plans out of date": len(report.conflicts),
        "merges given up": dg.MetadataValue.json(shorten(report.failed)),
    }


def _count(lakerunner: Lakerunner, spec: SignalSpec, report: "Report") -> None:
    """Add to counters, which outlive the run. Bytes merged per byte cooked are the write amplification."""
    totals = {
        "merges": report.merges,
        "read_segments": report.segments_before,
        "written_segments": report.segments_after,
        "read_bytes": report.bytes_before,
        "written_bytes": report.bytes_after,
        "rows": report.rows_after,
        "duplicates": report.duplicates,
        "failed_merges": len(report.failed),
        "publish_conflicts": len(report.conflicts),
    }
    signal = spec.signal.value
    lakerunner.index.add_counters(
        {f'lakerunner_compact_{k}_total{{signal="{signal}"}}': float(v) for k, v in totals.items()}
    )
