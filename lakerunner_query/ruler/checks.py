"""Alerts are checked again where records came after their evaluation; what they missed is written down.

    10:02 evaluated    10:07 records of 10:01 become visible    10:12 evaluated again, over 9:59 … 10:12

Late records wait until every evaluation that may see them took place, and `ruler_check_s` longer: metrics
that other rules make of them follow meanwhile. Queries are counted, and those of one round are bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TypeVar

from anyio import to_thread

from lakerunner_query.coordinator.promql import LOOKBACK_MS
from lakerunner_query.errors import QueryError
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.plan.logql_samples import log_reads
from lakerunner_query.plan.promql import reads
from lakerunner_query.promql.context import Options
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse_cached
from lakerunner_query.ruler.group import OwnGroup
from lakerunner_query.ruler.questions import Questions, can_ask_all
from lakerunner_query.ruler.recent import RecentSamples
from lakerunner_query.rules.alert_states import RuleState
from lakerunner_query.rules.chains import names_read
from lakerunner_query.rules.corrections import Comparison, Key, WarmUp, firing_sets
from lakerunner_query.rules.documents import AlertRule, RuleLanguage
from lakerunner_query.rules.evaluation import (
    ALERTS,
    ALERTS_FOR_STATE,
    Answer,
    Moment,
    RuleOutcome,
    evaluate_rule,
)
from lakerunner_query.vectors.vector import Steps
from resources.index.postgres import IndexUnavailableError
from resources.index.ruling_contract import RulerIndex
from resources.index.ruling_types import AlertChange, AlertCorrection, ChangedInput
from resources.lake.layout import Signal
from resources.lake.metric_families import ALL_SUFFIXES
from resources.lake.signals import FACTS
from resources.settings import Settings

NS_PER_MS = 1_000_000
OVERLAP_MS = 120_000
"""Publications may become visible in another order than that of their times, by no more than this."""
MARGIN_MS = 5_000
"""Time for which an evaluation may have seen an older state of the index than that of its beginning."""
CHECK_BACK_MS = 86_400_000
"""Age of records that are too late to be looked at."""
DERIVED_REACH_MS = 3_600_000
"""Reach of metrics that rules make, beside that of the query for them."""
NOTED_MS = 600_000
"""Time after which it is stored how far a group looked; another process looks at that much again."""
MOST_INPUTS = 10_000
MOST_SLOTS = 5_000
"""Evaluations of one check."""
SLOTS_AT_ONCE = 50
_log = logging.getLogger(__name__)
Interval = tuple[int, int]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class RuleReach:
    """Times around an evaluation that a rule reads."""

    back_ms: int
    ahead_ms: int


@lru_cache(maxsize=4096)
def reach_of(language: RuleLanguage, text: str, interval_ms: int) -> RuleReach | None:
    """Return what a rule reads around its evaluation; None where that has no bounds, or is no query."""
    base_ms = CHECK_BACK_MS * 10_000
    try:
        if language is RuleLanguage.PROMQL:
            expr = bind(parse_cached(text), base_ms, base_ms, 0)
            options = Options()
            found = reads(expr, Steps(base_ms, 0, 1), LOOKBACK_MS, options.default_subquery_step_ms)
            back_ms = max((base_ms - each.from_ms + each.before_ms for each in found), default=0)
            ahead_ms = max((each.to_ms - base_ms for each in found), default=0)
        elif language is RuleLanguage.LOGQL:
            query = parse_expr(text)
            if isinstance(query, LogQuery):
                return None
            ranges = log_reads(query, LogSteps(base_ms * NS_PER_MS))
            back_ms = max((base_ms - each.from_ns // NS_PER_MS for each in ranges), default=0)
            ahead_ms = max((each.to_ns // NS_PER_MS - base_ms for each in ranges), default=0)
        else:
            back_ms, ahead_ms = interval_ms, 0
    except QueryError:
        return None
    is_bounded = max(back_ms, ahead_ms) <= CHECK_BACK_MS
    return RuleReach(max(0, back_ms), max(0, ahead_ms)) if is_bounded else None


@dataclass(slots=True)
class Checker:
    """Checks groups again; `made` are names of metrics that rules make, by organisation."""

    settings: Settings
    index: RulerIndex
    questions: Questions
    clock: Callable[[], float]
    counts: Counter[str] = field(default_factory=Counter)
    made: dict[str, tuple[str, ...]] = field(default_factory=dict)
    spent: int = 0
    """Queries of this round."""

    async def check_all(self, groups: Sequence[OwnGroup]) -> None:
        """Check the groups, those first that were looked at longest ago."""
        self.spent = 0
        oldest_first = sorted(groups, key=_looked_ms)
        for org in dict.fromkeys(one.stored.org for one in oldest_first):
            mine = [one for one in oldest_first if one.stored.org == org]
            after_ms = min(map(_looked_ms, mine)) - OVERLAP_MS
            inputs = await self._ask(
                self.index.changed_inputs, org, after_ms, self.settings.ruler_check_s, MOST_INPUTS
            )
            for own in mine:
                try:
                    await self._check(own, inputs)
                except IndexUnavailableError:
                    raise
                except Exception:  # noqa: BLE001 - other groups go on
                    self.counts["lakerunner_ruler_check_failures_total"] += 1
                    _log.exception("%s: late records were not looked at", own.name)

    async def _check(self, own: OwnGroup, inputs: Sequence[ChangedInput]) -> None:
        """Look at records that came since the last time, and write down what changes."""
        state = own.held.group
        rules = [
            one
            for place, one in enumerate(own.group.rules)
            if isinstance(one, AlertRule) and self._reach(own, one) and not state.of_rule(place).error
        ]
        after_ms = _looked_ms(own) - OVERLAP_MS
        fresh = [one for one in inputs if one.published_ms > after_ms and one.input_id not in own.checked]
        waiting: list[ChangedInput] = []
        for window, late in self._windows(own, rules, fresh):
            cost = sum(self._cost(own, rule, window) for rule in rules)
            is_closed = window[1] <= own.record.evaluated_ms
            has_room = not self.spent or self.spent + cost <= self.settings.ruler_check_queries
            if is_closed and has_room and await self._check_window(own, rules, window):
                continue
            waiting += late
            if is_closed and not has_room:
                self.counts["lakerunner_ruler_checks_put_off_total"] += 1
        is_page = len(inputs) == MOST_INPUTS
        await self._note(own, fresh, waiting, inputs[-1].published_ms if is_page else 0)

    async def _note(
        self,
        own: OwnGroup,
        fresh: Sequence[ChangedInput],
        waiting: Sequence[ChangedInput],
        page_ends_ms: int,
    ) -> None:
        """Remember what was looked at; behind a full page nothing is looked at twice."""
        left = {one.input_id for one in waiting}
        done = [one for one in fresh if one.input_id not in left]
        own.checked.update((one.input_id, one.published_ms) for one in done)
        looked_ms = max(
            [_looked_ms(own), page_ends_ms + OVERLAP_MS if page_ends_ms else 0, *own.checked.values()]
        )
        own.looked_ms = min(looked_ms, min((one.published_ms for one in waiting), default=2**62) - 1)
        own.checked = {key: at for key, at in own.checked.items() if at > own.looked_ms - OVERLAP_MS}
        if own.looked_ms >= own.record.checked_ms + NOTED_MS:
            record = replace(own.record, checked_ms=own.looked_ms)
            if await self._ask(self.index.write_check, record, None, []):
                own.record = replace(own.record, checked_ms=record.checked_ms)

    async def _ask(self, method: Callable[..., Found], *arguments: object) -> Found:
        return await to_thread.run_sync(partial(method, *arguments))

    def _windows(
        self, own: OwnGroup, rules: Sequence[AlertRule], inputs: Sequence[ChangedInput]
    ) -> Iterator[tuple[Interval, list[ChangedInput]]]:
        """Yield intervals of evaluations to make again, those that meet as one, with their late records."""
        found = []
        for one in inputs:
            touched = [rule for rule in rules if self._reads(own, rule, one)]
            if touched and (window := self._window(own, touched, one)) is not None:
                found.append((window, one))
        joined: list[tuple[Interval, list[ChangedInput]]] = []
        for window, one in sorted(found, key=lambda each: each[0]):
            if joined and window[0] <= joined[-1][0][1] + own.interval_ms:
                (first, last), late = joined[-1]
                joined[-1] = ((first, max(last, window[1])), [*late, one])
            else:
                joined.append((window, [one]))
        yield from joined

    def _window(self, own: OwnGroup, rules: Sequence[AlertRule], one: ChangedInput) -> Interval | None:
        """Return the evaluations that records may change; None: all of them saw the records."""
        reaches = [reach for rule in rules if (reach := self._reach(own, rule)) is not None]
        offset_ms = own.group.query_offset_ms or 0
        first_ms = one.min_ns // NS_PER_MS + offset_ms - max(reach.ahead_ms for reach in reaches)
        slot = own.slots.latest(first_ms - 1) + own.interval_ms
        slot = max(slot, _first_slot(own))
        last_ms = one.max_ns // NS_PER_MS + offset_ms + max(reach.back_ms for reach in reaches)
        if slot > min(own.record.evaluated_ms, last_ms) or own.began_ms(slot) - MARGIN_MS >= one.published_ms:
            return None
        if slot < self.clock() * 1000 - CHECK_BACK_MS:
            self.counts["lakerunner_ruler_checks_refused_total"] += 1
            return None
        settle_ms = max(max(rule.for_ms, rule.keep_firing_for_ms) for rule in rules)
        return slot, own.slots.latest(last_ms + settle_ms) + own.interval_ms

    def _reads(self, own: OwnGroup, rule: AlertRule, one: ChangedInput) -> bool:
        """Tell whether a rule may read records of an input, or metrics that are made of them."""
        if own.group.language is not RuleLanguage.PROMQL:
            signal = {RuleLanguage.LOGQL: Signal.LOGS, RuleLanguage.TRACEQL: Signal.TRACES}
            return signal.get(own.group.language, one.signal) is one.signal
        if names_read(rule.expr, self.made.get(own.stored.org, ())):
            return True
        if FACTS[one.signal].recorded_by != own.group.language.value:
            return False
        names = [name + suffix for name in one.metric_names for suffix in ("", *ALL_SUFFIXES)]
        return not names or bool(names_read(rule.expr, names))

    def _reach(self, own: OwnGroup, rule: AlertRule) -> RuleReach | None:
        """Return the reach of a rule; None: it is not checked, as one that reads decisions."""
        reach = reach_of(own.group.language, rule.expr, own.interval_ms)
        if reach is None or own.group.language is not RuleLanguage.PROMQL:
            return reach
        if names_read(rule.expr, [ALERTS, ALERTS_FOR_STATE]):
            return None
        is_derived = bool(names_read(rule.expr, self.made.get(own.stored.org, ())))
        return replace(reach, back_ms=reach.back_ms + DERIVED_REACH_MS) if is_derived else reach

    def _cost(self, own: OwnGroup, rule: AlertRule, window: Interval) -> int:
        slots = (window[1] - _warm_from(own, rule, window[0])) // own.interval_ms + 1
        return 1 if can_ask_all(own.group.language, rule.expr) else slots

    async def _check_window(self, own: OwnGroup, rules: Sequence[AlertRule], window: Interval) -> bool:
        """Evaluate an interval again and write what differs; False: later, once more."""
        rule_id, now_ms = own.stored.rule_id, round(self.clock() * 1000)
        first, last = window
        while True:
            known, (first, last) = await self._with_known(own, (first, last))
            if last - first > MOST_SLOTS * own.interval_ms:
                self.counts["lakerunner_ruler_checks_refused_total"] += 1
                return True
            changes = await self._ask(self.index.changes_of_rule, rule_id, first, last)
            compared = [await self._compare(own, rule, changes, (first, last)) for rule in rules]
            is_even = all(one is None or one.is_even for one in compared)
            if is_even or None in compared or last >= own.record.evaluated_ms:
                break
            settle_ms = max(max(one.for_ms, one.keep_firing_for_ms) for one in rules) + own.interval_ms
            last = min(own.record.evaluated_ms, own.slots.latest(last + 2 * settle_ms))
        self.counts["lakerunner_ruler_checks_total"] += 1
        if any(one is None for one in compared):
            return False
        found = [
            correction
            for rule, one in zip(rules, compared, strict=True)
            if one is not None
            for correction in one.corrections(rule_id, rule.alert, now_ms)
        ]
        checked = {rule.alert for rule in rules}
        found = [_found_first(one, known) for one in found]
        found += [one for one in known if one.alert not in checked]
        self.counts["lakerunner_ruler_corrections_total"] += sum(one.found_ms == now_ms for one in found)
        await self._ask(self.index.write_check, own.record, (first, last), found)
        return is_even

    async def _with_known(self, own: OwnGroup, window: Interval) -> tuple[list[AlertCorrection], Interval]:
        """Widen an interval by the corrections that reach into it, or meet it; older rules made others."""
        first, last = window
        while True:
            met = await self._ask(
                self.index.corrections_of_rule, own.stored.rule_id, first - own.interval_ms, last
            )
            known = [one for one in met if one.from_ms >= _first_slot(own)]
            wider = (
                min([first, *(one.from_ms for one in known)]),
                max([last, *(one.to_ms for one in known)]),
            )
            if wider == (first, last):
                return known, wider
            first, last = wider

    async def _compare(
        self, own: OwnGroup, rule: AlertRule, changes: Sequence[AlertChange], window: Interval
    ) -> Comparison | None:
        """Evaluate a rule again over an interval; None: it fails."""
        first, last = window
        begin = _warm_from(own, rule, first)
        count = (last - begin) // own.interval_ms + 1
        times = [begin + place * own.interval_ms for place in range(count)]
        decided = [_of_rule(rule, one) for one in firing_sets(changes, rule.alert, times)]
        asker = own.asker(begin - (own.group.query_offset_ms or 0))
        self.spent += self._cost(own, rule, window)
        warm, compared = WarmUp(own.interval_ms), Comparison()
        state = warm.state
        try:
            answers = await self.questions.ask_all(asker, rule.expr, count)
            for place, (at_ms, answer) in enumerate(zip(times, answers, strict=True)):
                if at_ms == first:
                    state = warm.first_state(decided[place - 1], times[place - 1])
                state = await self._evaluate(own, rule, state, at_ms, answer)
                if at_ms < first:
                    warm.add(at_ms, state)
                else:
                    compared.add(at_ms, decided[place], state)
                if place % SLOTS_AT_ONCE == 0:
                    await asyncio.sleep(0)  # evaluations that are due go first
        except QueryError as error:
            self.counts["lakerunner_ruler_check_failures_total"] += 1
            _log.warning("%s: %s is not checked again: %s", own.name, rule.alert, error)
            return None
        return compared

    async def _evaluate(
        self, own: OwnGroup, rule: AlertRule, state: RuleState, at_ms: int, answer: Answer
    ) -> RuleState:
        """Evaluate a rule whose answer is known; its templates may ask more."""
        steps = evaluate_rule(rule, own.group, state, Moment(at_ms, external_url=self.settings.explore_url))
        try:
            question = next(steps)
            while True:
                if question.expr == rule.expr:
                    question = steps.send(answer)
                    continue
                self.spent += 1
                asker = own.asker(question.at_ms)
                try:
                    told = await self.questions.ask(asker, question.expr, RecentSamples())
                except QueryError as error:
                    question = steps.throw(error)
                else:
                    question = steps.send(told)
        except StopIteration as end:
            outcome: RuleOutcome = end.value
            return outcome.state


def _looked_ms(own: OwnGroup) -> int:
    """Return the time of publication up to which a group looked; older rules were not these."""
    return max(own.looked_ms, own.record.checked_ms, own.stored.updated_at_ns // NS_PER_MS)


def _first_slot(own: OwnGroup) -> int:
    """Return the first evaluation of these rules."""
    return own.slots.latest(own.stored.updated_at_ns // NS_PER_MS) + own.interval_ms


def _warm_from(own: OwnGroup, rule: AlertRule, first_ms: int) -> int:
    """Return the first evaluation that tells in which state an alert was at `first_ms`."""
    span_ms = max(rule.for_ms, rule.keep_firing_for_ms)
    return first_ms - (-(-span_ms // own.interval_ms) + 1) * own.interval_ms


def _of_rule(rule: AlertRule, firing: frozenset[Key]) -> frozenset[Key]:
    """Leave out the alerts of another rule of the same name, which has other labels."""
    fixed = {item for item in rule.labels.items() if "{{" not in item[1] and item[1]}
    return frozenset(key for key in firing if fixed <= set(key)) if fixed else firing


def _found_first(found: AlertCorrection, known: Sequence[AlertCorrection]) -> AlertCorrection:
    """Keep the time at which a correction was found that another check finds again."""
    for one in known:
        if replace(one, to_ms=found.to_ms, found_ms=found.found_ms, value=found.value) == found:
            return replace(found, found_ms=one.found_ms)
    return found
