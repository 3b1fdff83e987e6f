"""Partitions of a rollup are planned, built in one Spark job and published singly.

Whatever changes meanwhile is noticed at the publication: a partition that somebody else built is planned
again, and one whose sources changed is published, stays due, and is not used by queries until it was built
once more.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from lakerunner_assets.compacted.carve import carve
from lakerunner_assets.partitions import day_in_window, in_window
from lakerunner_assets.publish import new_segment
from lakerunner_assets.rollup.plan import Roll, RollPlan, plan_rolls
from lakerunner_assets.rollup.task import COLLECTOR, roll
from lakerunner_assets.rollup.units import RollAnswer, RollFault, RollUnit, decode_answer, encode
from lakerunner_assets.run_context import RunContext, abandon
from lakerunner_assets.task_results import SegmentAnswer
from resources.index.contract import PipelineIndex
from resources.index.types import (
    BatchKind,
    BatchPlan,
    BuiltPartition,
    Claim,
    OutboxMessage,
    Publication,
    PublishConflictError,
)
from resources.lake.frequency import CARDINALITY_DATASET, DAY, Rollup
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS
from resources.spark import SparkUnavailableError, TaskCrashError

MAX_PLANS = 5
"""Plans of a partition that others keep building."""
MAX_JOB = 64
"""Partitions of one Spark job."""
MAX_VIEW = 24 * 8
"""Hours that are planned together."""


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """One built partition, for Dagster's log."""

    org: str
    start_ns: int
    version: int
    rows: int
    bytes: int
    segments: int
    seconds: float


@dataclass(slots=True)
class RollReport:
    """Totals of a run, for metadata and checks."""

    built: int = 0
    current: int = 0
    source_bytes: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    conflicts: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    unequal: list[str] = field(default_factory=list)
    """Partitions whose samples or sums differ from their sources."""


def roll_partitions(
    run: RunContext,
    rollup: Rollup,
    starts_by_org: Mapping[str, Iterable[int]],
    report: RollReport,
    *,
    force: bool = False,
) -> Iterator[PartitionChange]:
    """Build those that are not current; yield each after its commit."""
    for org, starts in starts_by_org.items():
        for chunk in _near_each_other(sorted(starts), rollup):
            yield from _roll_org(run, rollup, org, chunk, report, force)


def _near_each_other(starts: Sequence[int], rollup: Rollup) -> Iterator[list[int]]:
    """Yield neighbours in time together: the index reads them in one go."""
    chunk: list[int] = []
    for start in starts:
        if chunk and start - chunk[0] >= MAX_VIEW * rollup.partition_ns:
            yield chunk
            chunk = []
        chunk.append(start)
    if chunk:
        yield chunk


def _roll_org(
    run: RunContext, rollup: Rollup, org: str, starts: Sequence[int], report: RollReport, force: bool
) -> Iterator[PartitionChange]:
    todo = list(starts)
    rests: set[str] = set()
    for _ in range(MAX_PLANS):
        planned = _plan(run, rollup, org, todo, force, rests)
        if planned.sealed:
            dataset = rollup.dataset
            rests |= carve(run, Signal.METRICS, org, rollup.frequency_ms, dataset, planned.sealed)
        report.current += len(planned.current)
        for start, why in planned.refused:
            report.refused.append(f"{org}, {rollup.label} from {start}: {why}")
        _put_off(run, rollup, org, [start for start, _ in planned.refused], ever=True)
        again: list[int] = list(planned.sealed)
        for first in range(0, len(planned.rolls), MAX_JOB):
            for change, start in _job(run, planned.rolls[first : first + MAX_JOB], report):
                if change is None:
                    again.append(start)
                else:
                    yield change
        if not again:
            return
        todo = again
    report.failed.append(f"{org}, {rollup.label}: {len(todo)} partitions kept changing, they stay due")


def _put_off(run: RunContext, rollup: Rollup, org: str, starts: Sequence[int], *, ever: bool) -> None:
    """Put off partitions that cannot be built: they are not to be requested at every tick."""
    if starts:
        run.index.put_off(org, Signal.METRICS, rollup.frequency_ms, starts, ever=ever)


def _plan(
    run: RunContext,
    rollup: Rollup,
    org: str,
    starts: Sequence[int],
    force: bool,
    rests: Collection[str] = (),
) -> RollPlan:
    frequencies = (rollup.source_ms, rollup.frequency_ms)
    window = (min(starts), max(starts) + rollup.partition_ns)
    view = run.index.tier_view(org, Signal.METRICS, frequencies, *window)
    side = run.index.tier_view(org, Signal.METRICS, frequencies, *window, CARDINALITY_DATASET)
    return plan_rolls(org, rollup, starts, view, side.segments, force=force, rests=rests)


def _job(
    run: RunContext, rolls: Sequence[Roll], report: RollReport
) -> Iterator[tuple[PartitionChange | None, int]]:
    """Yield (change, start) of each partition built, (None, start) of each to be planned again."""
    claims = [(_claim(run, each), each) for each in rolls]
    open_claims = {claim.batch_id: claim for claim, _ in claims}
    try:
        answers = _answers(run, claims)
        for claim, each in claims:
            change = _settle(run, claim, each, answers[claim.batch_id], report)
            del open_claims[claim.batch_id]
            if change is not _FAILED:
                yield change, each.start_ns
    except (SparkUnavailableError, TaskCrashError) as error:
        for claim in open_claims.values():
            abandon(run, claim, str(error))
        open_claims.clear()
        raise
    finally:
        for claim, _ in claims:
            run.heart.release(claim.token)
        for claim in open_claims.values():
            abandon(run, claim, "the run stopped before this partition")


_FAILED = PartitionChange("", 0, 0, 0, 0, 0, 0.0)
"""Mark of a partition that cannot be built now: reported, and left as due."""


def _claim(run: RunContext, each: Roll) -> Claim:
    plan = BatchPlan(
        BatchKind.ROLLUP,
        each.org,
        COLLECTOR,
        Signal.METRICS,
        each.start_ns,
        frequency_ms=each.rollup.frequency_ms,
    )
    claim = run.index.create_claimed(plan)
    run.heart.hold(claim.token)
    return claim


def _answers(run: RunContext, claims: Sequence[tuple[Claim, Roll]]) -> dict[int, RollAnswer]:
    units = [encode(_unit(run, claim, each)) for claim, each in claims]
    tags = [f"batch-{claim.batch_id}-{claim.attempt}" for claim, _ in claims]
    found = [decode_answer(result) for result in run.spark.run(roll, units, tags)]
    return {answer.batch_id: answer for answer in found}


def _unit(run: RunContext, claim: Claim, each: Roll) -> RollUnit:
    settings = run.settings
    return RollUnit(
        claim.batch_id,
        claim.attempt,
        each.org,
        each.rollup.source_ms,
        each.rollup.frequency_ms,
        each.start_ns,
        each.rollup.partition_ns,
        each.sources,
        each.side,
        settings.require("lake_url"),
        settings.merge_target_bytes,
        settings.rollup_memory_bytes,
    )


def _settle(
    run: RunContext, claim: Claim, each: Roll, answer: RollAnswer, report: RollReport
) -> PartitionChange | None:
    where = f"{each.org}, {each.rollup.label} from {each.start_ns}"
    if answer.fault is not None:
        run.log(f"{where}: {answer.error}")
        abandon(run, claim, answer.error)
        if answer.fault is RollFault.GONE:
            return None
        report.failed.append(f"{where}: {answer.error}")
        _put_off(run, each.rollup, each.org, [each.start_ns], ever=False)
        return _FAILED
    if answer.unequal:
        report.unequal.append(f"{where}: {answer.unequal}")
    try:
        versions = run.index.publish(_publication(claim, each, answer.segments))
    except PublishConflictError as error:
        report.conflicts.append(f"{where}: {error}")
        abandon(run, claim, str(error))
        return None
    mine = [s.facts for s in answer.segments if s.dataset == each.rollup.dataset]
    rows, size = sum(f.rows for f in mine), sum(f.bytes for f in mine)
    report.built += 1
    report.rows += rows
    report.bytes += size
    report.source_bytes += each.source_bytes
    report.seconds += answer.seconds
    version = versions[each.start_ns]
    return PartitionChange(each.org, each.start_ns, version, rows, size, len(mine), answer.seconds)


def _publication(claim: Claim, each: Roll, answers: Sequence[SegmentAnswer]) -> Publication:
    rollup = each.rollup
    return Publication(
        claim,
        tuple(
            new_segment(
                claim,
                answer,
                frequency_ms=rollup.frequency_ms,
                width_ns=rollup.partition_ns,
                settled=answer.dataset == CARDINALITY_DATASET,
            )
            for answer in answers
        ),
        retire=each.retire,
        frequency_ms=rollup.frequency_ms,
        built=(BuiltPartition(each.start_ns, each.expected_version, each.built_from),),
        outbox=(_notice(each),),
    )


def _notice(each: Roll) -> OutboxMessage:
    """Build a hint for whoever wakes up rollups; lineage and the tables do not need it."""
    payload = {"org": each.org, "frequency_ms": each.rollup.frequency_ms, "hour_ns": each.start_ns}
    return OutboxMessage("boxer.metrics.rollup", each.org, msgspec.json.encode(payload))


def by_org(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for org, start in partitions:
        found[org].append(start)
    return found


MOST = 64
"""Limit of partitions that a run takes along, longest due first; a run must come to its end."""


def with_due(
    index: PipelineIndex, rollup: Rollup, own: Mapping[str, Sequence[int]], horizon: str
) -> dict[str, list[int]]:
    """Return the run's own partitions, and behind them others that are due.

    Dagster starts a run for every organisation, one after the other, and starting costs more than rolling up.
    So the first one builds what is due for everybody, and those behind it find little to do.
    """
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
