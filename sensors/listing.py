"""Requests to list raw prefixes: for what no notification announced, or what Kafka dropped unread."""

from collections.abc import Sequence

import dagster as dg

from lakerunner_assets.partitions import partition_key
from lakerunner_assets.raw.listing import recent_hours
from resources.lake.layout import Signal

DROPPED_HOURS = 7 * 24
"""How far back to look after Kafka lost messages: as long as it usually keeps them."""


def listing_job_name(signal: Signal) -> str:
    return f"list_raw_{signal.value}"


def listing_requests(
    orgs: Sequence[str], signal: Signal, now_ns: int, hours_back: int, reason: str
) -> list[dg.RunRequest]:
    """One run for all organisations: Dagster runs the cross product of the two ranges."""
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
