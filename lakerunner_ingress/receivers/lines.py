"""Lines in front of threads: the organisation that used the least lately is next, none has all threads."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

from lakerunner_ingress.errors import OverloadedError, UnavailableError
from lakerunner_ingress.receivers.turns import Turns

Result = TypeVar("Result")
WAITING_PER_ORG = 256
TIMEOUT_S = 60.0
HALF_LIFE_S = 10.0
"""Time after which seconds count half."""


class Shares:
    """CPU seconds of organisations, which count less the longer they are ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spent: dict[str, tuple[float, float]] = {}

    def of(self, org: str) -> float:
        seconds, moment = self._spent.get(org, (0.0, 0.0))
        return float(seconds * 0.5 ** ((self._clock() - moment) / HALF_LIFE_S))

    def add(self, org: str, seconds: float) -> None:
        self._spent[org] = (self.of(org) + seconds, self._clock())
        if len(self._spent) > 10_000:
            del self._spent[min(self._spent, key=self.of)]


class Line(Generic[Result]):
    """Threads, each for one call at a time, and the organisations that wait for one; for the event loop."""

    def __init__(self, threads: int, shares: Shares) -> None:
        self._free = threads
        self._most = max(1, threads - 1)
        self._shares = shares
        self._busy: Counter[str] = Counter()
        self._turns: Turns[asyncio.Future[None]] = Turns()
        self._threads = ThreadPoolExecutor(threads, "push-check")

    async def run(self, org: str, call: Callable[[], tuple[float, Result]]) -> Result:
        """Run `call` in its turn; it returns its CPU seconds and the result."""
        if self._turns.waiting(org) >= WAITING_PER_ORG:
            raise OverloadedError(
                f"more than {WAITING_PER_ORG} requests of {org} are waiting; send this again"
            )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._turn(org)
                future = asyncio.get_running_loop().run_in_executor(self._threads, call)
                future.add_done_callback(partial(self._finish, org))
                return (await asyncio.shield(future))[1]  # a thread cannot be stopped: it keeps its place
        except TimeoutError as error:
            raise UnavailableError(f"not checked within {TIMEOUT_S:.0f} s; send this again") from error

    @property
    def waiting(self) -> int:
        return len(self._turns)

    def close(self) -> None:
        self._threads.shutdown()

    async def _turn(self, org: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._turns.add(org, turn)
        self._give_turns()
        try:
            await turn
        except asyncio.CancelledError:
            self._turns.discard(org, turn)
            if turn.done() and not turn.cancelled():
                self._leave(org)  # it was given a thread at the same moment
            raise

    def _give_turns(self) -> None:
        while self._free and (org := self._next_org()) is not None:
            turn = self._turns.take(org)
            if not turn.done():
                self._free -= 1
                self._busy[org] += 1
                turn.set_result(None)

    def _next_org(self) -> str | None:
        able = [org for org in self._turns.orgs if self._busy[org] < self._most]
        return min(able, key=self._shares.of) if able else None

    def _finish(self, org: str, future: asyncio.Future[tuple[float, Result]]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._shares.add(org, future.result()[0])
        self._leave(org)

    def _leave(self, org: str) -> None:
        self._free += 1
        self._busy[org] -= 1
        if not self._busy[org]:
            del self._busy[org]
        self._give_turns()
