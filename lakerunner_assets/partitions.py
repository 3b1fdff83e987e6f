"""Partitions are organisation by hour; this file is the only one that spells their keys.

The key `2026-01-02-12:00` names the left-open hour `(12:00, 13:00]`. Two hours past the current one exist,
because telemetry may be stamped up to an hour ahead.
"""

from __future__ import annotations

import datetime as dt
from functools import cache

from dagster import (
    DynamicPartitionsDefinition,
    HourlyPartitionsDefinition,
    MultiPartitionKey,
    MultiPartitionsDefinition,
)

from resources.lake.timecut import from_datetime, to_datetime

ORGANISATIONS = DynamicPartitionsDefinition(name="org")
HOUR_FORMAT = "%Y-%m-%d-%H:%M"
HOURS_AHEAD = 2


@cache
def org_hours(horizon: str) -> MultiPartitionsDefinition:
    """Every (organisation, hour) since `horizon`, an ISO date.

    Dagster stays quick up to about 100,000 partitions per asset: 20 organisations for 90 days.
    """
    start = dt.datetime.fromisoformat(horizon).replace(tzinfo=dt.UTC)
    hours = HourlyPartitionsDefinition(start_date=start, end_offset=HOURS_AHEAD, fmt=HOUR_FORMAT)
    return MultiPartitionsDefinition({"org": ORGANISATIONS, "hour": hours})


def partition_key(org: str, hour_ns: int) -> MultiPartitionKey:
    return MultiPartitionKey({"org": org, "hour": to_datetime(hour_ns).strftime(HOUR_FORMAT)})


def parse_partition_key(key: str) -> tuple[str, int]:
    """(organisation, start of the hour). Dagster joins dimensions in alphabetical order: hour, then org."""
    hour, _, org = key.partition("|")
    moment = dt.datetime.strptime(hour, HOUR_FORMAT).replace(tzinfo=dt.UTC)
    return org, from_datetime(moment)


def horizon_ns(horizon: str) -> int:
    return from_datetime(dt.datetime.fromisoformat(horizon).replace(tzinfo=dt.UTC))


def in_window(hour_ns: int, horizon: str, now_ns: int) -> bool:
    """Whether an hour has a partition (events for others would be lost to Dagster)."""
    latest = now_ns + (HOURS_AHEAD - 1) * 3600 * 1_000_000_000
    return horizon_ns(horizon) <= hour_ns <= latest
