"""The assets `cooked/{signal}` hold sorted Parquet segments of an organisation by event hour.

The sensor's runs carry the tag `lakerunner/mode=ingest`: they have no partition of their own, take every due
batch and log one materialisation per changed hour. Without the tag a run rebuilds exactly its partitions.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from lakerunner_assets.keys import MODE_TAG, Tier, asset_key
from lakerunner_assets.partitions import in_window, org_hours, parse_partition_key, partition_key
from lakerunner_assets.publish import HourChange
from lakerunner_assets.run_context import Heartbeat, heartbeat
from lakerunner_assets.spec import SignalSpec
from resources.bindings import Lakerunner

if TYPE_CHECKING:
    from lakerunner_assets.cooked.run import Report
    from lakerunner_assets.run_context import RunContext

INGEST = "ingest"
ALLOW_LOSS_TAG = "lakerunner/allow_loss"
ROWS_CONSERVED = "rows_conserved"
Events = Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]


def cooked_asset(spec: SignalSpec, horizon: str) -> dg.AssetsDefinition:
    key = asset_key(Tier.COOKED, spec.signal)

    @dg.asset(
        key=key,
        deps=[asset_key(Tier.RAW, spec.signal)],
        partitions_def=org_hours(horizon),
        backfill_policy=dg.BackfillPolicy.single_run(),
        output_required=False,
        check_specs=[
            dg.AssetCheckSpec(
                ROWS_CONSERVED,
                asset=key,
                description="Rows in the written segments = rows decoded, less rejected and quarantined.",
            )
        ],
        group_name=spec.signal.value,
        kinds={"parquet", "pyspark"},
        description=f"{spec.description} Sorted Parquet segments by event hour. Materialising a partition by "
        "hand decodes its raw objects again and swaps the result in.",
    )
    def cooked(context: dg.AssetExecutionContext, lakerunner: Lakerunner) -> Events:
        with heartbeat(lakerunner.index, context.run_id, lakerunner.settings) as heart:
            if context.run.tags.get(MODE_TAG) == INGEST:
                yield from _ingest(context, lakerunner, spec, heart)
            else:
                yield from _rebuild(context, lakerunner, spec, heart)

    return cooked


def _ingest(
    context: dg.AssetExecutionContext, lakerunner: Lakerunner, spec: SignalSpec, heart: Heartbeat
) -> Events:
    from lakerunner_assets.cooked.run import Report, cook_due

    report = Report()
    for change in cook_due(_run_context(context, lakerunner, heart), spec.signal, report):
        if in_window(change.hour_ns, lakerunner.settings.horizon, time.time_ns()):
            context.log_event(_materialization(context.asset_key, change))
    context.log.info(f"{report.batches} batches, {report.objects} objects, {report.rows} rows")
    _count(lakerunner, spec, report)
    yield _conservation(report)
    if report.failed:
        context.log.warning(f"{len(report.failed)} objects failed and wait:\n" + "\n".join(report.failed))


def _rebuild(
    context: dg.AssetExecutionContext, lakerunner: Lakerunner, spec: SignalSpec, heart: Heartbeat
) -> Events:
    from lakerunner_assets.cooked.rebuild import rebuild
    from lakerunner_assets.cooked.run import Report

    if not context.has_partition_key and not context.has_partition_key_range:
        raise dg.Failure(f"choose partitions to rebuild, or start the run with the tag {MODE_TAG}={INGEST}")
    report = Report()
    run = _run_context(context, lakerunner, heart)
    allow_loss = context.run.tags.get(ALLOW_LOSS_TAG) == "true"
    for org, hours in _hours_by_org(context.partition_keys).items():
        for change in rebuild(run, spec.signal, org, sorted(hours), allow_loss, report):
            _note(context, change, hours if change.org == org else set())
    yield dg.MaterializeResult(check_results=[_conservation(report)])


def _note(context: dg.AssetExecutionContext, change: HourChange, hours: set[int]) -> None:
    """Add metadata to the run's own partitions; log an event for other hours."""
    if change.hour_ns in hours:
        context.add_asset_metadata(_metadata(change), partition_key=partition_key(change.org, change.hour_ns))
    else:
        context.log_event(_materialization(context.asset_key, change))


def _run_context(context: dg.AssetExecutionContext, lakerunner: Lakerunner, heart: Heartbeat) -> "RunContext":
    from lakerunner_assets.run_context import RunContext

    return RunContext(
        lakerunner.index, lakerunner.spark_tasks(), lakerunner.settings, heart, context.log.warning
    )


def _hours_by_org(keys: Sequence[str]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for key in keys:
        org, hour = parse_partition_key(key)
        found[org].add(hour)
    return found


def _materialization(key: dg.AssetKey, change: HourChange) -> dg.AssetMaterialization:
    partition = partition_key(change.org, change.hour_ns)
    return dg.AssetMaterialization(key, partition=partition, metadata=_metadata(change))


def _metadata(change: HourChange) -> dict[str, int | float]:
    """Return numbers, so that Dagster plots them over time."""
    return {
        "bytes per row": round(change.bytes / max(1, change.rows), 2),
        "seconds behind the newest event": round((time.time_ns() - change.newest_ns) / 1e9, 1),
        "rows added": change.rows,
        "bytes added": change.bytes,
        "segments added": change.segments,
        "version": change.version,
    }


def _conservation(report: "Report") -> dg.AssetCheckResult:
    expected = report.rows + report.quarantined
    return dg.AssetCheckResult(
        check_name=ROWS_CONSERVED,
        passed=report.segment_rows == expected,
        metadata={
            "batches": report.batches,
            "objects": report.objects,
            "rows decoded": report.rows + report.quarantined + report.rejected,
            "rows rejected": report.rejected,
            "rows quarantined": report.quarantined,
            "rows in segments": report.segment_rows,
            "raw bytes": report.raw_bytes,
            "segment bytes": report.segment_bytes,
            "raw bytes per segment byte": round(report.raw_bytes / max(1, report.segment_bytes), 3),
            "task seconds": report.task_seconds,
            "odd records": dg.MetadataValue.json(dict(report.notes)),
            "objects failed": dg.MetadataValue.json(report.failed[:100]),
            "plans out of date": len(report.conflicts),
        },
    )


def _count(lakerunner: Lakerunner, spec: SignalSpec, report: "Report") -> None:
    """Add to counters, which outlive the run; one exporter serves them all."""
    totals = {
        "rows": report.rows,
        "rejected_rows": report.rejected,
        "quarantined_rows": report.quarantined,
        "objects": report.objects,
        "failed_objects": len(report.failed),
        "raw_bytes": report.raw_bytes,
        "publish_conflicts": len(report.conflicts),
    }
    signal = spec.signal.value
    lakerunner.index.add_counters(
        {f'lakerunner_cook_{k}_total{{signal="{signal}"}}': float(v) for k, v in totals.items()}
        | {
            f'lakerunner_cook_notes_total{{signal="{signal}",note="{k}"}}': float(v)
            for k, v in report.notes.items()
        }
    )
