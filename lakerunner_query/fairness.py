"""Organisations share slots by the CPU seconds that they really used.

A slot does one thing at a time: a thread of a worker, a request in flight, a question to the index. The
next free slot goes to the waiting organisation that used least; one that was idle starts level with the
others, so that nobody saves up. An organisation holds its share of the slots while others are active, and
slots in reserve start the first unit of an organisation at once when others hold all the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from lakerunner_query.errors import TooManyQueriesError

ACTIVE_S = 2.0
"""Seconds for which an organisation counts as active after its last unit."""
FORGET_S = 60.0
"""Seconds after which an idle organisation is forgotten."""
MEMORY = 0.3
"""Weight of the last unit in the cost that is expected of the next."""
PREPARING, MOST_PREPARING = 6, 200
"""Queries that are planned and located at a time, and those of one organisation that may wait for it."""


class QueueFullError(Exception):
    """The organisation has as many units waiting as it may."""


class WithdrawnError(Exception):
    """The queue was emptied: what it waited for is not to be had here."""


@dataclass(slots=True)
class _Share:
    """One organisation: what waits, what runs, and what it used."""

    used_s: float
    expected_s: float = 0.0
    running: int = 0
    last_active: float = 0.0
    waiting: deque[asyncio.Future[int]] = field(default_factory=deque)

    @property
    def claim_s(self) -> float:
        """Seconds used, with those that running units are expected to use."""
        return self.used_s + self.running * self.expected_s


@dataclass(slots=True)
class Turn:
    """The right to use one slot."""

    org: str
    slot: int
    _turns: FairTurns
    began: float
    cost_s: float | None = None
    """CPU seconds used; None: as long as the turn took."""
    _is_over: bool = False

    def release(self) -> None:
        """Give the slot back and charge the organisation."""
        if not self._is_over:
            self._is_over = True
            self._turns._end(self)  # noqa: SLF001 - a turn is part of its queue


class FairTurns:
    """Slots for units of many organisations; lives in one event loop."""

    def __init__(
        self,
        slots: int,
        *,
        reserve: int = 1,
        waiting_per_org: int = 1_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slots = slots
        self._free = list(range(slots + reserve - 1, -1, -1))
        self._reserve = reserve
        self._waiting_per_org = waiting_per_org
        self._clock = clock
        self._shares: dict[str, _Share] = {}
        self._level_s = 0.0
        """Seconds used by the organisation that had the last turn: where a new one starts."""
        self._forgot_at = clock()
        self.used_s = 0.0
        """CPU seconds of all turns that are over."""

    @property
    def waiting(self) -> int:
        return sum(len(share.waiting) for share in self._shares.values())

    @property
    def running(self) -> int:
        return self._slots + self._reserve - len(self._free)

    @asynccontextmanager
    async def turn(self, org: str) -> AsyncIterator[Turn]:
        """Run the block once it is the organisation's turn."""
        turn = await self.acquire(org)
        try:
            yield turn
        finally:
            turn.release()

    async def acquire(self, org: str) -> Turn:
        """Wait for a slot; whoever gets the turn has to release it."""
        share = self._share(org)
        if len(share.waiting) >= self._waiting_per_org:
            raise QueueFullError(f"{self._waiting_per_org} units of this organisation are waiting already")
        granted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        share.waiting.append(granted)
        self._grant()
        try:
            slot = await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                Turn(org, granted.result(), self, self._clock(), cost_s=0.0).release()
            elif granted in share.waiting:
                share.waiting.remove(granted)
            raise
        return Turn(org, slot, self, self._clock())

    def withdraw(self, reason: str) -> int:
        """Refuse everything that waits; return how much it was."""
        refused = 0
        for share in self._shares.values():
            while share.waiting:
                granted = share.waiting.popleft()
                if not granted.done():
                    granted.set_exception(WithdrawnError(reason))
                    refused += 1
        return refused

    def _share(self, org: str) -> _Share:
        """Return the share of an organisation; one that was idle starts level with the others."""
        self._forget_idle()
        share = self._shares.setdefault(org, _Share(self._level_s))
        if not share.running and not share.waiting:
            share.used_s = max(share.used_s, self._level_s)
        share.last_active = self._clock()
        return share

    def _grant(self) -> None:
        while self._free and (org := self._next()) is not None:
            share = self._shares[org]
            granted = share.waiting.popleft()
            if granted.done():  # nobody waits for it any more
                continue
            self._level_s = max(self._level_s, share.used_s)
            share.running += 1
            granted.set_result(self._free.pop())

    def _next(self) -> str | None:
        """Choose the waiting organisation with the smallest claim among those that may have a slot."""
        now = self._clock()
        active = sum(self._is_active(share, now) for share in self._shares.values())
        most = -(-self._slots // max(1, active))
        regular = self.running < self._slots
        candidates = [
            (share.claim_s, org)
            for org, share in self._shares.items()
            if share.waiting and (not share.running or (regular and share.running < most))
        ]
        return min(candidates)[1] if candidates else None

    def _is_active(self, share: _Share, now: float) -> bool:
        return bool(share.running or share.waiting) or now - share.last_active < ACTIVE_S

    def _end(self, turn: Turn) -> None:
        now = self._clock()
        cost_s = now - turn.began if turn.cost_s is None else turn.cost_s
        share = self._shares[turn.org]
        share.running -= 1
        share.used_s += cost_s
        share.expected_s += MEMORY * (cost_s - share.expected_s)
        share.last_active = now
        self.used_s += cost_s
        self._free.append(turn.slot)
        self._grant()

    def _forget_idle(self) -> None:
        now = self._clock()
        if now - self._forgot_at < FORGET_S:
            return
        self._forgot_at = now
        for org, share in list(self._shares.items()):
            if not share.running and not share.waiting and now - share.last_active > FORGET_S:
                del self._shares[org]


class Admission:
    """Queries of one organisation take turns, first come first served; no organisation waits for another.

    Planning and questions to the index have slots of their own, which organisations share fairly, and tails
    are counted.
    """

    def __init__(self, per_org: int, max_wait_s: float = 30.0, *, tails: int = 10) -> None:
        self._per_org = per_org
        self._max_wait_s = max_wait_s
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._most_tails = tails
        self._tails: Counter[str] = Counter()
        self._preparing = FairTurns(PREPARING, reserve=2, waiting_per_org=MOST_PREPARING)

    @asynccontextmanager
    async def prepare(self, org: str) -> AsyncIterator[None]:
        """Run the block, which plans a query or asks the index, in the organisation's turn."""
        try:
            turn = await self._preparing.acquire(org)
        except QueueFullError as error:
            raise TooManyQueriesError(
                f"{MOST_PREPARING} requests of this organisation are waiting: send fewer at a time"
            ) from error
        try:
            yield
        finally:
            turn.release()

    @contextmanager
    def tail(self, org: str) -> Iterator[None]:
        """Run the block as one of the organisation's tails."""
        if self._tails[org] >= self._most_tails:
            raise TooManyQueriesError(
                "max concurrent tail requests limit exceeded, count > limit "
                f"({self._tails[org] + 1} > {self._most_tails})"
            )
        self._tails[org] += 1
        try:
            yield
        finally:
            self._tails[org] -= 1
            if not self._tails[org]:
                del self._tails[org]

    @asynccontextmanager
    async def admit(self, org: str, deadline: float) -> AsyncIterator[None]:
        """Run the block once it is this query's turn."""
        turns = self._turns.setdefault(org, asyncio.Semaphore(self._per_org))
        patience = min(deadline, asyncio.get_running_loop().time() + self._max_wait_s)
        try:
            async with asyncio.timeout_at(patience):
                await turns.acquire()
        except TimeoutError as error:
            raise TooManyQueriesError(
                f"{self._per_org} queries of this organisation are already running: send fewer at a time"
            ) from error
        try:
            yield
        finally:
            turns.release()
