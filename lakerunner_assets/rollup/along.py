"""What a run of lineage takes along: due partitions that are not its own.

Dagster starts a run for every organisation, one after the other, and starting costs more than rolling up. So
the first one builds what is due for everybody, and those behind it find little to do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from lakerunner_assets.partitions import day_in_window, in_window
from lakerunner_assets.rollup.run import by_org
from resources.index.contract import PipelineIndex
from resources.lake.frequency import DAY, Rollup
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS

MOST = 64
"""Longest due first; a run must come to its end."""


def with_due(
    index: PipelineIndex, rollup: Rollup, own: Mapping[str, Sequence[int]], horizon: str
) -> dict[str, list[int]]:
    """The run's own partitions, and behind them what else waits."""
    now = time.time_ns()
    waiting = [
        (due.org, due.start_ns)
        for due in index.due_partitions(Signal.METRICS, rollup.frequency_ms)
        if due.start_ns not in own.get(due.org, ()) and _has_partition(rollup, due.start_ns, horizon, now)
    ]
    found = {org: list(starts) for org, starts in own.items()}
    for org, starts in by_org(waiting[:MOST]).items():
        found.setdefault(org, []).extend(starts)
    return found


def _has_partition(rollup: Rollup, start_ns: int, horizon: str, now_ns: int) -> bool:
    if rollup.frequency_ms == DAY:
        return start_ns + DAY_NS <= now_ns and day_in_window(start_ns, horizon, now_ns)
    return in_window(start_ns, horizon, now_ns)
