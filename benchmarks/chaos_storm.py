"""The storm itself: who works beside whom, and what is killed when.

It begins when a day that is long over is sealed, and late rows for it are on their way: the first kill meets
the run that carves hours out of that day.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.chaos_debt import Debt, settle
from benchmarks.chaos_old_day import seal
from benchmarks.chaos_progress import Progress, wait_for_progress
from benchmarks.chaos_queries import Asker
from benchmarks.chaos_sender import OLD_HOURS, Sender
from benchmarks.chaos_stack import CARVING, DECK, EVERYTHING, QUICK_DECK, Kill, chaos_settings
from benchmarks.chaos_sweeps import Sweeper
from benchmarks.traffic import Traffic

ORGS = ("north", "south", "west")
SETTLE_S = 450.0
"""Without any progress. Runs that died while they started are given up after three minutes."""
EVIDENCE_S = 180.0
FIRST_S, PAUSE_S = 10.0, (6.0, 18.0)
"""Before the first kill, and between kills: sometimes long enough to come back, sometimes not."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, and what dies: at least one whole deck."""

    seconds: float
    deck: tuple[Kill, ...]
    seed: int
    evidence_s: float = EVIDENCE_S
    """How long to wait for a deletion, which comes late on a slow machine."""
    orgs: tuple[str, ...] = ORGS
    old_hours: tuple[int, ...] = OLD_HOURS
    """Of a day that is long over; none: nothing is sealed and nothing carved."""
    until_merged: bool = True
    """Also wait for merges, of which content does not depend."""
    kills: int = 0
    """At least so many, however long that takes."""
    must_progress: bool = True
    """Before the last kill of each deck, wait until rows were published, segments merged, rollups built."""


@dataclass(slots=True)
class Storm:
    """What was done to a stack."""

    data_dir: Path
    traffic: Traffic
    sender: Sender
    asker: Asker
    sweeper: Sweeper
    killed: list[str] = field(default_factory=list)
    settled_s: float = 0.0
    left: Debt = field(default_factory=Debt)
    progress: Progress = field(default_factory=Progress)


def storm(data_dir: Path, plan: Plan) -> Storm:
    """Returns when nothing is left to do, or it takes too long."""
    print(f"seed {plan.seed}", flush=True)
    chance = random.Random(plan.seed)
    settings = partial(chaos_settings, data_dir)
    traffic = Traffic(settings(), plan.orgs)
    traffic.prepare()
    sender = Sender(traffic, settings, random.Random(plan.seed + 1), plan.old_hours)
    asker = Asker(traffic, settings, sender.old_day_ns, [])
    found = Storm(data_dir, traffic, sender, asker, Sweeper(data_dir))
    with _beside(asker, found.sweeper):
        with _beside(sender):
            if plan.old_hours:
                waited = seal(settings(), lambda: sender.reopened > 0 or bool(sender.failures))
                print(f"the old day was sealed in {waited:.0f} s", flush=True)
            _kill(found, plan, chance)
        print(f"{len(traffic.sent)} objects of each signal sent; settling", flush=True)
        found.settled_s, found.left = settle(settings(), SETTLE_S, merges=plan.until_merged)
        _wait(lambda: found.sweeper.deleted > 0, "files of retired segments are deleted", plan.evidence_s)
    return found


def _wait(happened: Callable[[], bool], what: str, longest_s: float) -> None:
    """What a storm is to show may come late on a slow machine; what never comes is told by the figures."""
    began = time.monotonic()
    while not happened() and time.monotonic() - began < longest_s:
        time.sleep(1)
    if not happened():
        print(f"waited {longest_s:.0f} s, but not until {what}", flush=True)
    elif (waited := time.monotonic() - began) > 1:
        print(f"waited {waited:.0f} s until {what}", flush=True)


@contextmanager
def _beside(*parts: Sender | Asker | Sweeper) -> Iterator[None]:
    """Run in threads while the block does; what went wrong in them is raised here."""
    stop = threading.Event()
    threads = [threading.Thread(target=part.run, args=(stop,)) for part in parts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for part in parts:
        if part.failures:
            raise part.failures[0]


def _kill(found: Storm, plan: Plan, chance: random.Random) -> None:
    began, settings = time.monotonic(), chaos_settings(found.data_dir)
    time.sleep(FIRST_S)
    for number in count(1):
        first = (CARVING,) if number == 1 and plan.old_hours else ()
        deck, deck_began = (*first, *chance.sample(plan.deck, len(plan.deck))), time.time()
        for left, kill in zip(range(len(deck) - 1, -1, -1), deck, strict=True):
            if plan.must_progress and not left:
                wait_for_progress(settings, deck_began, number, found.progress)
            _strike(found, kill, chance, began)
            time.sleep(chance.uniform(*PAUSE_S))
        if len(found.killed) >= plan.kills and time.monotonic() - began >= plan.seconds:
            return


def _strike(found: Storm, kill: Kill, chance: random.Random, began: float) -> None:
    """Kill one part, and note when."""
    if kill is EVERYTHING:
        found.asker.api_killed_at.append(time.monotonic())
    found.killed.append(kill(found.data_dir, chance))
    if kill is EVERYTHING:
        found.asker.api_killed_at.append(time.monotonic())
    found.progress.kills.append(time.time())
    print(f"{time.monotonic() - began:4.0f} s: {len(found.killed)} killed {found.killed[-1]}", flush=True)


def plan_of(quick: bool, minutes: float | None = None, seed: int | None = None, kills: int = 0) -> Plan:
    default = 1.0 if quick else 10.0
    seconds = 60.0 * (default if minutes is None else minutes)
    seed = time.time_ns() % 10**6 if seed is None else seed
    return Plan(seconds, QUICK_DECK if quick else DECK, seed, kills=kills)
