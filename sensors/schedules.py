"""The safety net below notifications: every quarter of an hour the newest raw prefixes are listed."""

import time

import dagster as dg

from resources.lake.layout import Signal
from sensors.listing import listing_job_name, listing_requests

HOURS_BACK = 2


def listing_schedule(signal: Signal) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"list_raw_{signal.value}",
        cron_schedule="*/15 * * * *",
        job_name=listing_job_name(signal),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Registers {signal.value} objects that no notification announced.",
    )
    def listing(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest]:
        orgs = context.instance.get_dynamic_partitions("org")
        return listing_requests(orgs, signal, time.time_ns(), HOURS_BACK, "safety net")

    return listing
