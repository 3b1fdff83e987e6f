"""Raw objects and offsets are registered in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from resources.index.memory.state import MemoryPart, Object
from resources.index.types import (
    DeadLetter,
    Intake,
    IntakeResult,
    ObjectNotice,
    ObjectState,
    TopicOffset,
)


class IntakeDesk(MemoryPart):
    def read_offsets(self, cluster: str, topic: str) -> list[TopicOffset]:
        found = [
            TopicOffset(t, p, offset)
            for (c, t, p), offset in self._state.offsets.items()
            if (c, t) == (cluster, topic)
        ]
        return sorted(found, key=lambda offset: offset.partition)

    def take_in(self, intake: Intake) -> IntakeResult:
        with self._transaction() as state:
            result = self.register_listed(intake.notices)
            state.dead.extend(intake.dead_letters)
            for offset in intake.offsets:
                state.offsets[intake.cluster, offset.topic, offset.partition] = offset.next_offset
        return replace(result, dead_letters=len(intake.dead_letters))

    def register_listed(self, notices: Sequence[ObjectNotice]) -> IntakeResult:
        by_key = {(o.notice.bucket, o.notice.key): o for o in self._state.objects.values()}
        new: list[ObjectNotice] = []
        overwritten = 0
        for notice in sorted(notices, key=lambda n: (n.bucket, n.key)):
            known = by_key.get((notice.bucket, notice.key))
            if known is None:
                by_key[notice.bucket, notice.key] = self._add_object(notice)
                new.append(notice)
            else:
                overwritten += _note_overwrite(known, notice.etag.strip('"'))
        return IntakeResult(tuple(new), len(notices) - len(new), overwritten, 0)

    def append_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        self._state.dead.extend(letters)

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters, for assertions."""
        return list(self._state.dead)

    def known_keys(self, bucket: str, keys: Sequence[str]) -> set[str]:
        wanted = set(keys)
        return {o.notice.key for o in self._state.objects.values() if o.notice.bucket == bucket} & wanted

    def add_counters(self, amounts: Mapping[str, float]) -> None:
        for name, amount in amounts.items():
            self._state.counters[name] = self._state.counters.get(name, 0.0) + amount

    def set_gauges(self, values: Mapping[str, float]) -> None:
        self._state.counters.update(values)

    def _add_object(self, notice: ObjectNotice) -> Object:
        if notice.org not in self._state.organisations:
            raise ValueError(f"organisation {notice.org!r} does not exist")
        now = self._clock()
        self._state.last_object += 1
        new = Object(self._state.last_object, notice, notice.etag.strip('"'), now, now)
        self._state.objects[new.object_id] = new
        return new


def _note_overwrite(known: Object, etag: str) -> int:
    settled = known.state in {ObjectState.DONE, ObjectState.PARKED}
    if not (settled and etag and known.etag and known.etag != etag):
        return 0
    known.overwritten_etag = etag
    return 1
