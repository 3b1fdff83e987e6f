"""Tiers are planned by due partitions and segments left to merge.

Their numbers are four counts, seen at one moment, put together by dataset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from resources.index.postgres.connections import PostgresPart
from resources.index.postgres.reading import segment_of
from resources.index.rule_types import RuleHour
from resources.index.statements import load
from resources.index.sweeping_types import OrphanNumbers, TierNumbers, TierStatus
from resources.index.types import DuePartition, HourGrowth, LiveSegment
from resources.lake.layout import Signal
from resources.lake.signals import MATERIALIZED_MS, dataset_of

STATUS_SQL = load("tier_status")


class TierStatusDesk(PostgresPart):
    def tier_status(self) -> TierStatus:
        with self._transaction() as connection:
            # one snapshot: a swap must not be counted as live and as retired
            connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            found = {name: connection.execute(STATUS_SQL[name]).fetchall() for name in STATUS_SQL}
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
    """Name the dataset: partitions are rows by frequency, segments by dataset."""
    rest = {name: value for name, value in row.items() if name != "frequency_ms"}
    return {**rest, "dataset": dataset_of(row["frequency_ms"])}


SQL = load("tiers")
_LIVE_FIELDS = tuple(name for name in LiveSegment.__slots__ if name != "org")


class Tiers(PostgresPart):
    def due_partitions(self, signal: Signal, frequency_ms: int, min_due_s: float = 0.0) -> list[DuePartition]:
        values = {"signal": signal.value, "frequency_ms": frequency_ms, "min_due_s": min_due_s}
        return [
            DuePartition(row["org_id"], signal, row["frequency_ms"], row["start_ns"], row["due_s"])
            for row in self._rows(SQL["due_partitions"], values)
        ]

    def rule_hours(self, org: str, signal: Signal, start_ns: int, end_ns: int) -> list[RuleHour]:
        values = {"org": org, "signal": signal.value, "start_ns": start_ns, "end_ns": end_ns}
        rows = self._rows(SQL["rule_hours"], values)
        return [RuleHour(**{**row, "refusals": tuple(row["refusals"])}) for row in rows]

    def hour_growth(self, org: str, signal: Signal, hour_ns: int) -> HourGrowth | None:
        scope = {"org": org, "signal": signal.value, "hour_ns": hour_ns, "dataset": signal.value}
        rows = self._rows(
            SQL["hour_growth"], {**scope, "hour_text": str(hour_ns), "derived_ms": MATERIALIZED_MS}
        )
        if not rows:
            return None
        (row,) = rows
        added = sorted(set(row["object_ids"]) - set(row["built_objects"]))
        cooked = self._rows(SQL["cooked_of"], {**scope, "object_ids": added}) if added else []
        return HourGrowth(
            row["version"],
            row["built_version"],
            tuple(row["built_objects"]),
            row["built_by"],
            row["sent_version"],
            row["rewritten_version"],
            tuple(zip(row["object_ids"], row["object_rows"], strict=True)),
            tuple(map(segment_of, cooked)),
        )

    def put_off(
        self, org: str, signal: Signal, frequency_ms: int, starts: Sequence[int], *, ever: bool
    ) -> None:
        scope = {"org": org, "signal": signal.value, "frequency_ms": frequency_ms}
        self._change(SQL["put_off"], {**scope, "starts": list(starts), "ever": ever})

    def unsettled(self, signal: Signal, org: str = "") -> list[LiveSegment]:
        return [_live(row) for row in self._rows(SQL["unsettled"], {"signal": signal.value, "org": org})]

    def live_in(self, signal: Signal, org: str, start_ns: int, end_ns: int) -> list[LiveSegment]:
        values = {"signal": signal.value, "org": org, "start_ns": start_ns, "end_ns": end_ns}
        return [_live(row) for row in self._rows(SQL["live_in"], values)]

    def settle(self, segment_ids: Sequence[str]) -> int:
        return self._change(SQL["settle"], {"segment_ids": list(segment_ids)})


def _live(row: dict[str, Any]) -> LiveSegment:
    values = {name: row[name] for name in _LIVE_FIELDS}
    return LiveSegment(**{**values, "org": row["org_id"], "signal": Signal(row["signal"])})
