"""Tables of the pipeline and its tiers for `lakerunner status`, read from the index.

The component table must be there even when everything else is broken, so an index that
is away becomes one line of text.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TypeAlias, cast

import psycopg

from lakerunner_cli.stack.view import duration
from resources.index.postgres import PostgresIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.index.sweeping_types import TierNumbers, TierStatus
from resources.settings import Settings, SettingsError

WAIT_S, ANSWER_S = 3.0, 15.0
Row: TypeAlias = Mapping[str, object]
HEADER = (
    f"{'organisation':<20} {'signal':<8} {'pending':>8} {'bytes':>9} {'oldest':>8} "
    f"{'done':>9} {'parked':>7} {'rows':>13} {'segments':>8} {'bytes':>9}"
)
RARE = {"rejected": "rows rejected", "quarantined": "rows quarantined", "overwritten_objects": "overwritten"}
NO_TIERS = TierStatus((), ())


def read_rows(settings: Settings) -> tuple[list[Row], TierStatus, str]:
    """Return rows, tiers and an error; never raise for an index that is away, empty or unknown."""
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # it would log every attempt
    try:
        with PostgresIndex(
            settings.require("index_dsn"), max_connections=1, wait_s=WAIT_S, answer_s=ANSWER_S
        ) as index:
            rows, counters = index.pipeline_status(), index.counters()
            return (
                [{**row, "advice": advice(row, counters, settings)} for row in rows],
                index.tier_status(),
                "",
            )
    except (IndexUnavailableError, SettingsError) as error:
        return [], NO_TIERS, str(error).splitlines()[0]
    except psycopg.Error as error:
        return [], NO_TIERS, f"the segment index cannot be read: {str(error).splitlines()[0]}"


def table(rows: Sequence[Row], problem: str) -> list[str]:
    """Return lines for a person."""
    if problem:
        return ["", f"pipeline: {problem}"]
    if not rows:
        return ["", "pipeline: nothing ingested yet"]
    told = dict.fromkeys(line for row in rows for line in cast("list[str]", row.get("advice", [])))
    return ["", HEADER, *(_line(row) for row in rows), *(f"! {line}" for line in told)]


ODD_ROWS = {
    "time_from_arrival": "rows got the time of their arrival, because no field was read as their time",
    "time_from_date": "rows have a date and no time of day: they are at 00:00 UTC",
    "message_from_fields": "rows have no message and are shown as their fields",
}
"""Notes of cooking that a person wants to know of; the `fields` setting names the right columns."""


def advice(row: Row, counters: Mapping[str, float], settings: Settings) -> list[str]:
    """Return what is odd about a row, and what to do."""
    org, signal = row["org"], row["signal"]
    found: list[str] = []
    if count := _number(row, "quarantined"):
        found.append(
            f"{org} {signal}: {count:,} rows in quarantine, which no query sees: their times are up to "
            f"LAKERUNNER_HORIZON={settings.horizon} or more than "
            f"LAKERUNNER_FUTURE_TOLERANCE_S={settings.future_tolerance_s} after their arrival"
        )
    if count := _number(row, "parked_objects"):
        found.append(
            f"{org} {signal}: {count:,} objects parked: `lakerunner admin parked list --org {org}` says why"
        )
    for note, words in ODD_ROWS.items():
        total = int(counters.get(f'lakerunner_cook_notes_total{{signal="{signal}",note="{note}"}}', 0))
        if total:
            found.append(
                f"{signal} of all organisations: {total:,} {words} (`fields` of `lakerunner admin setting`)"
            )
    return found


def as_json(rows: Sequence[Row], problem: str) -> dict[str, object]:
    return {"error": problem} if problem else {"rows": [dict(row) for row in rows]}


def _line(row: Row) -> str:
    pending = _number(row, "pending_objects")
    oldest = duration(float(str(row["oldest_pending_s"]))) if pending else "-"
    waiting = f"{pending:>8,} {size(_number(row, 'pending_bytes')):>9} {oldest:>8}"
    ended = (
        f"{_number(row, 'done_objects'):>9,} {_number(row, 'parked_objects'):>7,} {_number(row, 'rows'):>13,}"
    )
    kept = f"{_number(row, 'segments'):>8,} {size(_number(row, 'segment_bytes')):>9}"
    rare = ", ".join(f"{_number(row, name):,} {what}" for name, what in RARE.items() if _number(row, name))
    return f"{row['org']!s:<20} {row['signal']!s:<8} {waiting} {ended} {kept}" + (f"  {rare}" if rare else "")


def _number(row: Row, name: str) -> int:
    return int(str(row[name]))


def size(count: int) -> str:
    """Write a number of bytes.

    >>> size(0), size(999), size(1_500_000), size(3_200_000_000_000)
    ('0 B', '999 B', '1.5 MB', '3.2 TB')
    """
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


TIER_HEADER = (
    f"{'organisation':<20} {'dataset':<18} {'segments':>8} {'bytes':>9} {'rows':>13} {'mean':>9} "
    f"{'unmerged':>17} {'due':>6} {'longest':>7} {'newest':>7} {'retired':>9}"
)


def tier_table(status: TierStatus) -> list[str]:
    """Return lines for a person; none as long as there is no tier."""
    lines = [_tier_line(tier) for tier in status.tiers]
    orphans = [
        f"! {each.org}: {each.files:,} files ({size(each.bytes)}) in the lake that the index does not know"
        for each in status.orphans
    ]
    return [*(["", TIER_HEADER] if lines else []), *lines, *orphans]


def tiers_as_json(status: TierStatus, problem: str) -> dict[str, object]:
    if problem:
        return {"error": problem}
    return {
        "rows": [{**asdict(tier), "mean_bytes": mean_bytes(tier)} for tier in status.tiers],
        "orphans": [asdict(each) for each in status.orphans],
    }


def mean_bytes(tier: TierNumbers) -> int:
    return tier.bytes // tier.segments if tier.segments else 0


def _tier_line(tier: TierNumbers) -> str:
    unmerged = f"{tier.unsettled:,} / {size(tier.unsettled_bytes)}" if tier.unsettled else "-"
    newest = "-" if tier.newest_ns is None else duration(max(0.0, tier.newest_s))
    due = f"{tier.due:>6,} {duration(tier.due_s):>7}" if tier.due else f"{'-':>6} {'-':>7}"
    retired = size(tier.retired_bytes) if tier.retired else "-"
    kept = f"{tier.segments:>8,} {size(tier.bytes):>9} {tier.rows:>13,} {size(mean_bytes(tier)):>9}"
    return f"{tier.org:<20} {tier.dataset:<18} {kept} {unmerged:>17} {due} {newest:>7} {retired:>9}"
