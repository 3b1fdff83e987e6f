"""The pipeline as `lakerunner status` shows it: one row per organisation and signal, from the index.

The component table must be there even when everything else is broken, so every way in which the index can
be away ends here as one line of text.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import psycopg

from lakerunner_cli.stack.view import duration
from resources.index.postgres import PostgresIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.index.sweeping_types import TierStatus
from resources.settings import Settings, SettingsError

WAIT_S = 3.0
Row: TypeAlias = Mapping[str, object]
HEADER = (
    f"{'organisation':<20} {'signal':<8} {'pending':>8} {'bytes':>9} {'oldest':>8} "
    f"{'done':>9} {'parked':>7} {'rows':>13} {'segments':>8} {'bytes':>9}"
)
RARE = {"rejected": "rows rejected", "quarantined": "rows quarantined", "overwritten_objects": "overwritten"}
NO_TIERS = TierStatus((), ())


def read_rows(settings: Settings) -> tuple[list[Row], TierStatus, str]:
    """Rows and tiers, or why there are none; never raises for an index that is away, empty or unknown."""
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # it would tell of every attempt
    try:
        with PostgresIndex(settings.require("index_dsn"), max_connections=1, wait_s=WAIT_S) as index:
            return index.pipeline_status(), index.tier_status(), ""
    except (IndexUnavailableError, SettingsError) as error:
        return [], NO_TIERS, str(error).splitlines()[0]
    except psycopg.Error as error:
        return [], NO_TIERS, f"the segment index cannot be read: {str(error).splitlines()[0]}"


def table(rows: Sequence[Row], problem: str) -> list[str]:
    """Lines for a person."""
    if problem:
        return ["", f"pipeline: {problem}"]
    if not rows:
        return ["", "pipeline: nothing ingested yet"]
    return ["", HEADER, *(_line(row) for row in rows)]


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
    """
    >>> size(0), size(999), size(1_500_000), size(3_200_000_000_000)
    ('0 B', '999 B', '1.5 MB', '3.2 TB')
    """
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
