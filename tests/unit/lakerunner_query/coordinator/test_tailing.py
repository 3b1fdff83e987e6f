"""What a tail tells anew: rows of segments that came, not those that compaction only wrote again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakerunner_query.coordinator.merge import RowMerge
from lakerunner_query.coordinator.tail import Tail
from lakerunner_query.errors import IndexUnavailableError
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.protocol.tables import ROWS
from lakerunner_query.protocol.units import Missing

Row = tuple[int, int]
"""Time and number of the raw object; the position is the time again."""


@dataclass(frozen=True)
class Segment:
    segment_id: str
    level: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Asked:
    request: LogLinesRequest
    segments: tuple[tuple[Segment, ...], ...]
    outdated: str = ""
    missing: dict[str, Missing] = field(default_factory=dict)

    @property
    def distinct_segments(self) -> list[Segment]:
        return [one for each in self.segments for one in each]


@dataclass
class Shelf:
    """As much of an engine as a tail needs."""

    segments: list[Segment] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    outdated: list[str] = field(default_factory=list)
    """Answers to further questions, one after the other, instead of the truth."""

    async def prepare(self, _language: object, _text: str, within: LogLinesRequest) -> Asked:
        return Asked(within, (tuple(self.segments),), self.outdated.pop(0) if self.outdated else "")

    async def run(self, asked: Asked, collected: RowMerge) -> AsyncGenerator[pa.Table, None]:
        segments = asked.distinct_segments
        readable = [one for one in segments if one.segment_id not in self.unreadable]
        within, rows = asked.request, sorted(row for one in readable for row in one.rows)
        rows = [row for row in rows if within.start_ns <= row[0] < within.end_ns]
        lost = [one.segment_id for one in segments if one.segment_id in self.unreadable]
        collected.missing.update({one: Missing(one, "gone") for one in lost})
        yield table((rows[::-1] if within.reverse else rows)[: within.limit])


def table(rows: list[Row]) -> pa.Table:
    columns: dict[str, Any] = {name: [""] * len(rows) for name in ROWS.names}
    columns["tsns"] = columns["position"] = [at for at, _ in rows]
    columns["object"] = [number for _, number in rows]
    columns["labels"] = pa.array(columns["labels"], pa.string()).dictionary_encode()
    return pa.table(columns).cast(ROWS)


def tail(shelf: Shelf, limit: int) -> Tail:
    engine: Any = shelf
    return Tail(engine, "{}", LogLinesRequest("acme", 0, 0, limit))


def polled(tailing: Tail, limit: int = 10) -> list[int]:
    found = asyncio.run(tailing.poll(1000, limit))
    assert found.num_rows == pc.count_distinct(found["tsns"]).as_py(), "nothing is told twice"
    times: list[int] = found["tsns"].to_pylist()
    return times


def segment(name: str, *times: int, number: int, level: int = 0) -> Segment:
    return Segment(name, level, tuple((at, number) for at in times))


def merged(name: str, *segments: Segment) -> Segment:
    return Segment(name, 1, tuple(row for one in segments for row in one.rows))


def test_lines_that_were_too_old_to_be_told_are_not_told_when_they_are_merged() -> None:
    old, new = segment("a", 1, 2, 3, number=1), segment("b", 11, 12, number=2)
    shelf = Shelf([old, new])
    tailing = tail(shelf, 2)
    assert polled(tailing) == [11, 12]
    shelf.segments = [merged("m", old, new)]
    assert polled(tailing) == []
    shelf.segments.append(segment("late", 4, number=3))
    assert polled(tailing) == [4], "what comes is new, whatever its time"


def test_lines_that_are_merged_do_not_take_the_place_of_new_ones() -> None:
    known = segment("a", *range(1, 9), number=1)
    shelf = Shelf([known])
    tailing = tail(shelf, 8)
    assert polled(tailing) == list(range(1, 9))
    shelf.segments = [merged("m", known), segment("b", 20, 21, number=2)]
    assert polled(tailing, limit=4) == [20, 21]


def test_lines_that_came_and_were_merged_between_two_polls_are_told() -> None:
    known = segment("a", 1, 2, number=1)
    shelf = Shelf([known])
    tailing = tail(shelf, 10)
    assert polled(tailing) == [1, 2]
    shelf.segments = [merged("m", known, segment("b", 3, number=2))]
    assert polled(tailing) == [3]
    assert polled(tailing) == []


def test_a_segment_that_could_not_be_read_is_asked_for_again() -> None:
    shelf = Shelf([segment("a", 1, number=1)], {"a"})
    tailing = tail(shelf, 10)
    assert polled(tailing) == []
    shelf.unreadable.clear()
    assert polled(tailing) == [1]


def test_polls_while_the_index_is_away_lose_nothing_and_repeat_nothing() -> None:
    """The index goes away before a poll, or between the two questions of one."""
    shelf = Shelf([Segment("a", 0, ((1, 1),))])
    tailing = tail(shelf, 10)
    assert polled(tailing) == [1]
    shelf.segments = [Segment("b", 0, ((2, 2),)), Segment("m", 1, ((1, 1), (3, 3)))]
    for outdated in (["away"], ["", "away"]):
        shelf.outdated = list(outdated)
        with pytest.raises(IndexUnavailableError):
            polled(tailing)
    assert polled(tailing) == [2, 3]
    assert polled(tailing) == []
