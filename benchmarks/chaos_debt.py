"""What is left to do in a stack, and what was done: read from the index."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psycopg

from benchmarks.chaos_stack import hurry
from lakerunner_assets.compacted.due import Scope, due_now, due_rollups, held_segments
from lakerunner_cli.accounts import open_index
from resources.index.postgres import PostgresIndex
from resources.index.types import BatchKind, DuePartition, LiveSegment
from resources.lake.frequency import DAY, TEN_SECONDS
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS
from resources.settings import Settings

SHOWN_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class Debt:
    """Nothing of it should be left after a storm. Days that are not over are not due yet."""

    pending: int = 0
    parked: int = 0
    batches: int = 0
    """Due or claimed."""
    rollups: int = 0
    merges: int = 0
    held: int = 0
    """Segments that a merge failed on, so that compaction leaves them alone."""
    detail: list[str] = field(default_factory=list)

    def settled(self, *, merges: bool = True) -> bool:
        return not (self.pending or self.batches or self.rollups or (merges and self.merges))

    def __str__(self) -> str:
        return (
            f"{self.pending} objects pending, {self.parked} parked, {self.batches} batches open, "
            f"{self.rollups} rollups due, {self.merges} merges due, {self.held} segments held"
        )


def debt(settings: Settings) -> Debt:
    now = time.time_ns()
    hurry(settings)
    with open_index(settings) as desk, psycopg.connect(settings.index_dsn) as connection:
        objects: dict[str, int] = dict(
            connection.execute("SELECT state, count(*) FROM lakerunner.raw_object GROUP BY 1").fetchall()
        )
        batches = connection.execute(
            "SELECT kind, org_id, hour_ns, state, heartbeat_at FROM lakerunner.batch "
            "WHERE state IN ('due', 'claimed')"
        ).fetchall()
        due = connection.execute(
            "SELECT org_id, frequency_ms, start_ns, due_since FROM lakerunner.partition "
            "WHERE due_since IS NOT NULL AND NOT (frequency_ms = %s AND start_ns + %s > %s)",
            (DAY, DAY_NS, now),
        ).fetchall()
        plans = {signal: due_now(desk, settings, signal, now, Scope()).merges for signal in Signal}
        left_alone = [segment for signal in Signal for segment in held_segments(desk, signal, now / 1e9)]
    merges = [merge for mine in plans.values() for merge in mine]
    return Debt(
        objects.get("registered", 0) + objects.get("batched", 0),
        objects.get("parked", 0),
        len(batches),
        len(due),
        len(merges),
        len(left_alone),
        [f"batch {row}" for row in batches[:20]]
        + [f"due {row}" for row in due[:20]]
        + [f"merge {m.kind} {m.org} {m.dataset} {m.start_ns} {m.reason}" for m in merges[:20]],
    )


def settle(settings: Settings, patience_s: float, *, merges: bool = True) -> tuple[float, Debt]:
    """(seconds until nothing was left to do, what was left if nothing of it changed for so long)."""
    started = changed = shown = time.monotonic()
    left = Debt()
    while True:
        before, left = str(left), debt(settings)
        now = time.monotonic()
        changed = now if str(left) != before else changed
        if left.settled(merges=merges) or now - changed > patience_s or now - started > 4 * patience_s:
            return now - started, left
        if now - shown > SHOWN_EVERY_S:
            shown = now
            print(f"{now - started:4.0f} s: settling: {left}", flush=True)
        time.sleep(1)


def published_batches(settings: Settings) -> dict[str, int]:
    """Batches that published something, by kind."""
    with psycopg.connect(settings.index_dsn) as connection:
        rows = connection.execute(
            "SELECT kind, count(*) FROM lakerunner.batch WHERE state = 'done' AND error IS NULL GROUP BY 1"
        ).fetchall()
    return {BatchKind(kind).value: count for kind, count in rows}


def abandoned_batches(settings: Settings) -> dict[str, int]:
    """Batches that ended without having published anything, by kind and the beginning of the reason."""
    with psycopg.connect(settings.index_dsn) as connection:
        rows = connection.execute(
            "SELECT kind || ': ' || left(error, 60), count(*) FROM lakerunner.batch "
            "WHERE error IS NOT NULL GROUP BY 1 ORDER BY 2 DESC LIMIT 15"
        ).fetchall()
    return dict(rows)


def sealed_orgs(settings: Settings, day_ns: int, keys: Mapping[str, Sequence[str]]) -> list[str]:
    """List organisations whose day is sealed, with every object of `keys` in it.

    Objects first, segments last: what is done by then is due or built by now. Raises `IndexUnavailableError`
    while PostgreSQL is away.
    """
    index = PostgresIndex(settings.index_dsn, max_connections=1, wait_s=3.0, answer_s=10.0)
    try:
        with psycopg.connect(settings.index_dsn, connect_timeout=3) as connection:
            rows = connection.execute("SELECT key FROM lakerunner.raw_object WHERE state = 'done'").fetchall()
        done = {key for (key,) in rows}
        whole = [org for org, mine in keys.items() if done >= set(mine)]
        due = due_rollups(index, Signal.METRICS)
        lives = {org: index.live_in(Signal.METRICS, org, day_ns, day_ns + DAY_NS) for org in whole}
    finally:
        index.close()
    return [org for org, live in lives.items() if is_sealed(live, due, org, day_ns)]


def is_sealed(live: Sequence[LiveSegment], due: Sequence[DuePartition], org: str, day_ns: int) -> bool:
    """Tell if late rows would have an hour carved out of the day: 10s rollups are day-wide, nothing is open.

    Day-wide buckets do not count: they lie in segments of one day, too, and stay open until their month ends.
    """
    mine = [segment for segment in live if segment.frequency_ms != DAY]
    owes = any(each.org == org and day_ns <= each.start_ns < day_ns + DAY_NS for each in due)
    wide = any(s.frequency_ms == TEN_SECONDS and s.width_ns == DAY_NS for s in mine)
    return wide and not owes and all(segment.settled for segment in mine)
