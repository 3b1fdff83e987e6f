"""Shows a back-fill until it ends: one bar per asset on a terminal, lines of changes elsewhere.

Watching changes nothing: a back-fill goes on when nobody watches.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from lakerunner_cli.backfill.dagster_api import AssetProgress, BackfillState, Dagster, DagsterAwayError

WIDTH = 30
LINE_EVERY_S = 10.0


class Bars:
    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._drawn = 0
        self._shown: list[str] = []
        self._shown_at = float("-inf")

    def show(self, assets: Sequence[AssetProgress], *, last: bool = False) -> None:
        lines = [bar(asset) for asset in assets]
        if self._stream.isatty():
            self._erase()
            self._stream.writelines(f"{line}\n" for line in lines)
            self._drawn = len(lines)
        elif lines != self._shown and (last or self._clock() - self._shown_at >= LINE_EVERY_S):
            changed = [line for line in lines if line not in self._shown]
            self._stream.writelines(f"{line}\n" for line in changed)
            self._shown, self._shown_at = lines, self._clock()
        self._stream.flush()

    def say(self, line: str) -> None:
        """Print a line that stays, above the bars."""
        self._erase()
        self._stream.write(f"{line}\n")
        self._stream.flush()

    def _erase(self) -> None:
        if self._drawn:
            self._stream.write(f"\033[{self._drawn}F\033[J")
            self._drawn = 0


def bar(asset: AssetProgress) -> str:
    """Draw the bar of an asset.

    >>> bar(AssetProgress("cooked/logs", 24, running=12, done=12))
    '[###############...............] cooked/logs        12/24, 12 running'
    >>> bar(AssetProgress("rollup/1d", 4, done=1, failed=3))
    '[#######!!!!!!!!!!!!!!!!!!!!!!!] rollup/1d          1/4, 3 failed or not reached'
    """
    ends = [count * WIDTH // asset.total if asset.total else 0 for count in _ends(asset)]
    drawn = "#" * ends[0] + "!" * (ends[1] - ends[0]) + "." * (ends[2] - ends[1])
    text = f"[{drawn:<{WIDTH}}] {asset.asset:<18} {asset.done:,}/{asset.total:,}"
    text += f", {asset.failed:,} failed or not reached" if asset.failed else ""
    return text + (f", {asset.running:,} running" if asset.running else "")


def _ends(asset: AssetProgress) -> tuple[int, int, int]:
    over = asset.done + asset.failed
    return asset.done, over, over + asset.running


PAUSE_S = 2.0
PATIENCE = 60
"""Requests in a row that may stay without an answer: a webserver takes a minute to restart."""
BAD = frozenset({"FAILURE", "CANCELED"})
MAX_EXPLAINED = 5
"""Number of failed runs whose errors are shown; the others usually fail for the same reasons."""


def follow(
    dagster: Dagster, backfill_id: str, bars: Bars, pause: Callable[[float], None] = time.sleep
) -> BackfillState:
    """Show a back-fill until it ends, and report every run once."""
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
        bars.show(state.assets, last=state.has_ended)
        if state.has_ended:
            return state
        pause(PAUSE_S)


def summary(dagster: Dagster, backfill_id: str, state: BackfillState) -> list[str]:
    """Summarise the result, with the places to look at if something is missing."""
    done = sum(asset.done for asset in state.assets)
    total = sum(asset.total for asset in state.assets)
    what = "succeeded" if state.has_succeeded else f"did not succeed ({state.status.lower()})"
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
