"""Work that nobody waits for and that must be repeated until it succeeds, in a thread of its own.

Used for two things: announcing an object that is durable while neither Kafka nor PostgreSQL answers, and
removing one whose put was answered with a failure and may have succeeded all the same.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)
PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Chore:
    name: str
    call: Callable[[], object]


class Afterwork:
    """`transient` are the errors after which a chore is tried again; any other ends it, with a log line."""

    def __init__(self, title: str, transient: tuple[type[Exception], ...], pause_s: float = PAUSE_S) -> None:
        self._title = title
        self._transient = transient
        self._pause_s = pause_s
        self._chores: deque[Chore] = deque()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        return len(self._chores)

    def add(self, name: str, call: Callable[[], object]) -> None:
        with self._lock:
            self._chores.append(Chore(name, call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._title, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """One last try for each; what remains is named in the log."""
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join()
        for chore in self._chores:
            log.error("%s: given up at the end of this process: %s", self._title, chore.name)

    def _run(self) -> None:
        while not self._closing.wait(self._pause_s):
            if self._all_done():
                return
        self._all_done()

    def _all_done(self) -> bool:
        """Whether nothing is left; then the thread must end, and the next chore starts another."""
        while self._chores and self._done(self._chores[0]):
            self._chores.popleft()
        with self._lock:
            if self._chores:
                return False
            self._thread = None
            return True

    def _done(self, chore: Chore) -> bool:
        try:
            chore.call()
        except self._transient as error:
            log.warning("%s: %s: %s", self._title, chore.name, error)
            return False
        except Exception:
            log.exception("%s: %s cannot be done", self._title, chore.name)
        return True
