"""Rules of organisations live in memory as lists of versions."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from resources.index.dependents import HoursOfRule, hours_of_changes
from resources.index.memory.state import MemoryPart, State, Version
from resources.index.rule_types import PutRule, RuleChange, RulesChangedError, RuleSet, StoredRule
from resources.lake.frequency import AS_SENT
from resources.lake.signals import MATERIALIZED_MS
from resources.lake.timecut import HOUR_NS


class Rules(MemoryPart):
    def rules(self, org: str) -> RuleSet:
        with self._one_at_a_time:
            return self._rule_set(org)

    def change_rules(self, org: str, changes: Sequence[RuleChange], expected_revision: int | None) -> RuleSet:
        with self._transaction() as state:
            if org not in state.organisations:
                raise KeyError(f"no organisation {org!r}")
            found = state.rule_revisions.get(org, 0)
            if expected_revision is not None and found != expected_revision:
                raise RulesChangedError(org, expected_revision, found)
            before = self._rule_set(org)
            if sum([self._change_rule(state, org, change) for change in changes]):
                state.rule_revisions[org] = found + 1
            after = self._rule_set(org)
            for hours in hours_of_changes(before, after):
                self._mark_hours(org, hours)
            return after

    def rule_versions(self, org: str, rule_id: int) -> list[StoredRule]:
        with self._one_at_a_time:
            found = [versions for versions in self._state.rules.values() if versions[-1].rule_id == rule_id]
            return [copy.deepcopy(one) for one in reversed(found[0]) if one.org == org] if found else []

    def all_rules(self) -> list[StoredRule]:
        with self._one_at_a_time:
            organisations = sorted(org for org, enabled in self._state.organisations.items() if enabled)
            return [rule for org in organisations for rule in self._rule_set(org).rules]

    def _mark_hours(self, org: str, hours: HoursOfRule) -> None:
        state = self._state
        starts = {
            start
            for (o, signal, frequency_ms, start), found in state.versions.items()
            if (o, signal, frequency_ms) == (org, hours.signal, AS_SENT)
            and start > hours.since_ns - HOUR_NS
            and found.sent > 0
            and not found.expired
        }
        starts |= {
            start
            for (o, signal, start), rules in state.rule_hours.items()
            if (o, signal) == (org, hours.signal) and any(one.rule_id == hours.rule_id for one in rules)
        }
        for start in starts:
            version = state.versions.setdefault((org, hours.signal, MATERIALIZED_MS, start), Version())
            if version.due_at is None:
                version.due_at = self._clock()

    def _rule_set(self, org: str) -> RuleSet:
        newest = [versions[-1] for versions in self._state.rules.values()]
        live = [copy.deepcopy(one) for one in newest if one.org == org and not one.retired]
        live.sort(key=lambda one: (one.kind, one.namespace, one.name))
        return RuleSet(self._state.rule_revisions.get(org, 0), tuple(live))

    def _change_rule(self, state: State, org: str, change: RuleChange) -> bool:
        """Add a version; return False where nothing changes."""
        key = (org, change.kind, change.namespace, change.name)
        versions = state.rules.get(key, [])
        newest = versions[-1] if versions else None
        document: Mapping[str, object]
        if isinstance(change, PutRule):
            if newest is not None and not newest.retired and newest.document == change.document:
                return False
            document, retired = copy.deepcopy(dict(change.document)), False
        else:
            if newest is None or newest.retired:
                return False
            document, retired = newest.document, True
        now_ns = int(self._clock() * 1e9)
        versions = state.rules.setdefault(key, [])
        rule_id = newest.rule_id if newest else len(state.rules)
        since_ns = newest.created_at_ns if newest else now_ns
        version = len(versions) + 1
        stored = StoredRule(rule_id, *key, version, document, since_ns, now_ns, retired)
        versions.append(stored)
        return True
