"""State of a group between evaluations: the ruler writes it as JSON, the query API shows it.

{"group": {"rules": [...]}, "runs": [{"at_ms": 60000, "seconds": 0.02}], "interval_ms": 30000}
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lakerunner_query.rules.alert_states import GroupState
from lakerunner_query.rules.documents import AlertRule, RuleGroup


class RuleRun(msgspec.Struct, frozen=True):
    """The last evaluation of one rule."""

    at_ms: int
    seconds: float


class HeldState(msgspec.Struct, frozen=True):
    """Everything that an evaluation of a group leaves."""

    group: GroupState = GroupState()
    runs: tuple[RuleRun, ...] = ()
    interval_ms: int = 0

    def run_of(self, position: int) -> RuleRun | None:
        """Return the last evaluation of a rule, None before the first one."""
        return self.runs[position] if position < len(self.runs) else None


def to_stored(state: HeldState) -> dict[str, object]:
    stored: dict[str, object] = msgspec.to_builtins(state)
    return stored


def from_stored(stored: Mapping[str, object]) -> HeldState:
    """Read a state; a group without one was never evaluated."""
    return msgspec.convert(stored, HeldState) if stored else HeldState()


def interval_of(group: RuleGroup, default_ms: int) -> int:
    return group.interval_ms or default_ms


def has_alerts(group: RuleGroup) -> bool:
    """Tell whether the ruler evaluates a group: those that only record belong to `recorded/metrics`."""
    return any(isinstance(rule, AlertRule) for rule in group.rules)
