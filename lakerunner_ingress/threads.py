"""Worker threads take blocking work off the event loop, bounded in number and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, fail_after, to_thread

from lakerunner_ingress.errors import OverloadedError, UnavailableError

Result = TypeVar("Result")


class WorkerThreads:
    """Runs `busy` calls at once and keeps `waiting` in line; further ones raise `OverloadedError`."""

    def __init__(self, busy: int, waiting: int, timeout_s: float) -> None:
        self._busy = busy
        self._waiting = waiting
        self._timeout_s = timeout_s
        self._limiter: CapacityLimiter | None = None

    async def run(self, call: Callable[[], Result]) -> Result:
        limiter = self._limiter or CapacityLimiter(self._busy)
        self._limiter = limiter  # made here, because a limiter belongs to the running event loop
        if limiter.statistics().tasks_waiting >= self._waiting:
            raise OverloadedError(f"more than {self._waiting} requests are waiting; send this again")
        try:
            with fail_after(self._timeout_s):
                return await to_thread.run_sync(call, limiter=limiter, abandon_on_cancel=True)
        except TimeoutError as error:
            raise UnavailableError(f"not done within {self._timeout_s:.0f} s; send this again") from error
