"""Task answers reach the index as one publication per batch, all or nothing.

What a batch becomes is decided here from its answers: objects done or failed, segments live or retired,
hours changed, notices for whoever compacts. The index applies it as one compare-and-set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from lakerunner_assets.task_results import ObjectAnswer, SegmentAnswer
from resources.index.types import Claim, ObjectDone, ObjectFailed, OutboxMessage, Publication, Segment
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS

MAX_REMARK = 2000


@dataclass(frozen=True, slots=True)
class HourChange:
    """One changed partition, for Dagster's log."""

    org: str
    signal: Signal
    hour_ns: int
    version: int
    rows: int
    bytes: int
    segments: int
    newest_ns: int
    """Time of the newest event that was added."""


class UnbalancedError(RuntimeError):
    """The answers do not account for every object and row; nothing may be published."""


def cooked_publication(
    claim: Claim, objects: Sequence[ObjectAnswer], segments: Sequence[SegmentAnswer], max_tries: int
) -> Publication:
    """Build everything a cooked batch changes. Segments hold rows of good objects only."""
    _balance(claim, objects, segments)
    rows = tuple(new_segment(claim, answer) for answer in segments)
    hours = _live_hours(claim, rows)
    return Publication(
        claim=claim,
        segments=rows,
        done=tuple(_done(answer) for answer in objects if answer.fault is None),
        failed=tuple(ObjectFailed(a.object_id, a.error) for a in objects if a.fault is not None),
        hours=hours,
        outbox=_compact_notices(claim, hours),
        max_tries=max_tries,
    )


def rebuilt_publication(
    claim: Claim,
    segments: Sequence[SegmentAnswer],
    retire: Iterable[Segment],
    sources: Sequence[int],
    given_up: Sequence[int],
) -> Publication:
    """Build the swap of one hour: new segments for the old ones, if sources are the same."""
    rows = tuple(new_segment(claim, answer) for answer in segments)
    return Publication(
        claim=claim,
        segments=rows,
        retire=tuple(segment.segment_id for segment in retire),
        hours=(claim.hour_ns,),
        outbox=_compact_notices(claim, (claim.hour_ns,)),
        expect_sources=tuple(sources),
        given_up=tuple(given_up),
    )


def changes(publication: Publication, versions: dict[int, int]) -> list[HourChange]:
    """List the changed hours for Dagster after the commit."""
    claim = publication.claim
    found: list[HourChange] = []
    for hour, version in versions.items():
        mine = [s for s in publication.segments if s.hour_ns == hour and s.dataset == claim.signal.value]
        newest = max((s.max_ns for s in mine), default=hour)
        totals = (sum(s.rows for s in mine), sum(s.bytes for s in mine), len(mine), newest)
        found.append(HourChange(claim.org, claim.signal, hour, version, *totals))
    return found


def new_segment(
    claim: Claim,
    answer: SegmentAnswer,
    *,
    frequency_ms: int = 0,
    width_ns: int = HOUR_NS,
    level: int = 0,
    settled: bool = False,
    origin: str = "",
) -> Segment:
    """Build the index row of a written segment."""
    facts = answer.facts
    return Segment(
        segment_id=answer.segment_id,
        key=answer.key,
        org=claim.org,
        collector=answer.collector,
        signal=claim.signal,
        dataset=answer.dataset,
        frequency_ms=frequency_ms,
        hour_ns=answer.hour_ns,
        width_ns=width_ns,
        min_ns=facts.min_ns,
        max_ns=facts.max_ns,
        rows=facts.rows,
        bytes=facts.bytes,
        level=level,
        origin=origin,
        format_version=facts.format_version,
        sort_version=facts.sort_version,
        terms=facts.terms,
        label_names=facts.label_names,
        metric_names=facts.metric_names,
        series_offset=facts.series_offset,
        series_length=facts.series_length,
        bloom_offset=facts.bloom_offset,
        bloom_length=facts.bloom_length,
        object_ids=facts.object_ids,
        settled=settled,
    )


def _balance(claim: Claim, objects: Sequence[ObjectAnswer], segments: Sequence[SegmentAnswer]) -> None:
    asked = sorted(obj.object_id for obj in claim.inputs)
    answered = sorted(answer.object_id for answer in objects)
    if asked != answered:
        raise UnbalancedError(
            f"batch {claim.batch_id} has objects {asked}, its tasks answered for {answered}"
        )
    decoded = sum(answer.rows + answer.quarantined for answer in objects if answer.fault is None)
    written = sum(answer.facts.rows for answer in segments)
    if decoded != written:
        raise UnbalancedError(f"batch {claim.batch_id}: {decoded} rows were decoded, {written} written")


def _done(answer: ObjectAnswer) -> ObjectDone:
    return ObjectDone(
        answer.object_id,
        answer.etag,
        answer.rows,
        answer.rejected,
        answer.quarantined,
        answer.hours,
        remark=answer.error[:MAX_REMARK],
    )


def _live_hours(claim: Claim, segments: Sequence[Segment]) -> tuple[int, ...]:
    """Return hours with live rows. Quarantined rows change no partition: normal queries do not see them."""
    return tuple(sorted({s.hour_ns for s in segments if s.dataset == claim.signal.value}))


def _compact_notices(claim: Claim, hours: Sequence[int]) -> tuple[OutboxMessage, ...]:
    topic = f"boxer.{claim.signal.value}.compact"
    return tuple(
        OutboxMessage(
            topic,
            claim.org,
            msgspec.json.encode(
                {"org": claim.org, "signal": claim.signal.value, "frequency_ms": 0, "hour_ns": hour}
            ),
        )
        for hour in hours
    )
