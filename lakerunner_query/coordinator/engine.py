"""Every query takes this path: plan, locate, cut, admit, dispatch, merge in order, stream.

A language is a value: the functions that this path calls, in one row of `languages.py`. Everything up to
`locate` happens in `prepare`, before the first byte is answered, so that its errors keep their status.

    query = await engine.prepare(PROMQL, "up", PromQLRequest("acme", 0, 60_000, 15_000))
    joined = await engine.collect(query)                          the whole answer
    async for piece in engine.run(query, sink): ...               piece by piece
    print(engine.explain(query))
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from anyio.to_thread import run_sync

from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.locate import Locator, Lookup
from lakerunner_query.coordinator.query_log import QueryLog, count_series
from lakerunner_query.coordinator.rewriting import Candidates, Rewritten
from lakerunner_query.coordinator.rules import RuleCache
from lakerunner_query.errors import (
    EvaluationError,
    IndexUnavailableError,
    InvalidRequestError,
    LimitExceededError,
    QueryTimeoutError,
    WorkFailedError,
)
from lakerunner_query.fairness import Admission
from lakerunner_query.plan.rewrite import ActiveRule, AskedText
from lakerunner_query.protocol.units import INDEX, Missing, Unit
from resources.index.types import CountQuery, Segment, TierView

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
    max_fetch_bytes: int = 0
    max_fetch_requests: int = 0
    """Bytes and requests that one query may take from the object store; 0: any number."""
    features: tuple[str, ...] = PROMQL_FEATURES
    """Optional parts of PromQL, by their names in Prometheus."""
    default_subquery_step_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Shards:
    """Work for several workers before the units that stand above it."""

    units: Sequence[Unit]
    decode: Callable[[bytes], Any]
    join: Callable[[Sequence[Unit], list[Any]], Iterable[Unit]]
    """The units that are left of all once the answers of all shards are there."""


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


def never_rewritten(_plan: object, _request: object, _rules: Sequence[ActiveRule]) -> Candidates | None:
    """Leave the query to records: no rule can serve a part of it."""
    return None


def never_kept(_plan: object, _request: object) -> AskedText | None:
    """Keep nothing in the query log: no rule can serve such queries."""
    return None


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
    explain: Callable[[PreparedQuery[RequestT, PlanT, AnswerT, ResultT], Cut], Iterable[str]]
    """Lines about a query and its units."""
    advice: str
    """Advice to a caller whose query takes too long."""
    is_planned_quickly: Callable[[str], bool] = lambda _: False
    """Tell whether `plan` takes less time than handing it to another thread."""
    rewrite: Callable[[PlanT, RequestT, Sequence[ActiveRule]], Candidates | None] = never_rewritten
    """Find rules that may serve parts of a query; pure."""
    asked: Callable[[PlanT, RequestT], AskedText | None] = never_kept
    """Return a query for the query log; pure."""


@dataclass(frozen=True)
class PreparedQuery(Generic[RequestT, PlanT, AnswerT, ResultT]):
    """A query that is planned and knows its segments."""

    language: Language[RequestT, PlanT, AnswerT, ResultT]
    text: str
    request: RequestT
    plan: PlanT
    segments: tuple[tuple[Segment, ...], ...]
    """Segments of each selector, oldest first, all as of one moment."""
    tiers: TierView
    """Rollups of all that is read, as of the same moment; empty where none can serve."""
    deadline: float
    """Time on the event loop's clock."""
    timeout_s: float
    now_ns: int
    """Value of `now` in templates, the same for all rows."""
    outdated: str = ""
    """Reason why the segments may not be those of now; empty: they are."""
    live: int | None = None
    """Live segments of the dataset as of the same moment; None where they were not counted."""
    rewritten: Rewritten | None = None
    """Parts that derived metrics may answer; None where nobody looked for any."""

    @property
    def missing(self) -> dict[str, Missing]:
        """Entry for what the index could not tell, beside the segments that workers cannot read."""
        return {INDEX: Missing(INDEX, self.outdated)} if self.outdated else {}

    @cached_property
    def distinct_segments(self) -> list[Segment]:
        """Segments of all lookups, each once, oldest first."""
        known = {segment.segment_id: segment for each in self.segments for segment in each}
        return sorted(known.values(), key=lambda segment: (segment.min_ns, segment.segment_id))


class Engine:
    """Answers queries of every language; knows nothing of HTTP."""

    def __init__(
        self,
        locator: Locator,
        dispatcher: Dispatcher,
        admission: Admission,
        limits: Limits,
        rules: RuleCache | None = None,
        log: QueryLog | None = None,
    ) -> None:
        self._locator = locator
        self._log = log
        self._rules = rules
        self._dispatcher = dispatcher
        self.admission = admission
        self.limits = limits

    @property
    def workers(self) -> int:
        """Number of workers that there are."""
        return self._dispatcher.count

    def gauges(self) -> dict[str, float]:
        return self._log.gauges() if self._log is not None else {}

    async def ingest_losses(self, org: str, start_ns: int, end_ns: int) -> list[Mapping[str, object]]:
        """Count by signal what objects that arrived in an interval brought, and what was not kept."""
        return await self._locator.ingest_losses(org, start_ns, end_ns)

    async def prepare(
        self,
        language: Language[RequestT, PlanT, AnswerT, ResultT],
        text: str,
        request: RequestT,
        now_ns: int = 0,
        *,
        is_explained: bool = False,
    ) -> PreparedQuery[RequestT, PlanT, AnswerT, ResultT]:
        """Plan the query and locate its segments; raise what is wrong with it.

        `now_ns` is the `now` of a query that goes on. Live segments are counted if it `is_explained`.
        """
        timeout_s = min(request.timeout_s or self.limits.timeout_s, self.limits.timeout_s)
        deadline = asyncio.get_running_loop().time() + timeout_s
        async with _until(deadline, timeout_s, language.advice), self.admission.prepare(request.org):
            if language.is_planned_quickly(text):
                plan = language.plan(text, request, self.limits)
            else:
                plan = await run_sync(language.plan, text, request, self.limits)
            lookup = language.lookup(plan, request)
            if is_explained:
                lookup = replace(lookup, counted=CountQuery(request.org, language.dataset))
            candidates = await self._candidates(language, plan, request)
            if candidates is not None:
                lookup = candidates.extend(lookup, request.org)
            found = await self._locator.look_up(lookup, deadline)
        segments, rewritten = found.segments, None
        if candidates is not None:
            segments, rewritten = candidates.settle(found)
        return PreparedQuery(
            language, text, request, plan, segments, found.tiers, deadline, timeout_s,
            now_ns or time.time_ns(), found.outdated, found.live, rewritten,
        )  # fmt: skip

    async def _candidates(
        self, language: Language[RequestT, PlanT, AnswerT, ResultT], plan: PlanT, request: RequestT
    ) -> Candidates | None:
        """Find the rules that may serve the query; organisations without rules pay nothing."""
        if (
            self._rules is None
            or language.rewrite is never_rewritten
            or not getattr(request, "rewrite", True)
        ):
            return None
        rules = await self._rules.find(request.org)
        return language.rewrite(plan, request, rules) if rules else None

    async def run(
        self,
        query: PreparedQuery[RequestT, PlanT, AnswerT, ResultT],
        sink: Sink[AnswerT, PieceT],
        cut: Cut | None = None,
    ) -> AsyncGenerator[PieceT, None]:
        """Stream what `sink` makes of each answer; closing the iterator stops the workers."""
        cut = cut or self.cut(query)
        if not cut.ahead:
            return
        clock, away_s, series = asyncio.get_running_loop().time, 0.0, 0
        log = self._log if query.language.asked is not never_kept else None
        async with self.admission.admit(query.request.org, query.deadline):
            units = await self._join_shards(query, cut)
            decode = query.language.decode
            async with aclosing(self._answers(query, units, decode, cut.ahead)) as answers:
                async for answer in answers:
                    series = max(series, count_series(answer) if log else 0)
                    left_at = clock()
                    yield sink.add(answer)
                    away_s += clock() - left_at
                    if sink.is_full:
                        return
        if log is not None:
            log.note(query, clock() - (query.deadline - query.timeout_s) - away_s, series)

    def cut(self, query: PreparedQuery[RequestT, PlanT, AnswerT, ResultT]) -> Cut:
        """Cut the query for the workers that there are."""
        return query.language.cut(query, self.workers, self.limits)

    async def collect(self, query: PreparedQuery[RequestT, PlanT, AnswerT, ResultT]) -> ResultT:
        """Return the whole answer."""
        merge = query.language.merge(query, self.limits)
        async with aclosing(self.run(query, merge)) as pieces:
            async for _ in pieces:
                pass
        result = merge.result() if merge.is_small else await asyncio.to_thread(merge.result)
        if query.outdated:
            missing = getattr(result, "missing", None)
            if missing is None:  # the answer has no place where to say it
                raise IndexUnavailableError(query.outdated)
            missing.update(query.missing)
        return result

    async def ask(self, language: Language[RequestT, PlanT, AnswerT, ResultT], request: RequestT) -> ResultT:
        """Answer a question that has no text."""
        return await self.collect(await self.prepare(language, "", request))

    def explain(self, query: PreparedQuery[RequestT, PlanT, AnswerT, ResultT]) -> str:
        """Describe what is read, what the index pruned, and how the query is cut."""
        return "\n".join(query.language.explain(query, self.cut(query)))

    async def _join_shards(
        self, query: PreparedQuery[RequestT, PlanT, AnswerT, ResultT], cut: Cut
    ) -> Iterable[Unit]:
        """Replace the units by what their shards leave of them; keep them whole if a shard fails."""
        shards = cut.shards
        if shards is None:
            return cut.units
        units = list(cut.units)
        try:
            async with aclosing(
                self._answers(query, shards.units, shards.decode, len(shards.units))
            ) as answers:
                return shards.join(units, [answer async for answer in answers])
        except (EvaluationError, LimitExceededError, WorkFailedError):
            return units  # only a worker that sees all series knows which of several errors comes first

    async def _answers(
        self,
        query: PreparedQuery[Any, Any, Any, Any],
        units: Iterable[Unit],
        decode: Callable[[bytes], AnswerT],
        ahead: int,
    ) -> AsyncGenerator[AnswerT, None]:
        """Yield answers in the order of the units, until the deadline.

        The clock stands still while the caller does something else, such as waiting for a slow client.
        """
        org, clock, away_s = query.request.org, asyncio.get_running_loop().time, 0.0
        budget = _Budget(self.limits, query.language.advice)
        async with aclosing(self._dispatcher.run(units, decode, org=org, ahead=ahead)) as answers:
            while True:
                async with _until(query.deadline + away_s, query.timeout_s, query.language.advice):
                    answer = await anext(answers, None)
                if answer is None:
                    return
                budget.take(answer)
                left_at = clock()
                yield answer
                away_s += clock() - left_at


@dataclass(slots=True)
class _Budget:
    """Bytes and requests that the answers of one query took from the object store."""

    limits: Limits
    advice: str
    bytes: int = 0
    requests: int = 0

    def take(self, answer: Any) -> None:
        """Add what an answer took; refuse the query once it is too much."""
        report = answer[1] if isinstance(answer, tuple) else getattr(answer, "report", None)
        if report is None:
            return
        self.bytes, self.requests = self.bytes + report.bytes_fetched, self.requests + report.requests
        for taken, most, what in (
            (self.bytes, self.limits.max_fetch_bytes, "bytes"),
            (self.requests, self.limits.max_fetch_requests, "requests"),
        ):
            if most and taken > most:
                raise LimitExceededError(
                    f"the query took {taken} {what} from the object store, more than {most}: {self.advice}"
                )


@asynccontextmanager
async def _until(deadline: float, timeout_s: float, advice: str) -> AsyncIterator[None]:
    """End the block at the deadline."""
    try:
        async with asyncio.timeout_at(deadline):
            yield
    except TimeoutError as error:
        raise QueryTimeoutError(f"no answer after {timeout_s:g} s: {advice}") from error


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
