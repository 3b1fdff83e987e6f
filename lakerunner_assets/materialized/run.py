"""Hours are planned and derived from what the index has of them.

A publication swaps what the hour had before. Records that arrive meanwhile leave it due: it is derived once
more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

from lakerunner_assets.materialized.plan import Derivation, HourPlan, Wanted, plan_hours
from lakerunner_assets.materialized.preset import ORIGIN
from lakerunner_assets.materialized.rule_cells import RuleOutcome
from lakerunner_assets.materialized.rules import rules_of, rules_origin
from lakerunner_assets.materialized.standing import RuleStanding, Standing
from lakerunner_assets.materialized.task import DeriveAnswer, DeriveUnit, materialize
from lakerunner_assets.metric_hours.run import MAX_PLANS, HourMade, HourReport, Maker, make_hours
from lakerunner_assets.partitions import in_window
from lakerunner_assets.publish import new_segment
from lakerunner_assets.run_context import RunContext
from lakerunner_query.protocol.units import segment_ref
from resources.index.contract import PipelineIndex
from resources.index.rule_types import RuleHour
from resources.index.types import BatchKind, BuiltPartition, Claim, Publication, Segment
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.options import OrgOptions
from resources.lake.signals import FACTS, MATERIALIZED_MS
from resources.lake.timecut import HOUR_NS
from resources.settings import Settings

GROWING = frozenset({Signal.LOGS})
"""Signals whose records count each for itself.

A span may be sent again and counts once, and traces are looked at whole; two samples of one time count as
one. What comes to hours of those changes what is counted of the rest.
"""
GROWING_SERIES = 100_000
"""Limit of series up to which no other limit of an evaluation over all records is met first."""
MAX_JOB = 16
"""Hours of one Spark job."""
MOST_DUE = 64
"""Hours that a run takes along, longest due first; a run must come to its end."""


@dataclass(frozen=True, slots=True)
class HourDerived:
    """One published hour and what its rules came to."""

    hour: HourMade
    records: int
    rules: tuple[RuleOutcome, ...]


@dataclass(slots=True)
class DeriveReport(HourReport):
    """Totals of a run; `off` has organisations without a rule that switched the preset off."""

    records: int = 0
    added: int = 0
    """Hours of which only the records were read that came since they were derived."""
    ineligible: list[str] = field(default_factory=list)
    """Rules that may not stand for an hour, and why."""


def wanted_of(run: RunContext, signal: Signal, org: str, hours: Sequence[int], options: OrgOptions) -> Wanted:
    """Return what hours of an organisation are to have, and were built by."""
    with_preset = FACTS[signal].has_preset and run.settings.span_metrics and options.span_metrics
    most_series = options.derived_max_series or run.settings.derived_max_series
    rules = run.index.rules(org)
    built = run.index.rule_hours(org, signal, min(hours), max(hours) + 1)
    names = [rules_origin(signal), *([ORIGIN] if with_preset else [])]
    origins = tuple(name.partition("@")[0] for name in names)
    mine = rules_of(rules.rules).get((org, signal), ())
    can_grow = signal in GROWING and most_series <= GROWING_SERIES
    by = f"{rules_origin(signal)}/{version('lakerunner')}/{most_series}" if can_grow else ""
    return Wanted(mine, rules.revision, with_preset, most_series, origins, tuple(built), by)


def derive_hours(
    run: RunContext,
    signal: Signal,
    hours_by_org: Mapping[str, Iterable[int]],
    report: DeriveReport,
    *,
    force: bool = False,
) -> Iterator[HourDerived]:
    """Derive the hours that are not current; yield each after its commit."""
    options = run.index.org_options()
    for org, hours in hours_by_org.items():
        wanted = sorted(set(hours))
        mine = options.get(org, OrgOptions())
        for first in range(0, len(wanted), MAX_JOB):
            some = wanted[first : first + MAX_JOB]
            yield from _derive_org(run, signal, org, some, report, mine, force)


def _derive_org(
    run: RunContext,
    signal: Signal,
    org: str,
    hours: Sequence[int],
    report: DeriveReport,
    options: OrgOptions,
    force: bool,
) -> Iterator[HourDerived]:
    todo = list(hours)
    for number in range(MAX_PLANS):
        wanted = wanted_of(run, signal, org, todo, options)
        if wanted.is_nothing:
            report.note_off(org)
            _put_off(run, signal, org, todo, ever=True)
            return
        planned = _plan(run, signal, org, todo, wanted, force, can_grow=number == 0)
        report.current += len(planned.current)
        report.refused += [f"{org}, {hour}: {why}" for hour, why in planned.refused]
        _put_off(run, signal, org, [*planned.empty, *(hour for hour, _ in planned.refused)], ever=True)
        todo = []
        maker = _maker(run, wanted)
        for each, answer, made in make_hours(run, maker, planned.todo, report):
            if answer is None or made is None:
                todo.append(each.hour_ns)
            else:
                _report(made, answer, each.standing, report)
                yield HourDerived(made, answer.records, answer.rules)
        if not todo:
            return
    report.failed.append(f"{org}: {len(todo)} hours kept changing, they stay due")


def _plan(
    run: RunContext,
    signal: Signal,
    org: str,
    hours: Sequence[int],
    wanted: Wanted,
    force: bool,
    *,
    can_grow: bool,
) -> HourPlan:
    """Plan the hours; whole ones if adding to what stands did not succeed."""
    window = (min(hours) - HOUR_NS, max(hours) + 2 * HOUR_NS)
    view = run.index.tier_view(org, signal, (AS_SENT, MATERIALIZED_MS), *window)
    metrics = run.index.tier_view(org, Signal.METRICS, (AS_SENT,), *window)
    found = {hour: run.index.hour_growth(org, signal, hour) for hour in (hours if wanted.by else ())}
    growths = {hour: growth for hour, growth in found.items() if growth is not None}
    return plan_hours(org, signal, hours, view, metrics, wanted, growths, force=force, whole=not can_grow)


def _put_off(run: RunContext, signal: Signal, org: str, hours: Sequence[int], *, ever: bool) -> None:
    """Put off hours that cannot be derived: they are not to be requested at every tick."""
    if hours:
        run.index.put_off(org, signal, MATERIALIZED_MS, hours, ever=ever)


def _maker(run: RunContext, wanted: Wanted) -> Maker[Derivation, DeriveAnswer]:
    lake_url = run.settings.require("lake_url")
    return Maker(
        BatchKind.MATERIALIZE,
        materialize,
        DeriveAnswer,
        partial(_unit, lake_url, wanted),
        partial(_publication, wanted),
        lambda each: _put_off(run, each.signal, each.org, [each.hour_ns], ever=False),
    )


def _unit(lake_url: str, wanted: Wanted, claim: Claim, each: Derivation) -> DeriveUnit:
    return DeriveUnit(
        claim.batch_id,
        claim.attempt,
        each.org,
        each.hour_ns,
        lake_url,
        tuple(map(segment_ref, each.own)),
        tuple(map(segment_ref, each.beside)),
        each.signal,
        wanted.with_preset,
        wanted.rules,
        wanted.most_series,
        _standing(wanted, each),
    )


def _standing(wanted: Wanted, each: Derivation) -> Standing | None:
    if each.standing is None:
        return None
    facts = [one for one in wanted.built if one.hour_ns == each.hour_ns]
    return Standing(
        tuple(RuleStanding(one.rule_id, one.errors, one.refusals) for one in facts),
        tuple(map(segment_ref, each.standing)),
    )


def _report(
    made: HourMade, answer: DeriveAnswer, standing: Sequence[Segment] | None, report: DeriveReport
) -> None:
    report.records += answer.records
    report.added += standing is not None
    for rule in answer.rules:
        name = report.add_rule(made.org, rule.metric, rule.rows)
        if rule.refusal:
            report.ineligible.append(f"{name}, {made.hour_ns}: {rule.refusal}")


def _publication(wanted: Wanted, claim: Claim, each: Derivation, answer: DeriveAnswer) -> Publication:
    """Swap the hour; where nothing is and was derived, the partition of metrics stays as it is."""
    segments = tuple(
        new_segment(claim, one, settled=True, origin=origin)
        for origin, one in zip(answer.origins, answer.segments, strict=True)
    )
    by = wanted.by if each.are_known and answer.can_grow else ""
    objects = each.objects if by else ()
    built = BuiltPartition(each.hour_ns, each.expected_version, each.built_from, objects, by)
    source_version = each.built_from.get(each.hour_ns, 0)
    return Publication(
        claim,
        segments,
        retire=each.retire,
        hours=(each.hour_ns,) if segments or each.retire else (),
        materialized=(each.signal, built),
        rule_hours=tuple(
            RuleHour(
                each.hour_ns,
                rule.rule_id,
                rule.version,
                source_version,
                not rule.refusal,
                rule.rows,
                rule.errors,
                rule.refusals,
            )
            for rule in answer.rules
        ),
        rules_revision=wanted.revision,
    )


def with_due(
    index: PipelineIndex, settings: Settings, signal: Signal, own: Mapping[str, Sequence[int]]
) -> dict[str, list[int]]:
    """Return the run's own hours, and behind them others that are due: starting a run costs more."""
    now, found = time.time_ns(), {org: list(hours) for org, hours in own.items()}
    waiting = [
        due
        for due in index.due_partitions(signal, MATERIALIZED_MS)
        if due.start_ns not in own.get(due.org, ()) and in_window(due.start_ns, settings.horizon, now)
    ]
    for due in waiting[:MOST_DUE]:
        found.setdefault(due.org, []).append(due.start_ns)
    return found
