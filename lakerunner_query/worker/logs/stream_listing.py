"""Stream tables answer for log streams: labels, label names and values, sizes and volumes; no column is read.

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
from lakerunner_query.protocol.answers import Pairs, StreamsAnswer, Volume
from lakerunner_query.protocol.units import Missing, SegmentRef, StreamsUnit, UnitReport, selected_segments
from lakerunner_query.syntax import Matcher
from lakerunner_query.worker.logs.segment_opener import SegmentOpener
from lakerunner_query.worker.logs.stream_filter import in_range, matching
from resources.duckdb import Cancellation
from resources.lake.streams import Stream

MAX_VOLUMES = 1_000_000
"""Label sets times buckets of one unit."""


class SegmentStream(NamedTuple):
    """A selected stream, and the segment that has rows of it."""

    segment: SegmentRef
    stream: Stream


class StreamLister:
    """Answers units about streams from the opener's cached stream tables."""

    def __init__(self, opener: SegmentOpener) -> None:
        self._opener = opener

    def run(self, unit: StreamsUnit, cancellation: Cancellation) -> StreamsAnswer:
        missing: list[Missing] = []
        streams: list[SegmentStream] = []
        asked = selections_by_segment(unit)
        meter = self._opener.meter(cancellation)
        for segment, found in self._opener.stream_tables(unit.segments, meter):
            cancellation.check()
            if isinstance(found, Missing):
                missing.append(found)
            else:
                chosen = matching_streams(found, unit, asked[segment.segment_id])
                streams += (SegmentStream(segment, stream) for stream in chosen)
        report = UnitReport(
            missing=tuple(missing),
            segments_skipped=len(unit.segments) - len(missing),
            bytes_fetched=meter.bytes,
            requests=meter.requests,
        )
        return msgspec.structs.replace(ANSWERS[unit.want](streams, unit), report=report)


def selections_by_segment(unit: StreamsUnit) -> dict[str, list[tuple[Matcher, ...]]]:
    """Return the selections that the index found each segment for."""
    found: dict[str, list[tuple[Matcher, ...]]] = {segment.segment_id: [] for segment in unit.segments}
    lists = selected_segments(unit.segments, unit.selected, len(unit.selections))
    for matchers, segments in zip(unit.selections, lists, strict=True):
        for segment in segments:
            found[segment.segment_id].append(matchers)
    return found


def matching_streams(
    streams: Sequence[Stream], unit: StreamsUnit, selections: Sequence[tuple[Matcher, ...]]
) -> list[Stream]:
    """Return streams that satisfy any of the selections and may have rows in the range."""
    present = in_range(streams, unit.start_ns, unit.end_ns)
    if len(selections) == 1:
        return matching(present, selections[0])
    chosen = {id(stream) for matchers in selections for stream in matching(present, matchers)}
    return [stream for stream in present if id(stream) in chosen]


def list_series(streams: Sequence[SegmentStream], unit: StreamsUnit) -> StreamsAnswer:
    found = sorted({one.stream.labels for one in streams})
    return StreamsAnswer(tuple(found[: unit.limit or None]), truncated=bool(0 < unit.limit < len(found)))


def list_names(streams: Sequence[SegmentStream], unit: StreamsUnit) -> StreamsAnswer:
    found = sorted({name for one in streams for name, _ in one.stream.labels})
    page = found[: unit.limit or None]
    return StreamsAnswer(values=dict.fromkeys(page, ()), truncated=len(page) < len(found))


def list_values(streams: Sequence[SegmentStream], unit: StreamsUnit) -> StreamsAnswer:
    found: dict[str, set[str]] = {}
    for one in streams:
        for name, value in one.stream.labels:
            if not unit.labels or name in unit.labels:
                found.setdefault(name, set()).add(value)
    return StreamsAnswer(values={name: tuple(sorted(each)) for name, each in found.items()})


def measure_sizes(streams: Sequence[SegmentStream], unit: StreamsUnit) -> StreamsAnswer:
    rows = [one.stream.rows * sum(share for _, share in bucket_shares(one.stream, unit)) for one in streams]
    ids = np.unique(np.array([one.stream.stream_id for one in streams], np.int64))
    size = sum(count * row_bytes(one.segment) for one, count in zip(streams, rows, strict=True))
    return StreamsAnswer(stream_ids=ids.tobytes(), chunks=len(streams), rows=sum(rows), size=size)


def measure_volumes(streams: Sequence[SegmentStream], unit: StreamsUnit) -> StreamsAnswer:
    found: dict[tuple[Pairs, int], float] = {}
    for one in streams:
        labels = tuple(pair for pair in one.stream.labels if not unit.labels or pair[0] in unit.labels)
        size = one.stream.rows * row_bytes(one.segment)
        for bucket, share in bucket_shares(one.stream, unit):
            found[labels, bucket] = found.get((labels, bucket), 0.0) + size * share
        if len(found) > MAX_VOLUMES:
            raise LimitExceededError(
                f"there are more than {MAX_VOLUMES} volumes: use a larger step, or select fewer streams"
            )
    return StreamsAnswer(volumes=tuple(Volume(*key, size) for key, size in sorted(found.items())))


ANSWERS: dict[str, Callable[[Sequence[SegmentStream], StreamsUnit], StreamsAnswer]] = {
    "series": list_series, "names": list_names, "values": list_values,
    "sizes": measure_sizes, "volumes": measure_volumes,
}  # fmt: skip


def bucket_shares(stream: Stream, unit: StreamsUnit) -> Iterator[tuple[int, float]]:
    """Yield the buckets that the stream reaches, and the part of its rows in each.

    >>> unit = StreamsUnit("", (), (), 10, 40, "volumes", step_ns=20)
    >>> list(bucket_shares(Stream(1, (), 100, 0, 99), unit))
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
