"""Units to workers, all at once, and their answers in order: for questions that no expression is part of.

One organisation's questions take turns, and none of them takes longer than a query may.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.errors import QueryTimeoutError, TooManyQueriesError
from lakerunner_query.protocol.units import Unit

# << How many queries of one organisation run at a time; the others wait their turn, first come first served.
# <<
# << An organisation that asks too much waits for itself only.


class Admission:
    def __init__(self, per_org: int, max_wait_s: float = 30.0) -> None:
        self._per_org = per_org
        self._max_wait_s = max_wait_s
        self._turns: dict[str, asyncio.Semaphore] = {}

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


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Gatherer:
    dispatcher: Dispatcher
    admission: Admission
    timeout_s: float
    narrow: str
    """What to do about a question that takes too long."""

    async def answers(
        self, org: str, units: Sequence[Unit], decode: Callable[[bytes], Answer]
    ) -> AsyncGenerator[Answer, None]:
        if not units:
            return
        deadline = asyncio.get_running_loop().time() + self.timeout_s
        async with (
            self.admission.admit(org, deadline),
            aclosing(self.dispatcher.run(units, decode, ahead=len(units))) as answers,
        ):
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        answer = await anext(answers, None)
                except TimeoutError as error:
                    raise QueryTimeoutError(f"no answer after {self.timeout_s:g} s: {self.narrow}") from error
                if answer is None:
                    return
                yield answer
