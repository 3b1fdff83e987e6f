"""Groups of alert rules and notifications live in memory, with the times of tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from resources.index.memory.intake import IntakeDesk
from resources.index.memory.state import Object, RulingState, WaitingNotice, WaitingSamples
from resources.index.ruling_types import (
    AlertChange,
    AlertCorrection,
    ChangedInput,
    Freshness,
    GroupRecord,
    Notice,
    RecordedOutcome,
    RecordedState,
    SealedSamples,
    StoredNotice,
    WaitingNotices,
)
from resources.index.types import ObjectNotice, ObjectState
from resources.lake.layout import RULER
from resources.lake.signals import MATERIALIZED_MS, RECORDED_MS
from resources.lake.timecut import SECOND_NS

RECENT_HOURS_S = 7200.0
"""Age of hours whose derivation tells how fresh derived metrics are."""
FORGOTTEN_S = 3600.0
"""Seconds after which a process whose lease ended is forgotten."""


class Ruling(IntakeDesk):
    def beat_ruler(self, owner: str, lease_s: float) -> list[str]:
        with self._transaction() as state:
            now, processes = self._clock(), state.ruling.processes
            processes[owner] = now + lease_s
            for name in [one for one, until in processes.items() if until < now - FORGOTTEN_S]:
                del processes[name]
            return sorted(one for one, until in processes.items() if until > now)

    def withdraw_ruler(self, owner: str) -> None:
        with self._transaction() as state:
            state.ruling.processes.pop(owner, None)

    def claim_groups(self, owner: str, groups: Mapping[int, str]) -> list[GroupRecord]:
        with self._transaction() as state:
            now, ruling, found = self._clock(), state.ruling, []
            for rule_id, org in sorted(groups.items()):
                record = ruling.groups.get(rule_id) or GroupRecord(rule_id, org)
                if record.owner == owner or ruling.processes.get(record.owner, 0.0) <= now:
                    record = replace(record, owner=owner, token=record.token + 1)
                    found.append(record)
                ruling.groups[rule_id] = record
                ruling.changed_at[rule_id] = now
            return found

    def release_groups(self, owner: str, rule_ids: Sequence[int]) -> None:
        with self._transaction() as state:
            for rule_id in rule_ids:
                record = state.ruling.groups.get(rule_id)
                if record is not None and record.owner == owner:
                    state.ruling.groups[rule_id] = replace(record, owner="")

    def write_evaluation(
        self,
        record: GroupRecord,
        changes: Sequence[AlertChange],
        notices: Sequence[Notice],
        samples: bytes = b"",
    ) -> bool:
        with self._transaction() as state:
            ruling, now = state.ruling, self._clock()
            known = ruling.groups.get(record.rule_id)
            if known is None or (known.owner, known.token) != (record.owner, record.token):
                return False
            stored = json.loads(json.dumps(record.state))
            ruling.groups[record.rule_id] = replace(
                record, finished_s=now, state=stored, checked_ms=known.checked_ms
            )
            ruling.changed_at[record.rule_id] = now
            ruling.changes += [(record.org, change) for change in changes]
            for notice in notices:
                self._add_notice(ruling, record.org, notice, now)
            if samples:
                ruling.samples.append(WaitingSamples(record.org, samples, now))
            return True

    def seal_samples(self, seal: str, age_s: float, most: int, lease_s: float) -> SealedSamples | None:
        with self._transaction() as state:
            now, waiting = self._clock(), state.ruling.samples
            left = next((one for one in waiting if one.seal and one.busy_until <= now), None)
            oldest = next((one for one in waiting if not one.seal and one.created_at <= now - age_s), None)
            if left is not None:
                found = [one for one in waiting if one.seal == left.seal]
            elif oldest is not None:
                found = [one for one in waiting if not one.seal and one.org == oldest.org][:most]
                for one in found:
                    one.seal, one.sealed_ns = seal, int(now * SECOND_NS)
            else:
                return None
            for one in found:
                one.busy_until = now + lease_s
            first = found[0]
            return SealedSamples(first.seal, first.org, first.sealed_ns, tuple(one.samples for one in found))

    def finish_samples(self, sealed: SealedSamples, notice: ObjectNotice) -> None:
        with self._transaction() as state:
            self.register_listed([notice])
            state.ruling.samples = [one for one in state.ruling.samples if one.seal != sealed.seal]

    def forget_samples(self, age_s: float) -> int:
        with self._transaction() as state:
            known, now = state.ruling.samples, self._clock()
            state.ruling.samples = [one for one in known if one.created_at >= now - age_s]
            return len(known) - len(state.ruling.samples)

    def changed_inputs(self, org: str, after_ms: int, settled_s: float, most: int) -> list[ChangedInput]:
        with self._one_at_a_time:
            until_ms = (self._clock() - settled_s) * 1000
            mine = [one for owner, one in self._state.ruling.inputs if owner == org]
        return [one for one in mine if after_ms < one.published_ms <= until_ms][:most]

    def changes_of_rule(self, rule_id: int, from_ms: int, to_ms: int) -> list[AlertChange]:
        with self._one_at_a_time:
            mine = [one for _, one in self._state.ruling.changes if one.rule_id == rule_id]
        before: dict[object, AlertChange] = {}
        for one in mine:
            if one.at_ms < from_ms:
                before[one.alert, tuple(sorted(one.labels.items()))] = one
        found = [*before.values(), *(one for one in mine if from_ms <= one.at_ms <= to_ms)]
        return sorted(found, key=lambda one: one.at_ms)

    def corrections_of_rule(self, rule_id: int, from_ms: int, to_ms: int) -> list[AlertCorrection]:
        with self._one_at_a_time:
            mine = [one for _, one in self._state.ruling.corrections if one.rule_id == rule_id]
        found = [one for one in mine if one.from_ms <= to_ms and one.to_ms >= from_ms]
        return sorted(found, key=lambda one: one.from_ms)

    def alert_corrections(self, org: str, from_ms: int, to_ms: int, limit: int) -> list[AlertCorrection]:
        with self._one_at_a_time:
            mine = [one for owner, one in reversed(self._state.ruling.corrections) if owner == org]
        found = [one for one in mine if one.from_ms <= to_ms and one.to_ms >= from_ms]
        return sorted(found, key=lambda one: -one.to_ms)[:limit]

    def note_recorded_rules(self, org: str, outcomes: Sequence[RecordedOutcome]) -> None:
        with self._transaction() as state:
            for one in outcomes:
                key = org, one.group, one.record
                known = state.ruling.recorded.get(key)
                if known is None or known.hour_ns <= one.hour_ns:
                    state.ruling.recorded[key] = replace(one, at_ms=int(self._clock() * 1000))

    def recorded_state(self, org: str) -> RecordedState:
        with self._one_at_a_time:
            now = self._clock()
            mine = sorted(key for key in self._state.ruling.recorded if key[0] == org)
            dues = (
                now - version.due_at
                for (owner, _, frequency_ms, _), version in self._state.versions.items()
                if (owner, frequency_ms) == (org, RECORDED_MS) and version.due_at is not None
            )
            outcomes = tuple(self._state.ruling.recorded[key] for key in mine)
            return RecordedState(max(dues, default=0.0), outcomes)

    def write_check(
        self, record: GroupRecord, interval: tuple[int, int] | None, found: Sequence[AlertCorrection]
    ) -> bool:
        with self._transaction() as state:
            ruling = state.ruling
            known = ruling.groups.get(record.rule_id)
            if known is None or (known.owner, known.token) != (record.owner, record.token):
                return False
            ruling.groups[record.rule_id] = replace(known, checked_ms=record.checked_ms)
            if interval is not None:
                ruling.corrections = [
                    (org, one)
                    for org, one in ruling.corrections
                    if one.rule_id != record.rule_id or one.from_ms > interval[1] or one.to_ms < interval[0]
                ]
            ruling.corrections += [(record.org, one) for one in found]
            return True

    def group_records(self, org: str) -> list[GroupRecord]:
        with self._one_at_a_time:
            found = [one for one in self._state.ruling.groups.values() if one.org == org]
        return sorted(found, key=lambda one: one.rule_id)

    def alert_changes(self, org: str, from_ms: int, to_ms: int, limit: int) -> list[AlertChange]:
        with self._one_at_a_time:
            mine = [one for owner, one in self._state.ruling.changes if owner == org]
        found = [one for one in reversed(mine) if from_ms <= one.at_ms <= to_ms]
        return sorted(found, key=lambda one: -one.at_ms)[:limit]

    def claim_notices(self, receiver: str, most: int, lease_s: float) -> list[StoredNotice]:
        with self._transaction() as state:
            now = self._clock()
            mine = [one for one in state.ruling.notices.values() if one.receiver == receiver]
            if any(one.busy_until > now for one in mine):
                return []
            for one in (claimed := mine[:most]):
                one.busy_until = now + lease_s
                one.notice = replace(one.notice, attempts=one.notice.attempts + 1)
            return [one.notice for one in claimed]

    def finish_notices(self, notices: Sequence[StoredNotice]) -> None:
        with self._transaction() as state:
            for sent in notices:
                known = state.ruling.notices.get(sent.notice_id)
                if known is not None and known.notice.revision == sent.revision:
                    del state.ruling.notices[sent.notice_id]
            self._free_notices(state.ruling, notices, "", 0.0)

    def put_off_notices(self, notices: Sequence[StoredNotice], error: str, delay_s: float) -> None:
        with self._transaction() as state:
            self._free_notices(state.ruling, notices, error, delay_s)

    def waiting_notices(self, org: str = "") -> list[WaitingNotices]:
        with self._one_at_a_time:
            waiting = [one for one in self._state.ruling.notices.values() if org in {"", one.notice.org}]
            now = self._clock()
        found = []
        for receiver in sorted({one.receiver for one in waiting}):
            mine = [one for one in waiting if one.receiver == receiver]
            oldest_s = now - min(one.created_at for one in mine)
            attempts = max(one.notice.attempts for one in mine)
            error = max(mine, key=lambda one: one.busy_until).error
            found.append(WaitingNotices(receiver, len(mine), oldest_s, attempts, error))
        return found

    def forget_ruling(self, live: Sequence[int], group_s: float, change_s: float, notice_s: float) -> int:
        with self._transaction() as state:
            now, ruling = self._clock(), state.ruling
            for rule_id in [one for one, at in ruling.changed_at.items() if at < now - group_s]:
                if rule_id not in live:
                    del ruling.groups[rule_id], ruling.changed_at[rule_id]
            oldest_ms = (now - change_s) * 1000
            ruling.changes = [one for one in ruling.changes if one[1].at_ms >= oldest_ms]
            ruling.corrections = [one for one in ruling.corrections if one[1].to_ms >= oldest_ms]
            first_ms = (now - group_s) * 1000
            ruling.inputs = [one for one in ruling.inputs if one[1].published_ms >= first_ms]
            old = [key for key, one in ruling.notices.items() if one.created_at < now - notice_s]
            for key in old:
                del ruling.notices[key]
            return len(old)

    def freshness(self, orgs: Sequence[str], window_s: float) -> list[Freshness]:
        with self._one_at_a_time:
            now, found = self._clock(), []
            for org in sorted(orgs):
                due_s = self._derivation_s(org, now)
                mine = [
                    o
                    for o in self._state.objects.values()
                    if o.notice.org == org and o.notice.collector != RULER
                ]
                recent = [o for o in mine if o.registered_at > now - window_s]
                since = now - due_s if due_s else float("inf")
                waits_s = max((now - o.registered_at for o in recent if _is_unseen(o)), default=0.0)
                done = [o for o in recent if o.done_at is not None and o.done_at >= since]
                derived_s = max([waits_s, due_s, *(now - o.registered_at for o in done)])
                if derived_s:
                    found.append(Freshness(org, waits_s, derived_s))
            return found

    def _derivation_s(self, org: str, now: float) -> float:
        """Return for how long hours have been due to be derived again."""
        since = (now - RECENT_HOURS_S) * SECOND_NS
        dues = (
            now - version.due_at
            for (owner, _, frequency_ms, start_ns), version in self._state.versions.items()
            if (owner, frequency_ms) == (org, MATERIALIZED_MS)
            and version.due_at is not None
            and start_ns >= since
        )
        return max(dues, default=0.0)

    @staticmethod
    def _add_notice(ruling: RulingState, org: str, notice: Notice, now: float) -> None:
        for known in ruling.notices.values():
            if (known.receiver, known.identity) == (notice.receiver, notice.identity):
                revision = known.notice.revision + 1
                known.notice = replace(known.notice, body=notice.body, revision=revision)
                return
        ruling.last_notice += 1
        fresh = StoredNotice(ruling.last_notice, 1, org, notice.body)
        ruling.notices[fresh.notice_id] = WaitingNotice(fresh, notice.receiver, notice.identity, now, now)

    def _free_notices(
        self, ruling: RulingState, notices: Sequence[StoredNotice], error: str, delay_s: float
    ) -> None:
        for one in notices:
            known = ruling.notices.get(one.notice_id)
            if known is not None:
                known.busy_until, known.error = self._clock() + delay_s, error


def _is_unseen(o: Object) -> bool:
    return o.state in {ObjectState.REGISTERED, ObjectState.BATCHED} and not o.tries
