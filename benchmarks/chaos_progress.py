"""Progress between kills: a storm in which nothing was published between kills proves nothing.

Before the last kill of each deck the storm waits until rows were published, segments merged and rollups built
since its first kill; in the first deck, also until an hour was carved out of a sealed day. A deck that did
not see all of it within the patience fails the run.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from resources.settings import Settings

KINDS = {"cook": "published", "compact": "merged", "seal": "merged", "rollup": "rolled", "carve": "carved"}
"""Kind of a batch → what its publication proves."""
EVERY_DECK = ("published", "merged", "rolled")
PROOFS = (*EVERY_DECK, "carved")
PATIENCE_S = 420.0
RECOVERIES = "automatic recovery in progress"


@dataclass(slots=True)
class Progress:
    """Times of kills, and the decks of kills that saw too little."""

    kills: list[float] = field(default_factory=list)
    stalled: list[str] = field(default_factory=list)
    waited_s: float = 0.0


def wait_for_progress(settings: Settings, since: float, deck: int, progress: Progress) -> None:
    """Wait until every proof was given since the first kill of the deck; note what was not."""
    began, proofs = time.monotonic(), set(PROOFS if deck == 1 else EVERY_DECK)
    while missing := sorted(proofs - publications(settings, since).keys()):
        if time.monotonic() - began > PATIENCE_S:
            progress.stalled.append(f"deck {deck}: nothing {' or '.join(missing)} for {PATIENCE_S:.0f} s")
            break
        time.sleep(1)
    progress.waited_s += time.monotonic() - began


def publications(settings: Settings, since: float) -> Counter[str]:
    """Count what was published since a moment; an index that is down says nothing yet."""
    try:
        return Counter(proof for proof, at in _published(settings) if at >= since)
    except psycopg.OperationalError:
        return Counter()


@dataclass(frozen=True, slots=True)
class Between:
    """The work that was done between kills."""

    batches: dict[str, int]
    """Publications between the first and the last kill, by proof."""
    windows: dict[str, int]
    """Stretches from one kill to the next in which there was such a publication."""


def between_kills(kills: Sequence[float], published: Sequence[tuple[str, float]]) -> Between:
    """Sort publications into the windows between kills.

    >>> between = between_kills([10, 20, 30], [("rolled", at) for at in (9, 12, 19)] + [("merged", 31)])
    >>> between.batches["rolled"], between.windows["rolled"], between.batches["merged"]
    (2, 1, 0)
    """
    inside = [(proof, bisect_right(kills, at)) for proof, at in published]
    inside = [(proof, window) for proof, window in inside if 0 < window < len(kills)]
    batches = Counter(proof for proof, _ in inside)
    windows = Counter(proof for proof, _ in set(inside))
    return Between({p: batches[p] for p in PROOFS}, {p: windows[p] for p in PROOFS})


def progress_between(settings: Settings, kills: Sequence[float]) -> Between:
    return between_kills(kills, _published(settings))


def recoveries(data_dir: Path) -> int:
    """Count the times PostgreSQL recovered from a crash, by its own log."""
    logs = [data_dir / "logs" / name for name in ("postgres.log", "postgres.log.1")]
    return sum(log.read_text(errors="replace").count(RECOVERIES) for log in logs if log.is_file())


def _published(settings: Settings) -> list[tuple[str, float]]:
    with psycopg.connect(settings.index_dsn, connect_timeout=5) as connection:
        rows = connection.execute(
            "SELECT kind, extract(EPOCH FROM finished_at)::float8 FROM lakerunner.batch "
            "WHERE state = 'done' AND error IS NULL AND finished_at IS NOT NULL"
        ).fetchall()
    return [(KINDS[kind], at) for kind, at in rows if kind in KINDS]
