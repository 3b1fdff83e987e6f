"""A run plans, claims, merges in one Spark job per round, and publishes each merge.

Nothing of a round is lost with one of its merges: what fails is given up and planned anew, what somebody else
has is left to them. A segment that cannot be read is left alone for a while, its neighbours go on without it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakerunner_assets.compacted.due import Scope, due_now, hold
from lakerunner_assets.compacted.policy import Merge
from lakerunner_assets.compacted.report import Report, merged_publication
from lakerunner_assets.compacted.task import compact as compact_task
from lakerunner_assets.compacted.units import (
    MergeAnswer,
    MergeUnit,
    Source,
    decode_answer,
    encode,
    job_tag,
    merge_kind,
)
from lakerunner_assets.publish import UnbalancedError
from lakerunner_assets.run_context import RunContext, abandon
from lakerunner_assets.segments.merge.request import Window
from lakerunner_assets.task_results import Fault
from resources.index.types import BatchPlan, Claim, PublishConflictError, Segment
from resources.lake.layout import Signal
from resources.spark import TaskCrashError

MAX_IDLE_ROUNDS = 3
"""Rounds in a row without a change: others had everything, or everything failed."""


@dataclass(frozen=True, slots=True)
class MergeChange:
    """One published merge, for Dagster's log."""

    signal: Signal
    org: str
    start_ns: int
    width_ns: int
    hours: tuple[int, ...]
    """Starts of the windows of its inputs."""
    segments_before: int
    segments_after: int
    rows: int
    bytes_before: int
    bytes_after: int
    reason: str


@dataclass(frozen=True, slots=True)
class Job:
    """A merge that this run has claimed."""

    merge: Merge
    claim: Claim
    unit: MergeUnit


def compact(run: RunContext, signal: Signal, report: Report, scope: Scope) -> Iterator[MergeChange]:
    """Merge in rounds until nothing is due, the store fails, or time is up."""
    run.spark.connect()  # before claiming: without Spark nothing should look attempted
    ends = time.monotonic() + run.settings.cook_run_max_s
    idle = 0
    while time.monotonic() < ends and idle < MAX_IDLE_ROUNDS and not report.outage:
        plans = due_now(run.index, run.settings, signal, time.time_ns(), scope)
        if plans.settle:
            report.settled += run.index.settle(plans.settle)
        if not plans.merges:
            return
        changes = 0
        for change in _round(run, plans.merges, report):
            changes += 1
            yield change
        idle = 0 if changes else idle + 1


def _round(run: RunContext, merges: Sequence[Merge], report: Report) -> Iterator[MergeChange]:
    open_: dict[int, Job] = {}
    try:
        for job in _claim(run, merges, report):
            open_[job.claim.batch_id] = job
        for job, answer in answers(run, list(open_.values())):
            change = _settle(run, job, answer, report)
            run.heart.release(open_.pop(job.claim.batch_id).claim.token)
            if change is not None:
                yield change
    finally:
        for job in open_.values():
            abandon(run, job.claim, "the run stopped before this merge")
            run.heart.release(job.claim.token)


def _claim(run: RunContext, merges: Sequence[Merge], report: Report) -> Iterator[Job]:
    """Claim as many merges as one round may hold; of two runs one gets the segments."""
    size = 0
    for merge in merges:
        if size and size + merge.bytes > run.settings.merge_claim_bytes:
            return
        job = claim_merge(run, merge)
        if isinstance(job, Job):
            size += merge.bytes
            yield job
        else:
            report.conflicts.append(job)


def claim_merge(run: RunContext, merge: Merge, carve: Sequence[Window] = ()) -> Job | str:
    """Claim the merge, or return why it is not possible."""
    ids = tuple(segment.segment_id for segment in merge.inputs)
    plan = BatchPlan(
        merge.kind, merge.org, merge.collector, merge.signal, merge.start_ns,
        segment_ids=ids, frequency_ms=merge.frequency_ms,
    )  # fmt: skip
    try:
        claim = run.index.create_claimed(plan)
    except PublishConflictError as error:
        return f"{merge.dataset} {merge.start_ns}: {error}"
    run.heart.hold(claim.token)
    return Job(merge, claim, _unit(run, merge, claim, tuple(carve)))


def answers(run: RunContext, jobs: Sequence[Job]) -> Iterator[tuple[Job, MergeAnswer]]:
    """Run one Spark job for all. If a task dies, each runs alone to find the one."""
    if not jobs:
        return
    payloads = [encode(job.unit) for job in jobs]
    try:
        results = run.spark.run(compact_task, payloads, [job_tag(job.claim) for job in jobs])
    except TaskCrashError as error:
        if len(jobs) == 1:
            ids = tuple(source.segment_id for source in jobs[0].unit.sources)
            yield jobs[0], MergeAnswer(fault=Fault.OBJECT, error=f"the task died: {error}", damaged=ids)
            return
        for job in jobs:
            yield from answers(run, [job])
        return
    for job, result in zip(jobs, results, strict=True):
        yield job, decode_answer(result)


def publish_merge(
    run: RunContext, job: Job, answer: MergeAnswer, *, settled: bool = False
) -> tuple[Segment, ...]:
    """Publish the merge; return the new segments, live.

    `PublishConflictError` and `UnbalancedError` leave everything as it was.
    """
    publication = merged_publication(job.claim, job.unit, answer, settled=settled)
    run.index.publish(publication)
    return publication.segments


def _settle(run: RunContext, job: Job, answer: MergeAnswer, report: Report) -> MergeChange | None:
    if answer.fault is not None:
        _fail(run, job, answer.error, answer.damaged, report)
        if answer.fault is Fault.STORE:
            report.outage = answer.error
        return None
    try:
        publish_merge(run, job, answer)
    except PublishConflictError as error:
        report.conflicts.append(str(error))
        run.log(f"batch {job.claim.batch_id} is planned anew: {error}")
        abandon(run, job.claim, str(error))
        return None
    except UnbalancedError as error:
        _fail(run, job, str(error), tuple(s.segment_id for s in job.unit.sources), report)
        return None
    report.add(job.unit, answer)
    report.reasons[job.merge.kind.value] += 1
    return _change(job, answer)


def _fail(run: RunContext, job: Job, error: str, damaged: Sequence[str], report: Report) -> None:
    where = f"{job.merge.org} {job.merge.dataset}, {len(job.unit.sources)} segments"
    report.failed.append(f"{where}: {error}")
    run.log(f"batch {job.claim.batch_id} is given up: {error}")
    abandon(run, job.claim, error)
    hold(run.index, job.merge.signal, damaged, time.time())


def _unit(run: RunContext, merge: Merge, claim: Claim, carve: tuple[Window, ...]) -> MergeUnit:
    settings = run.settings
    return MergeUnit(
        batch_id=claim.batch_id,
        attempt=claim.attempt,
        kind=merge_kind(merge.signal, merge.frequency_ms),
        org=merge.org,
        collector=merge.collector,
        dataset=merge.dataset,
        sources=tuple(Source(s.segment_id, s.key, s.rows, s.bytes) for s in merge.inputs),
        target=Window(merge.start_ns, merge.width_ns),
        carve=carve,
        generation=merge.level,
        target_bytes=max(settings.merge_target_bytes, merge.bytes * 11 // 10),
        memory_bytes=settings.merge_memory_bytes,
        lake_url=settings.require("lake_url"),
    )


def _change(job: Job, answer: MergeAnswer) -> MergeChange:
    merge = job.merge
    return MergeChange(
        signal=merge.signal,
        org=merge.org,
        start_ns=merge.start_ns,
        width_ns=merge.width_ns,
        hours=tuple(sorted({segment.hour_ns for segment in merge.inputs})),
        segments_before=len(merge.inputs),
        segments_after=len(answer.outputs),
        rows=answer.rows_written,
        bytes_before=merge.bytes,
        bytes_after=sum(output.segment.facts.bytes for output in answer.outputs),
        reason=merge.reason,
    )
