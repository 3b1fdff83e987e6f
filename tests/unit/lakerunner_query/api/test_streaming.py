"""Heartbeats, turns, and the order of dispatched answers, without any network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pyarrow as pa
import pytest

from lakerunner_query.api.lakerunner.events import event, with_heartbeats
from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.http import Reply
from lakerunner_query.coordinator.merge import RowMerge
from lakerunner_query.errors import TooManyQueriesError
from lakerunner_query.fairness import Admission
from lakerunner_query.protocol.tables import ROWS, decode_answer, encode_answer
from lakerunner_query.protocol.units import (
    LogMetricUnit,
    LogUnit,
    MetricUnit,
    Missing,
    UnitReport,
)
from tests.support.patience import PATIENCE_S, until


def test_a_heartbeat_whenever_nothing_happens() -> None:
    closed: list[bool] = []
    found: list[bytes] = []

    async def events() -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
            await until(lambda: len(found) == 3, "two heartbeats")
            yield b"two"
        finally:
            closed.append(True)

    async def collect() -> None:
        async for chunk in with_heartbeats(events(), every_s=0.05):
            found.append(chunk)  # noqa: PERF401 - the events look at it

    asyncio.run(collect())
    assert (found[0], found[-1]) == (b"one", b"two")
    assert set(found[1:-1]) == {event("heartbeat")}
    assert closed == [True]


def test_leaving_closes_the_events() -> None:
    closed: list[bool] = []

    async def events() -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
            await asyncio.sleep(PATIENCE_S)
        finally:
            closed.append(True)

    async def leave() -> None:
        stream = with_heartbeats(events(), every_s=0.01)
        assert await anext(stream) == b"one"
        assert await anext(stream) == event("heartbeat")
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    assert closed == [True]


def test_an_organisation_waits_for_itself_only() -> None:
    async def scenario() -> None:
        turns = Admission(1, max_wait_s=0.05)
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        async with turns.admit("acme", deadline):
            async with turns.admit("other", deadline):
                pass
            with pytest.raises(TooManyQueriesError, match="1 queries of this organisation"):
                async with turns.admit("acme", deadline):
                    pass
        async with turns.admit("acme", deadline):
            pass

    asyncio.run(scenario())


def unit(number: int) -> LogUnit:
    return LogUnit(str(number), (), (), (), 0, 0, 1, False, False)


class Slow(Dispatcher):
    """Later units answer first."""

    started: list[str]

    async def _one(self, org: str, unit: LogUnit, *_: object) -> tuple[pa.Table, UnitReport]:  # type: ignore[override]
        self.started.append(unit.affinity)
        await asyncio.sleep(0.05 / (1 + int(unit.affinity)))
        return ROWS.empty_table(), UnitReport(segments_opened=int(unit.affinity))


def test_answers_come_in_order_and_little_runs_ahead() -> None:
    async def scenario(take: int) -> tuple[list[int], list[str]]:
        dispatcher = Slow(("a", "b"), "t")
        dispatcher.started = []
        answers = dispatcher.run(map(unit, range(100)), decode_answer, org="acme")
        found = [(await anext(answers))[1].segments_opened for _ in range(take)]
        await answers.aclose()
        await dispatcher.close()
        return found, dispatcher.started

    found, started = asyncio.run(scenario(1))
    assert (found, started) == ([0], ["0"])
    found, started = asyncio.run(scenario(20))
    assert found == list(range(20))
    assert len(started) <= 20 + 4


def test_parts_of_a_query_for_samples_go_to_different_workers() -> None:
    class Noting(Dispatcher):
        async def _ask(self, worker: str, work: object) -> Reply:
            return Reply(200, worker.encode())

    async def scenario(units: list[LogMetricUnit | MetricUnit]) -> set[str]:
        dispatcher = Noting(("a", "b"), "t")
        found = {worker.decode() async for worker in dispatcher.run(units, bytes, org="acme", ahead=2)}
        await dispatcher.close()
        return found

    logs = [LogMetricUnit("org/logs/metrics", "", 0, 0, 1, (), 0, turn=turn) for turn in (6, 7)]
    metrics = [MetricUnit("org/metrics/up", "", 0, 0, 0, 0, 1, 0, (), turn=turn) for turn in (6, 7)]
    assert asyncio.run(scenario([*logs])) == asyncio.run(scenario([*metrics])) == {"a", "b"}


def test_collected_stops_exactly_at_the_limit() -> None:
    rows = pa.table([pa.array([1, 2, 3]), *(pa.nulls(3, f.type) for f in list(ROWS)[1:])], schema=ROWS)
    collected = RowMerge(5)
    lost = UnitReport(missing=(Missing("s", "gone"),), rows_considered=10)
    assert collected.add((rows, lost)).num_rows == 3
    assert not collected.is_full
    assert collected.add((rows, lost)).num_rows == 2
    assert collected.is_full
    assert (collected.rows, collected.rows_considered, len(collected.missing)) == (5, 20, 1)


def test_an_answer_survives_the_wire() -> None:
    labels = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(['{"a":"b"}']))
    rows = pa.table([[2**62], labels, ["line"], ["{}"], ["{}"], [1], [2]], schema=ROWS)
    report = UnitReport(missing=(Missing("s", "why"),), truncated=True)
    back, said = decode_answer(encode_answer(rows, report))
    assert back.to_pylist() == rows.to_pylist()
    assert said == report
