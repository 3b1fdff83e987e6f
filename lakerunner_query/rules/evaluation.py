"""Rules of a group are evaluated in order; the evaluation asks, its driver answers.

    steps = evaluate_group(group, GroupState(), Moment(at_ms=60_000))
    question = next(steps)              Question(PROMQL, "rate(errors[5m]) > 1", 60_000)
    steps.send([Sample((("job", "a"),), 2.5)])

A generator suits drivers that wait (the ruler) and such that do not (tests of rules); `drive` is the latter.
A driver throws a `QueryError` into the generator where a question has no answer. Templates that ask are
expanded again with each answer, because a template cannot wait.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from lakerunner_query.errors import QueryError
from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.gotext.values import TemplateError
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.rules.alert_states import (
    ActiveAlert,
    GroupState,
    Phase,
    RuleState,
    TooManyAlertsError,
    next_alerts,
)
from lakerunner_query.rules.documents import AlertRule, RecordingRule, Rule, RuleGroup, RuleLanguage
from lakerunner_query.rules.templates import AlertTemplate, expand
from lakerunner_query.vectors.vector import NAME, Labels, Scalar, Value, Vector

ALERT_NAME, ALERT_STATE = "alertname", "alertstate"
ALERTS, ALERTS_FOR_STATE = "ALERTS", "ALERTS_FOR_STATE"
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of an answer; a scalar is a sample without labels."""

    labels: Labels
    value: float | Histogram


@dataclass(frozen=True, slots=True)
class RecordedSample:
    """One sample that a rule makes."""

    labels: Labels
    at_ms: int
    value: float | Histogram | None
    """None: the series has ended (a stale marker)."""


@dataclass(frozen=True, slots=True)
class Question:
    """An instant query that the evaluation needs."""

    language: RuleLanguage
    expr: str
    at_ms: int
    earlier: tuple[RecordedSample, ...] = ()
    """Samples that earlier rules of this cycle made; the query must see them."""


Answer = Sequence[Sample]


@dataclass(frozen=True, slots=True)
class Moment:
    """Time of an evaluation, and facts about the server that templates show."""

    at_ms: int
    query_offset_ms: int = 0
    """Offset of groups that have none of their own."""
    external_labels: Mapping[str, str] = field(default_factory=dict)
    external_url: str = ""


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The result of one rule."""

    state: RuleState
    samples: tuple[RecordedSample, ...] = ()

    @property
    def error(self) -> str:
        return self.state.error


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    state: GroupState
    rules: tuple[RuleOutcome, ...]

    @property
    def samples(self) -> tuple[RecordedSample, ...]:
        return tuple(sample for rule in self.rules for sample in rule.samples)


class RuleError(QueryError):
    """A rule cannot be evaluated; its state stays as it was."""

    status = 422
    code = "execution"


def samples_of(value: Value) -> list[Sample]:
    """Return the samples of an answer at one time; a scalar is one without labels."""
    if isinstance(value, Scalar):
        return [Sample((), float(value.values[0]))]
    if not isinstance(value, Vector):
        raise RuleError("rule result is not a vector or scalar")
    found: list[Sample] = []
    for row, labels in enumerate(value.labels):
        if value.present[row, 0]:
            histogram = None if value.histograms is None else value.histograms[row, 0]
            found.append(Sample(labels, float(value.values[row, 0]) if histogram is None else histogram))
    return found


def evaluate_group(
    group: RuleGroup, state: GroupState, moment: Moment
) -> Generator[Question, Answer, GroupOutcome]:
    """Evaluate all rules; one that fails does not keep the others from being evaluated."""
    outcomes: list[RuleOutcome] = []
    earlier: tuple[RecordedSample, ...] = ()
    for position, rule in enumerate(group.rules):
        outcome = yield from evaluate_rule(rule, group, state.of_rule(position), moment, earlier)
        earlier += outcome.samples
        outcomes.append(outcome)
    states = tuple(outcome.state for outcome in outcomes)
    return GroupOutcome(GroupState(states, moment.at_ms), tuple(outcomes))


def evaluate_rule(
    rule: Rule,
    group: RuleGroup,
    state: RuleState,
    moment: Moment,
    earlier: tuple[RecordedSample, ...] = (),
) -> Generator[Question, Answer, RuleOutcome]:
    """Evaluate one rule; an error keeps its alerts and its series as they were."""
    offset_ms = moment.query_offset_ms if group.query_offset_ms is None else group.query_offset_ms
    data_ms = moment.at_ms - offset_ms
    try:
        answer = yield Question(group.language, rule.expr, data_ms, earlier)
        if isinstance(rule, AlertRule):
            found = yield from _find_alerts(rule, group, answer, moment, earlier)
            alerts, active = next_alerts(rule, state.alerts, found, moment.at_ms, group.limit)
            own = {**group.labels, **rule.labels}
            samples = [sample for alert in active for sample in alert_series(own, alert, data_ms)]
        else:
            alerts = ()
            samples = _recorded(rule, group, answer, data_ms)
    except TooManyAlertsError as error:
        return RuleOutcome(replace(state, alerts=(), error=str(error)))
    except QueryError as error:
        return RuleOutcome(replace(state, error=str(error)))
    series = tuple(dict(sample.labels) for sample in samples)
    ended = _ended(state, samples, data_ms)
    return RuleOutcome(RuleState(alerts, series), (*samples, *ended))


def drive(steps: Generator[Question, Answer, _Result], ask: Callable[[Question], Answer]) -> _Result:
    """Run an evaluation to its end, answering at once."""
    try:
        question = next(steps)
        while True:
            try:
                answer = ask(question)
            except QueryError as error:
                question = steps.throw(error)
            else:
                question = steps.send(answer)
    except StopIteration as end:
        result: _Result = end.value
        return result


def _recorded(rule: RecordingRule, group: RuleGroup, answer: Answer, at_ms: int) -> list[RecordedSample]:
    own = {**group.labels, **rule.labels, NAME: rule.record}
    samples = [RecordedSample(_with_labels(one.labels, own), at_ms, one.value) for one in answer]
    if len({sample.labels for sample in samples}) < len(samples):
        raise RuleError("vector contains metrics with the same labelset after applying rule labels")
    if group.limit and len(samples) > group.limit:
        raise RuleError(f"exceeded limit of {group.limit} with {len(samples)} series")
    return samples


def _with_labels(labels: Labels, more: Mapping[str, str]) -> Labels:
    """Set labels; an empty value removes one."""
    return tuple(sorted((name, value) for name, value in {**dict(labels), **more}.items() if value))


def _ended(state: RuleState, samples: Sequence[RecordedSample], at_ms: int) -> list[RecordedSample]:
    """Return stale markers of series that the evaluation before returned, and this one does not."""
    if not state.series:
        return []
    present = {sample.labels for sample in samples}
    before = (tuple(sorted(labels.items())) for labels in state.series)
    return [RecordedSample(labels, at_ms, None) for labels in before if labels not in present]


def alert_series(
    own: Mapping[str, str], alert: ActiveAlert, at_ms: int
) -> tuple[RecordedSample, RecordedSample]:
    """Return `ALERTS` and `ALERTS_FOR_STATE` of a pending or firing alert.

    A label in `own`, those of the rule, whose template expands to nothing keeps its text, as in Prometheus.
    """
    labels = tuple({**own, **alert.labels}.items())
    state = _with_labels(labels, {NAME: ALERTS, ALERT_STATE: alert.phase.value})
    since = _with_labels(labels, {NAME: ALERTS_FOR_STATE})
    return (
        RecordedSample(state, at_ms, 1.0),
        RecordedSample(since, at_ms, float(alert.active_at_ms // 1000)),
    )


def _find_alerts(
    rule: AlertRule, group: RuleGroup, answer: Answer, moment: Moment, earlier: tuple[RecordedSample, ...]
) -> Generator[Question, Answer, list[ActiveAlert]]:
    """Return the alerts that are true now, with their labels and annotations expanded."""
    found: dict[Labels, ActiveAlert] = {}
    answers: dict[str, Answer | QueryError] = {}
    own = {**group.labels, **rule.labels}
    for one in answer:
        data = AlertTemplate(
            rule.alert,
            dict(one.labels),
            one.value,
            moment.at_ms,
            moment.external_labels,
            moment.external_url,
        )
        texts: dict[str, dict[str, str]] = {"labels": {}, "annotations": {}}
        for kind, templates in (("labels", own), ("annotations", rule.annotations)):
            for name in sorted(templates):
                expanding = _expand(templates[name], data, answers, group.language, earlier)
                texts[kind][name] = yield from expanding
        bare = tuple(pair for pair in one.labels if pair[0] != NAME)
        labels = _with_labels(bare, {**texts["labels"], ALERT_NAME: rule.alert})
        if labels in found:
            raise RuleError("vector contains metrics with the same labelset after applying alert labels")
        value = 0.0 if isinstance(one.value, Histogram) else one.value
        found[labels] = ActiveAlert(
            dict(labels), texts["annotations"], Phase.PENDING, format_float(value), moment.at_ms
        )
    return list(found.values())


class _UnknownAnswerError(Exception):
    """A template asks something that was not asked before."""

    def __init__(self, query: str) -> None:
        super().__init__(query)
        self.query = query


def _expand(
    text: str,
    data: AlertTemplate,
    answers: dict[str, Answer | QueryError],
    language: RuleLanguage,
    earlier: tuple[RecordedSample, ...],
) -> Generator[Question, Answer, str]:
    """Expand a template, from its beginning again after each answer that it lacked."""

    def answered(query: str) -> list[tuple[Mapping[str, str], float | Histogram]]:
        if query not in answers:
            raise _UnknownAnswerError(query)
        known = answers[query]
        if isinstance(known, QueryError):
            raise TemplateError(str(known))
        return [(dict(sample.labels), sample.value) for sample in known]

    while True:
        try:
            return expand(text, data, answered)
        except _UnknownAnswerError as unknown:
            try:
                answers[unknown.query] = yield Question(language, unknown.query, data.at_ms, earlier)
            except QueryError as error:
                answers[unknown.query] = error
