"""Streams go on behind the event that a client saw last, by its id.

    lines    l1.5f…e2.1767225600000000000.1767229200000000000.1767229200123456789.100.1.0.42.17672….7:31.1
    samples  m1.9a…07.1767225600000.1767229200000.15000.0.1767225600000.64.3.c1…5d

An id pins the query (a hash of its text, parameters and organisation), its times, its `now`, and a position
that compaction does not change: the place of a row in the order of the answer, or the slice of steps and the
series in it. The rest is read anew from what is live then. Where that cannot be the rest of the same answer,
the stream is refused with `cannot_resume`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import xxhash
from litestar import Request

from lakerunner_query.api.lakerunner.params import FIELD
from lakerunner_query.coordinator.engine import Engine, Language, PreparedQuery, RequestT
from lakerunner_query.coordinator.merge import AsTheyCome, JoinedSeries, SampleResult
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.errors import CannotResumeError, IndexUnavailableError
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.protocol.answers import MetricAnswer
from lakerunner_query.protocol.units import LogMetricUnit, MetricUnit, Missing
from lakerunner_query.vectors.vector import Labels

if TYPE_CHECKING:
    from lakerunner_query.api.lakerunner.events import Progress

NS_PER_MS = 1_000_000
HEADER = "last-event-id"
EARLIER = "earlier"
_LINES = re.compile(r"l1\.([0-9a-f]{16})\.(-?\d{1,19})\.(-?\d{1,19})\.(\d{1,19})\.(\d{1,9})\.([01])\.([01])"
                    r"\.(\d{1,9})\.(-?\d{1,19})\.(\d{1,19}):(\d{1,19})\.(\d{1,9})")  # fmt: skip
_SAMPLES = re.compile(r"m1\.([0-9a-f]{16})\.(-?\d{1,16})\.(-?\d{1,16})\.(\d{1,16})\.([01])"
                      r"\.(-?\d{1,16})\.(\d{1,5})\.(\d{1,9})\.([0-9a-f]{16})")  # fmt: skip
ANEW = "ask for the whole answer anew"


def last_event_id(request: Request[Any, Any, Any]) -> str:
    """Return the id behind which the stream is to go on; empty: from the start."""
    return request.headers.get(HEADER, "") or request.query_params.get(FIELD, "")


def fingerprint(org: str, *parameters: object) -> str:
    return xxhash.xxh3_64_hexdigest(msgspec.json.encode([org, *map(str, parameters)]))


@dataclass(frozen=True, slots=True)
class LinesPosition:
    """A row of an answer, and the query that it belongs to."""

    query: str
    start_ns: int
    end_ns: int
    now_ns: int
    limit: int
    is_reversed: bool
    is_partial: bool = False
    """True if segments could not be read before this row."""
    sent: int = 0
    """Rows up to this one, itself included."""
    tsns: int = 0
    source: tuple[int, int] = (0, 0)
    """Number of the raw object, and position in it."""
    same: int = 0
    """Rows up to this one that have its time."""

    @classmethod
    def parse(cls, text: str, query: str) -> LinesPosition:
        found = _LINES.fullmatch(text)
        if found is None or found[1] != query:
            raise CannotResumeError(f"{text[:64]!r} is no event of this query: {ANEW}")
        start, end, now, limit, reverse, partial, sent, tsns, source, position, same = map(
            int, found.groups()[1:]
        )
        return cls(
            query, start, end, now, limit, bool(reverse), bool(partial), sent, tsns, (source, position), same
        )

    def rest_of(self, request: LogLinesRequest) -> LogLinesRequest:
        """Return the request for this row's time and what comes behind it."""
        limit = max(0, self.limit - self.sent) + self.same
        start, end = self.start_ns, self.end_ns
        if self.is_reversed:
            end = min(end, self.tsns + 1)
        else:
            start = max(start, self.tsns)
        return replace(request, start_ns=start, end_ns=end, limit=limit, reverse=self.is_reversed)

    @property
    def missing(self) -> dict[str, Missing]:
        reason = "segments were unreadable before the stream was resumed"
        return {EARLIER: Missing(EARLIER, reason)} if self.is_partial else {}

    def ids(self, rows: pa.Table, *, is_partial: bool) -> tuple[list[str], LinesPosition]:
        """Return the id of each row that comes next, and the position of the last."""
        at, reverse = self, int(self.is_reversed)
        partial = int(is_partial or self.is_partial)
        head = f"l1.{self.query}.{self.start_ns}.{self.end_ns}.{self.now_ns}.{self.limit}.{reverse}.{partial}"
        found: list[str] = []
        sent, last, same, source = at.sent, at.tsns, at.same, at.source
        columns = (rows[name].to_pylist() for name in ("tsns", "object", "position"))
        for tsns, number, position in zip(*columns, strict=True):
            sent, same = sent + 1, same + 1 if tsns == last and sent else 1
            last, source = tsns, (number, position)
            found.append(f"{head}.{sent}.{tsns}.{number}:{position}.{same}")
        return found, replace(self, sent=sent, tsns=last, same=same, source=source, is_partial=bool(partial))


async def rows_behind(pieces: AsyncGenerator[pa.Table, None], seen: LinesPosition) -> pa.Table:
    """Read up to the row that was seen, and refuse if it is not where it was; return the rows behind it."""
    tables: list[pa.Table] = []
    count = 0
    while count < seen.same:
        piece = await anext(pieces, None)
        if piece is None:
            break
        tables.append(piece)
        count += piece.num_rows
    rows = pa.concat_tables(tables) if tables else None
    if rows is None or rows.num_rows < seen.same or _source(rows, seen.same - 1) != (seen.tsns, *seen.source):
        await pieces.aclose()
        raise CannotResumeError(f"the lines about the last event are not those of before: {ANEW}")
    return rows.slice(seen.same)


def _source(rows: pa.Table, place: int) -> tuple[int, ...]:
    return tuple(rows[name][place].as_py() for name in ("tsns", "object", "position"))


def refuse_outdated(outdated: str) -> None:
    """Let the client come again: what is remembered of the index may lack what was already sent."""
    if outdated:
        raise IndexUnavailableError(f"{outdated}: a stream goes on once it answers")


@dataclass(frozen=True, slots=True)
class SamplesPosition:
    """A block of samples of an answer: one series in one slice of the steps."""

    query: str
    start_ms: int
    end_ms: int
    step_ms: int
    is_partial: bool = False
    first_ms: int = 0
    steps: int = 0
    """The slice."""
    number: int = 0
    """Blocks of the slice up to this one, itself included."""
    series: str = ""
    """Hash of its labels."""

    @classmethod
    def parse(cls, text: str, query: str) -> SamplesPosition:
        found = _SAMPLES.fullmatch(text)
        if found is None or found[1] != query:
            raise CannotResumeError(f"{text[:64]!r} is no event of this query: {ANEW}")
        start, end, step, partial, first, steps, number = map(int, found.groups()[1:8])
        whole = step > 0 and steps > 0 and start <= first and first + (steps - 1) * step <= end
        if not whole or (first - start) % step:
            raise CannotResumeError(f"{text[:64]!r} is no event of this query: {ANEW}")
        return cls(query, start, end, step, bool(partial), first, steps, number, found[9])

    @property
    def slice_ms(self) -> tuple[int, int]:
        """First and last step of the slice."""
        return self.first_ms, self.first_ms + (self.steps - 1) * self.step_ms

    @property
    def rest_ms(self) -> tuple[int, int] | None:
        """First and last step behind the slice."""
        following = self.first_ms + self.steps * self.step_ms
        return (following, self.end_ms) if following <= self.end_ms else None

    @property
    def missing(self) -> dict[str, Missing]:
        reason = "segments were unreadable before the stream was resumed"
        return {EARLIER: Missing(EARLIER, reason)} if self.is_partial else {}

    def behind(self, series: Sequence[JoinedSeries]) -> list[JoinedSeries]:
        """Drop the series up to the one that was seen; refuse if it is not where it was."""
        if len(series) < self.number or _hash(series[self.number - 1].labels) != self.series:
            raise CannotResumeError(f"the series about the last event are not those of before: {ANEW}")
        return list(series[self.number :])

    def ids(self, series: Sequence[JoinedSeries], *, is_partial: bool) -> Iterator[str]:
        """Return the id of each block of this slice that comes next."""
        partial = int(is_partial or self.is_partial)
        head = f"m1.{self.query}.{self.start_ms}.{self.end_ms}.{self.step_ms}.{partial}"
        for number, one in enumerate(series, self.number + 1):
            yield f"{head}.{self.first_ms}.{self.steps}.{number}.{_hash(one.labels)}"


def _hash(labels: Labels) -> str:
    return xxhash.xxh3_64_hexdigest(msgspec.json.encode(labels))


def place_of(times: PromQLRequest, has_ids: bool, last_id: str, *parameters: str) -> SamplesPosition | None:
    """Return the place of the event, else the start of the query; None where events have no ids."""
    if not has_ids:
        if last_id:
            raise CannotResumeError(f"events of a query with limit, summary or now have no ids: {ANEW}")
        return None
    query = fingerprint(times.org, *parameters)
    if last_id:
        return SamplesPosition.parse(last_id, query)
    return SamplesPosition(query, times.start_ms, times.end_ms, times.step_ms)


@dataclass(frozen=True, slots=True)
class SamplesStream:
    """Slices of a query for samples, in order, with their positions."""

    slices: AsyncGenerator[MetricAnswer, None]
    positions: Sequence[SamplesPosition] = ()
    """Positions by slice; none where events have no ids."""
    seen: SamplesPosition | None = None
    resumed: Sequence[JoinedSeries] = ()
    """Series of the slice in which the stream goes on, behind the one that was seen."""


async def open_samples(
    engine: Engine,
    language: Language[RequestT, Any, MetricAnswer, SampleResult],
    text: str,
    request_of: Callable[[tuple[int, int] | None], RequestT],
    whole: SamplesPosition | None,
    progress: Progress,
) -> SamplesStream:
    """Prepare the stream of an answer, or of what is left of it where `whole` is the place of an event.

    `request_of` makes the request of a part of the steps; without `whole` events have no ids.
    """
    if whole is None or not whole.number:
        prepared = await engine.prepare(language, text, request_of(None))
        return _samples_from(engine, prepared, whole, progress)
    again = await engine.prepare(language, text, request_of(whole.slice_ms))
    refuse_outdated(again.outdated)
    resumed = whole.behind(progress.take(await engine.collect(again)))
    progress.missing.update(whole.missing)
    if whole.rest_ms is None:
        return SamplesStream(_nothing(), (), whole, resumed)
    prepared = await engine.prepare(language, text, request_of(whole.rest_ms))
    refuse_outdated(prepared.outdated)
    return replace(_samples_from(engine, prepared, whole, progress), seen=whole, resumed=resumed)


def _samples_from(
    engine: Engine,
    prepared: PreparedQuery[Any, Any, MetricAnswer, SampleResult],
    whole: SamplesPosition | None,
    progress: Progress,
) -> SamplesStream:
    progress.missing.update(prepared.missing)
    cut = engine.cut(prepared)
    slices = engine.run(prepared, AsTheyCome(), cut)
    if whole is None:
        return SamplesStream(slices)
    places = [(unit.first_ms if isinstance(unit, MetricUnit) else unit.start_ns // NS_PER_MS, unit.steps)
              for unit in cut.units if isinstance(unit, MetricUnit | LogMetricUnit)]  # fmt: skip
    return SamplesStream(
        slices, [replace(whole, first_ms=first, steps=steps, number=0) for first, steps in places]
    )


async def _nothing() -> AsyncGenerator[MetricAnswer, None]:
    nothing: tuple[MetricAnswer, ...] = ()
    for answer in nothing:
        yield answer
