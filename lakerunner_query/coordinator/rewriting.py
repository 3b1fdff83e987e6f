"""Queries that rules may serve: what the index is asked about it, and the units over derived metrics.

steps 12:00 … 13:00 of sum(rate({app="web"} |= "error" [5m])),  the hour from 12:00 on is not derived yet

  12:00         metrics unit     sum(sum_over_time(errors[5m])) / 300
  12:01 … 13:00 log-metrics unit of the text

Of several leaves each has steps of its own: what no rule serves is read from records beside the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from lakerunner_query.coordinator.locate import METRICS, Lookup, samples_query
from lakerunner_query.plan.promql import Reads, reads
from lakerunner_query.plan.rewrite import (
    Case,
    Evidence,
    Rewriting,
    Settled,
    bytes_read,
    cases_in,
    derived_origin,
    runs,
    settle,
    steps_of,
)
from lakerunner_query.plan.slices import SampleSliceSizes, cut_steps, overlapping_segments
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.promql.lang.functions import RESET_CONTEXT_MS
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.protocol.units import MetricUnit, Unit, share_segments
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Steps
from resources.index.rule_types import CoverageQuery
from resources.index.types import Segment, Snapshot, TierView
from resources.lake.layout import Signal

if TYPE_CHECKING:
    from lakerunner_query.coordinator.engine import Limits

NS_PER_MS = 1_000_000
LOOKBACK_MS, SUBQUERY_STEP_MS = 300_000, 60_000
SLICE_SIZES = SampleSliceSizes()
UnitT = TypeVar("UnitT", bound=Unit)
Lists = Sequence[Sequence[Segment]]


def may_be_mixed(_segments: Lists, _tiers: TierView) -> str:
    """Let leaves be mixed with parts that are read from records."""
    return ""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rules that may serve a query, and what reading their metrics takes."""

    rewriting: Rewriting
    signal: Signal
    steps: Steps
    raw: tuple[int, ...]
    """Place of the segments that each leaf reads, among those of the query."""
    reads: tuple[Reads, ...] = ()
    """Reads of derived metrics."""
    lookback_ms: int = LOOKBACK_MS
    whole_only: Callable[[Lists, TierView], str] = may_be_mixed
    """Return why leaves may not be mixed with other parts; empty: they may."""

    @classmethod
    def of(
        cls,
        rewriting: Rewriting,
        signal: Signal,
        steps: Steps,
        raw: Sequence[int],
        lookback_ms: int = LOOKBACK_MS,
        whole_only: Callable[[Lists, TierView], str] = may_be_mixed,
    ) -> Candidates:
        found: dict[tuple[Matcher, ...], Reads] = {}
        for part in rewriting.parts:
            for read in reads(part, steps, lookback_ms, SUBQUERY_STEP_MS):
                known = found.get(read.matchers, read)
                from_ms, to_ms = min(known.from_ms, read.from_ms), max(known.to_ms, read.to_ms)
                found[read.matchers] = Reads(read.matchers, from_ms, to_ms)
        return cls(rewriting, signal, steps, tuple(raw), tuple(found.values()), lookback_ms, whole_only)

    def extend(self, lookup: Lookup, org: str) -> Lookup:
        """Ask for the segments of the metrics, and for the hours that their rules do not cover."""
        cases = self.rewriting.cases
        if not cases:
            return lookup
        rules = tuple(dict.fromkeys((case.rule.rule_id, case.rule.version) for case in cases))
        start = min(case.leaf.times.from_ns for case in cases)
        end = max(case.leaf.times.to_ns for case in cases)
        questions = tuple(samples_query(org, read, names=True) for read in self.reads)
        asked = CoverageQuery(org, self.signal, rules, start, end)
        return replace(lookup, segments=(*lookup.segments, *questions), coverage=(asked,))

    def _derived(self, segments: Iterable[Segment]) -> tuple[Segment, ...]:
        """Keep what was derived from the signal: samples of that name may have been sent, too."""
        return tuple(one for one in segments if one.origin.startswith(derived_origin(self.signal)))

    def settle(self, found: Snapshot) -> tuple[tuple[tuple[Segment, ...], ...], Rewritten]:
        """Return the segments of the query itself, and what becomes of the rewriting."""
        if not self.rewriting.cases:
            settled = settle(self.rewriting, (), self.steps.count)
            return found.segments, Rewritten(self, settled, ())
        count = len(found.segments) - len(self.reads)
        own = found.segments[:count]
        mine = tuple(self._derived(each) for each in found.segments[count:])
        gaps = {one.rule_id: one.hours for one in found.gaps}
        by_matchers = dict(zip((read.matchers for read in self.reads), mine, strict=True))
        cases: list[Case] = []
        for case, part, place in zip(self.rewriting.cases, self.rewriting.parts, self.raw, strict=True):
            times = case.leaf.times
            derived = sum(
                bytes_read(by_matchers[read.matchers], times.from_ns, times.to_ns)
                for read in reads(part, self.steps, self.lookback_ms, SUBQUERY_STEP_MS)
            )
            sent = bytes_read(own[place], times.from_ns, times.to_ns)
            is_made = any(one.origin for one in own[place])
            evidence = Evidence(gaps.get(case.rule.rule_id), sent, derived, is_made)
            cases.append(replace(case, evidence=evidence))
        whole_only = self.whole_only(own, found.tiers)
        settled = settle(self.rewriting, cases, self.steps.count, whole_only)
        return own, Rewritten(self, settled, mine)


@dataclass(frozen=True)
class Rewritten:
    """Steps that derived metrics answer, and how."""

    candidates: Candidates
    settled: Settled
    segments: tuple[tuple[Segment, ...], ...]
    """Segments of derived metrics, by their reads."""

    @property
    def is_used(self) -> bool:
        return any(self.settled.served)

    @property
    def served(self) -> int:
        """Count the steps to which derived metrics contribute."""
        return sum(1 for cases in self.settled.served if cases)

    @property
    def all_cases(self) -> int:
        """Return the bits of all leaves; 0 where one of the query has no rule."""
        rewriting = self.candidates.rewriting
        return (1 << len(rewriting.cases)) - 1 if rewriting.is_whole else 0

    def expr(self, cases: int) -> Expr | None:
        """Return the PromQL expression in which these cases are served; None where there is none."""
        return self.candidates.rewriting.join(cases_in(cases))

    def lines(self) -> Iterator[str]:
        """Describe for each leaf the rule that serves it, or the guard that refuses."""
        yield from (f"rewrite of {one.text()}" for one in self.settled.decisions)
        if not self.is_used:
            return
        served = self.settled.served
        for cases in sorted({one for one in served if one}, reverse=True):
            expr, rewriting = self.expr(cases), self.candidates.rewriting
            parts = [rewriting.parts[case] for case in cases_in(cases)] if expr is None else [expr]
            yield f"rewritten: {', '.join(map(to_text, parts))}"
        whole = sum(1 for cases in served if cases and cases == self.all_cases)
        part = f", in part: {self.served - whole}" if whole < self.served else ""
        yield f"steps from derived metrics: {whole}{part}, from records: {len(served) - self.served}"


def mosaic(
    rewritten: Rewritten | None,
    count: int,
    of_records: Callable[[int, int], Iterable[UnitT]],
    of_metrics: Callable[[int, int, int], Iterable[UnitT]],
) -> Iterator[UnitT]:
    """Yield units in the order of time, by runs of steps; `of_metrics` is told which cases are served."""
    if rewritten is None or not rewritten.is_used:
        yield from of_records(0, count)
        return
    for first, behind, cases in runs(rewritten.settled.served):
        yield from of_metrics(first, behind, cases) if cases else of_records(first, behind)


def metric_units(
    org: str,
    rewritten: Rewritten,
    expr: Expr,
    run: tuple[int, int],
    workers: int,
    limits: Limits,
    others: Iterable[tuple[Reads, Sequence[Segment]]] = (),
) -> Iterator[MetricUnit]:
    """Yield the units of a run of steps; `others` are selectors of the query that are read as they are."""
    candidates = rewritten.candidates
    steps = steps_of(candidates.steps, *run)
    known = {read.matchers: each for read, each in others}
    known.update(zip((read.matchers for read in candidates.reads), rewritten.segments, strict=True))

    def load(part: Steps) -> list[tuple[Reads, Sequence[Segment]]]:
        read = reads(expr, part, candidates.lookback_ms, limits.default_subquery_step_ms)
        return [(one, known[one.matchers]) for one in read]

    text = to_text(expr)
    for part in cut_steps(steps, load(steps), workers, SLICE_SIZES):
        loads = load(part.steps)
        segments, selected = share_segments(
            overlapping_segments(
                [read for read, _ in loads], [each for _, each in loads], RESET_CONTEXT_MS * NS_PER_MS
            )
        )
        yield MetricUnit(
            affinity=f"{org}/{METRICS}/derived",
            text=text,
            start_ms=part.steps.start_ms,
            end_ms=part.steps.end_ms,
            step_ms=part.steps.step_ms,
            first_ms=part.steps.start_ms,
            steps=part.steps.count,
            lookback_ms=candidates.lookback_ms,
            segments=segments,
            turn=part.number,
            features=limits.features,
            max_series=limits.max_series,
            max_samples=limits.max_points,
            selected=selected,
        )
