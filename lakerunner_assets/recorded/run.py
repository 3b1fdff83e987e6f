"""Hours are planned, recorded and published one after the other: an hour reads those before it.

A publication swaps what the hour had before. Samples that arrive meanwhile leave it due, and hours that were
recorded from another version of it become due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import xxhash

from lakerunner_assets.metric_hours.run import MAX_PLANS, HourMade, HourReport, Maker, make_hours
from lakerunner_assets.publish import new_segment
from lakerunner_assets.recorded.plan import ORIGIN, Reach, Recording, Skip, Skipped, plan_hour
from lakerunner_assets.recorded.sources import reach_ns
from lakerunner_assets.recorded.task import RecordAnswer, RecordUnit, record
from lakerunner_assets.run_context import RunContext
from lakerunner_query.protocol.units import segment_ref
from lakerunner_query.rules.catalog import CatalogError, group_of
from lakerunner_query.rules.chains import cycles
from lakerunner_query.rules.documents import RecordingRule, RuleGroup
from resources.index.contract import PipelineIndex
from resources.index.rule_types import RecordedFrom, RuleKind, StoredRule
from resources.index.ruling_types import RecordedOutcome
from resources.index.types import BatchKind, Claim, Publication
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.signals import FACTS, RECORDED_MS
from resources.lake.timecut import HOUR_NS


@dataclass(slots=True)
class RecordReport(HourReport):
    """Totals of a run; `off` has organisations without recording rules."""

    rules_failed: list[str] = field(default_factory=list)
    """Rules that recorded nothing in an hour, and why."""


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
) -> Iterator[HourMade]:
    """Record the hours that are not current, oldest first; yield each after its commit."""
    for org, hours in hours_by_org.items():
        for hour in sorted(set(hours)):
            done = _record_hour(run, org, hour, report, force=force)
            if done is not None:
                yield done


def _record_hour(
    run: RunContext, org: str, hour: int, report: RecordReport, *, force: bool
) -> HourMade | None:
    default_ms = round(run.settings.ruler_interval_s * 1000)
    for _ in range(MAX_PLANS):
        wanted = wanted_of(run.index, org, default_ms, report)
        planned = _plan(run.index, org, hour, wanted, force=force)
        if isinstance(planned, Skipped):
            _note_skipped(run, org, hour, planned, report)
            return None
        if not wanted.groups and not planned.retire:
            report.note_off(org)
            run.index.put_off(org, Signal.METRICS, RECORDED_MS, [hour], ever=True)
            return None
        tried = list(make_hours(run, _maker(run, wanted), [planned], report))
        for _, answer, made in tried:
            if answer is not None and made is not None:
                _report(run, made, answer, report)
                return made
        if not tried:
            return None
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


def _maker(run: RunContext, wanted: Wanted) -> Maker[Recording, RecordAnswer]:
    return Maker(
        BatchKind.RECORD,
        record,
        RecordAnswer,
        partial(_unit, run, wanted),
        partial(_publication, wanted),
        lambda each: run.index.put_off(each.org, Signal.METRICS, RECORDED_MS, [each.hour_ns], ever=False),
    )


def _unit(run: RunContext, wanted: Wanted, claim: Claim, each: Recording) -> RecordUnit:
    return RecordUnit(
        claim.batch_id,
        claim.attempt,
        each.org,
        each.hour_ns,
        run.settings.require("lake_url"),
        wanted.groups,
        round(run.settings.ruler_interval_s * 1000),
        tuple(map(segment_ref, each.segments.get(Signal.METRICS, ()))),
        tuple(map(segment_ref, each.segments.get(Signal.LOGS, ()))),
    )


def _report(run: RunContext, made: HourMade, answer: RecordAnswer, report: RecordReport) -> None:
    run.index.note_recorded_rules(
        made.org,
        [RecordedOutcome(one.group, one.record, made.hour_ns, one.error) for one in answer.rules],
    )
    for rule in answer.rules:
        name = report.add_rule(made.org, rule.record, rule.rows)
        if rule.error:
            report.rules_failed.append(f"{name} of {rule.group}, {made.hour_ns}: {rule.error}")


def _publication(wanted: Wanted, claim: Claim, each: Recording, answer: RecordAnswer) -> Publication:
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
