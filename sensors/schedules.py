"""The safety net below notifications: every quarter of an hour the newest raw prefixes are listed."""

import time

import dagster as dg

from lakerunner_assets.partitions import partition_key
from lakerunner_assets.raw.listing import recent_hours
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
    def listing(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest]:
        """One run for everything: Dagster runs the cross product of the two ranges."""
        orgs = list(context.instance.get_dynamic_partitions("org"))
        if not orgs:
            return []
        hours = sorted(recent_hours(time.time_ns(), HOURS_BACK))
        return [
            dg.RunRequest(
                tags={
                    "dagster/asset_partition_range_start": partition_key(orgs[0], hours[0]),
                    "dagster/asset_partition_range_end": partition_key(orgs[-1], hours[-1]),
                },
            )
        ]

    return listing
