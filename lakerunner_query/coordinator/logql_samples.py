"""A metric query over logs from text to series: the counterpart of `metric_engine.py` for LogQL.

    prepared = await engine.prepare(text, LogMetricRange(org, start_ns, end_ns, step_ns))   raises QueryError
    joined = await engine.collect(prepared)                                                 the whole answer
    async for answer in engine.run(prepared): ...                                           slice by slice
    print(await engine.explain(prepared))

A step of 0 is an instant query at `end_ns`. `prepared.kind` says `scalar`, `vector` or `matrix` before
anything is read. `Joined` (execute/metric_merge.py) is what PromQL has too: every series' labels, and its
points as the JSON text `[1735689600,"0.5"],…`, numbers spelled as Loki does (no exponents); of an instant
query, `is_ordered` says that the order of the series was asked for (`sort`). `joined.missing` names segments
that could not be read; statistics are there too. A text that is a log query is refused here (`is_log_query`
tells which engine to ask).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from anyio.to_thread import run_sync

from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.explain import explain_pipeline
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.merge import Collector, Joined
from lakerunner_query.coordinator.run import Admission
from lakerunner_query.errors import InvalidRequestError, LimitExceededError, QueryTimeoutError
from lakerunner_query.logql.lang import parser
from lakerunner_query.logql.lang.ast import Literal, LogQuery, SampleExpr
from lakerunner_query.logql.lang.printer import print_query
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.plan.logql import LOGS, Nothing
from lakerunner_query.plan.logql_samples import LogReads, log_reads, ways
from lakerunner_query.plan.optimise import improved
from lakerunner_query.plan.slices import LogSliceSizes, cut_log_steps, needed_log_segments
from lakerunner_query.protocol.answers import Kind, MetricAnswer, decode_metric_answer
from lakerunner_query.protocol.units import LogMetricUnit, segment_ref
from resources.index.types import Segment

Answer = TypeVar("Answer")
JOINED_HERE = 200_000
"""Points that are joined faster than another thread is asked to."""
MAX_STEPS = 11_000
NOW = "now"
SLOW = "narrow the time range, use a larger step, or select fewer streams"


@dataclass(frozen=True, slots=True)
class LogMetricRange:
    """What a request says beside the query text; a step of 0 is an instant query at `end_ns`."""

    org: str
    start_ns: int
    end_ns: int
    step_ns: int = 0
    timeout_s: float = 0.0
    """0: the limit."""


@dataclass(frozen=True, slots=True)
class LogMetricLimits:
    timeout_s: float
    max_points: int = 50_000_000
    """Of an answer."""
    max_series: int = 200_000
    """Of any part of an expression."""


@dataclass(frozen=True, slots=True)
class PreparedLogMetrics:
    org: str
    text: str
    asked: LogMetricRange
    steps: LogSteps
    expr: SampleExpr
    reads: tuple[LogReads, ...]
    segments: tuple[tuple[Segment, ...], ...]
    """By `reads`."""
    deadline: float
    timeout_s: float
    now_ns: int

    @property
    def kind(self) -> Kind:
        """Of the answer; Loki shows a number over steps as a series without labels."""
        if self.asked.step_ns:
            return "matrix"
        return "scalar" if isinstance(self.expr, Literal) else "vector"


class LogMetricEngine:
    """Answers LogQL that gives samples; knows nothing of HTTP."""

    def __init__(
        self,
        locator: Locator,
        dispatcher: Dispatcher,
        admission: Admission,
        limits: LogMetricLimits,
        sizes: LogSliceSizes | None = None,
    ) -> None:
        self._locator = locator
        self._dispatcher = dispatcher
        self._admission = admission
        self.limits = limits
        self._sizes = sizes or LogSliceSizes()

    async def prepare(self, text: str, asked: LogMetricRange) -> PreparedLogMetrics:
        timeout = min(asked.timeout_s or self.limits.timeout_s, self.limits.timeout_s)
        deadline = asyncio.get_running_loop().time() + timeout
        steps = steps_of(asked)
        expr = await run_sync(_samples, text)
        wanted = log_reads(expr, steps)
        located = await asyncio.gather(*(self._located(asked.org, read) for read in wanted))
        return PreparedLogMetrics(
            asked.org, text, asked, steps, expr, wanted, tuple(map(tuple, located)), deadline, timeout,
            time.time_ns(),
        )  # fmt: skip

    async def run(self, query: PreparedLogMetrics) -> AsyncGenerator[MetricAnswer, None]:
        """The answers of the slices, in order of time."""
        async with (
            self._admission.admit(query.org, query.deadline),
            aclosing(self._in_time(query, list(self.units(query)))) as answers,
        ):
            async for answer in answers:
                yield answer

    async def collect(self, query: PreparedLogMetrics) -> Joined:
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

    def units(self, query: PreparedLogMetrics) -> Iterator[LogMetricUnit]:
        loads = list(zip(query.reads, query.segments, strict=True))
        distinct = _distinct(query.segments)
        affinity = f"{query.org}/{LOGS}/metrics"
        for part in cut_log_steps(query.steps, loads, self._dispatcher.count, self._sizes):
            mine = log_reads(query.expr, part.steps)
            yield LogMetricUnit(
                affinity=affinity,
                turn=part.number,
                text=query.text,
                start_ns=part.steps.start_ns,
                step_ns=part.steps.step_ns,
                steps=part.steps.count,
                segments=tuple(map(segment_ref, needed_log_segments(mine, distinct))),
                now_ns=query.now_ns if NOW in query.text else 0,  # else the same unit as a second ago
                max_series=self.limits.max_series,
            )

    async def explain(self, query: PreparedLogMetrics) -> str:
        """What each range reads, what the index pruned, and how the steps are cut."""
        live = await self._locator.live_segments(query.org, LOGS)
        found = len(_distinct(query.segments))
        lines = [f"query: {print_query(query.expr)}"]
        if query.asked.step_ns:
            first, last = query.steps.start_ns, query.steps.end_ns
            lines.append(f"steps: {query.steps.count}, every {query.steps.step_ns} ns from {first} to {last}")
        else:
            lines.append(f"step: one, at {query.steps.end_ns}")
        for read, segments in zip(query.reads, query.segments, strict=True):
            lines += _read_lines(read, segments)
        lines += [f"{way}: {text}" for way, text in ways(query.expr)]
        lines.append(f"segments: {live} live, {live - found} pruned by time and terms, {found} may match")
        units = list(self.units(query))
        lines.append(f"slices: {len(units)}")
        lines += [_unit_line(unit) for unit in units]
        return "\n".join(lines)

    async def _located(self, org: str, read: LogReads) -> list[Segment]:
        plan = improved(read.query).pipeline
        if isinstance(plan, Nothing):
            return []
        within = replace(plan.source, org=org, start_ns=read.from_ns + 1, end_ns=read.to_ns + 1)
        return await self._locator.segments(within)

    async def _in_time(
        self, query: PreparedLogMetrics, units: Sequence[LogMetricUnit]
    ) -> AsyncGenerator[MetricAnswer, None]:
        """Answers of the workers, all of them at work at once, until the deadline."""
        answers = self._dispatcher.run(units, decode_metric_answer, ahead=len(units))
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


def is_log_query(text: str) -> bool:
    """Whether it gives lines, for `engine.py`; raises for what is no LogQL."""
    return isinstance(parser.parsed(text), LogQuery)


def steps_of(asked: LogMetricRange) -> LogSteps:
    """The evaluation times; refused where there are more than anybody can look at."""
    if not asked.step_ns:
        return LogSteps(asked.end_ns, 0, 1)
    if asked.end_ns < asked.start_ns:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    count = (asked.end_ns - asked.start_ns) // asked.step_ns + 1
    if count - 1 > MAX_STEPS:
        raise InvalidRequestError(
            "exceeded maximum resolution of 11,000 points per time series. "
            "Try increasing the value of the step parameter"
        )
    return LogSteps(asked.start_ns, asked.step_ns, count)


@lru_cache(256)
def _samples(text: str) -> SampleExpr:
    expr = parser.parsed(text)
    if isinstance(expr, LogQuery):
        raise InvalidRequestError(
            "the query gives log lines, not samples: wrap it, as in count_over_time(… [5m])"
        )
    return expr


def _read_lines(read: LogReads, segments: Sequence[Segment]) -> Iterator[str]:
    rows, size = sum(segment.rows for segment in segments), sum(segment.bytes for segment in segments)
    yield f"  Read ({read.from_ns}, {read.to_ns}]: {len(segments)} segments, {rows} rows, {size} bytes"
    yield from (f"    {line}" for line in explain_pipeline(improved(read.query)))


def _unit_line(unit: LogMetricUnit) -> str:
    last = unit.start_ns + (unit.steps - 1) * unit.step_ns
    return f"  steps {unit.start_ns} to {last} ({unit.steps}): {len(unit.segments)} segments"


def _distinct(segments: Sequence[Sequence[Segment]]) -> list[Segment]:
    found = {segment.segment_id: segment for each in segments for segment in each}
    return sorted(found.values(), key=lambda segment: (segment.min_ns, segment.segment_id))
