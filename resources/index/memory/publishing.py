"""Publications change the live segments in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from resources.index.contract import Deliver
from resources.index.dependents import (
    added_records,
    changed_partitions,
    dependents,
    derivable_hours,
    is_rewrite,
    is_sent,
    recordable_hours,
    recorded_window,
    source_window,
)
from resources.index.memory.batches import Batches
from resources.index.memory.open_tables import note_changes
from resources.index.memory.state import Object, StoredSegment, Version
from resources.index.memory.tiers import Tiers
from resources.index.rule_types import RecordedFrom, RuleKind
from resources.index.ruling_types import ChangedInput
from resources.index.types import (
    BatchState,
    BuiltPartition,
    Claim,
    ObjectFailed,
    ObjectState,
    OutboxMessage,
    Publication,
    PublishConflictError,
)
from resources.lake.frequency import AS_SENT, rollup_of
from resources.lake.layout import Signal
from resources.lake.signals import FACTS, MATERIALIZED_MS, RECORDED_MS
from resources.lake.timecut import HOUR_NS


class Publishing(Batches, Tiers):
    def publish(self, publication: Publication) -> dict[int, int]:
        with self._transaction() as state:
            claim = publication.claim
            self._end(self._held(claim), BatchState.DONE, "")
            self._check_built(publication)
            self._check_sources(publication)
            self._give_up(publication)
            self._swap(publication)
            for done in publication.done:
                batched = self._batched(done.object_id)
                batched.error = done.remark
                batched.state, batched.done, batched.etag = ObjectState.DONE, done, done.etag.strip('"')
                batched.done_at = self._clock()
            for failed in publication.failed:
                self._fail(failed, publication)
            state.outbox.extend((self._clock(), message) for message in publication.outbox)
            self._note_inputs(publication)
            versions = {start: self._bump(publication, start) for start in changed_partitions(publication)}
            for built in publication.built:
                self._note_built(publication, built)
            if publication.materialized is not None:
                self._note_materialized(publication, *publication.materialized)
            for frequency_ms, start in dependents(publication):
                self._mark_due(claim, frequency_ms, start)
            if FACTS[claim.signal].has_preset or self._derives(claim.org, claim.signal):
                for start in derivable_hours(publication):
                    self._mark_due(claim, MATERIALIZED_MS, start)
            self._mark_recordable(publication)
            changed = [*publication.retire, *(segment.segment_id for segment in publication.segments)]
            note_changes(state, [state.segments[name] for name in changed], self._clock)
            return versions

    def recorded_sources(
        self, org: str, signals: Sequence[Signal], from_ns: int, to_ns: int
    ) -> dict[int, int]:
        found: dict[int, int] = {}
        for (owner, signal, frequency_ms, start), each in self._state.versions.items():
            is_sent_hour = frequency_ms == AS_SENT and signal in signals
            if owner != org or not from_ns <= start < to_ns:
                continue
            if is_sent_hour or frequency_ms == MATERIALIZED_MS:
                found[start] = found.get(start, 0) + (each.sent if is_sent_hour else each.version)
        return {start: version for start, version in sorted(found.items()) if version}

    def append_outbox(self, messages: Sequence[OutboxMessage]) -> None:
        self._state.outbox.extend((self._clock(), message) for message in messages)

    def drain_outbox(self, deliver: Deliver, limit: int) -> int:
        with self._transaction() as state:
            batch = [message for _, message in state.outbox[:limit]]
            if batch:
                deliver(batch)
                del state.outbox[: len(batch)]
            return len(batch)

    def _note_inputs(self, publication: Publication) -> None:
        ruling, claim = self._state.ruling, publication.claim
        if not any(one.org == claim.org for one in ruling.groups.values()):
            return
        for added in added_records(publication):
            ruling.last_input += 1
            found = ChangedInput(
                ruling.last_input, claim.signal, added.min_ns, added.max_ns, added.metric_names,
                int(self._clock() * 1000),
            )  # fmt: skip
            ruling.inputs.append((claim.org, found))

    def _check_sources(self, publication: Publication) -> None:
        claim = publication.claim
        if publication.expect_sources is None:
            return
        found = [o.object_id for o in self.objects_with_rows_in(claim.org, claim.signal, claim.hour_ns)]
        if found != sorted(publication.expect_sources):
            raise PublishConflictError(
                f"batch {claim.batch_id}: objects with rows in the hour changed since planning"
            )

    def _give_up(self, publication: Publication) -> None:
        for object_id in publication.given_up:
            found = self._state.objects[object_id]
            if found.done is None or publication.claim.hour_ns not in dict(found.done.hours):
                raise PublishConflictError(
                    f"object {object_id} is no source of the hour; nothing was published"
                )
            kept = tuple(pair for pair in found.done.hours if pair[0] != publication.claim.hour_ns)
            found.done = replace(found.done, hours=kept)

    def _swap(self, publication: Publication) -> None:
        for segment_id in publication.retire:
            kept = self._state.segments.get(segment_id)
            if kept is None or not kept.live or kept.segment.org != publication.claim.org:
                raise PublishConflictError(f"segment {segment_id} is not live; nothing was published")
            kept.retired_at = self._clock()
        for segment in publication.segments:
            if segment.segment_id in self._state.segments:
                raise PublishConflictError(f"segment {segment.segment_id} exists already")
            self._state.segments[segment.segment_id] = StoredSegment(segment, self._clock())

    def _fail(self, failed: ObjectFailed, publication: Publication) -> None:
        batched = self._batched(failed.object_id)
        alone = len(publication.claim.inputs) == 1
        batched.next_try_at = self._clock() + min(300, 2**batched.tries)
        batched.tries += 1
        batched.error = failed.error
        give_up = alone and batched.tries >= publication.max_tries
        batched.state = ObjectState.PARKED if give_up else ObjectState.REGISTERED

    def _batched(self, object_id: int) -> Object:
        found = self._state.objects[object_id]
        if found.state is not ObjectState.BATCHED:
            raise PublishConflictError(f"expected object {object_id} in this batch; nothing was published")
        return found

    def _check_built(self, publication: Publication) -> None:
        for built in publication.built:
            if self._version(publication, publication.frequency_ms, built.start_ns).version != (
                built.expected_version
            ):
                raise PublishConflictError(
                    f"partition {built.start_ns} was built by somebody else since planning"
                )
        if publication.materialized is not None:
            signal, built = publication.materialized
            if self._materialized(publication, signal, built).version != built.expected_version:
                raise PublishConflictError(
                    f"partition {built.start_ns} was built by somebody else since planning"
                )
        if publication.recorded is not None:
            hour = publication.recorded
            if self._recorded(publication.claim.org, hour.start_ns).version != hour.expected_version:
                raise PublishConflictError(
                    f"partition {hour.start_ns} was built by somebody else since planning"
                )

    def _bump(self, publication: Publication, start: int) -> int:
        found = self._version(publication, publication.frequency_ms, start)
        found.version += 1
        found.sent += is_sent(publication)
        if is_rewrite(publication):
            found.rewritten = found.sent
        return found.version

    def _note_built(self, publication: Publication, built: BuiltPartition) -> None:
        rollup = rollup_of(publication.frequency_ms)
        claim = publication.claim
        mine = self._version(publication, publication.frequency_ms, built.start_ns)
        window = (built.start_ns, built.start_ns + rollup.partition_ns)
        found = self._sources((claim.org, claim.signal, rollup.source_ms), window)
        self._note_sources(mine, built, {start: each.version for start, each in found.items()}, True)

    def _note_materialized(self, publication: Publication, signal: Signal, built: BuiltPartition) -> None:
        mine = self._materialized(publication, signal, built)
        mine.version += 1
        org = publication.claim.org
        found = self._sources((org, signal, AS_SENT), source_window(signal, built.start_ns))
        has_rules = self._state.rule_revisions.get(org, 0) == publication.rules_revision
        self._note_sources(mine, built, {start: each.sent for start, each in found.items()}, has_rules)
        self._state.rule_hours[org, signal, built.start_ns] = publication.rule_hours

    def _mark_recordable(self, publication: Publication) -> None:
        claim = publication.claim
        if publication.recorded is not None:
            self._note_recorded(publication, publication.recorded)
        if (starts := recordable_hours(publication)) and self._records(claim.org, claim.signal):
            for start in starts:
                self._mark_recorded(claim.org, start)

    def _note_recorded(self, publication: Publication, recorded: RecordedFrom) -> None:
        org = publication.claim.org
        mine = self._recorded(org, recorded.start_ns)
        mine.version += 1
        found = self.recorded_sources(org, recorded.signals, *recorded_window(recorded))
        has_rules = self._state.rule_revisions.get(org, 0) == publication.rules_revision
        self._note_sources(mine, recorded, found, has_rules)
        source = recorded.built_from.get(recorded.start_ns, 0)
        for back in range(1, recorded.hours_back + 1):
            start = recorded.start_ns + back * HOUR_NS
            following = self._state.versions.get((org, Signal.METRICS, RECORDED_MS, start), Version())
            if following.version and following.built_from.get(recorded.start_ns, 0) != source:
                self._mark_recorded(org, start)

    def _records(self, org: str, signal: Signal) -> bool:
        newest = (versions[-1] for versions in self._state.rules.values())
        return any(
            (one.org, one.kind, one.retired) == (org, RuleKind.GROUP, False)
            and one.document.get("language") == FACTS[signal].recorded_by
            and any(rule["rule"] == "record" for rule in cast("list[dict[str, str]]", one.document["rules"]))
            for one in newest
        )

    def _recorded(self, org: str, start: int) -> Version:
        return self._state.versions.setdefault((org, Signal.METRICS, RECORDED_MS, start), Version())

    def _mark_recorded(self, org: str, start: int) -> None:
        found = self._recorded(org, start)
        if found.due_at is None:
            found.due_at = self._clock()

    def _derives(self, org: str, signal: Signal) -> bool:
        newest = (versions[-1] for versions in self._state.rules.values())
        return any(
            (one.org, one.kind, one.retired) == (org, RuleKind.DERIVED, False)
            and one.document.get("source") == signal.value
            for one in newest
        )

    def _sources(self, source: tuple[str, Signal, int], window: tuple[int, int]) -> dict[int, Version]:
        low, high = window
        return {
            key[3]: found
            for key, found in self._state.versions.items()
            if key[:3] == source and low <= key[3] < high
        }

    def _note_sources(
        self, mine: Version, built: BuiltPartition | RecordedFrom, versions: dict[int, int], has_rules: bool
    ) -> None:
        mine.built_from = dict(built.built_from)
        if isinstance(built, BuiltPartition):
            mine.built_objects, mine.built_by = built.objects, built.by
        current = {start: version for start, version in versions.items() if version > 0}
        if has_rules and current == mine.built_from:
            mine.due_at = None
        elif mine.due_at is None:
            mine.due_at = self._clock()

    def _mark_due(self, claim: Claim, frequency_ms: int, start: int) -> None:
        found = self._state.versions.setdefault((claim.org, claim.signal, frequency_ms, start), Version())
        if found.due_at is None:
            found.due_at = self._clock()

    def _materialized(self, publication: Publication, signal: Signal, built: BuiltPartition) -> Version:
        key = (publication.claim.org, signal, MATERIALIZED_MS, built.start_ns)
        return self._state.versions.setdefault(key, Version())

    def _version(self, publication: Publication, frequency_ms: int, start: int) -> Version:
        claim = publication.claim
        return self._state.versions.setdefault((claim.org, claim.signal, frequency_ms, start), Version())
