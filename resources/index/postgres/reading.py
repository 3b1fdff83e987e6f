"""Segments, partitions and status rows are read by queries, rebuilds and people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resources.index.postgres.connections import PostgresPart
from resources.index.statements import load
from resources.index.types import Backlog, Partition, RawObject, Segment
from resources.lake.layout import Signal
from resources.lake.timecut import hour_start

SQL = load("reading")
_LONG = ("terms", "label_names", "metric_names")
"""Arrays that statements leave out unless they are asked for."""
_SEGMENT_FIELDS = tuple(
    name for name in Segment.__slots__ if name not in {"org", "signal", "object_ids", *_LONG}
)


class Reading(PostgresPart):
    def live_segments(self, org: str, signal: Signal, frequency_ms: int, hour_ns: int) -> list[Segment]:
        values = {"org": org, "signal": signal.value, "frequency_ms": frequency_ms, "hour_ns": hour_ns}
        return [segment_of(row) for row in self._rows(SQL["live_segments"], values)]

    def objects_with_rows_in(self, org: str, signal: Signal, hour_ns: int) -> list[RawObject]:
        values = {"org": org, "signal": signal.value, "hour_ns": hour_ns}
        return [RawObject(**row) for row in self._rows(SQL["objects_with_rows_in"], values)]

    def partitions(self, org: str, signal: Signal, frequency_ms: int) -> list[Partition]:
        values = {"org": org, "signal": signal.value, "frequency_ms": frequency_ms}
        return [partition_of(row) for row in self._rows(SQL["partitions"], values)]

    def ingest_losses(self, org: str, start_ns: int, end_ns: int) -> list[Mapping[str, object]]:
        values = {"org": org, "first_ns": hour_start(start_ns), "last_ns": hour_start(end_ns)}
        rows: list[Mapping[str, object]] = list(self._rows(SQL["ingest_losses"], values))
        return rows

    def pipeline_status(self) -> list[Mapping[str, object]]:
        rows: list[Mapping[str, object]] = list(self._rows(SQL["pipeline_status"], {}))
        return rows

    def counters(self) -> dict[str, float]:
        return {row["name"]: row["value"] for row in self._rows(SQL["counters"], {})}

    def backlog(self) -> Backlog:
        return Backlog(**self._rows(SQL["backlog"], {})[0])


def segment_of(row: dict[str, Any]) -> Segment:
    values = {name: row[name] for name in _SEGMENT_FIELDS}
    values.update((name, tuple(row.get(name) or ())) for name in _LONG)
    return Segment(**{**values, "org": row["org_id"], "signal": Signal(row["signal"])})


def partition_of(row: dict[str, Any]) -> Partition:
    return Partition(
        row["org_id"],
        Signal(row["signal"]),
        row["frequency_ms"],
        row["start_ns"],
        row["version"],
        {int(start): version for start, version in row["built_from"].items()},
        row["updated_at_ns"],
        row["due"],
        row["expired"],
        row["sent_version"],
    )
