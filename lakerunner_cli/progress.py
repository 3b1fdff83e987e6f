"""Progress of long commands: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from lakerunner_cli.command import CommandError
from resources.index.postgres.objects import ObjectStatus

WIDTH = 30
QUIET_S = 0.7  # a run shorter than this shows nothing
BAR_EVERY_S, LINE_EVERY_S = 0.1, 5.0


class Progress:
    """A progress bar; `close()` leaves the last state on screen."""

    def __init__(self, what: str, total: int, stream: TextIO | None = None) -> None:
        self._what, self._total, self._stream = what, total, stream or sys.stderr
        self._done, self._began, self._shown_at = 0, time.monotonic(), 0.0

    def step(self, count: int = 1) -> None:
        self.at(self._done + count)

    def at(self, done: int) -> None:
        self._done = done
        now = time.monotonic()
        every = BAR_EVERY_S if self._stream.isatty() else LINE_EVERY_S
        if now - self._began >= QUIET_S and (now - self._shown_at >= every or done >= self._total):
            self._shown_at = now
            self._show(now - self._began)

    def close(self) -> None:
        if self._shown_at and self._stream.isatty():
            self._stream.write("\n")

    def _show(self, elapsed_s: float) -> None:
        share = self._done / self._total if self._total else 1.0
        text = f"{self._what} {self._done}/{self._total} ({share:.0%}, {elapsed_s:.0f} s)"
        if self._stream.isatty():
            self._stream.write(f"\r[{'#' * int(share * WIDTH):<{WIDTH}}] {text}\033[K")
        else:
            self._stream.write(text + "\n")
        self._stream.flush()


POLL_S = 0.5


def wait_until_settled(
    look: Callable[[], Sequence[ObjectStatus]], expected: int, timeout_s: float, tell: Callable[[int], None]
) -> list[ObjectStatus]:
    """Wait until objects are queryable or given up on; return their states.

    `tell` gets the number of settled objects so far.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        settled = [status for status in look() if status.settled]
        tell(len(settled))
        if len(settled) >= expected:
            return settled
        if time.monotonic() >= deadline:
            raise CommandError(
                f"after {timeout_s:.0f} s {expected - len(settled)} of {expected} objects are not queryable "
                "yet; they stay in the pipeline (`lakerunner status`)"
            )
        time.sleep(POLL_S)
