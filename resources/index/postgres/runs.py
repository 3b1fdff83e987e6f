"""Heartbeats of running Dagster runs, which the watchdog compares with what Dagster believes."""

from __future__ import annotations

from resources.index.postgres.connections import Connected
from resources.index.statements import load

SQL = load("reading")


class Runs(Connected):
    def beat_run(self, run_id: str) -> None:
        self._change(SQL["beat_run"], {"run_id": run_id})

    def rest_run(self, run_id: str, seconds: float) -> None:
        self._change(SQL["rest_run"], {"run_id": run_id, "seconds": seconds})

    def forget_run(self, run_id: str) -> None:
        self._change(SQL["forget_run"], {"run_id": run_id})

    def run_heartbeats(self) -> dict[str, float]:
        return {row["run_id"]: row["age_s"] for row in self._rows(SQL["run_heartbeats"], {})}
