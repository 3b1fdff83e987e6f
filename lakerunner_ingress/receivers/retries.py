"""A queue of calls that a thread repeats until they succeed; nobody waits for them.

It announces objects that are durable while neither Kafka nor PostgreSQL answers, and removes objects whose
put was answered with a failure and may have succeeded all the same.
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
class Retry:
    """A call and its name in the log."""

    name: str
    call: Callable[[], object]


class RetryQueue:
    """The queue; an error that is `transient` keeps a call, any other drops it with a log line."""

    def __init__(self, title: str, transient: tuple[type[Exception], ...], pause_s: float = PAUSE_S) -> None:
        self._title = title
        self._transient = transient
        self._pause_s = pause_s
        self._retries: deque[Retry] = deque()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        return len(self._retries)

    def add(self, name: str, call: Callable[[], object]) -> None:
        with self._lock:
            self._retries.append(Retry(name, call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._title, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Try each call once more; the log names those that remain."""
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join()
        for retry in self._retries:
            log.error("%s: given up at the end of this process: %s", self._title, retry.name)

    def _run(self) -> None:
        while not self._closing.wait(self._pause_s):
            if self._run_all():
                return
        self._run_all()

    def _run_all(self) -> bool:
        """Run calls; return if none is left: then the thread must end, and the next call starts another."""
        while self._retries and self._is_finished(self._retries[0]):
            self._retries.popleft()
        with self._lock:
            if self._retries:
                return False
            self._thread = None
            return True

    def _is_finished(self, retry: Retry) -> bool:
        try:
            retry.call()
        except self._transient as error:
            log.warning("%s: %s failed and is tried again: %s", self._title, retry.name, error)
            return False
        except Exception:
            log.exception("%s: %s failed and is dropped", self._title, retry.name)
        return True
