"""Groups of rules over answers that are given: states, series, errors, templates that ask."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.errors import QueryError
from lakerunner_query.rules.alert_states import (
    GroupState,
    Phase,
    carry_over,
    due_notifications,
    from_json,
    restore,
    to_json,
)
from lakerunner_query.rules.documents import AlertRule, RecordingRule, RuleGroup
from lakerunner_query.rules.evaluation import (
    Answer,
    GroupOutcome,
    Moment,
    Question,
    RecordedSample,
    Sample,
    drive,
    evaluate_group,
)

MINUTE = 60_000
SERIES = [Sample((("__name__", "up"), ("job", "a")), 1.0)]


class NoAnswerError(QueryError):
    status = 500


def evaluate(
    group: RuleGroup, state: GroupState, at_ms: int, ask: Callable[[Question], Answer]
) -> GroupOutcome:
    """Evaluate once, through the JSON in which a state is stored."""
    outcome = drive(evaluate_group(group, state, Moment(at_ms)), ask)
    return replace(outcome, state=from_json(to_json(outcome.state)))


def answer_always(answer: Answer, _: Question) -> Answer:
    return answer


def phases(group: RuleGroup, truth: list[bool]) -> list[str]:
    """Return the phase of the only alert at each minute; empty where it is not known."""
    state, found = GroupState(), []
    for minute, is_true in enumerate(truth):
        state = evaluate(
            group, state, minute * MINUTE, partial(answer_always, SERIES if is_true else [])
        ).state
        alerts = state.rules[0].alerts
        found.append(alerts[0].phase.value if alerts else "")
    return found


def alerting(**more: object) -> RuleGroup:
    return RuleGroup("g", (AlertRule("Up", "up", **more),))  # type: ignore[arg-type]


def test_an_alert_waits_for_its_time_and_is_resolved() -> None:
    found = phases(alerting(for_ms=2 * MINUTE), [True, True, True, False, False])
    assert found == ["pending", "pending", "firing", "inactive", "inactive"]


def test_a_pending_alert_is_forgotten() -> None:
    assert phases(alerting(for_ms=2 * MINUTE), [True, False, True]) == ["pending", "", "pending"]


def test_a_resolved_alert_is_kept_fifteen_minutes() -> None:
    found = phases(alerting(), [True] + [False] * 18)
    assert found == ["firing"] + ["inactive"] * 16 + [""] * 2


def test_an_alert_keeps_firing() -> None:
    found = phases(alerting(keep_firing_for_ms=2 * MINUTE), [True, False, False, False, True])
    assert found == ["firing", "firing", "firing", "inactive", "firing"]


def test_a_recorded_series_is_seen_by_later_rules_and_ends_with_a_marker() -> None:
    group = RuleGroup(
        "g", (RecordingRule("r", "up", {"job": "", "x": "1"}), AlertRule("A", "r")), labels={"team": "t"}
    )
    questions: list[Question] = []

    def ask(question: Question) -> Answer:
        questions.append(question)
        return SERIES if question.expr == "up" and question.at_ms == 0 else []

    first = evaluate(group, GroupState(), 0, ask)
    recorded = (("__name__", "r"), ("team", "t"), ("x", "1"))
    assert first.rules[0].samples == (RecordedSample(recorded, 0, 1.0),)
    assert questions[1].earlier == first.rules[0].samples
    second = evaluate(group, first.state, MINUTE, ask)
    assert second.samples == (RecordedSample(recorded, MINUTE, None),)
    assert evaluate(group, second.state, 2 * MINUTE, ask).samples == ()


def test_an_error_keeps_the_state() -> None:
    group = alerting()
    firing = evaluate(group, GroupState(), 0, lambda _: SERIES).state

    def fail(_: Question) -> Answer:
        raise NoAnswerError("no worker")

    failed = evaluate(group, firing, MINUTE, fail)
    assert failed.rules[0].error == "no worker"
    assert failed.state.rules[0].alerts == firing.rules[0].alerts
    assert failed.samples == ()


def test_equal_labels_and_limits_are_errors() -> None:
    twice = [Sample((("a", "1"),), 1.0), Sample((("a", "2"),), 1.0)]
    merged = RuleGroup("g", (RecordingRule("r", "x", {"a": ""}), AlertRule("A", "x", labels={"a": "b"})))
    errors = [rule.error for rule in evaluate(merged, GroupState(), 0, lambda _: twice).rules]
    assert errors == [
        "vector contains metrics with the same labelset after applying rule labels",
        "vector contains metrics with the same labelset after applying alert labels",
    ]
    limited = RuleGroup("g", (RecordingRule("r", "x"), AlertRule("A", "x")), limit=1)
    errors = [rule.error for rule in evaluate(limited, GroupState(), 0, lambda _: twice).rules]
    assert errors == ["exceeded limit of 1 with 2 series", "exceeded limit of 1 with 2 alerts"]


def test_templates_ask_and_tell_errors() -> None:
    rule = AlertRule(
        "A",
        "x",
        labels={"job": "{{ $labels.job }}-{{ query `y` | first | value }}"},
        annotations={"bad": "{{ query `z` | first | value }}"},
    )
    asked: list[str] = []

    def ask(question: Question) -> Answer:
        asked.append(question.expr)
        if question.expr == "z":
            raise NoAnswerError("no worker")
        return [Sample((), math.inf)] if question.expr == "y" else SERIES

    alert = evaluate(RuleGroup("g", (rule,)), GroupState(), 0, ask).state.rules[0].alerts[0]
    assert alert.labels == {"alertname": "A", "job": "a-+Inf"}
    assert "error calling query: no worker>" in alert.annotations["bad"]
    assert asked == ["x", "y", "z"]


def test_the_offset_moves_questions_and_samples_but_not_alerts() -> None:
    group = RuleGroup("g", (AlertRule("A", "x"),), query_offset_ms=30_000)
    outcome = evaluate(group, GroupState(), 90_000, lambda question: [Sample((), float(question.at_ms))])
    assert outcome.state.rules[0].alerts[0].active_at_ms == 90_000
    assert [(dict(one.labels)["__name__"], one.at_ms, one.value) for one in outcome.samples] == [
        ("ALERTS", 60_000, 1.0),
        ("ALERTS_FOR_STATE", 60_000, 90.0),
    ]


def test_notifications_are_repeated_and_told_the_end() -> None:
    group = alerting()
    state = evaluate(group, GroupState(), 0, lambda _: SERIES).state.rules[0]
    sent_at = []
    for second in range(0, 150, 15):
        state, due = due_notifications(state, second * 1000, 15_000, MINUTE)
        sent_at += [(second, alert.valid_until_ms) for alert in due]
    assert sent_at == [(0, 240_000), (75, 315_000)]
    resolved = evaluate(group, GroupState((state,)), 150_000, lambda _: []).state.rules[0]
    assert [alert.phase for alert in due_notifications(resolved, 150_000, 15_000, MINUTE)[1]] == [
        Phase.INACTIVE
    ]


def test_outages_do_not_count_as_time() -> None:
    group = alerting(for_ms=30 * MINUTE)
    state = evaluate(group, GroupState(), 0, lambda _: SERIES).state
    state = evaluate(group, state, 15 * MINUTE, lambda _: SERIES).state

    def active_at(down_minutes: int) -> float | None:
        alerts = restore(group, state, (15 + down_minutes) * MINUTE, MINUTE).of_rule(0).alerts
        return alerts[0].active_at_ms / MINUTE if alerts else None

    assert active_at(2) == 0
    assert active_at(20) == 20
    assert active_at(61) is None
    late = evaluate(group, state, 25 * MINUTE, lambda _: SERIES).state
    restored = restore(group, late, 45 * MINUTE, MINUTE).of_rule(0).alerts[0]
    assert restored.active_at_ms == (45 + 10 - 30) * MINUTE
    short = alerting(for_ms=5 * MINUTE)
    pending = evaluate(short, GroupState(), 0, lambda _: SERIES).state
    assert restore(short, pending, 8 * MINUTE, MINUTE).of_rule(0).alerts[0].active_at_ms == 8 * MINUTE


def test_a_changed_group_keeps_the_states_of_its_rules() -> None:
    old = RuleGroup("g", (AlertRule("A", "x"), AlertRule("B", "x")))
    state = evaluate(old, GroupState(), 0, lambda _: SERIES).state
    new = RuleGroup("g", (AlertRule("B", "x > 0"), AlertRule("A", "x", labels={"l": "1"})))
    carried = carry_over(old, new, state)
    assert carried.rules[0] == state.rules[1]
    assert carried.rules[1].alerts == ()


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 3), st.integers(0, 3))
def test_an_alert_fires_only_after_its_time(truth: list[bool], hold: int, keep: int) -> None:
    group = alerting(for_ms=hold * MINUTE, keep_firing_for_ms=keep * MINUTE)
    for minute, phase in enumerate(phases(group, truth)):
        held = len(truth[minute - hold : minute + 1]) == hold + 1 and all(truth[minute - hold : minute + 1])
        if minute >= hold and held:
            assert phase == "firing"
        if truth[minute]:
            assert phase in {"pending", "firing"}
        if phase == "firing":
            assert any(truth[max(0, minute - keep) : minute + 1])
