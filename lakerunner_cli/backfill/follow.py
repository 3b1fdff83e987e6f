"""Watching a back-fill until it ends. Watching changes nothing: it goes on when nobody does."""

from __future__ import annotations

import time
from collections.abc import Callable

from lakerunner_cli.backfill.bars import Bars
from lakerunner_cli.backfill.dagster_api import BackfillState, Dagster, DagsterAwayError

PAUSE_S = 2.0
PATIENCE = 60
"""How many questions in a row may stay without an answer: a webserver takes a minute to start again."""
BAD = frozenset({"FAILURE", "CANCELED"})
MAX_EXPLAINED = 5
"""Failed runs whose errors are shown; the others fail for the same reasons, as a rule."""


def follow(
    dagster: Dagster, backfill_id: str, bars: Bars, pause: Callable[[float], None] = time.sleep
) -> BackfillState:
    """Until it has ended; tells of every run once."""
    told: set[str] = set()
    silent = 0
    while True:
        try:
            state = dagster.state(backfill_id)
        except DagsterAwayError as error:
            silent += 1
            if silent == PATIENCE:
                raise DagsterAwayError(f"{error}; the back-fill {backfill_id} goes on") from error
            pause(PAUSE_S)
            continue
        silent = 0
        for run in state.runs:
            if run.run_id not in told:
                told.add(run.run_id)
                bars.say(f"run {run.run_id}  {dagster.run_url(run.run_id)}")
        bars.show(state.assets, last=state.ended)
        if state.ended:
            return state
        pause(PAUSE_S)


def summary(dagster: Dagster, backfill_id: str, state: BackfillState) -> list[str]:
    """What came of it, with what a person looks at next when something is missing."""
    done = sum(asset.done for asset in state.assets)
    total = sum(asset.total for asset in state.assets)
    what = "succeeded" if state.succeeded else f"did not succeed ({state.status.lower()})"
    lines = [f"back-fill {backfill_id} {what}: {done:,} of {total:,} partitions, {len(state.runs):,} runs"]
    lines += [
        f"{a.asset}: {a.total - a.done:,} of {a.total:,} missing" for a in state.assets if a.done < a.total
    ]
    bad = [run for run in state.runs if run.status in BAD]
    for run in bad[:MAX_EXPLAINED]:
        lines.append(f"run {run.run_id} {run.status.lower()}: {dagster.run_url(run.run_id)}")
        lines += dagster.failures(run.run_id)
    if len(bad) > MAX_EXPLAINED:
        lines.append(f"and {len(bad) - MAX_EXPLAINED:,} more runs that failed")
    return [*lines, *state.error.splitlines()[:1]]
