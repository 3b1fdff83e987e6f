"""The sweeper lists and deletes. Every change locks its rows, judges them again and skips locked ones.

Files are deleted inside the transaction that deletes their rows, and before it commits: a sweeper that dies
in between leaves rows without files that nobody reads any more, and the next one finishes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg

from resources.index.postgres.connections import PostgresPart
from resources.index.postgres.open_tables import note_changes
from resources.index.statements import load
from resources.index.sweeping_types import (
    Aging,
    AgingSegment,
    LakeFile,
    Leftovers,
    OldObject,
    OldTier,
    OldWindow,
    OrphanCount,
    Remove,
    Retention,
)
from resources.lake.layout import Signal

SQL = load("sweeping")
LOCK_KEY = 4_380_003
MANY_BATCHES = 1_000_000


class Sweeping(PostgresPart):
    @contextmanager
    def sweep_lock(self) -> Iterator[bool]:
        """Hold the lock on a connection of its own: it ends with that, however the process ends."""
        with self.connect_alone() as connection:
            row = connection.execute(SQL["try_lock"], {"key": LOCK_KEY}).fetchone()
            try:
                yield row is not None and bool(row["held"])
            finally:
                # a connection that broke has lost the lock already, and must not hide why the block ended
                with contextlib.suppress(psycopg.OperationalError):
                    connection.execute(SQL["unlock"], {"key": LOCK_KEY})

    def retentions(self) -> list[Retention]:
        return [
            Retention(row["org_id"], Signal(row["signal"]), row["tier"], row["keep_days"], row["stood_s"])
            for row in self._rows(SQL["retentions"], {})
        ]

    def put_retention(self, org: str, signal: Signal, tier: str, keep_days: int) -> None:
        values = {"org": org, "signal": signal.value, "tier": tier, "keep_days": keep_days}
        self._change(SQL["put_retention"], values)

    def remove_retention(self, org: str, signal: Signal, tier: str) -> bool:
        values = {"org": org, "signal": signal.value, "tier": tier}
        return bool(self._change(SQL["remove_retention"], values))

    def all_organisations(self) -> list[str]:
        return [row["org_id"] for row in self._rows(SQL["all_organisations"], {})]

    def aging(self, tier: OldTier, limit: int) -> Aging:
        values = {**_scope(tier), "ended_by_ns": tier.ended_by_ns, "limit": limit}
        with self._transaction() as connection:
            connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            rows = connection.execute(SQL["aging_segments"], values).fetchall()
            partitions = connection.execute(SQL["aging_partitions"], values).fetchall()
        segments = tuple(
            AgingSegment(r["segment_id"], r["key"], r["hour_ns"], r["width_ns"], r["bytes"], r["busy"])
            for r in rows
        )
        starts = tuple(row["start_ns"] for row in partitions)
        return Aging(segments, starts, seen_to(segments, starts, tier.ended_by_ns, limit))

    def expire(self, tier: OldTier, window: OldWindow) -> bool:
        scope = {**_scope(tier), "start_ns": window.start_ns, "end_ns": window.end_ns}
        wanted = sorted(segment.segment_id for segment in window.segments)
        with self._transaction() as connection:
            partitions = connection.execute(SQL["lock_aging_partitions"], scope).fetchall()
            segments = connection.execute(SQL["lock_aging_segments"], scope).fetchall()
            busy = connection.execute(SQL["busy_segments"], {"segment_ids": wanted}).fetchall()
            same = [row["start_ns"] for row in partitions] == sorted(window.partitions)
            if busy or not same or [row["segment_id"] for row in segments] != wanted:
                return False
            connection.execute(SQL["retire_old"], {"segment_ids": wanted})
            connection.execute(SQL["expire_partitions"], {**scope, "starts": list(window.partitions)})
            note_changes(connection, tier.org, wanted)
        return True

    def retired_segments(self, grace_s: float, org: str, limit: int) -> list[LakeFile]:
        values = {"grace_s": grace_s, "org": org, "limit": limit}
        return [LakeFile(**row) for row in self._rows(SQL["retired_segments"], values)]

    def delete_retired(self, keys: Sequence[str], grace_s: float, remove: Remove) -> list[LakeFile]:
        with self._transaction() as connection:
            rows = connection.execute(
                SQL["lock_retired"], {"keys": list(keys), "grace_s": grace_s}
            ).fetchall()
            ids = [row["segment_id"] for row in rows]
            busy = connection.execute(SQL["busy_segments"], {"segment_ids": ids}).fetchall()
            held = {row["segment_id"] for row in busy}
            free = [row for row in rows if row["segment_id"] not in held]
            if free:
                remove([row["key"] for row in free])
                connection.execute(SQL["delete_segments"], {"segment_ids": [r["segment_id"] for r in free]})
        return [LakeFile(row["key"], row["org"], row["bytes"]) for row in free]

    def old_objects(
        self, org: str, signal: Signal, ended_by_ns: int, limit: int, without: Sequence[str] = ()
    ) -> list[OldObject]:
        values = {"ended_by_ns": ended_by_ns, "limit": limit, "without": list(without)}
        rows = self._rows(SQL["old_objects"], {"org": org, "signal": signal.value, **values})
        return [OldObject(**row) for row in rows]

    def expire_objects(self, object_ids: Sequence[int], remove: Remove) -> list[OldObject]:
        with self._transaction() as connection:
            rows = connection.execute(SQL["lock_objects"], {"object_ids": list(object_ids)}).fetchall()
            ids = [row["object_id"] for row in rows]
            busy = connection.execute(SQL["busy_objects"], {"object_ids": ids}).fetchall()
            held = {row["object_id"] for row in busy}
            free = [OldObject(**row) for row in rows if row["object_id"] not in held]
            if free:
                remove([obj.key for obj in free])
                connection.execute(SQL["expire_objects"], {"object_ids": [o.object_id for o in free]})
        return free

    def forgettable_objects(
        self, org: str, signal: Signal, ended_by_ns: int, expired_s: float, limit: int
    ) -> list[int]:
        values = {"ended_by_ns": ended_by_ns, "expired_s": expired_s, "limit": limit}
        rows = self._rows(SQL["forgettable_objects"], {"org": org, "signal": signal.value, **values})
        return [row["object_id"] for row in rows]

    def forget_objects(self, object_ids: Sequence[int]) -> int:
        with self._transaction() as connection:
            rows = connection.execute(
                SQL["lock_expired_objects"], {"object_ids": list(object_ids)}
            ).fetchall()
            ids = [row["object_id"] for row in rows]
            needed = connection.execute(SQL["needed_objects"], {"object_ids": ids}).fetchall()
            free = sorted(set(ids) - {row["object_id"] for row in needed})
            connection.execute(SQL["forget_hours"], {"object_ids": free})
            connection.execute(SQL["forget_objects"], {"object_ids": free})
        return len(free)

    def known_segment_keys(self, keys: Sequence[str]) -> set[str]:
        return {row["key"] for row in self._rows(SQL["known_segment_keys"], {"keys": list(keys)})}

    def note_listed(self, org: str, unknown: Mapping[str, int], known: Sequence[str]) -> int:
        values = {"org": org, "keys": list(unknown), "bytes": list(unknown.values())}
        with self._transaction() as connection:
            connection.execute(SQL["forget_orphans"], {"keys": list(known)})
            return connection.execute(SQL["note_orphans"], values).rowcount

    def ripe_orphans(self, age_s: float, org: str, limit: int, without: Sequence[str] = ()) -> list[LakeFile]:
        values = {"age_s": age_s, "org": org, "limit": limit, "without": list(without)}
        return [LakeFile(**row) for row in self._rows(SQL["ripe_orphans"], values)]

    def delete_orphans(self, keys: Sequence[str], age_s: float, remove: Remove) -> list[LakeFile]:
        with self._transaction() as connection:
            locked = connection.execute(SQL["lock_orphans"], {"keys": list(keys)}).fetchall()
            values = {"keys": [row["key"] for row in locked], "age_s": age_s}
            rows = connection.execute(SQL["still_orphans"], values).fetchall()
            if rows:
                remove([row["key"] for row in rows])
                connection.execute(SQL["forget_orphans"], {"keys": [row["key"] for row in rows]})
        return [LakeFile(**row) for row in rows]

    def orphan_counts(self) -> dict[str, OrphanCount]:
        return {
            row["org_id"]: OrphanCount(row["orphans"], row["bytes"], row["segments"])
            for row in self._rows(SQL["orphan_counts"], {})
        }

    def forget_batches(self, batch_s: float, limit: int) -> int:
        with self._transaction() as connection:
            values = {"batch_s": batch_s, "limit": limit}
            rows = connection.execute(SQL["idle_batches"], values).fetchall()
            ids = [row["batch_id"] for row in rows]
            return connection.execute(SQL["forget_batches"], {"batch_ids": ids}).rowcount

    def forget_silent_runs(self, run_s: float) -> int:
        return self._change(SQL["forget_silent_runs"], {"run_s": run_s})

    def leftovers(self, batch_s: float, run_s: float, message_s: float) -> Leftovers:
        idle = self._rows(SQL["idle_batches"], {"batch_s": batch_s, "limit": MANY_BATCHES})
        row = self._rows(SQL["leftovers"], {"run_s": run_s, "message_s": message_s})[0]
        return Leftovers(len(idle), row["runs"], row["old_messages"], row["retired"])


def seen_to(segments: Sequence[AgingSegment], starts: Sequence[int], ended_by_ns: int, limit: int) -> int:
    """Return where the shorter of two lists in order of time was cut off.

    >>> seen_to((), (10, 20, 30), 99, limit=3), seen_to((), (10, 20), 99, limit=3)
    (30, 99)
    """
    cut = [found[-1] for found in ([s.start_ns for s in segments], list(starts)) if len(found) == limit]
    return min([*cut, ended_by_ns])


def _scope(tier: OldTier) -> dict[str, object]:
    return {"org": tier.org, "signal": tier.signal.value, "frequency_ms": tier.frequency_ms}
