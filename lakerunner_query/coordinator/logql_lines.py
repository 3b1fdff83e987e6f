"""A query from text to rows: the one file in which the order of the steps stands.

parse → plan → optimise → locate → slice → dispatch → collect. Everything up to `locate` happens before the
first byte is answered, so that its errors keep their status; what fails later ends the stream.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from anyio.to_thread import run_sync

from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.explain import explain_lines
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.merge import Collected
from lakerunner_query.coordinator.run import Admission
from lakerunner_query.errors import LimitExceededError, QueryTimeoutError
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.plan.logql import LogRange, Nothing, TakeRows, build
from lakerunner_query.plan.optimise import Optimised, optimise
from lakerunner_query.plan.slices import RowSliceSizes, Slice, cut_slices
from lakerunner_query.protocol.units import ROWS, LogUnit, UnitReport, decode_answer, segment_ref
from resources.index.types import Segment
from resources.lake.timecut import SECOND_NS

# << A plan and a slice become a unit of work for one worker.
# <<
# << The affinity names the partition a unit mostly reads, so that the same worker's disk cache serves it
# << again
# << next time.

FOR_NEEDLES = RowSliceSizes(rows=16_000_000, bytes=2 << 30, first=1.0)
"""Where words are looked for, most segments are not opened: a unit has many, and stops early by itself."""


def log_units(
    plan: TakeRows,
    segments: Sequence[Segment],
    sizes: RowSliceSizes | None = None,
    *,
    text: str,
    now_ns: int = 0,
) -> Iterator[LogUnit]:
    """Units in answering order, made one at a time: most queries stop early."""
    streams = plan.source.source
    chosen = sizes or (FOR_NEEDLES if streams.words else RowSliceSizes())
    for part in cut_slices(segments, streams.start_ns, streams.end_ns, reverse=plan.reverse, sizes=chosen):
        yield LogUnit(
            affinity=affinity(streams.org, streams.dataset, part),
            segments=tuple(map(segment_ref, part.segments)),
            text=text,
            start_ns=part.start_ns,
            end_ns=part.end_ns,
            limit=plan.limit,
            reverse=plan.reverse,
            distinct=plan.distinct,
            now_ns=now_ns,
        )


def affinity(org: str, dataset: str, part: Slice[Segment]) -> str:
    heaviest = max(part.segments, key=lambda s: (s.bytes, s.segment_id))
    return f"{org}/{dataset}/{heaviest.hour_ns}"


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
        lines = [explain_lines(query.planned)]
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


# << Rows of a log query as they come: what was published since the poll before.
# <<
# << Rows arrive by segments, and those of a segment may be older than what was told already: hence a
# << poll asks for
# << segments that it has not seen, not for later times. Compaction writes rows anew; they are known by
# << the number
# << of the raw object that they came in, and never take the place of rows that came.

FUTURE_NS = 600 * SECOND_NS
"""Clocks of senders run ahead."""


@dataclass(slots=True)
class Tail:
    """A query that is asked again and again; `asked.limit` bounds what is told of the time before."""

    engine: Engine
    text: str
    asked: LogRange
    _segments: frozenset[str] = frozenset()
    _objects: set[int] = field(default_factory=set)
    _began: bool = False
    _oldest_ns: int = -(2**63)
    """Of the rows that were there before and told; older ones were not asked for."""

    async def poll(self, now_ns: int, limit: int) -> pa.Table:
        """New rows, oldest first, of a poll at most `limit`; of what was there before, the newest."""
        first = not self._began
        during = replace(
            self.asked,
            end_ns=now_ns + FUTURE_NS,
            limit=self.asked.limit if first else limit,
            reverse=first,
        )
        prepared = await self.engine.prepare(self.text, during)
        fresh = [one for one in prepared.segments if one.segment_id not in self._segments]
        merged = [] if first else [one for one in fresh if one.level]
        rows, unread = await self._read(prepared, [one for one in fresh if first or not one.level])
        if first and rows.num_rows >= during.limit:
            self._oldest_ns = pc.min(rows["tsns"]).as_py()
        new = self._new(rows)
        if merged:
            rows, lost = await self._read(await self._prepared_again(during), merged)
            new, unread = pa.concat_tables([new, self._new(rows)]), unread | lost
        # only now: what could not be read is asked for again
        self._segments = frozenset(one.segment_id for one in prepared.segments) - unread
        self._began = True
        return new.sort_by([("tsns", "ascending"), ("object", "ascending"), ("position", "ascending")])

    async def _prepared_again(self, during: LogRange) -> Prepared:
        """For merged segments, nearly all rows of which are known: the newest, none from before the tail."""
        start_ns = max(during.start_ns, self._oldest_ns)
        return await self.engine.prepare(self.text, replace(during, start_ns=start_ns, reverse=True))

    async def _read(self, prepared: Prepared, segments: Sequence[Segment]) -> tuple[pa.Table, set[str]]:
        """Rows of these segments, and which of them cannot be read."""
        tables, unread = [ROWS.empty_table()], set[str]()
        async with aclosing(self.engine.run(replace(prepared, segments=tuple(segments)))) as answers:
            async for answer in answers:
                if isinstance(answer, Finished):
                    unread = set(answer.collected.missing)
                else:
                    tables.append(answer.table)
        return pa.concat_tables(tables), unread

    def _new(self, rows: pa.Table) -> pa.Table:
        if self._objects:
            known = pc.is_in(rows["object"], value_set=pa.array(sorted(self._objects), pa.int64()))
            rows = rows.filter(pc.invert(known))
        self._objects.update(rows["object"].unique().to_pylist())
        return rows
