"""A rebuild cooks hours again from their raw objects and swaps them in.

First everything pending of those arrival hours is ingested. Of hours that had rows before, what lies in
sealed days is carved out; then their done objects are decoded again and one publication per hour retires all
its frequency-0 segments. An hour whose objects changed since planning, or whose segments were merged
meanwhile, is planned anew. A raw object that is gone stops the rebuild unless loss is allowed.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from lakerunner_assets.compacted.carve import carve, segments_of_window
from lakerunner_assets.cooked.apart import cook_apart
from lakerunner_assets.cooked.plan import plan_all_now, plan_rebuild_units
from lakerunner_assets.cooked.run import Report, cook_claims, surroundings
from lakerunner_assets.cooked.units import decode_answer, encode
from lakerunner_assets.publish import HourChange, changes, rebuilt_publication
from lakerunner_assets.run_context import RunContext, abandon
from lakerunner_assets.task_results import Answer, Fault, ObjectAnswer
from resources.index.claims import within_bytes
from resources.index.types import (
    BatchKind,
    BatchPlan,
    Claim,
    PendingObject,
    PublishConflictError,
    RawObject,
    Segment,
)
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS

MAX_PLANS = 5
"""Plans of an hour in which objects keep arriving, or segments change."""


class RebuildRefusedError(RuntimeError):
    """Raw objects of the hour cannot be read any more: rebuilding would lose rows."""


class StoreOutageError(RuntimeError):
    """The object store did not answer; nothing was changed."""


def rebuild(
    run: RunContext, signal: Signal, org: str, hours: Sequence[int], allow_loss: bool, report: Report
) -> Iterator[HourChange]:
    """Rebuild these event hours of one organisation; yield each change after its commit.

    Hours that had no rows before are complete once what was pending is ingested: nothing is decoded twice.
    """
    run.spark.connect()  # before claiming: without Spark nothing should look attempted
    sources = {hour: run.index.objects_with_rows_in(org, signal, hour) for hour in sorted(hours)}
    yield from _ingest_pending(run, signal, org, hours, report)
    for chunk in _chunks(sources, run.settings.cook_claim_bytes):
        yield from _rebuild_chunk(run, signal, org, chunk, allow_loss, report)


def _chunks(sources: Mapping[int, Sequence[RawObject]], max_bytes: int) -> Iterator[list[int]]:
    """Yield hours to be decoded in one job: as many as fit, at least one."""
    chunk: list[int] = []
    size = 0
    for hour, objects in sources.items():
        wanted = sum(obj.size for obj in objects)
        if chunk and size + wanted > max_bytes:
            yield chunk
            chunk, size = [], 0
        if objects:
            chunk.append(hour)
            size += wanted
    if chunk:
        yield chunk


def _rebuild_chunk(
    run: RunContext, signal: Signal, org: str, hours: Sequence[int], allow_loss: bool, report: Report
) -> Iterator[HourChange]:
    todo = list(hours)
    for _ in range(MAX_PLANS):
        failed: list[int] = []
        for change, hour in _rebuild_once(run, signal, org, todo, allow_loss, report):
            if change is None:
                failed.append(hour)
            else:
                yield change
        if not failed:
            return
        todo = failed
    raise PublishConflictError(
        f"{org}: objects or segments of the hours {todo} kept changing; {MAX_PLANS} plans were out of date"
    )


def _ingest_pending(
    run: RunContext, signal: Signal, org: str, hours: Sequence[int], report: Report
) -> Iterator[HourChange]:
    """Cook pending objects in rounds as large as a job; a failing object has one try.

    Sensors batch what is registered all the time: what they took is cooked here, or waited for, because these
    hours are not complete without it.
    """
    tried: set[int] = set()
    index, settings = run.index, run.settings
    ends, left = 0.0, -1
    while True:
        while claims := _claim_pending(run, signal, org, hours, tried):
            tried.update(obj.object_id for claim in claims for obj in claim.inputs)
            yield from cook_claims(run, claims, report)
        if claims := index.claim_due(signal, BatchKind.COOK, settings.cook_claim_bytes):
            yield from cook_claims(run, claims, report)
            continue
        before, left = left, index.batched_objects(org, signal, min(hours), max(hours))
        if not left:
            return
        if left != before:  # as long as others get on with it, this is not in vain
            ends = time.monotonic() + settings.cook_run_max_s
        elif time.monotonic() > ends:
            raise RebuildRefusedError(
                f"{org}: {left} objects of these hours are in other runs, of which none was done for "
                f"{settings.cook_run_max_s:.0f} s; start again when they are"
            )
        time.sleep(settings.cook_poll_s)


def _claim_pending(
    run: RunContext, signal: Signal, org: str, hours: Sequence[int], tried: Collection[int]
) -> list[Claim]:
    """Claim pending objects; what is in a batch already is left to its run."""
    settings = run.settings
    for _ in range(MAX_PLANS):
        pending = run.index.pending_objects(org, signal, min(hours), max(hours))
        wanted = {
            obj.object_id: obj
            for obj in pending
            if obj.arrival_hour_ns in set(hours) and obj.object_id not in tried
        }
        plans = plan_all_now(list(wanted.values()), settings)
        sizes = [(number, _bytes(plan, wanted)) for number, plan in enumerate(plans)]
        chosen = [plans[number] for number in within_bytes(sizes, settings.cook_claim_bytes)]
        try:
            return run.index.batch_now(chosen) if chosen else []
        except PublishConflictError as error:
            run.log(f"pending objects are looked at again: {error}")
    return []


def _bytes(plan: BatchPlan, objects: Mapping[int, PendingObject]) -> int:
    return sum(objects[object_id].size for object_id in plan.object_ids)


def _rebuild_once(
    run: RunContext, signal: Signal, org: str, hours: Sequence[int], allow_loss: bool, report: Report
) -> Iterator[tuple[HourChange | None, int]]:
    """Plan all hours once: yield (change, hour), or (None, hour) if the plan was out of date."""
    sources = {hour: run.index.objects_with_rows_in(org, signal, hour) for hour in hours}
    sources = {hour: objects for hour, objects in sources.items() if objects}
    if not sources:
        return
    rests = carve(run, signal, org, AS_SENT, signal.value, list(sources))
    claims = [_claim(run, org, signal, hour, objects) for hour, objects in sources.items()]
    done: set[int] = set()
    try:
        answers = _decode_again(run, claims, sources)
        lost = _losses(answers, sources, allow_loss)
        for claim in claims:
            change = _swap(run, claim, sources[claim.hour_ns], answers, lost, rests, report)
            done.add(claim.batch_id)
            yield change, claim.hour_ns
    finally:
        for claim in claims:
            run.heart.release(claim.token)
            if claim.batch_id not in done:
                abandon(run, claim, "the rebuild stopped before this hour")


def _claim(run: RunContext, org: str, signal: Signal, hour: int, objects: Sequence[RawObject]) -> Claim:
    ids = tuple(obj.object_id for obj in objects)
    claim = run.index.create_claimed(
        BatchPlan(BatchKind.REBUILD, org, objects[0].collector, signal, hour, ids)
    )
    run.heart.hold(claim.token)
    return claim


def _decode_again(
    run: RunContext, claims: Sequence[Claim], sources: dict[int, list[RawObject]]
) -> list[Answer]:
    """Decode every object once, however many of the hours it has rows in."""
    distinct = {obj.object_id: obj for objects in sources.values() for obj in objects}
    units = plan_rebuild_units(claims, list(distinct.values()), surroundings(run))
    tags = [f"batch-{claim.batch_id}" for claim in claims]
    results = run.spark.run(cook_apart, [encode(unit) for unit in units], tags)
    return [decode_answer(result) for result in results]


def _losses(answers: Sequence[Answer], sources: dict[int, list[RawObject]], allow_loss: bool) -> set[int]:
    """Find objects that cannot be cooked again; refuse to lose them without leave.

    Leave covers what is gone. It does not cover rows that changed their place: an object that gives another
    number of rows for an hour was cooked under other settings (horizon, tolerance) than today's.
    """
    found = {obj.object_id: obj for answer in answers for obj in answer.objects}
    outages = [obj.error for obj in found.values() if obj.fault is Fault.STORE]
    if outages:
        raise StoreOutageError(outages[0])
    faults = {obj.object_id: obj.error for obj in found.values() if obj.fault is not None}
    if faults and not allow_loss:
        raise RebuildRefusedError(_refusal(faults))
    moved = [_shift(obj, hour, found[obj.object_id]) for hour, objects in sources.items() for obj in objects]
    if any(moved):
        raise RebuildRefusedError("\n".join(text for text in moved if text))
    return set(faults)


def _shift(source: RawObject, hour_ns: int, answer: ObjectAnswer) -> str:
    now = dict(answer.hours).get(hour_ns, 0)
    if answer.fault is not None or now == source.hour_rows:
        return ""
    return (
        f"object {source.object_id} had {source.hour_rows} rows in the hour and now has {now}: "
        "the horizon or the tolerance for early events is not what it was"
    )


def _refusal(faults: Mapping[int, str]) -> str:
    listed = "\n".join(f"  object {object_id}: {error}" for object_id, error in faults.items())
    return (
        f"{len(faults)} raw objects cannot be cooked again, their rows would be lost:\n{listed}\n"
        "Start the run with the tag lakerunner/allow_loss=true to rebuild without them."
    )


def _swap(
    run: RunContext,
    claim: Claim,
    sources: Sequence[RawObject],
    answers: Sequence[Answer],
    lost: set[int],
    rests: Collection[str],
    report: Report,
) -> HourChange | None:
    segments = [s for answer in answers for s in answer.segments if s.batch_id == claim.batch_id]
    ids = [obj.object_id for obj in sources]
    given_up = [object_id for object_id in ids if object_id in lost]
    try:
        old = _segments_of_hour(run, claim, rests)
        publication = rebuilt_publication(claim, segments, old, ids, given_up)
        versions = run.index.publish(publication)
    except PublishConflictError as error:
        run.log(f"hour {claim.hour_ns} is planned again: {error}")
        report.conflicts.append(str(error))
        abandon(run, claim, str(error))
        return None
    report.batches += 1
    report.segment_rows += sum(s.facts.rows for s in segments)
    report.segment_bytes += sum(s.facts.bytes for s in segments)
    report.rows += _decoded_rows(answers, claim.hour_ns)
    return changes(publication, versions)[0]


def _segments_of_hour(run: RunContext, claim: Claim, rests: Collection[str]) -> list[Segment]:
    """Return all segments with rows of the hour, cooked or merged.

    One that changes from now on makes the publication fail.
    """
    hour = claim.hour_ns
    view = run.index.tier_view(claim.org, claim.signal, [AS_SENT], hour, hour + HOUR_NS, claim.signal.value)
    cooked = [segment for segment in view.segments if not segment.origin]  # derived ones are not cooked again
    return segments_of_window(cooked, hour, HOUR_NS, rests)


def _decoded_rows(answers: Sequence[Answer], hour_ns: int) -> int:
    return sum(dict(obj.hours).get(hour_ns, 0) for answer in answers for obj in answer.objects)
