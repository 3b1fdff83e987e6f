"""Who sends while everything dies: an object of logs and one of metrics every other second, some late.

Late rows are for hours of today that are over, and for a day that is long over. That day's first rows come at
the beginning; whenever an organisation's share of it is sealed a few more come, so that hours have to be
carved out of it, again and again.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg

from benchmarks.chaos_debt import sealed_orgs
from benchmarks.chaos_stack import hurry
from benchmarks.traffic import Traffic
from resources.index.postgres.connections import IndexUnavailableError
from resources.lake.timecut import DAY_NS, HOUR_NS, SECOND_NS, cut
from resources.settings import Settings

LATE = 0.35
"""Share of late objects."""
HOURS_LATE = (1, 2)
OLD_DAY, OLD_HOURS = 2, (5, 6, 7)
"""So many days ago, and the hours of it that get rows: neighbours, which are rolled up in one run.

Three, because a day with two small segments of a kind has few enough and stays as it is.
"""
PAUSE_S, LOOK_S = 1.5, 3.0
MOST_WAITING = 400
"""Objects not cooked yet at which the sender waits: a busy machine would settle for hours after the storm."""


@dataclass(slots=True)
class Sender:
    traffic: Traffic
    settings: Callable[[], Settings]
    chance: random.Random
    old_hours: tuple[int, ...] = OLD_HOURS
    late: int = 0
    reopened: int = 0
    """How often rows came for the old day of an organisation after it was sealed."""
    failures: list[BaseException] = field(default_factory=list)
    began_ns: int = field(default_factory=time.time_ns)
    _number: int = 0
    _bursts: dict[str, deque[int]] = field(default_factory=dict)
    """By organisation: hours of the old day that rows are to be sent for now."""
    _keys: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By organisation: objects with rows of the old day."""
    _looked: float = 0.0
    _counted: float = 0.0
    _waiting: int = 0

    def __post_init__(self) -> None:
        self._bursts = {org: deque(self.old_hours) for org in self.traffic.orgs}

    @property
    def old_day_ns(self) -> int:
        return cut(self.began_ns, DAY_NS) - OLD_DAY * DAY_NS

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                if self._is_turn() and self._count_waiting() < MOST_WAITING:
                    self.send_one()
                self.look()
                stop.wait(PAUSE_S)
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            self.failures.append(error)

    def send_one(self) -> None:
        number, self._number = self._number, self._number + 1
        org = self.traffic.orgs[number % len(self.traffic.orgs)]
        if burst := self._bursts[org]:
            moment = self._within(self.old_day_ns + burst.popleft() * HOUR_NS, number)
            self._keys[org].append(self._both(number, moment))
        elif self.chance.random() < LATE:
            hours_ago = self.chance.choice(HOURS_LATE)
            self._both(number, self._within(cut(self.began_ns, HOUR_NS) - hours_ago * HOUR_NS, number))
        else:
            self._both(number, None)

    def _is_turn(self) -> bool:
        """Tell if anything is sent now: until the old day is sealed, only its rows."""
        return self.reopened > 0 or not self.old_hours or any(self._bursts.values())

    def _count_waiting(self) -> int:
        if time.monotonic() - self._counted > LOOK_S:
            self._counted = time.monotonic()
            try:
                with psycopg.connect(self.settings().index_dsn, connect_timeout=3) as connection:
                    row = connection.execute(
                        "SELECT count(*) FROM lakerunner.raw_object WHERE state IN ('registered', 'batched')"
                    ).fetchone()
            except psycopg.OperationalError:
                return self._waiting  # killed; what was counted last will do
            self._waiting = row[0] if row else 0
        return self._waiting

    def _both(self, number: int, at_ns: int | None) -> str:
        self.late += at_ns is not None
        self.traffic.send(number, at_ns)
        return self.traffic.send_samples(number, at_ns)

    def _within(self, hour_ns: int, number: int) -> int:
        """A moment of the hour that no other object has; the first is the very end of the hour."""
        return hour_ns + HOUR_NS - number % 3600 * SECOND_NS

    def look(self) -> None:
        """Send rows once more to organisations whose old day is sealed, with all that was sent for it."""
        sent = {org: self._keys[org] for org, burst in self._bursts.items() if self.old_hours and not burst}
        if not sent or time.monotonic() - self._looked < LOOK_S:
            return
        self._looked = time.monotonic()
        try:
            hurry(self.settings())
            sealed = sealed_orgs(self.settings(), self.old_day_ns, sent)
        except (psycopg.OperationalError, IndexUnavailableError):
            return  # killed; the next look will do
        for org in sealed:
            self.reopened += 1
            self._bursts[org].extend(self.old_hours)
            print(f"the old day of {org} is sealed; late rows for it, number {self.reopened}", flush=True)
