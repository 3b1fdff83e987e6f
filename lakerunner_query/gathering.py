"""Units to workers, all at once, and their answers in order: for questions that no expression is part of.

One organisation's questions take turns, and none of them takes longer than a query may.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

from lakerunner_query.admission import Admission
from lakerunner_query.errors import QueryTimeoutError
from lakerunner_query.execute.dispatch import Dispatcher
from lakerunner_query.protocol.units import Unit

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
