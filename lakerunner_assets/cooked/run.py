"""A run claims due batches, cooks and publishes them until nothing is due.

A run that finds nothing more lingers a little, so that a steady trickle of objects costs one run and not one
run each. Faults are sorted by whose they are: the store's or Spark's (the batch waits), an object's (it is
retried alone, then parked), nobody knows (the batch is split).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lakerunner_assets.cooked.apart import cook_apart
from lakerunner_assets.cooked.plan import Surroundings, plan_units
from lakerunner_assets.cooked.units import decode_answer, encode
from lakerunner_assets.publish import HourChange, UnbalancedError, changes, cooked_publication
from lakerunner_assets.run_context import RunContext, unless_lost
from lakerunner_assets.task_results import Answer, Fault, ObjectAnswer, SegmentAnswer
from resources.index.types import BatchKind, Claim, PublishConflictError
from resources.lake.layout import Signal
from resources.lake.retention import SEGMENTS, too_old_ns
from resources.spark import SparkUnavailableError, TaskCrashError

MANY_ATTEMPTS = 5
"""Attempts after which any batch is split: something in it may kill the server."""


@dataclass(slots=True)
class Report:
    """Totals of a run, for metadata and checks."""

    batches: int = 0
    objects: int = 0
    rows: int = 0
    rejected: int = 0
    quarantined: int = 0
    segment_rows: int = 0
    segment_bytes: int = 0
    raw_bytes: int = 0
    task_seconds: float = 0.0
    notes: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    def add(self, objects: Sequence[ObjectAnswer], segments: Sequence[SegmentAnswer]) -> None:
        good = [answer for answer in objects if answer.fault is None]
        self.batches += 1
        self.objects += len(good)
        self.rows += sum(answer.rows for answer in good)
        self.rejected += sum(answer.rejected for answer in good)
        self.quarantined += sum(answer.quarantined for answer in good)
        for answer in good:
            self.notes.update(dict(answer.notes))
        self.segment_rows += sum(answer.facts.rows for answer in segments)
        self.segment_bytes += sum(answer.facts.bytes for answer in segments)
        self.failed.extend(answer.error for answer in objects if answer.fault is not None)


def cook_due(run: RunContext, signal: Signal, report: Report) -> Iterator[HourChange]:
    """Cook due batches until none came for the linger time; yield each change after its commit."""
    run.spark.connect()  # before claiming: without Spark nothing should look attempted
    settings = run.settings
    ends = time.monotonic() + settings.cook_run_max_s
    quiet_until = time.monotonic() + settings.cook_linger_s
    while time.monotonic() < min(ends, quiet_until):
        claims = run.index.claim_due(signal, BatchKind.COOK, settings.cook_claim_bytes)
        if claims:
            yield from cook_claims(run, claims, report)
            quiet_until = time.monotonic() + settings.cook_linger_s
        else:
            time.sleep(settings.cook_poll_s)


def cook_claims(run: RunContext, claims: Sequence[Claim], report: Report) -> Iterator[HourChange]:
    """Run one Spark job for most claims; publish or put back each by itself."""
    for claim in claims:
        run.heart.hold(claim.token)
    try:
        for job in _jobs(claims):
            for claim, answers in _answers(run, job):
                yield from _settle(run, claim, answers, report)
    finally:
        for claim in claims:
            run.heart.release(claim.token)


def _jobs(claims: Sequence[Claim]) -> list[list[Claim]]:
    """Put claims into one job; those that often failed without a reason come last and alone.

    Whatever then takes the Spark server down with it has nobody else to hide behind.
    """
    usual = [claim for claim in claims if claim.attempt < MANY_ATTEMPTS]
    often = [[claim] for claim in claims if claim.attempt >= MANY_ATTEMPTS]
    return [usual, *often] if usual else often


def _answers(run: RunContext, claims: Sequence[Claim]) -> Iterator[tuple[Claim, list[Answer]]]:
    for claim in claims:
        if claim.attempt:
            run.spark.interrupt(_tag(claim.batch_id, claim.attempt - 1))
    try:
        yield from _run(run, claims)
    except TaskCrashError as error:
        if len(claims) == 1:
            _split(run, claims[0], str(error))
            return
        # One of them did it. Alone each shows whether it was the one.
        for claim in claims:
            yield from _answers(run, [claim])
    except SparkUnavailableError as error:
        for claim in claims:
            if claim.attempt + 1 >= MANY_ATTEMPTS and (len(claims) == 1 or len(claim.inputs) > 1):
                _split(run, claim, str(error))
            else:
                _give_back(run, claim, str(error))
        raise


def _run(run: RunContext, claims: Sequence[Claim]) -> list[tuple[Claim, list[Answer]]]:
    around = surroundings(run)
    units = [(claim, unit) for claim in claims for unit in plan_units(claim, around)]
    tags = [_tag(claim.batch_id, claim.attempt) for claim in claims]
    results = run.spark.run(cook_apart, [encode(unit) for _, unit in units], tags)
    found: dict[int, list[Answer]] = {claim.batch_id: [] for claim in claims}
    for (claim, _), result in zip(units, results, strict=True):
        found[claim.batch_id].append(decode_answer(result))
    return [(claim, found[claim.batch_id]) for claim in claims]


def surroundings(run: RunContext) -> Surroundings:
    index = run.index
    now = time.time_ns()
    oldest = {
        (r.org, r.signal): too_old_ns(r.keep_days, now) for r in index.retentions() if r.tier == SEGMENTS
    }
    return Surroundings(index.storage_profiles(), index.org_options(), run.settings, oldest)


def _settle(run: RunContext, claim: Claim, answers: Sequence[Answer], report: Report) -> Iterator[HourChange]:
    objects = [obj for answer in answers for obj in answer.objects]
    segments = [segment for answer in answers for segment in answer.segments]
    away = [obj.error for obj in objects if obj.fault is Fault.STORE]
    if away and len(away) == len(objects):
        _give_back(run, claim, away[0])
        return
    if away:  # another bucket, another disk: let the others get away from it
        _split(run, claim, away[0])
        return
    try:
        publication = cooked_publication(claim, objects, segments, run.settings.object_max_tries)
        versions = run.index.publish(publication)
    except UnbalancedError as error:
        _split(run, claim, str(error))
        return
    except PublishConflictError as error:
        report.conflicts.append(str(error))
        _give_back(run, claim, str(error))
        return
    report.add(objects, segments)
    report.raw_bytes += sum(answer.raw_bytes for answer in answers)
    report.task_seconds += sum(answer.seconds for answer in answers)
    yield from changes(publication, versions)


def _give_back(run: RunContext, claim: Claim, error: str) -> None:
    """Put the whole batch back for later: nobody is at fault."""
    run.log(f"batch {claim.batch_id} waits: {error}")
    delay_s = min(60.0, 2.0 ** min(claim.attempt, 6))
    unless_lost(run, claim, lambda: run.index.give_back(claim, error, delay_s))


def _split(run: RunContext, claim: Claim, error: str) -> None:
    """Split the batch, or count a crash against its only object: an input is at fault."""
    run.log(f"batch {claim.batch_id} is split: {error}")
    max_tries = run.settings.object_max_tries
    unless_lost(run, claim, lambda: run.index.split(claim, error, max_tries))


def _tag(batch_id: int, attempt: int) -> str:
    """Tag a Spark job by batch and attempt: a run without the claim cannot interrupt another."""
    return f"batch-{batch_id}-{attempt}"
