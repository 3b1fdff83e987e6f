"""How many queries of one organisation run at a time; the others wait their turn, first come first served.

An organisation that asks too much waits for itself only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lakerunner_query.errors import TooManyQueriesError


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
