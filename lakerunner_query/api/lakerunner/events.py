"""A query for samples becomes a stream of events: blocks of series as slices of the range complete.

    {"type":"result","data":{"labels":{"job":"a"},"values":[[1767225600,"0.5"],[1767225660,"0.25"]]}}
    {"type":"done","data":{"status":"complete","s":"1767225600000",...}}

A series of a long range comes in several blocks, each later than the one before. Server-sent events have one
`data:` line of JSON each; they are written as bytes, because samples and rows arrive as finished text.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import msgspec

from lakerunner_query.api.lakerunner.params import AlignedRequest
from lakerunner_query.api.lakerunner.resume import SamplesPosition, SamplesStream
from lakerunner_query.api.prometheus.render import messages_of, metric
from lakerunner_query.api.shared.requests import missing_warnings
from lakerunner_query.api.shared.services import QueryWatch
from lakerunner_query.coordinator.merge import JoinedSeries, SampleMerge, SampleResult
from lakerunner_query.coordinator.promql import SLOW
from lakerunner_query.errors import LimitExceededError, QueryError
from lakerunner_query.promql.context import Annotations
from lakerunner_query.protocol.units import Missing
from lakerunner_query.serving import envelope
from lakerunner_query.vectors.vector import Labels

HEARTBEAT_S = 15.0
MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def event(kind: str, data: object = None) -> bytes:
    """
    >>> event("heartbeat")
    b'data: {"type":"heartbeat","data":null}\\n\\n'
    """
    return b"data: " + msgspec.json.encode({"type": kind, "data": data}) + b"\n\n"


HEARTBEAT = event("heartbeat")


def id_line(event_id: str) -> bytes:
    """Render the line that a client sends back to go on behind the event."""
    return f"id: {event_id}\n".encode() if event_id else b""


async def with_heartbeats(
    events: AsyncGenerator[bytes, None],
    every_s: float = HEARTBEAT_S,
    beat: bytes | Callable[[], bytes] = HEARTBEAT,
) -> AsyncIterator[bytes]:
    """Yield `events`, and a heartbeat whenever `every_s` pass without one; closing closes `events`."""
    upcoming: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            upcoming = upcoming or asyncio.ensure_future(anext(events, None))
            done, _ = await asyncio.wait({upcoming}, timeout=every_s)
            if not done:
                yield beat() if callable(beat) else beat
                continue
            found, upcoming = upcoming.result(), None
            if found is None:
                return
            yield found
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.wait({upcoming})
        await events.aclose()


CHUNK_SERIES = 200


@dataclass(slots=True)
class Sums:
    """Summary of the float samples of one series."""

    points: int = 0
    min: float = math.nan
    max: float = math.nan
    sum: float = 0.0
    last: float = math.nan

    def add(self, floats: bytes) -> None:
        pairs = msgspec.json.decode(b"[" + floats + b"]", type=list[tuple[float, str]])
        values = [float(text) for _, text in pairs]
        known = [value for value in values if not math.isnan(value)]
        self.points += len(values)
        self.sum += math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
        for value in known:
            self.min = value if math.isnan(self.min) else min(self.min, value)
            self.max = value if math.isnan(self.max) else max(self.max, value)
        self.last = values[-1]

    def as_json(self) -> dict[str, object]:
        avg = self.sum / self.points if self.points else math.nan
        numbers = {"min": self.min, "max": self.max, "sum": self.sum, "avg": avg, "last": self.last}
        return {"points": self.points, **{name: _number(value) for name, value in numbers.items()}}


@dataclass(slots=True)
class Progress:
    """State of a stream: what was sent so far."""

    limit: int
    has_summary: bool
    series: set[Labels] = field(default_factory=set)
    sums: dict[Labels, Sums] = field(default_factory=dict)
    notes: Annotations = field(default_factory=Annotations)
    missing: dict[str, Missing] = field(default_factory=dict)
    truncated: bool = False
    slices: int = 0
    points: int = 0
    segments_opened: int = 0
    rows_considered: int = 0
    bytes_fetched: int = 0
    requests: int = 0

    def take(self, part: SampleResult) -> list[JoinedSeries]:
        """Return the series of one slice that the limit lets through."""
        self.slices += 1
        self.segments_opened += part.segments_opened
        self.rows_considered += part.rows_considered
        self.bytes_fetched += part.bytes_fetched
        self.requests += part.requests
        self.missing |= part.missing
        for note in part.annotations:
            self.notes.add(note)
        shown = [one for one in part.series if self._fits(one.labels)]
        self.points += sum(one.points for one in shown)
        return shown

    def check(self, max_points: int) -> None:
        if self.points > max_points:
            raise LimitExceededError(f"the answer has more than {max_points} points: aggregate, {SLOW}")

    def _fits(self, labels: Labels) -> bool:
        if labels in self.series:
            return True
        if self.limit and len(self.series) >= self.limit:
            self.truncated = True
            return False
        self.series.add(labels)
        return True


async def metric_events(
    stream: SamplesStream,
    text: str,
    times: AlignedRequest,
    progress: Progress,
    watch: QueryWatch,
    max_points: int,
) -> AsyncGenerator[bytes, None]:
    try:
        with watch:
            async with aclosing(stream.slices) as answers:
                for chunk in _blocks(stream.resumed, progress, stream.seen):
                    yield chunk
                positions = iter(stream.positions)
                async for answer in answers:
                    position = next(positions, None)
                    collector = SampleMerge()
                    collector.add(answer)
                    # series that are one without their names meet within a slice: its times are its own
                    part = await asyncio.to_thread(collector.result)
                    if part.kind == "string":
                        yield event("result", {"string": part.string})
                    shown = progress.take(part)
                    for chunk in await asyncio.to_thread(_blocks, shown, progress, position):
                        yield chunk
                    progress.check(max_points)
            watch.end(partial=bool(progress.missing), points=progress.points)
            if progress.has_summary:
                yield event("summary", await asyncio.to_thread(_summary, progress))
            yield event("done", _done(progress, times, text))
    except QueryError as error:
        yield event("error", envelope(error))
        yield event("done", {"status": "error"})
    except Exception as error:  # noqa: BLE001 -- the response has begun: an event is the only way left to say it
        yield event("error", envelope(error))
        yield event("done", {"status": "error"})


def _blocks(
    series: Sequence[JoinedSeries], progress: Progress, position: SamplesPosition | None
) -> list[bytes]:
    """Render one `result` event per series, several to a chunk of bytes."""
    events: list[bytes] = []
    ids = iter(()) if position is None else position.ids(series, is_partial=bool(progress.missing))
    for one in series:
        if progress.has_summary and one.floats:
            progress.sums.setdefault(one.labels, Sums()).add(one.floats)
        events.append(_block(one, next(ids, "")))
    return [b"".join(events[at : at + CHUNK_SERIES]) for at in range(0, len(events), CHUNK_SERIES)]


def _block(one: JoinedSeries, event_id: str) -> bytes:
    values = b',"values":[' + one.floats + b"]" if one.floats else b""
    histograms = b',"histograms":[' + one.histograms + b"]" if one.histograms else b""
    labels = b'{"type":"result","data":{"labels":' + metric(one.labels)
    return b"data: " + labels + values + histograms + b"}}\n" + id_line(event_id) + b"\n"


def _summary(progress: Progress) -> dict[str, object]:
    listed = [{"labels": dict(labels), **sums.as_json()} for labels, sums in sorted(progress.sums.items())]
    return {"series": listed}


def _done(progress: Progress, times: AlignedRequest, text: str) -> dict[str, object]:
    messages = messages_of(progress.notes.all(), text, missing_warnings(progress.missing))
    return {
        "status": "partial" if progress.missing else "complete",
        **times.as_json(),
        "series": len(progress.series),
        "points": progress.points,
        "truncated": progress.truncated,
        "warnings": messages.warnings,
        "infos": messages.infos,
        "missing": list(progress.missing.values()),
        "stats": {
            "units": progress.slices,
            "segments_opened": progress.segments_opened,
            "rows_considered": progress.rows_considered,
            "bytes_fetched": progress.bytes_fetched,
            "requests": progress.requests,
        },
    }


def _number(value: float) -> float | str:
    """Return NaN and infinities, which JSON lacks, as the text that Prometheus has for them."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
