"""Every query takes this path: plan, locate, cut, admit, dispatch, merge in order, stream.

A language is a value: the functions that this path calls, in one row of `languages.py`. Everything up to
`locate` happens in `prepare`, before the first byte is answered, so that its errors keep their status.

    query = await engine.prepare(PROMQL, "up", PromQLRequest("acme", 0, 60_000, 15_000))
    joined = await engine.collect(query)                          the whole answer
    async for piece in engine.run(query, sink): ...               piece by piece
    print(await engine.explain(query))
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from anyio.to_thread import run_sync

from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.locate import Locator, Lookup
from lakerunner_query.errors import (
    EvaluationError,
    InvalidRequestError,
    LimitExceededError,
    QueryTimeoutError,
    TooManyQueriesError,
    WorkFailedError,
)
from lakerunner_query.protocol.units import Unit
from resources.index.types import Segment, TierView

MAX_STEPS = 11_000
PROMQL_FEATURES = (
    "promql-experimental-functions", "promql-duration-expr", "promql-extended-range-selectors",
    "promql-binop-fill-modifiers",
)  # fmt: skip


class Request(Protocol):
    """The parameters of a query beside its text; each language has its own."""

    @property
    def org(self) -> str: ...

    @property
    def timeout_s(self) -> float:
        """Seconds; 0: the limit."""


RequestT = TypeVar("RequestT", bound=Request)
PlanT = TypeVar("PlanT")
AnswerT = TypeVar("AnswerT")
ResultT = TypeVar("ResultT")
PieceT = TypeVar("PieceT")
AnswerT_contra = TypeVar("AnswerT_contra", contravariant=True)
PieceT_co = TypeVar("PieceT_co", covariant=True)
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Sink(Protocol[AnswerT_contra, PieceT_co]):
    """Takes the answers of units, in the order of the units."""

    @property
    def is_full(self) -> bool:
        """True when no further answer can change the result."""

    def add(self, answer: AnswerT_contra) -> PieceT_co:
        """Take in one answer; return the piece of it that goes to the caller at once."""


class Merge(Sink[AnswerT_contra, object], Protocol[AnswerT_contra, ResultT_co]):
    """A sink that makes one answer of all."""

    @property
    def is_small(self) -> bool:
        """True when `result` takes less time than handing it to another thread."""

    def result(self) -> ResultT_co: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what one query may take."""

    timeout_s: float
    max_rows: int = 0
    """Log lines of an answer."""
    max_points: int = 50_000_000
    """Points of an answer, and samples that one selector may load for one unit."""
    max_series: int = 200_000
    """Series that one selector may match, or one part of a LogQL expression may have."""
    features: tuple[str, ...] = PROMQL_FEATURES
    """Optional parts of PromQL, by their names in Prometheus."""
    default_subquery_step_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Shards:
    """Work for several workers before the one unit that stands above it."""

    units: Sequence[Unit]
    decode: Callable[[bytes], Any]
    join: Callable[[Any, list[Any]], Unit]
    """The unit that is left once the answers of all shards are there."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The units of a query, in the order in which their answers are merged."""

    units: Iterable[Unit]
    ahead: int
    """Units at work from the start; 0: there are none."""
    shards: Shards | None = None


NOTHING_TO_DO = Cut((), 0)


def all_at_once(units: Sequence[Unit], shards: Shards | None = None) -> Cut:
    return Cut(units, len(units), shards)


@dataclass(frozen=True, slots=True)
class Language(Generic[RequestT, PlanT, AnswerT, ResultT]):
    """One row of the registry; everything the engine has to know about a language."""

    name: str
    dataset: str
    plan: Callable[[str, RequestT, Limits], PlanT]
    """Parse the text and decide what it reads; pure."""
    lookup: Callable[[PlanT, RequestT], Lookup]
    """Questions to the index; pure."""
    cut: Callable[[PreparedQuery[RequestT, PlanT, AnswerT, ResultT], int, Limits], Cut]
    """Units of work for so many workers; pure."""
    decode: Callable[[bytes], AnswerT]
    """Answer of one unit, as the worker encoded it."""
    merge: Callable[[PreparedQuery[RequestT, PlanT, AnswerT, ResultT], Limits], Merge[AnswerT, ResultT]]
    explain: Callable[[PreparedQuery[RequestT, PlanT, AnswerT, ResultT], Cut, int], Iterable[str]]
    """Lines about a query, its units and the live segments of the dataset."""
    advice: str
    """Advice to a caller whose query takes too long."""


@dataclass(frozen=True)
class PreparedQuery(Generic[RequestT, PlanT, AnswerT, ResultT]):
    """A query that is planned and knows its segments."""

    language: Language[RequestT, PlanT, AnswerT, ResultT]
    text: str
    request: RequestT
    plan: PlanT
    segments: tuple[tuple[Segment, ...], ...]
    """Segments of each lookup, oldest first."""
    tiers: TierView
    """Rollups of all that is read, and how current they are; empty where none can serve."""
    deadline: float
    """Time on the event loop's clock."""
    timeout_s: float
    now_ns: int
    """Value of `now` in templates, the same for all rows."""

    @cached_property
    def distinct_segments(self) -> list[Segment]:
        """Segments of all lookups, each once, oldest first."""
        known = {segment.segment_id: segment for each in self.segments for segment in each}
        return sorted(known.values(), key=lambda segment: (segment.min_ns, segment.segment_id))


class Admission:
    """Queries of one organisation take turns, first come first served; no organisation waits for another."""

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


class Engine:
    """Answers queries of every language; knows nothing of HTTP."""

    def __init__(
        self, locator: Locator, dispatcher: Dispatcher, admission: Admission, limits: Limits
    ) -> None:
        self._locator = locator
        self._dispatcher = dispatcher
        self._admission = admission
        self.limits = limits

    async def prepare(
        self, language: Language[RequestT, PlanT, AnswerT, ResultT], text: str, request: RequestT
    ) -> PreparedQuery[RequestT, PlanT, AnswerT, ResultT]:
        """Plan the query and locate its segments; raise what is wrong with it."""
        timeout_s = min(request.timeout_s or self.limits.timeout_s, self.limits.timeout_s)
        deadline = asyncio.get_running_loop().time() + timeout_s
        plan = await run_sync(language.plan, text, request, self.limits)
        segments, tiers = await self._locator.look_up(language.lookup(plan, request))
        return PreparedQuery(
            language, text, request, plan, segments, tiers, deadline, timeout_s, time.time_ns()
        )

    async def run(
        self,
        query: PreparedQuery[RequestT, PlanT, AnswerT, ResultT],
        sink: Sink[AnswerT, PieceT],
    ) -> AsyncGenerator[PieceT, None]:
        """Stream what `sink` makes of each answer; closing the iterator stops the workers."""
        cut = query.language.cut(query, self._dispatcher.count, self.limits)
        if not cut.ahead:
            return
        async with self._admission.admit(query.request.org, query.deadline):
            units = await self._join_shards(query, cut)
            decode = query.language.decode
            async with aclosing(self._answers(query, units, decode, cut.ahead)) as answers:
                async for answer in answers:
                    yield sink.add(answer)
                    if sink.is_full:
                        return

    async def collect(self, query: PreparedQuery[RequestT, PlanT, AnswerT, ResultT]) -> ResultT:
        """Return the whole answer."""
        merge = query.language.merge(query, self.limits)
        async with aclosing(self.run(query, merge)) as pieces:
            async for _ in pieces:
                pass
        return merge.result() if merge.is_small else await asyncio.to_thread(merge.result)

    async def ask(self, language: Language[RequestT, PlanT, AnswerT, ResultT], request: RequestT) -> ResultT:
        """Answer a question that has no text."""
        return await self.collect(await self.prepare(language, "", request))

    async def explain(self, query: PreparedQuery[RequestT, PlanT, AnswerT, ResultT]) -> str:
        """Describe what is read, what the index pruned, and how the query is cut."""
        cut = query.language.cut(query, self._dispatcher.count, self.limits)
        live = await self._locator.live_segments(query.request.org, query.language.dataset)
        return "\n".join(query.language.explain(query, cut, live))

    async def _join_shards(
        self, query: PreparedQuery[RequestT, PlanT, AnswerT, ResultT], cut: Cut
    ) -> Iterable[Unit]:
        """Replace the one unit by what its shards leave of it; keep it whole if one of them fails."""
        shards = cut.shards
        if shards is None:
            return cut.units
        (unit,) = cut.units
        try:
            async with aclosing(
                self._answers(query, shards.units, shards.decode, len(shards.units))
            ) as answers:
                return [shards.join(unit, [answer async for answer in answers])]
        except (EvaluationError, LimitExceededError, WorkFailedError):
            return [unit]  # only a worker that sees all series knows which of several errors comes first

    async def _answers(
        self,
        query: PreparedQuery[Any, Any, Any, Any],
        units: Iterable[Unit],
        decode: Callable[[bytes], AnswerT],
        ahead: int,
    ) -> AsyncGenerator[AnswerT, None]:
        """Yield answers in the order of the units, until the deadline."""
        async with aclosing(self._dispatcher.run(units, decode, ahead=ahead)) as answers:
            while True:
                try:
                    async with asyncio.timeout_at(query.deadline):
                        answer = await anext(answers, None)
                except TimeoutError as error:
                    raise QueryTimeoutError(
                        f"no answer after {query.timeout_s:g} s: {query.language.advice}"
                    ) from error
                if answer is None:
                    return
                yield answer


def step_count(start: int, end: int, step: int, *, backwards: str, too_many: str) -> int:
    """Count evaluation times, both ends included; refuse more than anybody can look at."""
    if end < start:
        raise InvalidRequestError(backwards)
    count = (end - start) // step + 1
    if count - 1 > MAX_STEPS:
        raise InvalidRequestError(too_many)
    return count


def hour_affinity(org: str, dataset: str, segments: Sequence[Segment]) -> str:
    """Name the hour that a unit mostly reads: its worker has the files of that hour in its cache."""
    heaviest = max(segments, key=lambda s: (s.bytes, s.segment_id))
    return f"{org}/{dataset}/{heaviest.hour_ns}"
