"""Alerts go from inactive over pending and firing back to inactive, as in Prometheus.

    true at 0, 1, 2, 3 min; for: 2m   →   pending, pending, firing, firing
    no longer true                    →   inactive, kept for 15 minutes so that all receivers hear of it

States are values without methods that change them; the ruler keeps them as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from lakerunner_query.rules.documents import AlertRule, RuleGroup

RESOLVED_RETENTION_MS = 15 * 60_000
"""Time that a resolved alert is remembered, so that its end is sent again if nobody heard it."""
OUTAGE_TOLERANCE_MS = 60 * 60_000
"""Longest time without evaluations after which a state is still worth something."""
GRACE_PERIOD_MS = 10 * 60_000
"""Time that an alert with a `for` at least as long waits after an outage before it fires."""


class Phase(StrEnum):
    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"


class ActiveAlert(msgspec.Struct, frozen=True, omit_defaults=True):
    """One series of an alert rule that is, or lately was, true."""

    labels: dict[str, str]
    annotations: dict[str, str]
    phase: Phase
    value: str
    """The number as text: JSON knows neither NaN nor infinity."""
    active_at_ms: int
    fired_at_ms: int | None = None
    resolved_at_ms: int | None = None
    keep_firing_since_ms: int | None = None
    sent_at_ms: int | None = None
    valid_until_ms: int | None = None
    """Time at which receivers forget the alert unless it is sent again."""

    @property
    def number(self) -> float:
        return float(self.value)

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(self.labels.items()))


class RuleState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that one evaluation of a rule leaves for the next one."""

    alerts: tuple[ActiveAlert, ...] = ()
    series: tuple[dict[str, str], ...] = ()
    """Series that the last evaluation returned; those that are gone get a stale marker."""
    error: str = ""
    """Error of the last evaluation; empty: there was none."""


class GroupState(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of a group: one entry per rule, in the order of the rules."""

    rules: tuple[RuleState, ...] = ()
    evaluated_at_ms: int | None = None

    def of_rule(self, position: int) -> RuleState:
        return self.rules[position] if position < len(self.rules) else RuleState()


class TooManyAlertsError(Exception):
    """A rule has more active alerts than its group allows."""


def to_json(state: GroupState) -> bytes:
    return msgspec.json.encode(state)


def from_json(text: bytes | str) -> GroupState:
    return msgspec.json.decode(text, type=GroupState)


def next_alerts(
    rule: AlertRule, before: Sequence[ActiveAlert], found: Sequence[ActiveAlert], at_ms: int, limit: int = 0
) -> tuple[tuple[ActiveAlert, ...], tuple[ActiveAlert, ...]]:
    """Return all alerts after an evaluation, and those of them that are pending or firing.

    `found` are the series for which the rule is true now, as if they were new.
    """
    present = {alert.key: alert for alert in found}
    known = {alert.key: _updated(alert, present.get(alert.key)) for alert in before}
    known |= {key: alert for key, alert in present.items() if key not in known}
    kept: list[ActiveAlert] = []
    active: list[ActiveAlert] = []
    for key, alert in known.items():
        current = _present(rule, alert, at_ms) if key in present else _absent(rule, alert, at_ms)
        if current is None:
            continue
        kept.append(current)
        if current.phase is not Phase.INACTIVE:
            active.append(current)
    if limit and len(active) > limit:
        raise TooManyAlertsError(f"exceeded limit of {limit} with {len(active)} alerts")
    return tuple(kept), tuple(active)


def _updated(alert: ActiveAlert, found: ActiveAlert | None) -> ActiveAlert:
    """Take over value and annotations; an alert that was resolved begins anew."""
    if found is None:
        return alert
    if alert.phase is Phase.INACTIVE:
        return found
    return replace(alert, value=found.value, annotations=found.annotations)


def _present(rule: AlertRule, alert: ActiveAlert, at_ms: int) -> ActiveAlert:
    if alert.keep_firing_since_ms is not None:
        alert = replace(alert, keep_firing_since_ms=None)
    if alert.phase is Phase.PENDING and at_ms - alert.active_at_ms >= rule.for_ms:
        return replace(alert, phase=Phase.FIRING, fired_at_ms=at_ms)
    return alert


def _absent(rule: AlertRule, alert: ActiveAlert, at_ms: int) -> ActiveAlert | None:
    """Return the alert after its series is gone; None: it is forgotten."""
    if alert.phase is Phase.PENDING:
        return None
    if alert.phase is Phase.INACTIVE:
        is_old = alert.resolved_at_ms is not None and at_ms - alert.resolved_at_ms > RESOLVED_RETENTION_MS
        return None if is_old else alert
    if rule.keep_firing_for_ms > 0:
        since_ms = at_ms if alert.keep_firing_since_ms is None else alert.keep_firing_since_ms
        alert = replace(alert, keep_firing_since_ms=since_ms)
        if at_ms - since_ms < rule.keep_firing_for_ms:
            return alert
    return replace(alert, phase=Phase.INACTIVE, resolved_at_ms=at_ms)


def due_notifications(
    state: RuleState, at_ms: int, interval_ms: int, resend_ms: int
) -> tuple[RuleState, tuple[ActiveAlert, ...]]:
    """Return the alerts to send now, and the state in which they count as sent.

    A receiver forgets an alert that four evaluations, or resends, did not repeat.
    """
    valid_until_ms = at_ms + 4 * max(interval_ms, resend_ms)
    due: dict[int, ActiveAlert] = {}
    for place, alert in enumerate(state.alerts):
        if _needs_sending(alert, at_ms, resend_ms):
            due[place] = replace(alert, sent_at_ms=at_ms, valid_until_ms=valid_until_ms)
    if not due:
        return state, ()
    alerts = tuple(due.get(place, alert) for place, alert in enumerate(state.alerts))
    return replace(state, alerts=alerts), tuple(due.values())


def _needs_sending(alert: ActiveAlert, at_ms: int, resend_ms: int) -> bool:
    if alert.phase is Phase.PENDING:
        return False
    if alert.sent_at_ms is None:
        return True
    if alert.resolved_at_ms is not None and alert.resolved_at_ms > alert.sent_at_ms:
        return True
    return alert.sent_at_ms + resend_ms < at_ms


def restore(group: RuleGroup, state: GroupState, at_ms: int, interval_ms: int) -> GroupState:
    """Return the state with which a group goes on that was last evaluated some time ago.

    Nothing changes if at most one evaluation was missed. After a longer outage a pending alert does not count
    the time for which nobody looked, and has at least ten minutes before it fires; if its `for` is shorter
    than that, it waits for all of it again. Firing alerts go on. After more than an hour nothing is known.
    """
    if state.evaluated_at_ms is None or at_ms - state.evaluated_at_ms <= 2 * interval_ms:
        return state
    if at_ms - state.evaluated_at_ms > OUTAGE_TOLERANCE_MS:
        return GroupState(evaluated_at_ms=state.evaluated_at_ms)
    rules = []
    for position, rule in enumerate(group.rules):
        one = state.of_rule(position)
        if isinstance(rule, AlertRule):
            alerts = tuple(_restored(rule, alert, state.evaluated_at_ms, at_ms) for alert in one.alerts)
            one = replace(one, alerts=alerts)
        rules.append(one)
    return replace(state, rules=tuple(rules))


def _restored(rule: AlertRule, alert: ActiveAlert, down_at_ms: int, at_ms: int) -> ActiveAlert:
    if alert.phase is not Phase.PENDING:
        return alert
    if rule.for_ms < GRACE_PERIOD_MS:
        return replace(alert, active_at_ms=at_ms)
    remaining_ms = rule.for_ms - (down_at_ms - alert.active_at_ms)
    if remaining_ms < GRACE_PERIOD_MS:
        return replace(alert, active_at_ms=at_ms + GRACE_PERIOD_MS - rule.for_ms)
    return replace(alert, active_at_ms=alert.active_at_ms + at_ms - down_at_ms)


def carry_over(old: RuleGroup, new: RuleGroup, state: GroupState) -> GroupState:
    """Return the state of a group that was changed: rules of the same name and labels keep theirs.

    Series of rules that are gone go to no rule; they end as series do that nobody writes any more.
    """
    waiting: dict[object, list[RuleState]] = {}
    for position, rule in enumerate(old.rules):
        waiting.setdefault(_identity(rule, old.labels), []).append(state.of_rule(position))
    rules = []
    for rule in new.rules:
        known = waiting.get(_identity(rule, new.labels))
        rules.append(known.pop(0) if known else RuleState())
    return replace(state, rules=tuple(rules))


def _identity(rule: object, labels: Mapping[str, str]) -> object:
    name = rule.alert if isinstance(rule, AlertRule) else getattr(rule, "record", "")
    own = getattr(rule, "labels", {})
    return type(rule), name, tuple(sorted({**labels, **own}.items()))
