"""Partitions are organisation by hour; this module alone spells their keys.

The key `2026-01-02-12:00` names the left-open hour `(12:00, 13:00]`. Two hours past the current one exist,
because telemetry may be stamped up to an hour ahead. Days are named by their date, `2026-01-02`, and hold the
hours from `2026-01-02-00:00` on.
"""

from __future__ import annotations

import datetime as dt
from functools import cache

from dagster import (
    DailyPartitionsDefinition,
    DimensionPartitionMapping,
    DynamicPartitionsDefinition,
    HourlyPartitionsDefinition,
    IdentityPartitionMapping,
    MultiPartitionKey,
    MultiPartitionMapping,
    MultiPartitionsDefinition,
    TimeWindowPartitionMapping,
)

from resources.lake.timecut import DAY_NS, from_datetime, to_datetime

ORGANISATIONS = DynamicPartitionsDefinition(name="org")
HOUR_FORMAT = "%Y-%m-%d-%H:%M"
HOURS_AHEAD = 2
DAY_FORMAT = "%Y-%m-%d"
DAYS_AHEAD = 2
"""Days ahead: today, and tomorrow for what is stamped ahead shortly before midnight."""


@cache
def org_hours(horizon: str) -> MultiPartitionsDefinition:
    """Return every (organisation, hour) since `horizon`, an ISO date.

    Dagster stays quick up to about 100,000 partitions per asset: 20 organisations for 90 days.
    """
    start = dt.datetime.fromisoformat(horizon).replace(tzinfo=dt.UTC)
    hours = HourlyPartitionsDefinition(start_date=start, end_offset=HOURS_AHEAD, fmt=HOUR_FORMAT)
    return MultiPartitionsDefinition({"org": ORGANISATIONS, "hour": hours})


@cache
def org_days(horizon: str) -> MultiPartitionsDefinition:
    """Return every (organisation, day) since `horizon`."""
    start = dt.datetime.fromisoformat(horizon).replace(tzinfo=dt.UTC)
    days = DailyPartitionsDefinition(start_date=start, end_offset=DAYS_AHEAD, fmt=DAY_FORMAT)
    return MultiPartitionsDefinition({"org": ORGANISATIONS, "day": days})


def hours_of_days() -> MultiPartitionMapping:
    """Map hours to the day they lie in, by organisation; never left to be inferred."""
    return MultiPartitionMapping(
        {
            "org": DimensionPartitionMapping("org", IdentityPartitionMapping()),
            "hour": DimensionPartitionMapping("day", TimeWindowPartitionMapping()),
        }
    )


def day_partition_key(org: str, day_ns: int) -> MultiPartitionKey:
    return MultiPartitionKey({"org": org, "day": to_datetime(day_ns).strftime(DAY_FORMAT)})


def parse_day_partition_key(key: str) -> tuple[str, int]:
    """Parse a key into (organisation, start of the day)."""
    day, _, org = key.partition("|")
    return org, from_datetime(dt.datetime.strptime(day, DAY_FORMAT).replace(tzinfo=dt.UTC))


def partition_key(org: str, hour_ns: int) -> MultiPartitionKey:
    return MultiPartitionKey({"org": org, "hour": to_datetime(hour_ns).strftime(HOUR_FORMAT)})


def parse_partition_key(key: str) -> tuple[str, int]:
    """Parse a key into (organisation, start of the hour).

    Dagster joins dimensions in alphabetical order: hour, then org.
    """
    hour, _, org = key.partition("|")
    moment = dt.datetime.strptime(hour, HOUR_FORMAT).replace(tzinfo=dt.UTC)
    return org, from_datetime(moment)


def horizon_ns(horizon: str) -> int:
    return from_datetime(dt.datetime.fromisoformat(horizon).replace(tzinfo=dt.UTC))


def in_window(hour_ns: int, horizon: str, now_ns: int) -> bool:
    """Tell if an hour has a partition; events for others would be lost to Dagster."""
    latest = now_ns + (HOURS_AHEAD - 1) * 3600 * 1_000_000_000
    return horizon_ns(horizon) <= hour_ns <= latest


def day_in_window(day_ns: int, horizon: str, now_ns: int) -> bool:
    return horizon_ns(horizon) <= day_ns <= now_ns + (DAYS_AHEAD - 1) * DAY_NS
