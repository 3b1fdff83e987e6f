"""Heartbeats of runs, without a database."""

from __future__ import annotations

from resources.index.memory.state import Held


class Runs(Held):
    def beat_run(self, run_id: str) -> None:
        self._state.runs[run_id] = self._clock()

    def rest_run(self, run_id: str, seconds: float) -> None:
        self._state.runs[run_id] = self._clock() + seconds

    def forget_run(self, run_id: str) -> None:
        self._state.runs.pop(run_id, None)

    def run_heartbeats(self) -> dict[str, float]:
        return {run_id: self._clock() - beat for run_id, beat in self._state.runs.items()}
