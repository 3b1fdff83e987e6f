"""Asset keys have the tier first, then the signal, as the Dagster UI shows them."""

from __future__ import annotations

from enum import StrEnum

from dagster import AssetKey

from resources.lake.frequency import Rollup
from resources.lake.layout import Signal

MODE_TAG = "lakerunner/mode"
"""Tag of runs that take what is due instead of the partitions they are shown under."""


class Tier(StrEnum):
    RAW = "raw"
    COOKED = "cooked"
    COMPACTED = "compacted"
    ROLLUP = "rollup"
    MATERIALIZED = "materialized"
    RECORDED = "recorded"
    TABLES = "tables"


def asset_key(tier: Tier, signal: Signal) -> AssetKey:
    """Return the key `raw/logs`, as plain strings.

    An enum inside a key passes every check until a run is created.
    """
    return AssetKey([tier.value, signal.value])


def rollup_key(rollup: Rollup) -> AssetKey:
    """Return the key `rollup/10s`."""
    return AssetKey([Tier.ROLLUP.value, rollup.label])


def table_key(name: str) -> AssetKey:
    """Return the key `tables/metrics_10s`."""
    return AssetKey([Tier.TABLES.value, name])


def cook_job_name(signal: Signal) -> str:
    return f"cook_{signal.value}"


def compact_job_name(signal: Signal) -> str:
    return f"compact_{signal.value}"


LINEAGE_TAG = "dagster/from_automation_condition"
"""Dagster's own tag of runs that lineage requested."""
FORCE_TAG = "lakerunner/force"
"""Tag of runs that build partitions although they are current."""
ROLLUP_JOB, DAY_ROLLUP_JOB = "roll_up_hours", "roll_up_days"
RECORD_JOB = "record_metrics"
TABLES_JOB = "update_tables"


def materialize_job_name(signal: Signal) -> str:
    return f"materialize_{signal.value}"
