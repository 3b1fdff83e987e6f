"""The check `fresh` compares each tier with what came in.

A tier is behind when an object waits to be cooked, or a partition to be rolled up, for longer than it should
take. Run by hand like any check; the freshness sensor evaluates it every minute without starting a run.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from lakerunner_assets.keys import Tier, asset_key, rollup_key
from resources.bindings import Lakerunner
from resources.index.contract import PipelineIndex
from resources.lake.frequency import DAY, ROLLUPS
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS
from resources.settings import Settings

FRESH = "fresh"
NEVER = dg.AutomationCondition.in_progress() & ~dg.AutomationCondition.in_progress()
"""Condition that never holds: without one a check rides along with every run of its asset, as a step more."""
COOKED_WITHIN_S, ROLLED_WITHIN_S = 120.0, 300.0


@dataclass(frozen=True, slots=True)
class Wait:
    """The longest wait in front of an asset."""

    key: dg.AssetKey
    longest_s: float
    waiting: int
    allowed_s: float

    @property
    def passed(self) -> bool:
        return self.longest_s <= self.allowed_s

    @property
    def metadata(self) -> dict[str, float | int]:
        return {
            "waiting": self.waiting,
            "longest wait (s)": round(self.longest_s, 1),
            "allowed (s)": self.allowed_s,
        }


def waits(index: PipelineIndex, settings: Settings, now_ns: int) -> Iterator[Wait]:
    """Yield one wait for each asset that has the check."""
    status = index.pipeline_status()
    for signal in Signal:
        mine = [row for row in status if row["signal"] == signal.value]
        oldest = max((_number(row["oldest_pending_s"]) for row in mine), default=0.0)
        pending = sum(int(_number(row["pending_objects"])) for row in mine)
        yield Wait(asset_key(Tier.COOKED, signal), oldest, pending, COOKED_WITHIN_S)
    allowed = ROLLED_WITHIN_S + settings.rollup_overdue_s
    for rollup in ROLLUPS:
        due = index.due_partitions(Signal.METRICS, rollup.frequency_ms)
        if rollup.frequency_ms == DAY:  # not before it has closed
            due = [d for d in due if d.start_ns + DAY_NS + ROLLED_WITHIN_S * 1e9 <= now_ns]
        longest = max((d.due_s for d in due), default=0.0)
        yield Wait(rollup_key(rollup), longest, len(due), allowed)


def freshness_checks() -> list[dg.AssetChecksDefinition]:
    keys = [*(asset_key(Tier.COOKED, signal) for signal in Signal), *(rollup_key(r) for r in ROLLUPS)]
    return [_check(key) for key in keys]


def fresh_check_keys() -> list[dg.AssetCheckKey]:
    return [key for check in freshness_checks() for key in check.check_keys]


def _check(key: dg.AssetKey) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=key,
        name=FRESH,
        description="Nothing has waited longer than it should take.",
        automation_condition=NEVER,
    )
    def fresh(lakerunner: Lakerunner) -> dg.AssetCheckResult:
        found = {wait.key: wait for wait in waits(lakerunner.index, lakerunner.settings, time.time_ns())}
        return dg.AssetCheckResult(passed=found[key].passed, metadata=found[key].metadata)

    return fresh


def _number(value: object) -> float:
    number = float(str(value))
    return 0.0 if math.isnan(number) else number
