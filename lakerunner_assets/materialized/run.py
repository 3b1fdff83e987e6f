"""Hours are planned, derived in one Spark job and published singly.

A publication swaps what the hour had before. Records that arrive meanwhile leave it due: it is derived once
more. An hour that somebody else derived is planned again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakerunner_assets.materialized.plan import Derivation, HourPlan, Wanted, plan_hours
from lakerunner_assets.materialized.preset import ORIGIN
from lakerunner_assets.materialized.rule_cells import RuleOutcome
from lakerunner_assets.materialized.rules import rules_of, rules_origin
from lakerunner_assets.materialized.task import (
    COLLECTOR,
    DeriveAnswer,
    DeriveFault,
    DeriveUnit,
    decode_answer,
    encode,
    materialize,
)
from lakerunner_assets.partitions import in_window
from lakerunner_assets.publish import new_segment
from lakerunner_assets.run_context import RunContext, abandon
from lakerunner_query.protocol.units import segment_ref
from resources.index.contract import PipelineIndex
from resources.index.rule_types import RuleHour
from resources.index.types import (
    BatchKind,
    BatchPlan,
    BuiltPartition,
    Claim,
    Publication,
    PublishConflictError,
)
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.options import OrgOptions
from resources.lake.signals import FACTS, MATERIALIZED_MS
from resources.lake.timecut import HOUR_NS
from resources.settings import Settings
from resources.spark import SparkUnavailableError, TaskCrashError

MAX_PLANS = 5
"""Plans of an hour that others keep deriving."""
MAX_JOB = 16
"""Hours of one Spark job."""
MOST_DUE = 64
"""Hours that a run takes along, longest due first; a run must come to its end."""


@dataclass(frozen=True, slots=True)
class HourDerived:
    """One published hour, for Dagster's log."""

    org: str
    hour_ns: int
    version: int
    records: int
    rows: int
    bytes: int
    seconds: float
    rules: tuple[RuleOutcome, ...] = ()


@dataclass(slots=True)
class DeriveReport:
    """Totals of a run, for metadata and checks."""

    derived: int = 0
    current: int = 0
    records: int = 0
    rows: int = 0
    bytes: int = 0
    source_bytes: int = 0
    seconds: float = 0.0
    off: list[str] = field(default_factory=list)
    """Organisations without a rule for the signal that switched the preset off."""
    rule_rows: dict[str, int] = field(default_factory=dict)
    """Samples by organisation and metric of a rule."""
    ineligible: list[str] = field(default_factory=list)
    """Rules that may not stand for an hour, and why."""
    conflicts: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def wanted_of(run: RunContext, signal: Signal, org: str, hours: Sequence[int], options: OrgOptions) -> Wanted:
    """Return what hours of an organisation are to have, and were built by."""
    with_preset = FACTS[signal].has_preset and run.settings.span_metrics and options.span_metrics
    most_series = options.derived_max_series or run.settings.derived_max_series
    rules = run.index.rules(org)
    built = run.index.rule_hours(org, signal, min(hours), max(hours) + 1)
    names = [rules_origin(signal), *([ORIGIN] if with_preset else [])]
    origins = tuple(name.partition("@")[0] for name in names)
    mine = rules_of(rules.rules).get((org, signal), ())
    return Wanted(mine, rules.revision, with_preset, most_series, origins, tuple(built))


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
    for _ in range(MAX_PLANS):
        wanted = wanted_of(run, signal, org, todo, options)
        if wanted.is_nothing:
            report.off += [org] if org not in report.off else []
            _put_off(run, signal, org, todo, ever=True)
            return
        planned = _plan(run, signal, org, todo, wanted, force)
        report.current += len(planned.current)
        report.refused += [f"{org}, {hour}: {why}" for hour, why in planned.refused]
        _put_off(run, signal, org, [*planned.empty, *(hour for hour, _ in planned.refused)], ever=True)
        todo = []
        for each, done in _job(run, planned.todo, wanted, report):
            if done is None:
                todo.append(each.hour_ns)
            else:
                yield done
        if not todo:
            return
    report.failed.append(f"{org}: {len(todo)} hours kept changing, they stay due")


def _plan(
    run: RunContext, signal: Signal, org: str, hours: Sequence[int], wanted: Wanted, force: bool
) -> HourPlan:
    window = (min(hours) - HOUR_NS, max(hours) + 2 * HOUR_NS)
    view = run.index.tier_view(org, signal, (AS_SENT, MATERIALIZED_MS), *window)
    metrics = run.index.tier_view(org, Signal.METRICS, (AS_SENT,), *window)
    return plan_hours(org, signal, hours, view, metrics, wanted, force=force)


def _put_off(run: RunContext, signal: Signal, org: str, hours: Sequence[int], *, ever: bool) -> None:
    """Put off hours that cannot be derived: they are not to be requested at every tick."""
    if hours:
        run.index.put_off(org, signal, MATERIALIZED_MS, hours, ever=ever)


def _job(
    run: RunContext, todo: Sequence[Derivation], wanted: Wanted, report: DeriveReport
) -> Iterator[tuple[Derivation, HourDerived | None]]:
    """Yield each hour that was derived, and with None each that is to be planned again."""
    claims = [(_claim(run, each), each) for each in todo]
    open_claims = {claim.batch_id: claim for claim, _ in claims}
    try:
        answers = _answers(run, claims, wanted)
        for claim, each in claims:
            answer = answers[claim.batch_id]
            if answer.fault is not None:
                _fail(run, claim, each, answer, report)
                del open_claims[claim.batch_id]
                if answer.fault is DeriveFault.GONE:
                    yield each, None
                continue
            done = _publish(run, claim, each, answer, wanted, report)
            del open_claims[claim.batch_id]
            yield each, done
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


def _claim(run: RunContext, each: Derivation) -> Claim:
    plan = BatchPlan(BatchKind.MATERIALIZE, each.org, COLLECTOR, Signal.METRICS, each.hour_ns)
    claim = run.index.create_claimed(plan)
    run.heart.hold(claim.token)
    return claim


def _answers(
    run: RunContext, claims: Sequence[tuple[Claim, Derivation]], wanted: Wanted
) -> dict[int, DeriveAnswer]:
    if not claims:
        return {}
    lake_url = run.settings.require("lake_url")
    units = [
        encode(
            DeriveUnit(
                claim.batch_id,
                claim.attempt,
                each.org,
                each.hour_ns,
                tuple(map(segment_ref, each.own)),
                tuple(map(segment_ref, each.beside)),
                lake_url,
                each.signal,
                wanted.with_preset,
                wanted.rules,
                wanted.most_series,
            )
        )
        for claim, each in claims
    ]
    tags = [f"batch-{claim.batch_id}-{claim.attempt}" for claim, _ in claims]
    found = [decode_answer(result) for result in run.spark.run(materialize, units, tags)]
    return {answer.batch_id: answer for answer in found}


def _fail(
    run: RunContext, claim: Claim, each: Derivation, answer: DeriveAnswer, report: DeriveReport
) -> None:
    where = f"{each.org}, {each.hour_ns}: {answer.error}"
    run.log(where)
    abandon(run, claim, answer.error)
    if answer.fault is not DeriveFault.GONE:
        report.failed.append(where)
        _put_off(run, each.signal, each.org, [each.hour_ns], ever=False)


def _publish(
    run: RunContext,
    claim: Claim,
    each: Derivation,
    answer: DeriveAnswer,
    wanted: Wanted,
    report: DeriveReport,
) -> HourDerived | None:
    try:
        versions = run.index.publish(_publication(claim, each, answer, wanted))
    except PublishConflictError as error:
        report.conflicts.append(f"{each.org}, {each.hour_ns}: {error}")
        abandon(run, claim, str(error))
        return None
    rows = sum(s.facts.rows for s in answer.segments)
    size = sum(s.facts.bytes for s in answer.segments)
    report.derived += 1
    report.records += answer.records
    report.rows += rows
    report.bytes += size
    report.source_bytes += each.source_bytes
    report.seconds += answer.seconds
    for rule in answer.rules:
        name = f"{each.org}, {rule.metric}"
        report.rule_rows[name] = report.rule_rows.get(name, 0) + rule.rows
        if rule.refusal:
            report.ineligible.append(f"{name}, {each.hour_ns}: {rule.refusal}")
    version = versions.get(each.hour_ns, 0)
    return HourDerived(
        each.org, each.hour_ns, version, answer.records, rows, size, answer.seconds, answer.rules
    )


def _publication(claim: Claim, each: Derivation, answer: DeriveAnswer, wanted: Wanted) -> Publication:
    """Swap the hour; where nothing is and was derived, the partition of metrics stays as it is."""
    segments = tuple(
        new_segment(claim, one, settled=True, origin=origin)
        for origin, one in zip(answer.origins, answer.segments, strict=True)
    )
    built = BuiltPartition(each.hour_ns, each.expected_version, each.built_from)
    source_version = each.built_from.get(each.hour_ns, 0)
    return Publication(
        claim,
        segments,
        retire=each.retire,
        hours=(each.hour_ns,) if segments or each.retire else (),
        materialized=(each.signal, built),
        rule_hours=tuple(
            RuleHour(each.hour_ns, rule.rule_id, rule.version, source_version, not rule.refusal, rule.rows)
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
