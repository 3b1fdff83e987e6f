"""Which series, label names, label values and metrics there are: told by series tables, not by samples.

locate → units → dispatch → unite. The counterpart of `metric_engine.py` for questions without an expression.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from lakerunner_query.admission import Admission
from lakerunner_query.errors import LimitExceededError
from lakerunner_query.execute.dispatch import Dispatcher
from lakerunner_query.execute.locate import Locator
from lakerunner_query.gathering import Gatherer
from lakerunner_query.metric_engine import METRICS
from lakerunner_query.plan.promql import Reads
from lakerunner_query.protocol.answers import (
    LATE_MS,
    Exemplar,
    MetricFact,
    SeriesAnswer,
    SeriesExemplars,
    decode_exemplars,
    decode_metadata,
    decode_series_answer,
)
from lakerunner_query.protocol.units import (
    ExemplarUnit,
    MetadataUnit,
    Missing,
    Selection,
    SeriesUnit,
    UnitReport,
    segment_ref,
)
from lakerunner_query.vectors.vector import Labels
from resources.index.types import Segment

SEGMENTS_PER_UNIT = 32
MAX_FOUND = 1_000_000
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
