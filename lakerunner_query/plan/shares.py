"""Workers share the hours of a scan: each reads the same hours again.

    hours      12  13  14  15  16            16 has more rows than a worker's part of the query
    worker 0   12      14      16 until :30
    worker 1       13      15  16 from :30 on

Units of one scan are disjoint: an hour lies in one of them, or is cut by time. Which worker reads an hour
follows from the hour and the number of workers alone, as long as their parts are about equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import xxhash

from lakerunner_query.plan.slices import RowSliceSizes, Slice, cut_slices
from resources.index.types import Segment

EVEN = 1.15
"""A worker has up to this times its part before an hour goes to another."""
AT_LEAST = 600_000
"""Rows below which another worker costs more than it saves."""


@dataclass(frozen=True, slots=True)
class Share:
    """Part of a scan for the worker of this rank."""

    worker: int
    part: Slice[Segment]


def place_of(hour_ns: int, workers: int) -> int:
    """Return the rank of the worker that reads an hour; one more worker takes hours of all others.

    >>> moved = [hour for hour in range(1000) if place_of(hour, 2) != place_of(hour, 3)]
    >>> {place_of(hour, 3) for hour in moved}
    {2}
    """
    return max(range(workers), key=lambda rank: _rank(hour_ns, rank))


def cut_shares(
    segments: Sequence[Segment], start_ns: int, end_ns: int, workers: int, sizes: RowSliceSizes
) -> list[Share]:
    """Cut the interval `[start_ns, end_ns)` into units, of which workers have about equal parts."""
    hours = [
        _Hour(hour_ns, tuple(members), sum(_load(one, start_ns, end_ns, sizes) for one in members))
        for hour_ns, group in groupby(sorted(segments, key=_by_hour), key=lambda one: one.hour_ns)
        if (members := [one for one in group if one.max_ns >= start_ns and one.min_ns < end_ns])
    ]
    total = sum(one.load for one in hours)
    count = workers if total * sizes.rows > AT_LEAST else 1
    most = EVEN * total / count
    loads, whole = [0.0] * count, [list[_Hour]() for _ in range(count)]
    found = list[Share]()
    for hour in sorted(hours, key=lambda one: (-one.load, one.hour_ns)):
        if hour.load <= min(most, 1.0) or (count == 1 and hour.load <= 1.0):
            ranked = sorted(range(count), key=lambda rank: -_rank(hour.hour_ns, rank))
            rank = next((one for one in ranked if loads[one] + hour.load <= most), _least(loads))
            whole[rank].append(hour)
            loads[rank] += hour.load
            continue
        for part in _cut(hour, start_ns, end_ns, min(most, 1.0), sizes):
            rank = _least(loads)
            found.append(Share(rank, part))
            loads[rank] += sum(_load(one, part.start_ns, part.end_ns, sizes) for one in part.segments)
    for rank, own in enumerate(whole):
        place = (
            rank if count > 1 or not own else place_of(max(own, key=lambda one: one.load).hour_ns, workers)
        )
        found += [Share(place, Slice(start_ns, end_ns, part)) for part in _full(own)]
    return sorted(found, key=lambda one: (one.part.segments[0].min_ns, one.part.start_ns))


@dataclass(frozen=True, slots=True)
class _Hour:
    hour_ns: int
    segments: tuple[Segment, ...]
    load: float


def _by_hour(one: Segment) -> tuple[int, int, str]:
    return one.hour_ns, one.min_ns, one.segment_id


def _rank(hour_ns: int, rank: int) -> int:
    return xxhash.xxh3_64_intdigest(f"{hour_ns}@{rank}".encode())


def _least(loads: Sequence[float]) -> int:
    return min(range(len(loads)), key=lambda rank: loads[rank])


def _load(segment: Segment, start_ns: int, end_ns: int, sizes: RowSliceSizes) -> float:
    """Return the part of a full unit that the rows of a segment in the interval are."""
    common = min(segment.max_ns + 1, end_ns) - max(segment.min_ns, start_ns)
    share = max(0, common) / (segment.max_ns - segment.min_ns + 1)
    return share * max(segment.rows / sizes.rows, segment.bytes / sizes.bytes, 1 / sizes.segments)


def _cut(
    hour: _Hour, start_ns: int, end_ns: int, most: float, sizes: RowSliceSizes
) -> Iterator[Slice[Segment]]:
    """Cut an hour by time into parts of equal loads."""
    parts = max(2, -(-hour.load // most))
    goal = hour.load / parts
    smaller = replace(
        sizes,
        rows=max(1, int(sizes.rows * goal)),
        bytes=max(1, int(sizes.bytes * goal)),
        segments=max(1, int(sizes.segments * goal)),
        first=1.0,
    )
    return cut_slices(hour.segments, start_ns, end_ns, reverse=False, sizes=smaller)


def _full(hours: Iterable[_Hour]) -> Iterator[tuple[Segment, ...]]:
    """Yield the segments of hours in order, as many as make a full unit."""
    members, load = list[Segment](), 0.0
    for hour in sorted(hours, key=lambda one: one.hour_ns):
        if members and load + hour.load > 1.0:
            yield tuple(members)
            members, load = [], 0.0
        members += hour.segments
        load += hour.load
    if members:
        yield tuple(members)
