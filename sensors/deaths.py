"""Which runs are dead although Dagster believes they live: a pure decision.

kill -9 of a run's process (or of the code server that started it) leaves the run STARTED or STARTING for
ever, because the launcher on one machine has no health check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunState:
    run_id: str
    age_s: float
    """Since it was launched."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a run may be silent."""

    silent_s: float
    """Since its last heartbeat."""
    first_beat_s: float
    """From launch to the first heartbeat: the process starts, imports, opens the index."""


def dead_runs(runs: Sequence[RunState], beats: Mapping[str, float], patience: Patience) -> dict[str, str]:
    """Run id → why it is believed dead."""
    found: dict[str, str] = {}
    for run in runs:
        silent = beats.get(run.run_id)
        if silent is not None and silent > patience.silent_s:
            found[run.run_id] = f"no heartbeat for {silent:.0f} s"
        elif silent is None and run.age_s > patience.first_beat_s:
            found[run.run_id] = f"launched {run.age_s:.0f} s ago and never gave a sign of life"
    return found
