"""A metric query from text to series: the counterpart of `engine.py`.

parse → bind → what it reads → locate → slices or shards → dispatch → join. Everything up to `locate`
happens in `prepare`, so that its errors keep their status.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

from anyio.to_thread import run_sync

from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.locate import Locator, narrowed, worth_reading
from lakerunner_query.coordinator.merge import Collector, Joined
from lakerunner_query.coordinator.run import Admission
from lakerunner_query.coordinator.shards import received, shard_units, with_shards
from lakerunner_query.errors import (
    EvaluationError,
    InvalidRequestError,
    LimitExceededError,
    QueryTimeoutError,
    WorkFailedError,
)
from lakerunner_query.plan.promql import Reads, reads, rollups_for
from lakerunner_query.plan.slices import (
    SampleSliceSizes,
    cut_steps,
    needed,
    rows_to_read,
)
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.parser import parsed
from lakerunner_query.protocol.answers import MetricAnswer, decode_metric_answer
from lakerunner_query.protocol.units import MetricUnit, ShardUnit, Unit, segment_ref
from lakerunner_query.vectors.vector import Steps
from resources.index.types import Segment, TierView

Answer = TypeVar("Answer")
METRICS = "metrics"
JOINED_HERE = 200_000
"""Points that are joined faster than another thread is asked to."""
MAX_STEPS = 11_000
FLAGS = (
    "promql-experimental-functions", "promql-duration-expr", "promql-extended-range-selectors",
    "promql-binop-fill-modifiers",
)  # fmt: skip
_OF_THE_RANGE = re.compile(r"\b(start|end|range)\b")
"""Words of queries whose parts depend on where the whole begins and ends; labels called so do no harm."""
SLOW = "narrow the time range, use a larger step, or select fewer series"


@dataclass(frozen=True, slots=True)
class MetricRange:
    """What a request says beside the query text; a step of 0 is an instant query at `end_ms`."""

    org: str
    start_ms: int
    end_ms: int
    step_ms: int = 0
    lookback_ms: int = 300_000
    timeout_s: float = 0.0
    """0: the limit."""


@dataclass(frozen=True, slots=True)
class MetricLimits:
    timeout_s: float
    max_points: int = 50_000_000
    """Of an answer, and samples that one selector may load for one part."""
    max_series: int = 200_000
    """That one selector may match."""
    features: tuple[str, ...] = FLAGS
    """Optional parts of the language, by their names in Prometheus."""
    default_subquery_step_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class PreparedMetrics:
    org: str
    text: str
    asked: MetricRange
    steps: Steps
    expr: Expr
    reads: tuple[Reads, ...]
    segments: tuple[tuple[Segment, ...], ...]
    """By `reads`."""
    tiers: TierView
    """Rollups of all that is read, and what of them is current; empty where none can serve."""
    deadline: float
    timeout_s: float


class MetricEngine:
    """Answers PromQL; knows nothing of HTTP."""

    def __init__(
        self,
        locator: Locator,
        dispatcher: Dispatcher,
        admission: Admission,
        limits: MetricLimits,
        sizes: SampleSliceSizes | None = None,
    ) -> None:
        self._locator = locator
        self._dispatcher = dispatcher
        self._admission = admission
        self.limits = limits
        self._sizes = sizes or SampleSliceSizes()

    async def prepare(self, text: str, asked: MetricRange) -> PreparedMetrics:
        timeout = min(asked.timeout_s or self.limits.timeout_s, self.limits.timeout_s)
        deadline = asyncio.get_running_loop().time() + timeout
        steps = steps_of(asked)
        expr = await run_sync(lambda: self._bound(text, asked))
        wanted = reads(expr, steps, asked.lookback_ms, self.limits.default_subquery_step_ms)
        located, tiers = await asyncio.gather(
            asyncio.gather(*(self._locator.metric_segments(asked.org, METRICS, read) for read in wanted)),
            self._tiers(asked.org, expr, steps, wanted, asked.lookback_ms),
        )
        segments = tuple(tuple(each) for each in located)
        return PreparedMetrics(
            asked.org, text, asked, steps, expr, wanted, segments, tiers, deadline, timeout
        )

    async def run(self, query: PreparedMetrics) -> AsyncGenerator[MetricAnswer, None]:
        """The answers of the slices, in order of time."""
        async with self._admission.admit(query.org, query.deadline):
            units = list(self.units(query))
            shards = self.shards(query, units)
            if shards:
                units = [await self._after(query, shards, units[0])]
            async with aclosing(self._in_time(query, units, decode_metric_answer)) as answers:
                async for answer in answers:
                    yield answer

    async def collect(self, query: PreparedMetrics) -> Joined:
        """The whole answer."""
        collector = Collector()
        async with aclosing(self.run(query)) as answers:
            async for answer in answers:
                collector.add(answer)
                if collector.points > self.limits.max_points:
                    raise LimitExceededError(
                        f"the answer has more than {self.limits.max_points} points: aggregate, {SLOW}"
                    )
        if collector.points < JOINED_HERE:
            return collector.joined()
        return await asyncio.to_thread(collector.joined)

    def shards(self, query: PreparedMetrics, units: Sequence[MetricUnit]) -> tuple[ShardUnit, ...]:
        """What is computed side by side before the one unit there is; nothing where there are more."""
        if len(units) != 1:
            return ()
        rows = rows_to_read(list(zip(query.reads, query.segments, strict=True)))
        return shard_units(units[0], query.expr, rows, self._dispatcher.count, self._sizes)

    def units(self, query: PreparedMetrics) -> Iterator[MetricUnit]:
        asked = query.asked
        loads = list(zip(query.reads, query.segments, strict=True))
        affinity = _affinity(query)
        parts = cut_steps(query.steps, loads, self._dispatcher.count, self._sizes)
        rollups = worth_reading(query.tiers)
        knows_its_range = bool(_OF_THE_RANGE.search(query.text))
        for part in parts:
            steps = part.steps
            mine = reads(query.expr, steps, asked.lookback_ms, self.limits.default_subquery_step_ms)
            segments = needed(mine, _distinct(query.segments))
            yield MetricUnit(
                affinity=affinity,
                turn=part.number,
                text=query.text,
                start_ms=query.steps.start_ms if knows_its_range else steps.start_ms,
                end_ms=asked.end_ms if knows_its_range else steps.end_ms,
                step_ms=asked.step_ms,
                first_ms=steps.start_ms,
                steps=steps.count,
                lookback_ms=asked.lookback_ms,
                segments=tuple(map(segment_ref, segments)),
                rollups=narrowed(rollups, mine),
                features=self.limits.features,
                max_series=self.limits.max_series,
                max_samples=self.limits.max_points,
            )

    async def _after(
        self, query: PreparedMetrics, shards: Sequence[ShardUnit], unit: MetricUnit
    ) -> MetricUnit:
        """What is left of the unit when the shards are there, and all of it if one of them fails."""
        try:
            async with aclosing(self._in_time(query, shards, received)) as answers:
                return with_shards(unit, [answer async for answer in answers])
        except (EvaluationError, LimitExceededError, WorkFailedError):
            return unit  # which of several errors is told is for the one who sees all series

    async def _in_time(
        self, query: PreparedMetrics, units: Sequence[Unit], decode: Callable[[bytes], Answer]
    ) -> AsyncGenerator[Answer, None]:
        """Answers of the workers, all of them at work at once, until the deadline."""
        answers = self._dispatcher.run(units, decode, ahead=len(units))
        async with aclosing(answers):
            while True:
                try:
                    async with asyncio.timeout_at(query.deadline):
                        answer = await anext(answers, None)
                except TimeoutError as error:
                    raise QueryTimeoutError(f"no answer after {query.timeout_s:g} s: {SLOW}") from error
                if answer is None:
                    return
                yield answer

    async def _tiers(
        self, org: str, expr: Expr, steps: Steps, wanted: Sequence[Reads], lookback_ms: int
    ) -> TierView:
        frequencies = rollups_for(expr, steps, lookback_ms)
        if not frequencies or not wanted:
            return TierView((), ())
        from_ms, to_ms = min(read.from_ms for read in wanted), max(read.to_ms for read in wanted)
        return await self._locator.tiers(org, frequencies, from_ms, to_ms)

    def _bound(self, text: str, asked: MetricRange) -> Expr:
        return bind(
            parsed(text, Features.named(self.limits.features)), asked.start_ms, asked.end_ms, asked.step_ms
        )


def steps_of(asked: MetricRange) -> Steps:
    """The evaluation times; refused where there are more than anybody can look at."""
    if not asked.step_ms:
        return Steps(asked.end_ms, 0, 1)
    if asked.end_ms < asked.start_ms:
        raise InvalidRequestError("end timestamp must not be before start time")
    count = (asked.end_ms - asked.start_ms) // asked.step_ms + 1
    if count - 1 > MAX_STEPS:
        raise InvalidRequestError(
            "exceeded maximum resolution of 11,000 points per timeseries. "
            "Try decreasing the query resolution (?step=XX)"
        )
    return Steps(asked.start_ms, asked.step_ms, count)


def _distinct(segments: Sequence[Sequence[Segment]]) -> list[Segment]:
    found = {segment.segment_id: segment for each in segments for segment in each}
    return sorted(found.values(), key=lambda segment: (segment.min_ns, segment.segment_id))


def _affinity(query: PreparedMetrics) -> str:
    """Queries for the same series go to the same workers, which have them in memory."""
    asked = sorted(
        f"{matcher.name}{matcher.op}{matcher.value}" for read in query.reads for matcher in read.matchers
    )
    return f"{query.org}/{METRICS}/{','.join(asked)}"
