"""The merges that are due follow from the index and the pure plan.

The planner sensor and the runs it requests look through the same two functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakerunner_assets.compacted.plan import plan_merges
from lakerunner_assets.compacted.policy import Merge, Plans, Policy, day_of
from resources.index.contract import PipelineIndex
from resources.index.types import DuePartition, LiveSegment
from resources.lake.frequency import DAY
from resources.lake.layout import Signal
from resources.lake.signals import FACTS
from resources.lake.timecut import HOUR_NS
from resources.settings import Settings

HELD_S = 3600.0
_NAME = "lakerunner_compact_held_until_seconds"
_PATTERN = re.compile(rf'^{_NAME}{{signal="([a-z]+)",segment="([0-9a-f]+)"}}$')


def hold(index: PipelineIndex, signal: Signal, segment_ids: Iterable[str], now_s: float) -> None:
    """Leave segments that could not be merged alone for a while: retrying at once would be a hot loop.

    They are gauges, which the next run, the planner and a person see:

        lakerunner_compact_held_until_seconds{signal="logs",segment="8f…"} 1767225600
    """
    index.set_gauges({_gauge(signal, segment_id): now_s + HELD_S for segment_id in segment_ids})


def held_segments(index: PipelineIndex, signal: Signal, now_s: float) -> frozenset[str]:
    """Return the segments of the signal that must not be touched now."""
    found: set[str] = set()
    for name, until in index.counters().items():
        match = _PATTERN.match(name)
        if match and match[1] == signal.value and until > now_s:
            found.add(match[2])
    return frozenset(found)


def _gauge(signal: Signal, segment_id: str) -> str:
    return f'{_NAME}{{signal="{signal.value}",segment="{segment_id}"}}'


Hours = Mapping[str, frozenset[int]]
"""Starts of hours by organisation."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Hours that a run was requested for; without any it takes whatever is due."""

    hours: Hours | None = None
    patient: bool = False
    """True if lineage requested the hours: late rows that still come in are waited for."""


def due_now(index: PipelineIndex, settings: Settings, signal: Signal, now_ns: int, scope: Scope) -> Plans:
    """Return merges, and segments to settle, without those held back."""
    policy = Policy.of(settings)
    left_alone = held_segments(index, signal, now_ns / 1e9)
    if scope.hours is None:
        live = index.unsettled(signal)
    else:
        policy = policy if scope.patient else replace(policy, closed=True)
        live = _live_in(index, signal, scope.hours)
    free = [segment for segment in live if segment.segment_id not in left_alone]
    plans = plan_merges(free, now_ns, policy, due_rollups(index, signal))
    return plans if scope.hours is None else _within(plans, free, scope.hours)


def due_rollups(index: PipelineIndex, signal: Signal) -> list[DuePartition]:
    rollups = FACTS[signal].rollups
    return [due for rollup in rollups for due in index.due_partitions(signal, rollup.frequency_ms)]


def _live_in(index: PipelineIndex, signal: Signal, hours: Hours) -> list[LiveSegment]:
    """Return segments of whole days: a day that is over is planned as a whole.

    Months are left to the planner.

    Months are left to the planner.
    """
    found: dict[str, LiveSegment] = {}
    for org, wanted in hours.items():
        for start, width in sorted({day_of(hour) for hour in wanted}):
            found |= {s.segment_id: s for s in index.live_in(signal, org, start, start + width)}
    return [segment for segment in found.values() if segment.frequency_ms != DAY]


def _within(plans: Plans, live: Sequence[LiveSegment], hours: Hours) -> Plans:
    by_id = {segment.segment_id: segment for segment in live}
    settle = [by_id[segment_id] for segment_id in plans.settle]
    return Plans(
        tuple(m for m in plans.merges if _asked_for(m, m.start_ns, hours)),
        tuple(s.segment_id for s in settle if _asked_for(s, s.hour_ns, hours)),
    )


def _asked_for(what: Merge | LiveSegment, start_ns: int, hours: Hours) -> bool:
    wanted = hours.get(what.org, frozenset())
    return any(hour in wanted for hour in range(start_ns, start_ns + what.width_ns, HOUR_NS))
