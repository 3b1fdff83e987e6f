"""Who sends while everything dies: an object of logs and one of metrics every other second, some late.

Late rows are for hours of today that are over, and for a day that is long over. That day's first rows come at
the beginning; as soon as it is sealed a few more come, so that hours have to be carved out of it, again and
again.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg

from benchmarks.chaos_debt import is_sealed
from benchmarks.chaos_stack import hurry
from benchmarks.traffic import Traffic
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
    """How often rows came for the old day after it was sealed."""
    failures: list[BaseException] = field(default_factory=list)
    began_ns: int = field(default_factory=time.time_ns)
    _number: int = 0
    _burst: deque[int] = field(default_factory=deque)
    """Hours of the old day that rows are to be sent for now."""
    _keys: list[str] = field(default_factory=list)
    _looked: float = 0.0
    _counted: float = 0.0
    _waiting: int = 0

    def __post_init__(self) -> None:
        self._fill()

    def _fill(self) -> None:
        """Organisations take turns, so each gets rows of every hour."""
        self._burst.extend(hour for hour in self.old_hours for _ in self.traffic.orgs)

    @property
    def old_day_ns(self) -> int:
        return cut(self.began_ns, DAY_NS) - OLD_DAY * DAY_NS

    @property
    def bursting(self) -> bool:
        return bool(self._burst)

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                if self._count_waiting() < MOST_WAITING:
                    self._send()
                self._look()
                stop.wait(PAUSE_S)
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            self.failures.append(error)

    def _send(self) -> None:
        number, self._number = self._number, self._number + 1
        if self._burst:
            moment = self._within(self.old_day_ns + self._burst.popleft() * HOUR_NS, number)
            self._keys.append(self._both(number, moment))
        elif self.chance.random() < LATE:
            hours_ago = self.chance.choice(HOURS_LATE)
            self._both(number, self._within(cut(self.began_ns, HOUR_NS) - hours_ago * HOUR_NS, number))
        else:
            self._both(number, None)

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

    def _look(self) -> None:
        """Is the old day sealed, with all that was sent for it? Then rows come for it once more."""
        if not self.old_hours or self._burst or time.monotonic() - self._looked < LOOK_S:
            return
        self._looked = time.monotonic()
        try:
            hurry(self.settings())
            sealed = is_sealed(self.settings(), self.old_day_ns, self._keys)
        except psycopg.OperationalError:
            return  # killed; the next look will do
        if sealed:
            self.reopened += 1
            self._fill()
            print(f"the old day is sealed; late rows for it, number {self.reopened}", flush=True)
