"""A derived metric answers a leaf of a query only if every guard holds.

    sum by (service_name) (count_over_time({service_name=~".+"} |= "error" [5m]))
    ->  sum by (service_name) (sum_over_time(errors[5m]))

A leaf is an aggregation over windows of one selection. Guards are one ordered table of named values; EXPLAIN
shows the rule that serves a leaf, or the guard that refuses and why. Guards of the query alone are asked
before the index, the others once it has said which hours a rule covers and how large everything is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from lakerunner_query.plan.rules.matchers import demanded_values
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.rules.documents import DerivedMetric, RuleLanguage
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.labels import matches
from lakerunner_query.vectors.vector import Steps
from resources.arrays import Flags
from resources.index.types import Segment
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS

BUCKET_NS = 10 * SECOND_NS
"""Width of the buckets of derived metrics."""
SHORTEST_RUN = 2
"""Steps that are worth a unit of their own: one step alone is an instant query, which has another meaning."""


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
ANOTHER_PART = "another part of the query needs records"


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Query whose leaves are read from derived metrics, before the index was asked."""

    decisions: tuple[Decision, ...]
    cases: tuple[Case, ...] = ()
    """Leaves that a rule may serve, with that rule."""
    parts: tuple[Expr, ...] = ()
    """PromQL expression of each of these leaves."""
    expr: Expr | None = None
    """PromQL expression that gives the same; None where nothing is rewritten."""
    guards: Guards = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """Rewriting after the index was asked."""

    decisions: tuple[Decision, ...]
    expr: Expr | None
    served: Flags = field(hash=False, compare=False)
    """Steps that are answered by `expr`."""


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


def left_to_records(decision: Decision) -> Decision:
    """Return the decision where another part of the query cannot be served."""
    if not decision.is_served:
        return decision
    return Decision(decision.leaf, decision.metric, WHOLE, ANOTHER_PART)


def settle(rewriting: Rewriting, cases: Sequence[Case], steps: int) -> Settled:
    """Decide by the answers of the index; all leaves are served at a step, or none."""
    nothing = np.zeros(steps, np.bool_)
    decisions = {one.leaf: one for one in rewriting.decisions}
    served = np.ones(steps, np.bool_)
    is_covering = any(guard.name == COVERAGE.name for guard in rewriting.guards)
    for case in cases:
        guard, reason = refusal(case, rewriting.guards, late=True)
        if guard:
            decisions[case.leaf.text] = Decision(case.leaf.text, case.metric.metric, guard, reason)
            served = nothing
        elif is_covering and case.evidence is not None and case.evidence.gaps:
            served = served & covered_steps(case.leaf.times, case.evidence.gaps)
    told = tuple(decisions[one.leaf] for one in rewriting.decisions)
    if rewriting.expr is None or not cases:
        return Settled(told, None, nothing)
    return Settled(told, rewriting.expr, without_short_runs(served))


def runs(served: Flags) -> Iterator[tuple[int, int, bool]]:
    """Yield runs of steps that are answered alike: first, behind the last, and if they are served.

    >>> list(runs(np.array([True, True, False])))
    [(0, 2, True), (2, 3, False)]
    """
    edges = [0, *(np.flatnonzero(served[1:] != served[:-1]) + 1).tolist(), len(served)]
    for first, behind in pairwise(edges):
        yield first, behind, bool(served[first])


def without_short_runs(served: Flags) -> Flags:
    """Leave steps to records where a run would have a single one, unless the query has no more.

    >>> without_short_runs(np.array([True, False, True, True, True])).tolist()
    [False, False, True, True, True]
    >>> without_short_runs(np.array([True, True, True, False])).tolist()
    [True, True, False, False]
    """
    if len(served) == 1:
        return served
    found = served.copy()
    for first, behind, is_served in runs(served):
        if is_served and behind - first < SHORTEST_RUN:
            found[first:behind] = False
    for first, behind, is_served in list(runs(found)):
        if not is_served and behind - first < SHORTEST_RUN:
            # one more step of records, from the neighbour that is served
            found[first - 1 if first else behind] = False
    again = [behind - first for first, behind, _ in runs(found)]
    return found if min(again) >= SHORTEST_RUN else np.zeros(len(served), np.bool_)


def bytes_read(segments: Iterable[Segment], from_ns: int, to_ns: int) -> float:
    """Estimate the bytes of `(from, to]`: of metrics, those of one of a segment's metrics."""
    total = 0.0
    for one in segments:
        common = min(one.max_ns, to_ns) - max(one.min_ns, from_ns + 1) + 1
        share = max(0.0, min(1.0, common / (one.max_ns - one.min_ns + 1)))
        total += one.bytes * share / max(1, len(one.metric_names))
    return total


def implied(wanted: Matcher, given: Iterable[Matcher]) -> bool:
    """Tell if every row that satisfies the given matchers satisfies the wanted one, too."""
    for one in given:
        if one == wanted:
            return True
        if one.name == wanted.name:
            values = demanded_values(one)
            if values and matches(wanted, list(values)).all():
                return True
            if wanted.op is MatchOp.NOT_EQUAL and not wanted.value and refuses_empty(one):
                return True
    return False


def refuses_empty(matcher: Matcher) -> bool:
    """Tell if a label without a value does not satisfy the matcher."""
    return not bool(matches(matcher, [""])[0])


def steps_of(times_ms: Steps, first: int, behind: int) -> Steps:
    """Return a run of steps."""
    return replace(times_ms, start_ms=times_ms.start_ms + first * times_ms.step_ms, count=behind - first)
