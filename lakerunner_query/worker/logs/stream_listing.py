"""Which log streams there are and how much of each: stream tables answer, no column is read.

    stream table of a segment of 1000 bytes          sizes in [0, 50)
    {app="web"}  8 rows   0 to 99                    4 rows, 400 bytes
    {app="db"}   2 rows  60 to 99                    (none)

Rows lie evenly between the first and the last of their stream as far as this file knows; the segments of an
hour make that exact for ranges of whole hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.plan.logql import ReadStreams
from lakerunner_query.protocol.answers import Pairs, StreamsAnswer, Volume
from lakerunner_query.protocol.units import Missing, SegmentRef, StreamsUnit, UnitReport
from lakerunner_query.worker.logs.segment_opener import Needles, SegmentOpener, Selection, in_range, select
from resources.duckdb import Cancellation
from resources.lake.streams import Stream

# << From a plan to what the opener is asked for.


def selection(source: ReadStreams, start_ns: int, end_ns: int) -> Selection:
    needles = tuple(map(Needles.of, source.words))
    return Selection(source.matchers, start_ns, end_ns, source.narrowing, needles)


MOST_VOLUMES = 1_000_000
"""Of one unit: label sets times buckets."""


class Held(NamedTuple):
    """A stream that is wanted, and the segment that has rows of it."""

    segment: SegmentRef
    stream: Stream


class StreamLister:
    """Everything a worker process shares between such questions."""

    def __init__(self, opener: SegmentOpener) -> None:
        self._opener = opener

    def run(self, unit: StreamsUnit, cancellation: Cancellation) -> StreamsAnswer:
        missing: list[Missing] = []
        held: list[Held] = []
        for segment, found in self._opener.stream_tables(unit.segments, cancellation):
            cancellation.check()
            if isinstance(found, Missing):
                missing.append(found)
            else:
                held += (Held(segment, stream) for stream in wanted(found, unit))
        report = UnitReport(missing=tuple(missing), segments_skipped=len(unit.segments) - len(missing))
        return msgspec.structs.replace(ANSWERS[unit.want](held, unit), report=report)


def wanted(streams: Sequence[Stream], unit: StreamsUnit) -> list[Stream]:
    """Streams that satisfy any of the selections and may have rows in the range."""
    present = in_range(streams, unit.start_ns, unit.end_ns)
    if len(unit.selections) == 1:
        return select(present, unit.selections[0])
    chosen = {id(stream) for matchers in unit.selections for stream in select(present, matchers)}
    return [stream for stream in present if id(stream) in chosen]


def series(held: Sequence[Held], unit: StreamsUnit) -> StreamsAnswer:
    found = sorted({one.stream.labels for one in held})
    return StreamsAnswer(tuple(found[: unit.limit or None]), truncated=bool(0 < unit.limit < len(found)))


def names(held: Sequence[Held], unit: StreamsUnit) -> StreamsAnswer:
    found = sorted({name for one in held for name, _ in one.stream.labels})
    kept = found[: unit.limit or None]
    return StreamsAnswer(values=dict.fromkeys(kept, ()), truncated=len(kept) < len(found))


def values(held: Sequence[Held], unit: StreamsUnit) -> StreamsAnswer:
    found: dict[str, set[str]] = {}
    for one in held:
        for name, value in one.stream.labels:
            if not unit.labels or name in unit.labels:
                found.setdefault(name, set()).add(value)
    return StreamsAnswer(values={name: tuple(sorted(each)) for name, each in found.items()})


def sizes(held: Sequence[Held], unit: StreamsUnit) -> StreamsAnswer:
    rows = [one.stream.rows * sum(share for _, share in shares(one.stream, unit)) for one in held]
    ids = np.unique(np.array([one.stream.stream_id for one in held], np.int64))
    size = sum(count * row_bytes(one.segment) for one, count in zip(held, rows, strict=True))
    return StreamsAnswer(stream_ids=ids.tobytes(), chunks=len(held), rows=sum(rows), size=size)


def volumes(held: Sequence[Held], unit: StreamsUnit) -> StreamsAnswer:
    found: dict[tuple[Pairs, int], float] = {}
    for one in held:
        labels = tuple(pair for pair in one.stream.labels if not unit.labels or pair[0] in unit.labels)
        size = one.stream.rows * row_bytes(one.segment)
        for bucket, share in shares(one.stream, unit):
            found[labels, bucket] = found.get((labels, bucket), 0.0) + size * share
        if len(found) > MOST_VOLUMES:
            raise LimitExceededError(
                f"there are more than {MOST_VOLUMES} volumes: use a larger step, or select fewer streams"
            )
    return StreamsAnswer(volumes=tuple(Volume(*key, size) for key, size in sorted(found.items())))


ANSWERS: dict[str, Callable[[Sequence[Held], StreamsUnit], StreamsAnswer]] = {
    "series": series, "names": names, "values": values, "sizes": sizes, "volumes": volumes,
}  # fmt: skip


def shares(stream: Stream, unit: StreamsUnit) -> Iterator[tuple[int, float]]:
    """The buckets that the stream reaches, and which part of its rows each has.

    >>> unit = StreamsUnit("", (), (), 10, 40, "volumes", step_ns=20)
    >>> list(shares(Stream(1, (), 100, 0, 99), unit))
    [(0, 0.1), (1, 0.2)]
    """
    first, end = max(stream.min_ns, unit.start_ns), min(stream.max_ns + 1, unit.end_ns)
    length = stream.max_ns + 1 - stream.min_ns
    step = unit.step_ns
    if not step:
        yield 0, (end - first) / length
        return
    for bucket in range(first // step, -(-end // step)):
        inside = min(end, (bucket + 1) * step) - max(first, bucket * step)
        yield bucket, inside / length


def row_bytes(segment: SegmentRef) -> float:
    return segment.bytes / max(1, segment.rows)
