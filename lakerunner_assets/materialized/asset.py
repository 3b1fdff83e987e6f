"""The assets `materialized/{signal}` hold metrics that are derived from a signal, hour by hour.

They are derived whenever cooking changed an hour, or late records changed it near its neighbour. Lineage says
so of spans, of which every organisation has metrics. Of other signals the index does, for many organisations
have no rules: a run for each of their hours would cost more than it finds. The metrics are segments like any
other: rollups are built from them, queries read them. Materialising partitions by hand derives those that are
not current, with the tag `lakerunner/force=true` all of them.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from lakerunner_assets.keys import FORCE_TAG, LINEAGE_TAG, Tier, asset_key
from lakerunner_assets.partitions import org_hours, parse_partition_key, partition_key
from lakerunner_assets.run_context import heartbeat
from lakerunner_assets.spec import SignalSpec
from resources.bindings import Lakerunner
from resources.lake.signals import FACTS

if TYPE_CHECKING:
    from lakerunner_assets.materialized.run import DeriveReport, HourDerived

DERIVED = "derived"
_OF_RULES = "Metrics that rules derive. An hour is swapped whole when its records or the rules change."
_WITH_PRESET = f"Metrics of spans and of the service graph: calls, errors, durations. {_OF_RULES}"


def materialized_asset(spec: SignalSpec, horizon: str) -> dg.AssetsDefinition:
    key = asset_key(Tier.MATERIALIZED, spec.signal)
    cooked = asset_key(Tier.COOKED, spec.signal)

    @dg.asset(
        key=key,
        deps=[cooked],
        partitions_def=org_hours(horizon),
        backfill_policy=dg.BackfillPolicy.single_run(),
        automation_condition=_condition() if FACTS[spec.signal].has_preset else None,
        check_specs=[
            dg.AssetCheckSpec(
                DERIVED,
                asset=key,
                description="Every hour was derived, or was current; what could not be is listed.",
            )
        ],
        group_name=spec.signal.value,
        kinds={"parquet", "pyspark"},
        description=_WITH_PRESET if FACTS[spec.signal].has_preset else _OF_RULES,
    )
    def materialized(
        context: dg.AssetExecutionContext, lakerunner: Lakerunner
    ) -> Iterator[dg.MaterializeResult[None]]:
        from lakerunner_assets.materialized.run import DeriveReport, derive_hours, with_due
        from lakerunner_assets.run_context import RunContext

        if not context.has_partition_key and not context.has_partition_key_range:
            raise dg.Failure("choose partitions to derive")
        report = DeriveReport()
        own: dict[str, list[int]] = defaultdict(list)
        for org, hour in map(parse_partition_key, context.partition_keys):
            own[org].append(hour)
        wanted: dict[str, list[int]] = own
        if context.run.tags.get(LINEAGE_TAG) == "true":
            wanted = with_due(lakerunner.index, lakerunner.settings, spec.signal, own)
        force = context.run.tags.get(FORCE_TAG) == "true"
        with heartbeat(lakerunner.index, context.run_id, lakerunner.settings) as heart:
            run = RunContext(
                lakerunner.index, lakerunner.spark_tasks(), lakerunner.settings, heart, context.log.warning
            )
            for done in derive_hours(run, spec.signal, wanted, report, force=force):
                made = done.hour
                partition = partition_key(made.org, made.hour_ns)
                if made.hour_ns in own.get(made.org, ()):
                    context.add_asset_metadata(_metadata(done), partition_key=partition)
                else:
                    event = dg.AssetMaterialization(key, partition=partition, metadata=_metadata(done))
                    context.log_event(event)
            _count(lakerunner, spec, report)
            yield dg.MaterializeResult(check_results=[_check(report)])
        if report.failed:
            raise dg.Failure("\n".join(report.failed))

    return materialized


def _condition() -> dg.AutomationCondition:  # type: ignore[type-arg]
    """Require a change since the last request, and no run under way: no update is lost, none loops."""
    condition = dg.AutomationCondition
    updated = condition.any_deps_match(condition.newly_updated())
    changed = updated.since(condition.newly_requested()) & ~condition.in_progress()
    return changed.with_label("changed since it was requested")


def _metadata(done: "HourDerived") -> dict[str, int | float | str]:
    return {
        "records": done.records,
        "rows": done.hour.rows,
        "bytes": done.hour.bytes,
        "version": done.hour.version,
        "seconds": round(done.hour.seconds, 3),
        **{f"rows of {rule.metric}": rule.rows for rule in done.rules},
        **{f"not eligible: {rule.metric}": rule.refusal for rule in done.rules if rule.refusal},
    }


def _check(report: "DeriveReport") -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=DERIVED,
        passed=not report.failed,
        metadata={
            "hours derived": report.made,
            "hours current": report.current,
            "hours added to": report.added,
            "records": report.records,
            "rows": report.rows,
            "bytes": report.bytes,
            "source bytes": report.source_bytes,
            "task seconds": round(report.seconds, 3),
            "plans out of date": len(report.conflicts),
            "rows of rules": dg.MetadataValue.json(report.rule_rows),
            "rules not eligible": len(report.ineligible),
            "not eligible": dg.MetadataValue.json(report.ineligible[:100]),
            "switched off": dg.MetadataValue.json(report.off[:100]),
            "refused": dg.MetadataValue.json(report.refused[:100]),
            "failed": dg.MetadataValue.json(report.failed[:100]),
        },
    )


def _count(lakerunner: Lakerunner, spec: SignalSpec, report: "DeriveReport") -> None:
    """Add to counters, which outlive the run; one exporter serves them all."""
    totals = {
        "hours": report.made,
        "hours_added_to": report.added,
        "records": report.records,
        "rows": report.rows,
        "bytes": report.bytes,
        "rule_rows": sum(report.rule_rows.values()),
        "rules_not_eligible": len(report.ineligible),
        "failures": len(report.failed),
        "publish_conflicts": len(report.conflicts),
    }
    signal = spec.signal.value
    lakerunner.index.add_counters(
        {f'lakerunner_materialize_{k}_total{{signal="{signal}"}}': float(v) for k, v in totals.items()}
    )
