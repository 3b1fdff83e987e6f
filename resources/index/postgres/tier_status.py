"""Tiers in numbers: four counts, seen at one moment, put together by dataset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from resources.index.postgres.connections import Connected
from resources.index.statements import load
from resources.index.tier_status_types import OrphanNumbers, TierNumbers, TierStatus
from resources.lake.frequency import rollup_of
from resources.lake.layout import Signal

SQL = load("tier_status")


class TierStatusDesk(Connected):
    def tier_status(self) -> TierStatus:
        with self._transaction() as connection:
            # one snapshot: a swap must not be counted as live and as retired
            connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            found = {name: connection.execute(SQL[name]).fetchall() for name in SQL}
        tiers: dict[tuple[str, str, str], dict[str, Any]] = defaultdict(dict)
        for row in (*found["live"], *found["retired"], *map(_named, found["due"])):
            tiers[row["org"], row["signal"], row["dataset"]].update(row)
        return TierStatus(
            tuple(
                TierNumbers(**{**row, "signal": Signal(row["signal"])}) for _, row in sorted(tiers.items())
            ),
            tuple(OrphanNumbers(**row) for row in found["orphans"]),
        )


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """Partitions are rows by frequency, segments by dataset."""
    rest = {name: value for name, value in row.items() if name != "frequency_ms"}
    return {**rest, "dataset": rollup_of(row["frequency_ms"]).dataset}
