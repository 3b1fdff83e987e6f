"""A derived metric answers a leaf of a query only if every guard holds.

    sum by (service_name) (count_over_time({service_name=~".+"} |= "error" [5m]))
    ->  sum by (service_name) (sum_over_time(errors[5m]))

A leaf is an aggregation over windows of one selection. Guards are one ordered table of named values; EXPLAIN
shows the rule that serves a leaf, or the guard that refuses and why. Guards of the query alone are asked
before the index, the others once it has said which hours a rule covers and how large everything is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.rules.documents import DerivedMetric, RuleLanguage
from lakerunner_query.vectors.vector import Steps
from resources.arrays import Flags
from resources.index.types import Segment
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS

BUCKET_NS = 10 * SECOND_NS
"""Width of the buckets of derived metrics."""


def derived_origin(signal: Signal) -> str:
    """Return how the origin of segments begins whose metrics were derived from a signal.

    >>> derived_origin(Signal.LOGS)
    'derived-logs@'
    """
    return f"derived-{signal.value}@"


@dataclass(frozen=True, slots=True)
class ActiveRule:
    """Derived metric in the version that is in force."""

    rule_id: int
    version: int
    metric: DerivedMetric


@dataclass(frozen=True, slots=True)
class LeafTimes:
    """Windows `(t - offset - range, t - offset]` at the steps `t` of a query."""

    first_ns: int
    step_ns: int
    """Distance of steps; 0: there is one."""
    count: int
    range_ns: int
    offset_ns: int = 0

    @property
    def from_ns(self) -> int:
        return self.first_ns - self.offset_ns - self.range_ns

    @property
    def to_ns(self) -> int:
        return self.first_ns + self.step_ns * (self.count - 1) - self.offset_ns

    def touching(self, hour_ns: int) -> slice:
        """Return the steps whose windows reach into the hour `(hour, hour + 1 h]`."""
        if self.count == 1:
            inside = self.from_ns < hour_ns + HOUR_NS and self.to_ns > hour_ns
            return slice(0, int(inside))
        first = (hour_ns - (self.first_ns - self.offset_ns)) // self.step_ns + 1
        behind = -(-(hour_ns + HOUR_NS - self.from_ns) // self.step_ns)
        return slice(max(0, first), max(0, min(self.count, behind)))


@dataclass(frozen=True, slots=True)
class Leaf:
    """Aggregation over windows of one selection, as a language found it in a query."""

    text: str
    node: Any = field(hash=False)
    """The part of the tree that it is."""
    op: str
    by: tuple[str, ...] | None
    """Labels of the result; None: all, or all but some."""
    times: LeafTimes
    body: Any = field(hash=False)
    """Normal form of the selection, as the language has it."""
    above: str = ""
    """Reason for which what stands above it needs records; empty: it does not."""


@dataclass(frozen=True, slots=True)
class AskedText:
    """Query in normal form, with its leaves."""

    language: RuleLanguage
    text: str
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers of the index about one leaf and one rule."""

    gaps: tuple[int, ...] | None
    """Starts of the hours that the rule does not cover; None where the index did not say."""
    raw_bytes: float
    derived_bytes: float
    is_made: bool = False
    """Some of the segments that the leaf reads were made by rules."""


@dataclass(frozen=True, slots=True)
class Case:
    """Leaf and a rule that may serve it."""

    leaf: Leaf
    rule: ActiveRule
    body: Any = field(hash=False)
    """Normal form of what the rule selects; None where the language cannot read it."""
    evidence: Evidence | None = None

    @property
    def metric(self) -> DerivedMetric:
        return self.rule.metric


@dataclass(frozen=True, slots=True)
class Guard:
    """Condition of a rewrite."""

    name: str
    demand: str
    """Sentence of what must hold, for people."""
    refusal: Callable[[Case], str]
    """Return why the rewrite is refused; nothing where the guard holds."""
    is_late: bool = False
    """It needs the answers of the index."""


Guards = tuple[Guard, ...]


def refusal(case: Case, guards: Guards, *, late: bool) -> tuple[str, str]:
    """Return the first guard that refuses, and why; empty where all hold."""
    for guard in guards:
        if guard.is_late is late:
            reason = guard.refusal(case)
            if reason:
                return guard.name, reason
    return "", ""


def of_source(signal: Signal) -> Guard:
    def refuse(case: Case) -> str:
        source = case.metric.source
        return "" if source is signal else f"it is derived from {source.value}, not from {signal.value}"

    return Guard("source", "The rule derives from the signal that the query reads, and is in force.", refuse)


def around(demand: str) -> Guard:
    """Make the guard about what stands above a leaf, as the language found it."""
    return Guard(WHOLE, demand, lambda case: case.leaf.above)


def _outside(case: Case) -> str:
    times = case.leaf.times
    facts = [
        ("the range", times.range_ns),
        ("the offset", times.offset_ns),
        ("the first step", times.first_ns),
    ]
    if times.count > 1:
        facts.append(("the distance of steps", times.step_ns))
    wrong = next((name for name, size in facts if size % BUCKET_NS), "")
    return f"{wrong} is no multiple of 10 s" if wrong else ""


WINDOW = Guard(
    "window", "Range, offset, distance of steps and the first of them are multiples of 10 s.", _outside
)


def _uncovered(case: Case) -> str:
    if case.evidence is None or case.evidence.gaps is None:
        return "the index did not say which hours are derived"
    if covered_steps(case.leaf.times, case.evidence.gaps).any():
        return ""
    return "no step reads only hours that were derived by this version of the rule from what is there now"


COVERAGE = Guard(
    "coverage",
    "Every hour that a step reads was derived by this version of the rule, from the records that are there"
    " now, without errors and within the limits of series. Other steps are answered from records.",
    _uncovered,
    is_late=True,
)


def _dearer(case: Case) -> str:
    found = case.evidence
    if found is None or found.derived_bytes < found.raw_bytes:
        return ""
    return f"it would read {found.derived_bytes:.0f} bytes instead of {found.raw_bytes:.0f}"


COST = Guard("cost", "The derived metric has fewer bytes, by estimate.", _dearer, is_late=True)


def covered_steps(times: LeafTimes, gaps: Sequence[int]) -> Flags:
    """Flag the steps whose windows lie in hours without a gap."""
    found = np.ones(times.count, np.bool_)
    for hour in gaps:
        found[times.touching(hour)] = False
    return found


@dataclass(frozen=True, slots=True)
class Decision:
    """Outcome for one leaf: the rule that serves it, or the guard that refuses."""

    leaf: str
    metric: str = ""
    """Derived metric of the rule; empty where there is none for the signal."""
    guard: str = ""
    """Guard that refuses; empty: all hold."""
    reason: str = ""

    @property
    def is_served(self) -> bool:
        return bool(self.metric) and not self.guard

    def text(self) -> str:
        if self.is_served:
            return f"{self.leaf}: from {self.metric}"
        by = f"{self.metric}, " if self.metric else ""
        return f"{self.leaf}: from records ({by}{self.guard}: {self.reason})"


WHOLE = "expression"
"""Name of the guard about what stands around the leaves."""


class MixedError(Exception):
    """Part of an expression that PromQL would answer otherwise, or not at all."""


def _no_expression(_: Collection[int]) -> Expr | None:
    return None


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Query with leaves that are read from derived metrics, before the index was asked."""

    decisions: tuple[Decision, ...]
    cases: tuple[Case, ...] = ()
    """Leaves that a rule may serve, with that rule."""
    parts: tuple[Expr, ...] = ()
    """PromQL expression of each of these leaves."""
    join: Callable[[Collection[int]], Expr | None] = field(default=_no_expression, compare=False)
    """Return the PromQL expression in which so many cases are served; None where PromQL cannot say it."""
    guards: Guards = ()
    is_whole: bool = False
    """Every leaf of the query has a rule that may serve it."""

    @property
    def expr(self) -> Expr | None:
        """Return the expression in which all are served."""
        return self.join(range(len(self.cases))) if self.cases else None

    def refused(self, reason: str) -> Rewriting:
        """Leave the query to records because of what stands around its leaves."""
        found = (replace(one, guard=WHOLE, reason=reason) if one.is_served else one for one in self.decisions)
        return Rewriting(tuple(found))


def match_rules(
    leaves: Sequence[Leaf], rules: Sequence[ActiveRule], body: Callable[[DerivedMetric], Any], guards: Guards
) -> Rewriting | None:
    """Find a rule for each leaf; None where there is nothing to decide.

    A leaf that stands in two places is served in both or in none.
    """
    known = [(rule, body(rule.metric)) for rule in rules]
    if not leaves or not known:
        return None
    above = {leaf.node: leaf.above for leaf in leaves if leaf.above}
    leaves = list(dict.fromkeys(replace(leaf, above=above.get(leaf.node, "")) for leaf in leaves))
    found = [choose(leaf, (Case(leaf, rule, form) for rule, form in known), guards) for leaf in leaves]
    cases = tuple(case for _, case in found if case is not None)
    decisions = tuple(dict.fromkeys(decision for decision, _ in found))
    return Rewriting(decisions, cases, guards=guards, is_whole=len(cases) == len(leaves))


@dataclass(frozen=True, slots=True)
class Settled:
    """Rewriting after the index was asked."""

    decisions: tuple[Decision, ...]
    served: Served
    """Cases that answer each step."""


def choose(leaf: Leaf, cases: Iterable[Case], guards: Guards) -> tuple[Decision, Case | None]:
    """Choose the rule with the fewest labels among those that all guards let through.

    Of several that are refused the one is told that got past the most guards.
    """
    order = [guard.name for guard in guards]
    best: tuple[int, Decision] = -1, Decision(leaf.text, "", "source", "no rule derives from this signal")
    fitting: list[Case] = []
    for case in cases:
        guard, reason = refusal(case, guards, late=False)
        if not guard:
            fitting.append(case)
        elif order.index(guard) > best[0]:
            best = order.index(guard), Decision(leaf.text, case.metric.metric, guard, reason)
    if not fitting:
        return best[1], None
    chosen = min(fitting, key=lambda case: (len(case.metric.keep), case.metric.metric))
    return Decision(leaf.text, chosen.metric.metric), chosen


def settle(rewriting: Rewriting, cases: Sequence[Case], steps: int, whole_only: str = "") -> Settled:
    """Decide by the answers of the index, for each leaf and step.

    `whole_only` says why a step is answered by rules alone or not at all; empty: leaves may be mixed.
    """
    decisions = {one.leaf: one for one in rewriting.decisions}
    served = np.ones((len(cases), steps), np.bool_)
    is_covering = any(guard.name == COVERAGE.name for guard in rewriting.guards)
    for number, case in enumerate(cases):
        guard, reason = refusal(case, rewriting.guards, late=True)
        if guard:
            decisions[case.leaf.text] = Decision(case.leaf.text, case.metric.metric, guard, reason)
            served[number] = False
        elif is_covering and case.evidence is not None and case.evidence.gaps:
            served[number] = covered_steps(case.leaf.times, case.evidence.gaps)
    if whole_only:
        served &= served.all(axis=0) & rewriting.is_whole
        for case, row in zip(cases, served, strict=True):
            if decisions[case.leaf.text].is_served and not row.any():
                decisions[case.leaf.text] = replace(decisions[case.leaf.text], guard=WHOLE, reason=whole_only)
    told = tuple(decisions[one.leaf] for one in rewriting.decisions)
    return Settled(told, without_short_runs(served_cases(served)))


Served = tuple[int, ...]
"""Cases that answer a step, as bits: bit n stands for the case n; 0: records do."""


def served_cases(flags: Flags) -> Served:
    """Return the bits of each step.

    >>> served_cases(np.array([[True, False], [True, True]]))
    (3, 2)
    """
    found = [0] * flags.shape[1]
    for number, row in enumerate(flags):
        for step in np.flatnonzero(row).tolist():
            found[step] |= 1 << number
    return tuple(found)


def cases_in(served: int) -> list[int]:
    """Return the numbers of the cases.

    >>> cases_in(5)
    [0, 2]
    """
    return [number for number in range(served.bit_length()) if served >> number & 1]


def runs(served: Served) -> Iterator[tuple[int, int, int]]:
    """Yield runs of steps that are answered alike: first, behind the last, and the cases that do.

    >>> list(runs((1, 1, 0)))
    [(0, 2, 1), (2, 3, 0)]
    """
    first = 0
    for cases, steps in groupby(served):
        behind = first + sum(1 for _ in steps)
        yield first, behind, cases
        first = behind


def without_short_runs(served: Served) -> Served:
    """Leave more to records where a run would have a single step, unless the query has no more.

    >>> without_short_runs((1, 0, 1, 1, 1)), without_short_runs((3, 1, 1, 2))
    ((0, 0, 1, 1, 1), (1, 1, 0, 0))
    """
    found, place = list(served), 0
    while len(found) > 1 and place < len(found):
        is_first = place == 0 or found[place - 1] != found[place]
        is_last = place == len(found) - 1 or found[place + 1] != found[place]
        if is_first and is_last:
            near = place - 1 if place else 1
            found[place] = found[near] = found[place] & found[near]
            place = max(0, near - 1)
        else:
            place += 1
    return tuple(found)


def bytes_read(segments: Iterable[Segment], from_ns: int, to_ns: int) -> float:
    """Estimate the bytes of `(from, to]`: of metrics, those of one of a segment's metrics."""
    total = 0.0
    for one in segments:
        common = min(one.max_ns, to_ns) - max(one.min_ns, from_ns + 1) + 1
        share = max(0.0, min(1.0, common / (one.max_ns - one.min_ns + 1)))
        total += one.bytes * share / max(1, len(one.metric_names))
    return total


def lost_labels(names: Iterable[str], case: Case) -> str:
    """Say which labels the rule does not keep; nothing where it keeps all."""
    lost = sorted({*names} - {*case.metric.keep})
    return f"the rule does not keep {', '.join(lost)}" if lost else ""


def steps_of(times_ms: Steps, first: int, behind: int) -> Steps:
    """Return a run of steps."""
    return replace(times_ms, start_ms=times_ms.start_ms + first * times_ms.step_ms, count=behind - first)
