"""The safety net below notifications: every quarter of an hour the newest raw prefixes are listed."""

import time

import dagster as dg

from lakerunner_assets.partitions import partition_key
from lakerunner_assets.raw.listing import recent_hours
from resources.bindings import Lakerunner
from resources.lake.layout import Signal

HOURS_BACK = 2


def listing_job_name(signal: Signal) -> str:
    return f"list_raw_{signal.value}"


def listing_schedule(signal: Signal) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"list_raw_{signal.value}",
        cron_schedule="*/15 * * * *",
        job_name=listing_job_name(signal),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Registers {signal.value} objects that no notification announced.",
    )
    def listing(context: dg.ScheduleEvaluationContext, lakerunner: Lakerunner) -> list[dg.RunRequest]:
        """One range run for all organisations: Dagster runs the cross product of the two ranges."""
        orgs = sorted(
            set(lakerunner.index.organisations()) & set(context.instance.get_dynamic_partitions("org"))
        )
        hours = sorted(recent_hours(time.time_ns(), HOURS_BACK))
        return [
            dg.RunRequest(
                run_key=f"{listing_job_name(signal)}-{org}-{context.scheduled_execution_time}",
                tags={
                    "dagster/asset_partition_range_start": partition_key(org, hours[0]),
                    "dagster/asset_partition_range_end": partition_key(org, hours[-1]),
                },
            )
            for org in orgs
        ]

    return listing
