"""Lineage requests runs for partitions whose sources changed.

The conditions stand at the assets. This sensor evaluates them; several partitions of one tick become one
back-fill, which Dagster turns into a run per range, so that ten organisations do not cost ten runs.
"""

import dagster as dg


def lineage_sensor(interval_s: int) -> dg.AutomationConditionSensorDefinition:
    return dg.AutomationConditionSensorDefinition(
        "lineage",
        target=dg.AssetSelection.all(),
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        emit_backfills=True,
        description="Rolls up hours that cooking changed, days that have closed; compacts closed hours.",
    )
