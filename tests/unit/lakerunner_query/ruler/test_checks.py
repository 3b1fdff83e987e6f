"""Corrections of alerts equal those of an oracle that knows when each sample became visible."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakerunner_query.promql.context import Options
from lakerunner_query.promql.evaluate import STACK_FRAMES
from lakerunner_query.ruler.checks import Checker
from lakerunner_query.ruler.group import OwnGroup
from lakerunner_query.ruler.questions import Asker, Questions
from lakerunner_query.ruler.recent import RecentSamples
from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import AlertRule, RuleGroup
from lakerunner_query.rules.evaluation import Question, Sample
from lakerunner_query.rules.memory_engine import MemoryEngine
from resources.index.memory import MemoryIndex
from resources.index.ruling_types import Verdict
from resources.index.types import BatchKind, BatchPlan, Publication
from resources.lake.layout import Signal
from resources.lake.timecut import hour_start
from resources.settings import Settings
from tests.contract.test_index_tiers import segment

sys.setrecursionlimit(max(sys.getrecursionlimit(), STACK_FRAMES))  # evaluation raises it, not in a test
MINUTE = 60_000
START_MS = 1_767_225_600_000
BUSY, QUIET = 24, 16
"""Minutes with samples, and minutes after them."""
JOBS = ("a", "b")
WINDOWS_MIN = (1, 3)


@dataclass(frozen=True)
class Arrival:
    """A sample of one minute, and when it becomes visible."""

    job: str
    at_ms: int
    value: int
    visible_ms: int


@dataclass
class Site:
    """Questions over the samples that are visible, an index, and a ruler's group."""

    arrivals: Sequence[Arrival]
    rule: AlertRule
    now_ms: int = START_MS - MINUTE
    index: MemoryIndex = field(default_factory=MemoryIndex)
    asked: int = 0

    def __post_init__(self) -> None:
        self.index._clock = lambda: self.now_ms / 1000
        self.index.create_organisation("acme")
        self.settings = Settings(ruler_delay_s=0.0, ruler_check_s=20.0, ruler_check_queries=2)
        group = RuleGroup("g", (self.rule,), interval_ms=MINUTE)
        (stored,) = self.index.change_rules("acme", [put_of(group, "f")], None).rules
        self.index.beat_ruler("one", 1e9)
        (record,) = self.index.claim_groups("one", {stored.rule_id: "acme"})
        self.own = OwnGroup(stored, record, self.settings, ())
        self.checker = Checker(self.settings, self.index, cast("Questions", self), lambda: self.now_ms / 1000)

    async def ask(self, asker: Asker, expr: str, _: RecentSamples) -> list[Sample]:
        engine = MemoryEngine(Options())
        for one in sorted(self.arrivals, key=lambda each: each.at_ms):
            if one.visible_ms <= self.now_ms:
                engine.source.append((("__name__", "m"), ("job", one.job)), one.at_ms, float(one.value))
        return list(engine.ask(Question(asker.language, expr, asker.at_ms)))

    async def ask_all(self, asker: Asker, expr: str, count: int) -> list[list[Sample]]:
        self.asked += 1
        times = (asker.at_ms + n * asker.window_ms for n in range(count))
        return [await self.ask(replace(asker, at_ms=at), expr, RecentSamples()) for at in times]

    def publish(self, number: int, one: Arrival) -> None:
        hour_ns, at_ns = hour_start(one.at_ms * 1_000_000), one.at_ms * 1_000_000
        made = segment(number, start=hour_ns, signal=Signal.METRICS, dataset="metrics", org="acme")
        made = replace(made, min_ns=at_ns, max_ns=at_ns, metric_names=("m",))
        claim = self.index.create_claimed(BatchPlan(BatchKind.COOK, "acme", "c", Signal.METRICS, hour_ns))
        self.index.publish(Publication(claim, (made,), hours=(hour_ns,)))

    def slots(self) -> list[int]:
        first = self.own.slots.latest(START_MS) + MINUTE
        return [first + n * MINUTE for n in range(BUSY + QUIET)]

    def evaluate(self, at_ms: int) -> None:
        evaluation = asyncio.run(self.own.evaluate(at_ms, 0.0, cast("Questions", self)))
        assert self.index.write_evaluation(evaluation.record, evaluation.changes, evaluation.notices)
        self.own.accept(evaluation)

    def run(self, checks: set[int]) -> None:
        """Let everything happen in its order; checks are made after some evaluations, and at the end."""
        published = sorted(self.arrivals, key=lambda one: one.visible_ms)
        waiting = list(enumerate(published, 1))
        for place, at_ms in enumerate(self.slots()):
            while waiting and waiting[0][1].visible_ms <= at_ms:
                number, one = waiting.pop(0)
                self.now_ms = one.visible_ms
                self.publish(number, one)
            self.now_ms = at_ms
            self.evaluate(at_ms)
            if place in checks:
                asyncio.run(self.checker.check_all([self.own]))
        assert not waiting
        for _ in range(len(published) + 1):
            self.now_ms += 30_000
            asyncio.run(self.checker.check_all([self.own]))

    def found(self) -> set[tuple[str, Verdict, int, int]]:
        listed = self.index.alert_corrections("acme", 0, 2**62, 1000)
        found = {(one.labels["job"], one.verdict, one.from_ms, one.to_ms) for one in listed}
        assert len(found) == len(listed)
        return found


def fires(is_true: Sequence[bool], for_ms: int, keep_ms: int) -> list[bool]:
    """Return at which minutes an alert fires, by its condition."""
    since: int | None = None
    quiet: int | None = None
    is_firing, found = False, []
    for n, true in enumerate(is_true):
        at = n * MINUTE
        if true:
            quiet, since = None, at if since is None else since
            is_firing = is_firing or at - since >= for_ms
        else:
            quiet = at if quiet is None else quiet
            is_firing = is_firing and at - quiet < keep_ms
            since = since if is_firing else None
        found.append(is_firing)
    return found


def expected(site: Site, window_min: int) -> set[tuple[str, Verdict, int, int]]:
    found = set()
    slots = site.slots()
    for job in JOBS:
        mine = [one for one in site.arrivals if one.job == job]

        def truth(at_ms: int, seen_ms: int, mine: Sequence[Arrival] = mine) -> bool:
            inside = [
                one.value
                for one in mine
                if at_ms - window_min * MINUTE < one.at_ms <= at_ms and one.visible_ms <= seen_ms
            ]
            return sum(inside) > 5

        rule = site.rule
        was = fires([truth(at, at) for at in slots], rule.for_ms, rule.keep_firing_for_ms)
        would = fires([truth(at, 2**62) for at in slots], rule.for_ms, rule.keep_firing_for_ms)
        kinds = [
            None if x == y else Verdict.WOULD_HAVE_FIRED if y else Verdict.WOULD_NOT_HAVE_FIRED
            for x, y in zip(was, would, strict=True)
        ]
        begin = 0
        for n in range(1, len(slots) + 1):
            if n == len(slots) or kinds[n] is not kinds[begin]:
                if (kind := kinds[begin]) is not None:
                    found.add((job, kind, slots[begin], slots[n - 1]))
                begin = n
    return found


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    found = []
    for job in JOBS:
        for minute in range(1, BUSY):
            value = draw(st.sampled_from([None, 0, 0, 3, 6, 9, -9]))
            late_min = draw(st.sampled_from([0, 0, 0, 0, 1, 2, 5, 9]))
            if value is not None:
                at_ms = START_MS + minute * MINUTE + 1_000
                found.append(Arrival(job, at_ms, value, at_ms + late_min * MINUTE + 1_000))
    return found


LATE = [Arrival("a", START_MS + n * MINUTE + 1_000, 9, START_MS + (n + 9) * MINUTE) for n in range(2, 8)]


KEPT = [
    Arrival("a", START_MS + n * MINUTE + 1_000, 9, START_MS + (n + late) * MINUTE + 2_000)
    for n, late in ((1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (8, 0), (10, 0), (12, 5))
]
"""An alert that goes on firing because its condition comes back before it is given up."""
TWICE = [
    *LATE[:3],
    replace(LATE[4], visible_ms=START_MS + 30 * MINUTE),
    replace(LATE[3], visible_ms=START_MS + 31 * MINUTE),
]
"""Late records of a window, and later ones that fill a gap in it."""


@settings(max_examples=25)
@given(
    arrivals(), st.sampled_from(WINDOWS_MIN), st.integers(0, 3), st.integers(0, 3),
    st.sets(st.integers(0, BUSY + QUIET - 1), max_size=12),
)  # fmt: skip
@example(LATE, 1, 2, 1, set())
@example(LATE, 3, 0, 0, set(range(BUSY + QUIET)))
@example(KEPT, 1, 3, 3, set())
@example(TWICE, 1, 0, 0, set(range(BUSY + QUIET)))
@example(TWICE, 1, 2, 0, set(range(BUSY + QUIET)))
def test_corrections_are_those_of_an_oracle(
    sent: list[Arrival], window_min: int, for_min: int, keep_min: int, checks: set[int]
) -> None:
    rule = AlertRule("Busy", f"sum_over_time(m[{window_min}m]) > 5", for_min * MINUTE, keep_min * MINUTE)
    site = Site(sent, rule)
    site.run(checks)
    assert site.found() == expected(site, window_min)


def test_records_that_come_in_time_cost_no_query() -> None:
    sent = [replace(one, visible_ms=one.at_ms + 1_000) for one in LATE]
    site = Site(sent, AlertRule("Busy", "sum_over_time(m[1m]) > 5"))
    site.run(set(range(BUSY + QUIET)))
    assert (site.found(), site.asked) == (set(), 0)


def test_late_records_of_other_metrics_cost_no_query() -> None:
    site = Site(LATE, AlertRule("Busy", "sum_over_time(other[1m]) > 5"))
    site.run({BUSY})
    assert site.asked == 0


def test_what_exceeds_the_budget_waits_and_is_counted() -> None:
    sent = [replace(one, at_ms=one.at_ms + n * 3 * MINUTE, visible_ms=one.visible_ms + 12 * MINUTE)
            for n, one in enumerate(LATE[:5])]  # fmt: skip
    site = Site(sent, AlertRule("Busy", "sum_over_time(m[1m]) > 5"))
    site.run(set())
    assert site.checker.counts["lakerunner_ruler_checks_put_off_total"] > 0
    assert site.found() == expected(site, 1)
