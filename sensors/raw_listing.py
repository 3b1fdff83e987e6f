"""Raw prefixes are listed for what no notification announced, or Kafka dropped unread."""

import time
from collections.abc import Sequence

import dagster as dg

from lakerunner_assets.partitions import partition_key
from lakerunner_assets.raw.listing import recent_hours
from resources.lake.layout import Signal

DROPPED_HOURS = 7 * 24
"""Hours to list after Kafka lost messages: as long as it usually keeps them."""


def listing_job_name(signal: Signal) -> str:
    return f"list_raw_{signal.value}"


def listing_requests(
    orgs: Sequence[str], signal: Signal, now_ns: int, hours_back: int, reason: str
) -> list[dg.RunRequest]:
    """Request one run for all organisations: Dagster runs the cross product of the two ranges."""
    if not orgs:
        return []
    hours = sorted(recent_hours(now_ns, hours_back))
    return [
        dg.RunRequest(
            job_name=listing_job_name(signal),
            tags={
                "dagster/asset_partition_range_start": partition_key(orgs[0], hours[0]),
                "dagster/asset_partition_range_end": partition_key(orgs[-1], hours[-1]),
                "lakerunner/reason": reason,
            },
        )
    ]


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
