"""Hours are planned, recorded and published one after the other: an hour reads those before it.

A publication swaps what the hour had before. Samples that arrive meanwhile leave it due, and hours that were
recorded from another version of it become due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import xxhash

from lakerunner_assets.publish import new_segment
from lakerunner_assets.recorded.plan import ORIGIN, Reach, Recording, Skip, Skipped, plan_hour
from lakerunner_assets.recorded.sources import reach_ns
from lakerunner_assets.recorded.task import (
    COLLECTOR,
    RecordAnswer,
    RecordFault,
    RecordUnit,
    decode_answer,
    encode,
    record,
)
from lakerunner_assets.run_context import RunContext, abandon
from lakerunner_query.protocol.units import segment_ref
from lakerunner_query.rules.catalog import CatalogError, group_of
from lakerunner_query.rules.chains import cycles
from lakerunner_query.rules.documents import RecordingRule, RuleGroup
from resources.index.contract import PipelineIndex
from resources.index.rule_types import RecordedFrom, RuleKind, StoredRule
from resources.index.types import (
    BatchKind,
    BatchPlan,
    Claim,
    Publication,
    PublishConflictError,
)
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.signals import FACTS, RECORDED_MS
from resources.lake.timecut import HOUR_NS
from resources.spark import SparkUnavailableError, TaskCrashError

MAX_PLANS = 5
"""Plans of an hour that others keep recording."""


@dataclass(frozen=True, slots=True)
class HourRecorded:
    """One published hour, for Dagster's log."""

    org: str
    hour_ns: int
    version: int
    rows: int
    bytes: int
    seconds: float


@dataclass(slots=True)
class RecordReport:
    """Totals of a run, for metadata and checks."""

    recorded: int = 0
    current: int = 0
    rows: int = 0
    bytes: int = 0
    source_bytes: int = 0
    seconds: float = 0.0
    off: list[str] = field(default_factory=list)
    """Organisations without recording rules."""
    rule_rows: dict[str, int] = field(default_factory=dict)
    """Samples by organisation and metric."""
    rules_failed: list[str] = field(default_factory=list)
    """Rules that recorded nothing in an hour, and why."""
    conflicts: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Recording rules of an organisation as of one revision."""

    groups: tuple[StoredRule, ...]
    revision: int
    reach: Reach

    @property
    def origin(self) -> str:
        """Return the origin of segments that exactly these rules recorded."""
        versions = ",".join(f"{one.rule_id}.{one.version}" for one in self.groups)
        return f"{ORIGIN}@{xxhash.xxh64_hexdigest(versions.encode())}"


def wanted_of(index: PipelineIndex, org: str, default_ms: int, report: RecordReport) -> Wanted:
    """Return the groups that record; those that cannot be read, and circles, record nothing."""
    rules = index.rules(org)
    stored: list[StoredRule] = []
    groups: list[RuleGroup] = []
    for one in rules.rules:
        try:
            group = group_of(one) if one.kind is RuleKind.GROUP else None
        except CatalogError as error:
            report.rules_failed.append(str(error))
            continue
        if group is not None and any(isinstance(rule, RecordingRule) for rule in group.rules):
            stored.append(one)
            groups.append(group)
    if circle := cycles(groups):
        report.rules_failed.append(f"{org}: recording rules in a circle: {' -> '.join(circle)}")
        stored, groups = [], []
    languages = {group.language.value for group in groups}
    signals = tuple(signal for signal in Signal if FACTS[signal].recorded_by in languages)
    return Wanted(tuple(stored), rules.revision, Reach(signals, reach_ns(groups, default_ms)))


def record_hours(
    run: RunContext, hours_by_org: Mapping[str, Iterable[int]], report: RecordReport, *, force: bool = False
) -> Iterator[HourRecorded]:
    """Record the hours that are not current, oldest first; yield each after its commit."""
    for org, hours in hours_by_org.items():
        for hour in sorted(set(hours)):
            done = _record_hour(run, org, hour, report, force=force)
            if done is not None:
                yield done


def _record_hour(
    run: RunContext, org: str, hour: int, report: RecordReport, *, force: bool
) -> HourRecorded | None:
    default_ms = round(run.settings.ruler_interval_s * 1000)
    for _ in range(MAX_PLANS):
        wanted = wanted_of(run.index, org, default_ms, report)
        planned = _plan(run.index, org, hour, wanted, force=force)
        if isinstance(planned, Skipped):
            _note_skipped(run, org, hour, planned, report)
            return None
        if not wanted.groups and not planned.retire:
            report.off += [org] if org not in report.off else []
            run.index.put_off(org, Signal.METRICS, RECORDED_MS, [hour], ever=True)
            return None
        done, again = _job(run, planned, wanted, report)
        if not again:
            return done
    report.failed.append(f"{org}: the hour {hour} kept changing, it stays due")
    return None


def _plan(index: PipelineIndex, org: str, hour: int, wanted: Wanted, *, force: bool) -> Recording | Skipped:
    reach = wanted.reach
    first, end = hour - reach.hours_back * HOUR_NS, hour + HOUR_NS
    sources = index.recorded_sources(org, reach.signals, first, end)
    own = index.tier_view(org, Signal.METRICS, (AS_SENT, RECORDED_MS), hour, end)
    read = {signal: index.tier_view(org, signal, (AS_SENT,), first, end) for signal in reach.signals}
    return plan_hour(org, hour, own, read, sources, reach, wanted.origin, force=force)


def _note_skipped(run: RunContext, org: str, hour: int, skipped: Skipped, report: RecordReport) -> None:
    if skipped.skip is Skip.CURRENT:
        report.current += 1
        return
    if skipped.skip is Skip.REFUSED:
        report.refused.append(f"{org}, {hour}: {skipped.reason}")
    run.index.put_off(org, Signal.METRICS, RECORDED_MS, [hour], ever=True)


def _job(
    run: RunContext, each: Recording, wanted: Wanted, report: RecordReport
) -> tuple[HourRecorded | None, bool]:
    """Return what was published, and if the hour has to be planned again."""
    claim = run.index.create_claimed(
        BatchPlan(BatchKind.RECORD, each.org, COLLECTOR, Signal.METRICS, each.hour_ns)
    )
    run.heart.hold(claim.token)
    is_open = True
    try:
        answer = _answer(run, claim, each, wanted)
        is_open = False
        if answer.fault is not None:
            return None, _fail(run, claim, each, answer, report)
        return _publish(run, claim, each, answer, wanted, report)
    except (SparkUnavailableError, TaskCrashError) as error:
        is_open = False
        abandon(run, claim, str(error))
        raise
    finally:
        run.heart.release(claim.token)
        if is_open:
            abandon(run, claim, "the run stopped before this hour")


def _answer(run: RunContext, claim: Claim, each: Recording, wanted: Wanted) -> RecordAnswer:
    unit = RecordUnit(
        claim.batch_id,
        claim.attempt,
        each.org,
        each.hour_ns,
        wanted.groups,
        round(run.settings.ruler_interval_s * 1000),
        tuple(map(segment_ref, each.segments.get(Signal.METRICS, ()))),
        tuple(map(segment_ref, each.segments.get(Signal.LOGS, ()))),
        run.settings.require("lake_url"),
    )
    (found,) = run.spark.run(record, [encode(unit)], [f"batch-{claim.batch_id}-{claim.attempt}"])
    return decode_answer(found)


def _fail(run: RunContext, claim: Claim, each: Recording, answer: RecordAnswer, report: RecordReport) -> bool:
    """Give the hour up for now; true if it is to be planned again."""
    where = f"{each.org}, {each.hour_ns}: {answer.error}"
    run.log(where)
    abandon(run, claim, answer.error)
    if answer.fault is RecordFault.GONE:
        return True
    report.failed.append(where)
    run.index.put_off(each.org, Signal.METRICS, RECORDED_MS, [each.hour_ns], ever=False)
    return False


def _publish(
    run: RunContext, claim: Claim, each: Recording, answer: RecordAnswer, wanted: Wanted, report: RecordReport
) -> tuple[HourRecorded | None, bool]:
    try:
        versions = run.index.publish(_publication(claim, each, answer, wanted))
    except PublishConflictError as error:
        report.conflicts.append(f"{each.org}, {each.hour_ns}: {error}")
        abandon(run, claim, str(error))
        return None, True
    rows = sum(one.facts.rows for one in answer.segments)
    size = sum(one.facts.bytes for one in answer.segments)
    report.recorded += 1
    report.rows += rows
    report.bytes += size
    report.source_bytes += each.source_bytes
    report.seconds += answer.seconds
    for rule in answer.rules:
        name = f"{each.org}, {rule.record}"
        report.rule_rows[name] = report.rule_rows.get(name, 0) + rule.rows
        if rule.error:
            report.rules_failed.append(f"{name} of {rule.group}, {each.hour_ns}: {rule.error}")
    version = versions.get(each.hour_ns, 0)
    return HourRecorded(each.org, each.hour_ns, version, rows, size, answer.seconds), False


def _publication(claim: Claim, each: Recording, answer: RecordAnswer, wanted: Wanted) -> Publication:
    """Swap the hour; where nothing is and was recorded, the partition of metrics stays as it is."""
    segments = tuple(new_segment(claim, one, settled=True, origin=wanted.origin) for one in answer.segments)
    reach = wanted.reach
    return Publication(
        claim,
        segments,
        retire=each.retire,
        hours=(each.hour_ns,) if segments or each.retire else (),
        recorded=RecordedFrom(
            each.hour_ns, each.expected_version, each.built_from, reach.signals, reach.hours_back
        ),
        rules_revision=wanted.revision,
    )
