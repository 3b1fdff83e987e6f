"""The old day is cooked, rolled up and sealed in this process, before anything is killed.

A storm is to meet carvings from its first minute, and only a sealed day has hours to carve out. What Dagster
needs a dozen runs for, the functions of those runs do here in seconds; all later work is left to runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.chaos_stack import hurry
from lakerunner_assets.compacted.due import Scope
from lakerunner_assets.compacted.report import Report as MergeReport
from lakerunner_assets.compacted.run import compact
from lakerunner_assets.cooked.run import Report, cook_claims
from lakerunner_assets.rollup.run import RollReport, by_org, roll_partitions
from lakerunner_assets.run_context import RunContext, heartbeat
from resources.index.postgres import PostgresIndex
from resources.index.types import BatchKind
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.settings import Settings
from tests.support.cooking_lake import LocalTasks

RUN_ID = "chaos-old-day"
PATIENCE_S = 600.0
ALL_BYTES = 1 << 40


def seal(settings: Settings, is_sealed: Callable[[], bool]) -> float:
    """Do whatever is due until the day is sealed; return the seconds."""
    began = time.monotonic()
    index = PostgresIndex(settings.index_dsn)
    try:
        with heartbeat(index, RUN_ID, settings) as heart:
            run = RunContext(index, LocalTasks(), settings, heart, print)  # type: ignore[arg-type]
            while not is_sealed():
                if time.monotonic() - began > PATIENCE_S:
                    raise RuntimeError(f"the old day was not sealed within {PATIENCE_S:.0f} s")
                do_what_is_due(run)
                time.sleep(1)
        index.forget_run(RUN_ID)
    finally:
        index.close()
    return time.monotonic() - began


def do_what_is_due(run: RunContext) -> None:
    """Cook, roll up and merge once. Batches that a run of the stack has claimed are left to it."""
    for signal in (Signal.LOGS, Signal.METRICS):
        claims = run.index.claim_due(signal, BatchKind.COOK, ALL_BYTES)
        list(cook_claims(run, claims, Report()))
    now = time.time_ns()
    for rollup in ROLLUPS:
        due = run.index.due_partitions(Signal.METRICS, rollup.frequency_ms)
        over = [(each.org, each.start_ns) for each in due if each.start_ns + rollup.partition_ns <= now]
        list(roll_partitions(run, rollup, by_org(over), RollReport()))
    hurry(run.settings)
    list(compact(run, Signal.METRICS, MergeReport(), Scope()))
