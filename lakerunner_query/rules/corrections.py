"""Evaluations of an alert rule are repeated over all data and compared with the decisions; pure.

    decided         . . . F F F . . .        F: firing
    over all data   . F F F F . . . .
                      └┬┘     └┬┘
        would have fired       would not have fired

Both agree just before the first evaluation that is made again: corrections that reach there were taken along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from lakerunner_query.rules.alert_states import ActiveAlert, Phase, RuleState
from resources.index.ruling_types import AlertChange, AlertCorrection, AlertState, Verdict

Key = tuple[tuple[str, str], ...]
"""Labels of an alert."""


@dataclass(slots=True)
class Comparison:
    """States of the alerts of one rule at a row of evaluations, decided and over all data."""

    slots: list[int] = field(default_factory=list)
    decided: list[frozenset[Key]] = field(default_factory=list)
    firing: list[dict[Key, str]] = field(default_factory=list)
    """Values of firing alerts."""

    def add(self, at_ms: int, decided: frozenset[Key], state: RuleState) -> None:
        self.slots.append(at_ms)
        self.decided.append(decided)
        self.firing.append({alert.key: alert.value for alert in state.alerts if alert.phase is Phase.FIRING})

    @property
    def is_even(self) -> bool:
        """True if both say the same in the end."""
        return not self.slots or self.decided[-1] == self.firing[-1].keys()

    def corrections(self, rule_id: int, alert: str, found_ms: int) -> list[AlertCorrection]:
        """Return each run of evaluations at which the two differ in one way."""
        found: list[AlertCorrection] = []
        keys = sorted(set().union(*self.decided, *self.firing))
        for key in keys:
            run: list[int] = []
            kind: Verdict | None = None
            for place in range(len(self.slots) + 1):
                now = self._verdict(key, place)
                if now is not kind and kind is not None:
                    found.append(self._correction(rule_id, alert, key, kind, run, found_ms))
                run = [*run, place] if now is kind else [place]
                kind = now
        return found

    def _verdict(self, key: Key, place: int) -> Verdict | None:
        if place == len(self.slots):
            return None
        was, would = key in self.decided[place], key in self.firing[place]
        if was == would:
            return None
        return Verdict.WOULD_HAVE_FIRED if would else Verdict.WOULD_NOT_HAVE_FIRED

    def _correction(
        self, rule_id: int, alert: str, key: Key, kind: Verdict, run: Sequence[int], found_ms: int
    ) -> AlertCorrection:
        first, last = self.slots[run[0]], self.slots[run[-1]]
        value = self.firing[run[0]].get(key, "")
        return AlertCorrection(rule_id, alert, dict(key), kind, first, last, value, found_ms)


def firing_sets(changes: Sequence[AlertChange], alert: str, times: Sequence[int]) -> list[frozenset[Key]]:
    """Return the alerts of a rule that fired after each evaluation; changes and times are in order."""
    waiting = [one for one in reversed(changes) if one.alert == alert]
    found: list[frozenset[Key]] = []
    firing: frozenset[Key] = frozenset()
    for at_ms in times:
        while waiting and waiting[-1].at_ms <= at_ms:
            change = waiting.pop()
            key = tuple(sorted(change.labels.items()))
            firing = firing | {key} if change.state is AlertState.FIRING else firing - {key}
        found.append(firing)
    return found


@dataclass(slots=True)
class WarmUp:
    """Evaluations before the first one that is made again; they tell since when conditions have been true."""

    interval_ms: int
    state: RuleState = field(default_factory=RuleState)
    last_true_ms: dict[Key, int] = field(default_factory=dict)

    def add(self, at_ms: int, state: RuleState) -> None:
        self.state = state
        for alert in state.alerts:
            if alert.phase is not Phase.INACTIVE and alert.keep_firing_since_ms is None:
                self.last_true_ms[alert.key] = at_ms

    def first_state(self, decided: frozenset[Key], at_ms: int) -> RuleState:
        """Return the state after the last of them: what was decided fires, nothing else does."""
        alerts = {alert.key: alert for alert in self.state.alerts}
        for key in decided:
            alerts[key] = self._firing(key, alerts.get(key), at_ms)
        for key, alert in alerts.items():
            if alert.phase is Phase.FIRING and key not in decided:
                alerts[key] = replace(alert, phase=Phase.PENDING, active_at_ms=at_ms, fired_at_ms=None)
        return replace(self.state, alerts=tuple(alerts.values()))

    def _firing(self, key: Key, known: ActiveAlert | None, at_ms: int) -> ActiveAlert:
        if known is not None and known.phase is Phase.FIRING:
            return known
        if known is not None and known.phase is Phase.PENDING:
            return replace(known, phase=Phase.FIRING, fired_at_ms=at_ms)
        kept_ms = self.last_true_ms.get(key, at_ms - self.interval_ms) + self.interval_ms
        return ActiveAlert(
            dict(key), {}, Phase.FIRING, "0", kept_ms, fired_at_ms=kept_ms, keep_firing_since_ms=kept_ms
        )
