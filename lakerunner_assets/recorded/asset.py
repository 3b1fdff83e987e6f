"""The asset `recorded/metrics` holds the metrics of recording rules, hour by hour.

An hour is recorded whenever samples, log lines or derived metrics changed that rules read in it, over event
time: late data makes it anew. Materialising partitions by hand records those that are not current, with the
tag `lakerunner/force=true` all of them; so a new rule gets its history, and a deleted one loses its samples.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from lakerunner_assets.keys import FORCE_TAG, Tier, asset_key
from lakerunner_assets.partitions import org_hours, parse_partition_key, partition_key
from lakerunner_assets.run_context import heartbeat
from lakerunner_assets.spec import SignalSpec
from resources.bindings import Lakerunner
from resources.lake.layout import Signal

if TYPE_CHECKING:
    from lakerunner_assets.metric_hours.run import HourMade
    from lakerunner_assets.recorded.run import RecordReport

RECORDED = "recorded"
SOURCES = (
    asset_key(Tier.COOKED, Signal.METRICS),
    asset_key(Tier.COOKED, Signal.LOGS),
    *(asset_key(Tier.MATERIALIZED, signal) for signal in Signal),
)
"""Assets that rules read."""


def recorded_asset(spec: SignalSpec, horizon: str) -> dg.AssetsDefinition:
    key = asset_key(Tier.RECORDED, spec.signal)

    @dg.asset(
        key=key,
        deps=list(SOURCES),
        partitions_def=org_hours(horizon),
        backfill_policy=dg.BackfillPolicy.single_run(),
        automation_condition=None,  # the reconciler asks for what the index knows to be due
        check_specs=[
            dg.AssetCheckSpec(
                RECORDED,
                asset=key,
                description="Every hour was recorded, or was current; rules that failed are listed.",
            )
        ],
        group_name=spec.signal.value,
        kinds={"parquet", "pyspark"},
        description="Metrics of recording rules, evaluated over event time. An hour is swapped whole when "
        "what its rules read changes.",
    )
    def recorded(
        context: dg.AssetExecutionContext, lakerunner: Lakerunner
    ) -> Iterator[dg.MaterializeResult[None]]:
        from lakerunner_assets.recorded.run import RecordReport, record_hours
        from lakerunner_assets.run_context import RunContext

        if not context.has_partition_key and not context.has_partition_key_range:
            raise dg.Failure("choose partitions to record")
        report = RecordReport()
        own: dict[str, list[int]] = defaultdict(list)
        for org, hour in map(parse_partition_key, context.partition_keys):
            own[org].append(hour)
        force = context.run.tags.get(FORCE_TAG) == "true"
        with heartbeat(lakerunner.index, context.run_id, lakerunner.settings) as heart:
            run = RunContext(
                lakerunner.index, lakerunner.spark_tasks(), lakerunner.settings, heart, context.log.warning
            )
            for done in record_hours(run, own, report, force=force):
                partition = partition_key(done.org, done.hour_ns)
                context.add_asset_metadata(_metadata(done), partition_key=partition)
            _count(lakerunner, report)
            yield dg.MaterializeResult(check_results=[_check(report)])
        if report.failed:
            raise dg.Failure("\n".join(report.failed))

    return recorded


def _metadata(hour: "HourMade") -> dict[str, int | float]:
    return {
        "rows": hour.rows,
        "bytes": hour.bytes,
        "version": hour.version,
        "seconds": round(hour.seconds, 3),
    }


def _check(report: "RecordReport") -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=RECORDED,
        passed=not report.failed and not report.rules_failed,
        metadata={
            "hours recorded": report.made,
            "hours current": report.current,
            "rows": report.rows,
            "bytes": report.bytes,
            "source bytes": report.source_bytes,
            "task seconds": round(report.seconds, 3),
            "plans out of date": len(report.conflicts),
            "rows of rules": dg.MetadataValue.json(report.rule_rows),
            "rules that failed": dg.MetadataValue.json(report.rules_failed[:100]),
            "without rules": dg.MetadataValue.json(report.off[:100]),
            "refused": dg.MetadataValue.json(report.refused[:100]),
            "failed": dg.MetadataValue.json(report.failed[:100]),
        },
    )


def _count(lakerunner: Lakerunner, report: "RecordReport") -> None:
    """Add to counters, which outlive the run; one exporter serves them all."""
    totals = {
        "hours": report.made,
        "rows": report.rows,
        "bytes": report.bytes,
        "rules_failed": len(report.rules_failed),
        "failures": len(report.failed),
        "publish_conflicts": len(report.conflicts),
    }
    lakerunner.index.add_counters({f"lakerunner_record_{k}_total": float(v) for k, v in totals.items()})
