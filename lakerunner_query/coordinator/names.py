"""Which series, label names, label values and metrics there are: told by series tables, not by samples.

locate → units → dispatch → unite. The counterpart of `metric_engine.py` for questions without an expression.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

import numpy as np
from anyio.to_thread import run_sync

from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.promql import METRICS
from lakerunner_query.coordinator.run import Admission, Gatherer
from lakerunner_query.errors import LimitExceededError
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.plan.logql import LOGS, LogRange, Nothing, ReadStreams, build
from lakerunner_query.plan.optimise import optimise
from lakerunner_query.plan.promql import Reads
from lakerunner_query.protocol.answers import (
    LATE_MS,
    Exemplar,
    MetricFact,
    SeriesAnswer,
    SeriesExemplars,
    StreamsAnswer,
    decode_exemplars,
    decode_metadata,
    decode_patterns_answer,
    decode_series_answer,
    decode_streams_answer,
)
from lakerunner_query.protocol.units import (
    ExemplarUnit,
    MetadataUnit,
    Missing,
    PatternsUnit,
    Selection,
    SeriesUnit,
    StreamsUnit,
    StreamsWanted,
    UnitReport,
    segment_ref,
)
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Labels
from resources.index.types import Segment

# << Which log streams, label names and values there are, and how much of them: told by stream tables and
# << index.
# <<
# << locate → units → dispatch → unite. The counterpart of `series_engine.py` for logs. No data column is
# << read.

STREAM_SEGMENTS_PER_UNIT = 64
MAX_FOUND = 1_000_000
NARROW_STREAMS = "narrow the time range, or select fewer streams"
Selector = tuple[Matcher, ...]


@dataclass(frozen=True, slots=True)
class StreamQuestion:
    """Of one organisation, in `[start_ns, end_ns)`; no selections mean all streams."""

    org: str
    start_ns: int
    end_ns: int
    selections: tuple[Selector, ...] = ()
    limit: int = 0
    """At most so many; 0: all."""


@dataclass(slots=True)
class Found:
    """An answer; `missing` are segments that could not be read for it."""

    series: list[Labels] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    values: dict[str, set[str]] = field(default_factory=dict)
    volumes: dict[tuple[Labels, int], float] = field(default_factory=dict)
    """Bytes by labels and bucket."""
    patterns: dict[tuple[str, str], Counter[int]] = field(default_factory=dict)
    """Lines by bucket, of each text and level."""
    streams: int = 0
    chunks: int = 0
    rows: int = 0
    bytes: int = 0
    truncated: bool = False
    missing: dict[str, Missing] = field(default_factory=dict)


class StreamEngine:
    """Answers questions about log streams; knows nothing of HTTP."""

    def __init__(
        self, locator: Locator, dispatcher: Dispatcher, admission: Admission, timeout_s: float
    ) -> None:
        self._locator = locator
        self._gatherer = Gatherer(dispatcher, admission, timeout_s, NARROW_STREAMS)

    async def series(self, asked: StreamQuestion) -> Found:
        found, seen = Found(), set[Labels]()
        async with aclosing(self._asked(asked, found, "series", limit=asked.limit)) as answers:
            async for answer in answers:
                seen.update(answer.series)
                _check(len(seen))
        ordered = await asyncio.to_thread(sorted, seen)
        found.series = ordered[: asked.limit or None]
        found.truncated |= len(found.series) < len(ordered)
        return found

    async def label_names(self, asked: StreamQuestion) -> Found:
        """Without a selection the index knows, as exactly as segments are cut."""
        found, seen = Found(), set[str]()
        if asked.selections:
            async with aclosing(self._asked(asked, found, "names", limit=asked.limit)) as answers:
                async for answer in answers:
                    seen.update(answer.values)
        else:
            for segment in (await self._located(asked, names=True))[1]:
                seen.update(segment.label_names)
        return _cut_texts(found, seen, asked.limit)

    async def label_values(self, asked: StreamQuestion, label: str) -> Found:
        found = await self.values(asked, (label,))
        return _cut_texts(found, found.values.get(label, set()), asked.limit)

    async def values(self, asked: StreamQuestion, labels: tuple[str, ...] = ()) -> Found:
        """Values by label; no labels: of all there are."""
        found = Found()
        async with aclosing(self._asked(asked, found, "values", labels)) as answers:
            async for answer in answers:
                for name, values in answer.values.items():
                    found.values.setdefault(name, set()).update(values)
                _check(sum(map(len, found.values.values())))
        return found

    async def sizes(self, asked: StreamQuestion) -> Found:
        """How many streams, rows and bytes."""
        found, seen = Found(), np.empty(0, np.int64)
        rows = size = 0.0
        async with aclosing(self._asked(asked, found, "sizes")) as answers:
            async for answer in answers:
                seen = np.union1d(seen, np.frombuffer(answer.stream_ids, np.int64))
                rows, size = rows + answer.rows, size + answer.size
                found.chunks += answer.chunks
        found.streams, found.rows, found.bytes = len(seen), round(rows), round(size)
        return found

    async def volumes(self, asked: StreamQuestion, labels: tuple[str, ...], step_ns: int) -> Found:
        """Bytes by what streams have of the labels, in buckets of `step_ns`."""
        found = Found()
        async with aclosing(self._asked(asked, found, "volumes", labels, step_ns)) as answers:
            async for answer in answers:
                for one in answer.volumes:
                    key = one.labels, one.bucket
                    found.volumes[key] = found.volumes.get(key, 0.0) + one.size
                _check(len(found.volumes))
        return found

    async def patterns(self, asked: StreamQuestion, step_ns: int, most: int) -> Found:
        """Lines by pattern, level and bucket; of each part of the range the most frequent patterns."""
        found = Found()
        selections, segments = await self._located(asked)
        units = [
            PatternsUnit(
                affinity=_stream_affinity(asked.org, part),
                segments=tuple(map(segment_ref, part)),
                matchers=selections[0],
                start_ns=asked.start_ns,
                end_ns=asked.end_ns,
                step_ns=step_ns,
                limit=most,
            )
            for part in (_stream_parts(segments) if selections else ())
        ]
        async with aclosing(self._gatherer.answers(asked.org, units, decode_patterns_answer)) as answers:
            async for answer in answers:
                found.missing.update((lost.segment_id, lost) for lost in answer.report.missing)
                for one in answer.patterns:
                    found.patterns.setdefault((one.text, one.level), Counter()).update(dict(one.counts))
        return found

    async def _asked(
        self,
        asked: StreamQuestion,
        found: Found,
        want: StreamsWanted,
        labels: tuple[str, ...] = (),
        step_ns: int = 0,
        limit: int = 0,
    ) -> AsyncGenerator[StreamsAnswer, None]:
        """Answers of the workers; what could not be read for them goes into `found`."""
        selections, segments = await self._located(asked)
        units = [
            StreamsUnit(
                affinity=_stream_affinity(asked.org, part),
                segments=tuple(map(segment_ref, part)),
                selections=selections,
                start_ns=asked.start_ns,
                end_ns=asked.end_ns,
                want=want,
                labels=labels,
                step_ns=step_ns,
                limit=limit,
            )
            for part in _stream_parts(segments)
        ]
        async with aclosing(self._gatherer.answers(asked.org, units, decode_streams_answer)) as answers:
            async for answer in answers:
                found.truncated |= answer.truncated
                found.missing.update((lost.segment_id, lost) for lost in answer.report.missing)
                yield answer

    async def _located(
        self, asked: StreamQuestion, *, names: bool = False
    ) -> tuple[tuple[Selector, ...], list[Segment]]:
        """Selections that something may satisfy, simplified, and the segments of any of them."""
        reads = await run_sync(_reads, asked)
        located = await asyncio.gather(*(self._locator.segments(read, names=names) for read in reads))
        distinct = {segment.segment_id: segment for each in located for segment in each}
        ordered = sorted(distinct.values(), key=lambda segment: (segment.min_ns, segment.segment_id))
        return tuple(read.matchers for read in reads), ordered


def _reads(asked: StreamQuestion) -> list[ReadStreams]:
    """By the rules of log queries: matchers without regexes where that is the same, and index terms."""
    within = LogRange(asked.org, asked.start_ns, asked.end_ns, limit=1)
    plans = (optimise(build(LogQuery(matchers), within)).plan for matchers in asked.selections or ((),))
    return [plan.source.source for plan in plans if not isinstance(plan, Nothing)]


def _stream_parts(segments: Sequence[Segment]) -> Iterator[Sequence[Segment]]:
    for at in range(0, len(segments), STREAM_SEGMENTS_PER_UNIT):
        yield segments[at : at + STREAM_SEGMENTS_PER_UNIT]


def _stream_affinity(org: str, segments: Sequence[Segment]) -> str:
    """Of the worker that reads these hours' lines too, and has their tables in memory."""
    heaviest = max(segments, key=lambda s: (s.bytes, s.segment_id))
    return f"{org}/{LOGS}/{heaviest.hour_ns}"


def _check(count: int) -> None:
    if count > MAX_FOUND:
        raise LimitExceededError(f"the answer has more than {MAX_FOUND} entries: {NARROW_STREAMS}")


def _cut_texts(found: Found, seen: set[str], limit: int) -> Found:
    ordered = sorted(seen)
    found.texts = ordered[: limit or None]
    found.truncated |= len(found.texts) < len(ordered)
    return found


SEGMENTS_PER_UNIT = 32
NARROW = "narrow the time range, or select fewer series"


class Reported(Protocol):
    @property
    def report(self) -> UnitReport: ...


Answer = TypeVar("Answer", bound=Reported)


@dataclass(frozen=True, slots=True)
class Question:
    """Of one organisation; no selections mean all series of the range."""

    org: str
    from_ms: int
    """Exclusive."""
    to_ms: int
    selections: tuple[Selection, ...] = ()
    limit: int = 0
    """At most so many; 0: all."""

    @property
    def chosen(self) -> tuple[Selection, ...]:
        return self.selections or (Selection((), self.from_ms, self.to_ms),)


@dataclass(slots=True)
class Listed:
    """A sorted answer, cut to the limit."""

    series: list[Labels] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    facts: list[MetricFact] = field(default_factory=list)
    exemplars: list[SeriesExemplars] = field(default_factory=list)
    truncated: bool = False
    missing: dict[str, Missing] = field(default_factory=dict)


class SeriesEngine:
    """Answers questions about series; knows nothing of HTTP."""

    def __init__(
        self, locator: Locator, dispatcher: Dispatcher, admission: Admission, timeout_s: float
    ) -> None:
        self._locator = locator
        self._gatherer = Gatherer(dispatcher, admission, timeout_s, NARROW)

    async def series(self, question: Question) -> Listed:
        listed, found = Listed(), set[Labels]()
        async with aclosing(self._asked(question, "series")) as answers:
            async for answer in answers:
                found.update(answer.series)
                listed.truncated |= answer.truncated
                _note(listed, answer.report, len(found))
        listed.series, cut = _cut(await asyncio.to_thread(sorted, found), question.limit)
        listed.truncated |= cut
        return listed

    async def label_names(self, question: Question) -> Listed:
        """Without a selection the index knows, as exactly as segments are cut."""
        listed, found = Listed(), set[str]()
        if question.selections:
            await self._texts(question, "names", "", listed, found)
        else:
            for segment in await self._segments(question, names=True):
                found.update(segment.label_names)
        return _sorted(listed, found, question.limit)

    async def label_values(self, question: Question, label: str) -> Listed:
        listed, found = Listed(), set[str]()
        await self._texts(question, "values", label, listed, found)
        return _sorted(listed, found, question.limit)

    async def metadata(self, question: Question, metric: str = "") -> Listed:
        """What metrics say of themselves in the newest segments that have them."""
        listed, found = Listed(), set[MetricFact]()
        segments = _newest(await self._segments(question, names=True), metric)
        names = (metric,) if metric else ()
        units = [
            MetadataUnit(_affinity(question.org, part), tuple(map(segment_ref, part)), names)
            for part in _parts(segments)
        ]
        async with aclosing(self._gatherer.answers(question.org, units, decode_metadata)) as answers:
            async for answer in answers:
                found.update(answer.facts)
                _note(listed, answer.report, len(found))
        listed.facts = sorted(found)
        return listed

    async def exemplars(self, question: Question) -> Listed:
        listed, found = Listed(), dict[Labels, set[Exemplar]]()
        segments = await self._segments(question, later_ms=LATE_MS)
        units = [
            ExemplarUnit(_affinity(question.org, part), question.selections, tuple(map(segment_ref, part)))
            for part in _parts(segments)
        ]
        async with aclosing(self._gatherer.answers(question.org, units, decode_exemplars)) as answers:
            async for answer in answers:
                for one in answer.series:
                    found.setdefault(one.labels, set()).update(one.exemplars)
                _note(listed, answer.report, sum(map(len, found.values())))
        listed.exemplars = [
            SeriesExemplars(labels, tuple(sorted(each))) for labels, each in sorted(found.items())
        ]
        return listed

    async def _texts(
        self,
        question: Question,
        want: Literal["names", "values"],
        label: str,
        listed: Listed,
        found: set[str],
    ) -> None:
        async with aclosing(self._asked(question, want, label)) as answers:
            async for answer in answers:
                found.update(answer.texts)
                listed.truncated |= answer.truncated
                _note(listed, answer.report, len(found))

    async def _segments(self, question: Question, later_ms: int = 0, *, names: bool = False) -> list[Segment]:
        found: dict[str, Segment] = {}
        for one in question.chosen:
            wanted = Reads(one.matchers, one.from_ms, one.to_ms + later_ms)
            for segment in await self._locator.metric_segments(question.org, METRICS, wanted, names=names):
                found[segment.segment_id] = segment
        return sorted(found.values(), key=lambda segment: (segment.min_ns, segment.segment_id))

    async def _asked(
        self, question: Question, want: Literal["series", "names", "values"], label: str = ""
    ) -> AsyncGenerator[SeriesAnswer, None]:
        segments = await self._segments(question)
        units = [
            SeriesUnit(
                affinity=_affinity(question.org, part),
                selections=question.chosen,
                segments=tuple(map(segment_ref, part)),
                want=want,
                label=label,
                limit=question.limit,
            )
            for part in _parts(segments)
        ]
        async with aclosing(self._gatherer.answers(question.org, units, decode_series_answer)) as answers:
            async for answer in answers:
                yield answer


def _newest(segments: Sequence[Segment], metric: str) -> list[Segment]:
    """Latest first, as long as a segment has a metric that no later one has."""
    seen: set[str] = set()
    chosen: list[Segment] = []
    for segment in sorted(segments, key=lambda s: (s.max_ns, s.segment_id), reverse=True):
        names = {metric} & set(segment.metric_names) if metric else set(segment.metric_names)
        if names - seen:
            seen |= names
            chosen.append(segment)
    return sorted(chosen, key=lambda s: (s.min_ns, s.segment_id))


def _parts(segments: Sequence[Segment]) -> Iterator[Sequence[Segment]]:
    """Neighbours in time together, in numbers that are worth a request."""
    for at in range(0, len(segments), SEGMENTS_PER_UNIT):
        yield segments[at : at + SEGMENTS_PER_UNIT]


def _affinity(org: str, segments: Sequence[Segment]) -> str:
    heaviest = max(segments, key=lambda s: (s.bytes, s.segment_id))
    return f"{org}/{METRICS}/{heaviest.hour_ns}"


def _note(listed: Listed, report: UnitReport, found: int) -> None:
    listed.missing.update((lost.segment_id, lost) for lost in report.missing)
    if found > MAX_FOUND:
        raise LimitExceededError(f"the answer has more than {MAX_FOUND} entries: {NARROW}")


def _sorted(listed: Listed, found: set[str], limit: int) -> Listed:
    listed.texts, cut = _cut(sorted(found), limit)
    listed.truncated |= cut
    return listed


Item = TypeVar("Item")


def _cut(found: list[Item], limit: int) -> tuple[list[Item], bool]:
    if limit and len(found) > limit:
        return found[:limit], True
    return found, False
