"""Hours are claimed, made in one Spark job and published singly.

    claim 12:00, 13:00  →  one job  →  publish 12:00  →  publish 13:00

A publication swaps what the hour had before. An hour that somebody else made meanwhile, or whose segments
were swept, is planned again; one that cannot be made now stays due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from lakerunner_assets.metric_hours.task import COLLECTOR, Answer, HourFault, HourUnit
from lakerunner_assets.run_context import RunContext, abandon
from resources.index.types import BatchKind, BatchPlan, Claim, Publication, PublishConflictError
from resources.lake.layout import Signal
from resources.spark import SparkUnavailableError, TaskCrashError

MAX_PLANS = 5
"""Plans of an hour that others keep making."""


class Planned(Protocol):
    """An hour that is to be made."""

    @property
    def org(self) -> str: ...
    @property
    def hour_ns(self) -> int: ...
    @property
    def source_bytes(self) -> int: ...


Hour = TypeVar("Hour", bound=Planned)


@dataclass(slots=True)
class HourReport:
    """Totals of a run, for metadata and checks."""

    made: int = 0
    current: int = 0
    rows: int = 0
    bytes: int = 0
    source_bytes: int = 0
    seconds: float = 0.0
    off: list[str] = field(default_factory=list)
    """Organisations without a rule."""
    rule_rows: dict[str, int] = field(default_factory=dict)
    """Samples by organisation and metric of a rule."""
    conflicts: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def note_off(self, org: str) -> None:
        self.off += [org] if org not in self.off else []

    def add_rule(self, org: str, metric: str, rows: int) -> str:
        """Count the samples of a rule; return the name that the report has for it."""
        name = f"{org}, {metric}"
        self.rule_rows[name] = self.rule_rows.get(name, 0) + rows
        return name


@dataclass(frozen=True, slots=True)
class HourMade:
    """One published hour, for Dagster's log."""

    org: str
    hour_ns: int
    version: int
    rows: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Maker(Generic[Hour, Answer]):
    """Task, unit and publication of a tier's hours."""

    kind: BatchKind
    task: Callable[[bytes], bytes]
    answers: type[Answer]
    unit: Callable[[Claim, Hour], HourUnit]
    publication: Callable[[Claim, Hour, Answer], Publication]
    put_off: Callable[[Hour], None]
    """Leaves an hour that failed for later."""


def make_hours(
    run: RunContext, maker: Maker[Hour, Answer], hours: Sequence[Hour], report: HourReport
) -> Iterator[tuple[Hour, Answer | None, HourMade | None]]:
    """Yield each hour that was published, and with None each that is to be planned again."""
    claims = [(_claim(run, maker.kind, each), each) for each in hours]
    open_claims = {claim.batch_id: claim for claim, _ in claims}
    try:
        answers = _answers(run, maker, claims)
        for claim, each in claims:
            answer = answers[claim.batch_id]
            made = _settle(run, maker, claim, each, answer, report)
            del open_claims[claim.batch_id]
            if made is not None:
                yield each, answer, made
            elif answer.fault in {None, HourFault.GONE}:
                yield each, None, None
    except (SparkUnavailableError, TaskCrashError) as error:
        for claim in open_claims.values():
            abandon(run, claim, str(error))
        open_claims.clear()
        raise
    finally:
        for claim, _ in claims:
            run.heart.release(claim.token)
        for claim in open_claims.values():
            abandon(run, claim, "the run stopped before this hour")


def _claim(run: RunContext, kind: BatchKind, each: Planned) -> Claim:
    claim = run.index.create_claimed(BatchPlan(kind, each.org, COLLECTOR, Signal.METRICS, each.hour_ns))
    run.heart.hold(claim.token)
    return claim


def _answers(
    run: RunContext, maker: Maker[Hour, Answer], claims: Sequence[tuple[Claim, Hour]]
) -> dict[int, Answer]:
    if not claims:
        return {}
    units = [msgspec.json.encode(maker.unit(claim, each)) for claim, each in claims]
    tags = [f"batch-{claim.batch_id}-{claim.attempt}" for claim, _ in claims]
    results = run.spark.run(maker.task, units, tags)
    found = [msgspec.json.decode(result, type=maker.answers) for result in results]
    return {answer.batch_id: answer for answer in found}


def _settle(
    run: RunContext,
    maker: Maker[Hour, Answer],
    claim: Claim,
    each: Hour,
    answer: Answer,
    report: HourReport,
) -> HourMade | None:
    """Publish the hour, or give it up and report why."""
    where = f"{each.org}, {each.hour_ns}"
    if answer.fault is not None:
        run.log(f"{where}: {answer.error}")
        abandon(run, claim, answer.error)
        if answer.fault is not HourFault.GONE:
            report.failed.append(f"{where}: {answer.error}")
            maker.put_off(each)
        return None
    try:
        versions = run.index.publish(maker.publication(claim, each, answer))
    except PublishConflictError as error:
        report.conflicts.append(f"{where}: {error}")
        abandon(run, claim, str(error))
        return None
    rows = sum(one.facts.rows for one in answer.segments)
    size = sum(one.facts.bytes for one in answer.segments)
    report.made += 1
    report.rows += rows
    report.bytes += size
    report.source_bytes += each.source_bytes
    report.seconds += answer.seconds
    return HourMade(each.org, each.hour_ns, versions.get(each.hour_ns, 0), rows, size, answer.seconds)
