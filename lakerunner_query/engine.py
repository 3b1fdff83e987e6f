"""A query from text to rows: the one file in which the order of the steps stands.

parse → plan → optimise → locate → slice → dispatch → collect. Everything up to `locate` happens before the
first byte is answered, so that its errors keep their status; what fails later ends the stream.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from anyio.to_thread import run_sync

from lakerunner_query.admission import Admission
from lakerunner_query.errors import LimitExceededError, QueryTimeoutError
from lakerunner_query.execute.dispatch import Dispatcher
from lakerunner_query.execute.locate import Locator
from lakerunner_query.execute.merge import Collected
from lakerunner_query.execute.units import log_units
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.plan.explain import explain
from lakerunner_query.plan.logql import LogRange, Nothing, build
from lakerunner_query.plan.optimise import Optimised, optimise
from lakerunner_query.protocol.units import UnitReport, decode_answer
from resources.index.types import Segment

SLOW = "narrow the time range, or add a stream matcher or a line filter that selects less"


@dataclass(frozen=True, slots=True)
class Limits:
    timeout_s: float
    max_rows: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query that parsed and knows its segments."""

    org: str
    text: str
    limit: int
    planned: Optimised
    segments: tuple[Segment, ...]
    deadline: float
    """On the event loop's clock."""
    now_ns: int
    """What templates call `now`, the same for all rows."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some more rows, in order, as `execute.work.ROWS`."""

    table: pa.Table


@dataclass(frozen=True, slots=True)
class Finished:
    """The last item of every query that did not fail."""

    collected: Collected

    @property
    def partial(self) -> bool:
        return bool(self.collected.missing)


@lru_cache(256)
def _parsed(text: str) -> LogQuery:
    """Dashboards ask the same again and again."""
    return parse(text)


class Engine:
    """Answers queries; knows nothing of HTTP."""

    def __init__(
        self, locator: Locator, dispatcher: Dispatcher, admission: Admission, limits: Limits
    ) -> None:
        self._locator = locator
        self._dispatcher = dispatcher
        self._admission = admission
        self._limits = limits

    async def prepare(self, text: str, asked: LogRange) -> Prepared:
        if asked.limit > self._limits.max_rows:
            raise LimitExceededError(
                "max entries limit per query exceeded, limit > max_entries_limit_per_query "
                f"({asked.limit} > {self._limits.max_rows}): ask for fewer rows and page by time"
            )
        deadline = asyncio.get_running_loop().time() + self._limits.timeout_s
        planned = await run_sync(lambda: optimise(build(_parsed(text), asked)))
        segments: list[Segment] = []
        if not isinstance(planned.plan, Nothing):
            segments = await self._locator.segments(planned.plan.source.source)
        return Prepared(asked.org, text, asked.limit, planned, tuple(segments), deadline, time.time_ns())

    async def run(self, query: Prepared) -> AsyncGenerator[Rows | Finished, None]:
        """Rows as units complete, then `Finished`. Closing the iterator stops the workers."""
        collected = Collected(query.limit)
        plan = query.planned.plan
        if not isinstance(plan, Nothing) and query.segments:
            async with self._admission.admit(query.org, query.deadline):
                units = log_units(plan, query.segments, text=query.text, now_ns=query.now_ns)
                ahead = self._dispatcher.count if plan.source.source.words else 1
                answers = self._dispatcher.run(units, decode_answer, ahead=max(1, ahead))
                async with aclosing(answers):
                    while not collected.full:
                        answer = await self._next(answers, query.deadline)
                        if answer is None:
                            break
                        yield Rows(collected.add(*answer))
        yield Finished(collected)

    async def explain(self, query: Prepared) -> str:
        """The plan, the rules that fired, who runs which stage, and what the index pruned."""
        lines = [explain(query.planned)]
        plan = query.planned.plan
        if not isinstance(plan, Nothing):
            streams = plan.source.source
            live = await self._locator.live_segments(streams.org, streams.dataset)
            units = list(log_units(plan, query.segments, text=query.text))
            found, size = len(query.segments), sum(s.bytes for s in query.segments)
            lines.append(f"segments: {live} live, {live - found} pruned by time and terms, {found} may match")
            lines.append(f"bytes: {size}; slices: {len(units)}, stopping once {query.limit} rows exist")
        return "\n".join(lines)

    async def _next(
        self, answers: AsyncIterator[tuple[pa.Table, UnitReport]], deadline: float
    ) -> tuple[pa.Table, UnitReport] | None:
        try:
            async with asyncio.timeout_at(deadline):
                return await anext(answers, None)
        except TimeoutError as error:
            raise QueryTimeoutError(f"no answer after {self._limits.timeout_s:g} s: {SLOW}") from error
