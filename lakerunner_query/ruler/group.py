"""One group that this process owns: its rules, its state, and one evaluation of it.

An evaluation counts once it is stored, together with the notices that follow from it. Where storing fails,
the group goes on from the state before, as if the evaluation had been missed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lakerunner_query.errors import QueryError
from lakerunner_query.ruler.notices import Announcement, Receiver, changes, notices
from lakerunner_query.ruler.questions import Asker, Questions
from lakerunner_query.ruler.recent import KEEP_MS, RecentSamples
from lakerunner_query.ruler.samples import alert_samples, encode
from lakerunner_query.ruler.schedule import Slots
from lakerunner_query.rules.alert_states import (
    GroupState,
    Phase,
    RuleState,
    carry_over,
    due_notifications,
    restore,
)
from lakerunner_query.rules.catalog import group_of
from lakerunner_query.rules.documents import AlertRule, Rule, RuleGroup
from lakerunner_query.rules.evaluation import (
    ALERT_NAME,
    ALERTS,
    ALERTS_FOR_STATE,
    Moment,
    RecordedSample,
    RuleOutcome,
    alert_series,
    evaluate_rule,
)
from lakerunner_query.rules.ruling import HeldState, RuleRun, from_stored, interval_of, to_stored
from lakerunner_query.vectors.labels import value_of
from lakerunner_query.vectors.vector import NAME, Labels
from resources.index.rule_types import StoredRule
from resources.index.ruling_types import AlertChange, GroupRecord, Notice
from resources.settings import Settings

MIN_TIMEOUT_S = 10.0
MOST_BEGUN = 4096
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything that one evaluation asks the index to store."""

    record: GroupRecord
    held: HeldState
    changes: tuple[AlertChange, ...]
    notices: tuple[Notice, ...]
    samples: bytes
    """`ALERTS` and `ALERTS_FOR_STATE`, as a message of remote write."""


@dataclass(slots=True)
class OwnGroup:
    """A group between its evaluations."""

    stored: StoredRule
    record: GroupRecord
    settings: Settings
    receivers: Sequence[Receiver]
    group: RuleGroup = field(init=False)
    interval_ms: int = field(init=False)
    slots: Slots = field(init=False)
    held: HeldState = field(init=False)
    recent: RecentSamples = field(default_factory=RecentSamples)
    next_version: StoredRule | None = None
    """A newer version of the rules, from the next evaluation on."""
    _is_resumed: bool = False
    _orphans: set[Labels] = field(default_factory=set)
    """Series of rules that are gone; the next evaluation ends them."""
    began: dict[int, int] = field(default_factory=dict)
    """Times on the clock at which evaluations began, by what they evaluated."""
    checked: dict[int, int] = field(default_factory=dict)
    """Late records that were looked at lately, with the times of their publication."""
    looked_ms: int = 0
    """Time of publication up to which late records were looked at."""

    def __post_init__(self) -> None:
        self.held = from_stored(self.record.state)
        self._read(self.stored)
        self.recent.add(_remembered(self.group, self.held.group))

    def _read(self, stored: StoredRule) -> None:
        self.stored, self.group = stored, group_of(stored)
        self.interval_ms = interval_of(self.group, round(self.settings.ruler_interval_s * 1000))
        self.slots = Slots.of(f"{stored.org}/{stored.namespace}/{stored.name}", self.interval_ms)

    @property
    def name(self) -> str:
        return f"{self.stored.org}/{self.stored.namespace}/{self.stored.name}"

    def follow(self) -> None:
        """Go on with the newer version, if there is one; rules that are in both keep their alerts."""
        if self.next_version is not None:
            before, stored = self.group, self.next_version
            self.next_version = None
            self._read(stored)
            self.take_over(before)

    def take_over(self, before: RuleGroup) -> None:
        """Give the state of another version of the group to the rules of this one."""
        old = self.held.group
        self.held = HeldState(carry_over(before, self.group, old))
        self._orphans |= _stored_series(old) - _stored_series(self.held.group)

    def end(self) -> Evaluation:
        """Return what is to be stored of a group that was deleted: all of its series end."""
        at_ms = self.record.evaluated_ms + self.interval_ms
        gone = _stored_series(self.held.group) | self._orphans
        samples = encode(RecordedSample(labels, at_ms, None) for labels in sorted(gone))
        return Evaluation(replace(self.record, state={}), HeldState(), (), (), samples)

    def began_ms(self, at_ms: int) -> int:
        """Return when an evaluation began; one of another process as early as it can have."""
        return self.began.get(at_ms, at_ms + round(self.settings.ruler_delay_s * 1000))

    def missed_before(self, at_ms: int) -> int:
        """Count the evaluations that did not take place since the last one."""
        last_ms = self.record.evaluated_ms
        is_comparable = last_ms > 0 and self.held.interval_ms == self.interval_ms
        return self.slots.missed(last_ms, at_ms) if is_comparable else 0

    async def evaluate(self, at_ms: int, delay_s: float, questions: Questions) -> Evaluation:
        """Evaluate all rules in order."""
        began = time.perf_counter()
        self.began[at_ms] = at_ms + round(delay_s * 1000)
        if len(self.began) > MOST_BEGUN:
            del self.began[next(iter(self.began))]
        state = self.held.group
        if not self._is_resumed:
            state = restore(self.group, state, at_ms, self.interval_ms)
        outcomes: list[RuleOutcome] = []
        runs: list[RuleRun] = []
        for position, rule in enumerate(self.group.rules):
            rule_began = time.perf_counter()
            outcome = await self._evaluate_rule(rule, state.of_rule(position), at_ms, questions)
            self.recent.add(outcome.samples)
            outcomes.append(outcome)
            runs.append(RuleRun(at_ms, time.perf_counter() - rule_began))
        self.recent.forget(at_ms - KEEP_MS)
        self._is_resumed = True
        return self._evaluation(state, outcomes, runs, at_ms, delay_s, time.perf_counter() - began)

    def accept(self, evaluation: Evaluation) -> None:
        """Go on from an evaluation that was stored."""
        self.record = replace(evaluation.record, checked_ms=self.record.checked_ms)
        self.held = evaluation.held
        self._orphans.clear()

    async def _evaluate_rule(
        self, rule: Rule, state: RuleState, at_ms: int, questions: Questions
    ) -> RuleOutcome:
        moment = Moment(at_ms, external_url=self.settings.explore_url)
        steps = evaluate_rule(rule, self.group, state, moment)
        try:
            question = next(steps)
            while True:
                try:
                    answer = await questions.ask(self.asker(question.at_ms), question.expr, self.recent)
                except QueryError as error:
                    question = steps.throw(error)
                else:
                    question = steps.send(answer)
        except StopIteration as end:
            outcome: RuleOutcome = end.value
            return outcome

    def asker(self, at_ms: int) -> Asker:
        timeout_s = max(MIN_TIMEOUT_S, self.interval_ms / 1000)
        return Asker(self.stored.org, self.group.language, at_ms, self.interval_ms, timeout_s)

    def _evaluation(
        self,
        before: GroupState,
        outcomes: Sequence[RuleOutcome],
        runs: Sequence[RuleRun],
        at_ms: int,
        delay_s: float,
        seconds: float,
    ) -> Evaluation:
        """Return the state after it, and what receivers and readers of the history are to know."""
        states: list[RuleState] = []
        found_changes: list[AlertChange] = []
        found_notices: list[Notice] = []
        resend_ms = round(self.settings.ruler_resend_s * 1000)
        for position, (rule, outcome) in enumerate(zip(self.group.rules, outcomes, strict=True)):
            state = outcome.state
            if isinstance(rule, AlertRule):
                earlier = before.of_rule(position).alerts
                found_changes += changes(self.stored.rule_id, earlier, state.alerts, at_ms)
                state, due = due_notifications(state, at_ms, self.interval_ms, resend_ms)
                delay_ms = round(delay_s * 1000)
                found_notices += notices(self._about(rule), self.receivers, due, earlier, delay_ms)
            states.append(state)
        held = HeldState(GroupState(tuple(states), at_ms), tuple(runs), self.interval_ms)
        errors = [outcome.error for outcome in outcomes if outcome.error]
        record = replace(
            self.record,
            version=self.stored.version,
            evaluated_ms=at_ms,
            duration_s=seconds,
            delay_s=delay_s,
            missed=self.record.missed + self.missed_before(at_ms),
            error=errors[0] if errors else "",
            state=to_stored(held),
        )
        samples = encode((*alert_samples(self.group.rules, outcomes), *self._ended(held, at_ms)))
        return Evaluation(record, held, tuple(found_changes), tuple(found_notices), samples)

    def _ended(self, held: HeldState, at_ms: int) -> list[RecordedSample]:
        """Return the ends of series whose rules are gone."""
        gone = self._orphans - _stored_series(held.group)
        return [RecordedSample(labels, at_ms, None) for labels in sorted(gone)]

    def _about(self, rule: AlertRule) -> Announcement:
        return Announcement(
            self.stored.rule_id, self.stored.org, rule, self.group.language,
            self.settings.ruler_org_label, self.settings.explore_url,
        )  # fmt: skip


def _remembered(group: RuleGroup, state: GroupState) -> list[RecordedSample]:
    """Return the series of alerts at the last evaluation, which the lake may not have yet."""
    if state.evaluated_at_ms is None:
        return []
    return [
        sample
        for rule, held in zip(group.rules, state.rules, strict=False)
        if isinstance(rule, AlertRule)
        for alert in held.alerts
        if alert.phase is not Phase.INACTIVE and alert.labels[ALERT_NAME] == rule.alert
        for sample in alert_series({**group.labels, **rule.labels}, alert, state.evaluated_at_ms)
    ]


def _stored_series(state: GroupState) -> set[Labels]:
    """Return the series of alerts that the last evaluation returned."""
    found = (tuple(sorted(labels.items())) for rule in state.rules for labels in rule.series)
    return {labels for labels in found if value_of(labels, NAME) in {ALERTS, ALERTS_FOR_STATE}}
