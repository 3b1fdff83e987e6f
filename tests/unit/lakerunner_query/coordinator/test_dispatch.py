"""The dispatcher over workers that are full, slow, silent, starting or crashing, without sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from lakerunner_query.coordinator import dispatch
from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.http import Reply
from lakerunner_query.errors import LimitExceededError, WorkerUnavailableError, WorkFailedError
from lakerunner_query.protocol.frames import BUSY, CRASHED, OVER_BUDGET, UNFINISHED, Progress
from lakerunner_query.protocol.units import LogMetricUnit

Answer = Callable[["FakeWorker"], Awaitable[Reply]]
FOREVER = 1e6


async def good(_: FakeWorker) -> Reply:
    return Reply(200, b"answer", 0.01)


async def never(_: FakeWorker) -> Reply:
    await asyncio.sleep(FOREVER)
    raise AssertionError


def returned(code: str) -> Answer:
    async def answer(_: FakeWorker) -> Reply:
        return Reply(503, msgspec.json.encode({"code": code, "message": code}))

    return answer


class FakeWorker:
    """The contract of `Wire`."""

    def __init__(
        self, answer: Answer = good, state: str = "running", *, is_silent: bool = False, frozen_s: float = 0.0
    ) -> None:
        self.answer, self.state, self.is_silent, self.frozen_s = answer, state, is_silent, frozen_s
        self.units = self.looks = 0
        self.has_four_units, self.had_five_looks = asyncio.Event(), asyncio.Event()
        self.headers: list[dict[str, str]] = []
        self.events: list[str] = []
        """Ends of units that it had, in their order."""

    @property
    def cancelled(self) -> int:
        return self.events.count("cancelled")

    async def ask(self, method: str, path: str, body: bytes = b"", headers: Any = None) -> Reply:
        del body
        if method == "POST":
            self.units += 1
            if self.units >= 4:
                self.has_four_units.set()
            self.headers.append(headers)
            try:
                return await self.answer(self)
            except asyncio.CancelledError:
                self.events.append("cancelled")
                raise
        if self.is_silent:
            await asyncio.sleep(FOREVER)
        if path == "/readyz":
            return Reply(200, b"ok")
        if method == "DELETE":
            assert path == f"/work/{self.headers[-1]['x-lakerunner-unit']}"
            self.events.append("stopped")
            return Reply(200, b"{}")
        self.looks += 1
        if self.looks >= 5:
            self.had_five_looks.set()
        time.sleep(self.frozen_s)  # noqa: ASYNC251 - the machine stands still, the dispatcher with it
        await asyncio.sleep(0.001)
        return Reply(200, msgspec.json.encode(Progress(self.state)))

    def close(self) -> None: ...


def unit(number: int = 0) -> LogMetricUnit:
    return LogMetricUnit(f"acme/{number}", "", 0, 0, 1, (), 0)


def ask(
    workers: dict[str, FakeWorker], count: int = 1, org: str = "acme"
) -> tuple[list[bytes | BaseException], Dispatcher]:
    """Ask units that all prefer the first worker; return answers and the dispatcher."""

    async def run() -> tuple[list[bytes | BaseException], Dispatcher]:
        dispatcher = Dispatcher(tuple(workers), "token")
        dispatcher._wires = workers  # type: ignore[assignment]
        first = next(iter(workers))
        like = next(n for n in range(1000) if dispatcher._choose(f"acme/{n}", 0) == first)

        async def one() -> bytes:
            (found,) = [answer async for answer in dispatcher.run([unit(like)], bytes, org=org)]
            return found

        found = await asyncio.gather(*(one() for _ in range(count)), return_exceptions=True)
        await dispatcher.close()
        return found, dispatcher

    return asyncio.run(run())


def test_two_seconds_are_enough_to_notice_a_silent_worker() -> None:
    """The tests below shorten these bounds."""
    assert dispatch.LOOK_AFTER_S + dispatch.ASK_ALIVE_S <= 2.0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "LOOK_AFTER_S", 0.05)
    monkeypatch.setattr(dispatch, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(dispatch, "ASK_ALIVE_S", 0.05)
    monkeypatch.setattr(dispatch, "BUSY_S", 0.01)


@pytest.mark.usefixtures("quick")
def test_units_carry_organisation_and_id() -> None:
    worker = FakeWorker()
    assert ask({"a": worker}, org="acme/ü")[0] == [b"answer"]
    assert worker.headers[0]["x-lakerunner-org"] == "acme%2F%C3%BC"
    assert worker.headers[0]["x-lakerunner-unit"]


@pytest.mark.usefixtures("quick")
def test_a_full_first_choice_overflows_and_stays_the_first_choice() -> None:
    a, b = FakeWorker(returned(BUSY)), FakeWorker()
    found, dispatcher = ask({"a": a, "b": b})
    assert found == [b"answer"]
    assert (a.units, b.units, dispatcher._avoided()) == (1, 1, set())
    assert dispatcher.gauges()["lakerunner_query_units_overflowed_total"] == 1


@pytest.mark.usefixtures("quick")
def test_units_of_one_affinity_spread_when_they_are_many() -> None:
    async def slowly(_: FakeWorker) -> Reply:
        await asyncio.sleep(0.02)
        return Reply(200, b"answer")

    a, b = FakeWorker(slowly), FakeWorker(slowly)
    assert ask({"a": a, "b": b}, 16)[0] == [b"answer"] * 16
    assert min(a.units, b.units) >= 5
    a, b = FakeWorker(slowly), FakeWorker(slowly)
    ask({"a": a, "b": b}, 3)
    assert (a.units, b.units) == (3, 0), "few stay where the cache is"


@pytest.mark.usefixtures("quick")
def test_a_unit_that_does_not_get_on_is_sent_to_a_second_worker() -> None:
    a, b = FakeWorker(never, "stalled"), FakeWorker()
    found, dispatcher = ask({"a": a, "b": b})
    assert found == [b"answer"]
    assert (a.cancelled, b.units) == (1, 1)
    assert dispatcher.counts["hedged"] == 1


async def after_five_looks(worker: FakeWorker) -> Reply:
    await worker.had_five_looks.wait()
    return Reply(200, b"answer")


@pytest.mark.usefixtures("quick")
def test_a_long_unit_that_gets_on_is_not_sent_twice() -> None:
    a, b = FakeWorker(after_five_looks, "running"), FakeWorker()
    assert ask({"a": a, "b": b})[0] == [b"answer"]
    assert b.units == 0


@pytest.mark.usefixtures("quick")
def test_a_unit_that_waits_is_sent_to_a_second_worker_only_if_that_has_little_to_do() -> None:
    a, b = FakeWorker(never, "queued"), FakeWorker()
    found, dispatcher = ask({"a": a, "b": b}, 3)
    assert found == [b"answer"] * 3
    assert dispatcher.counts["hedged"] == b.units == 3
    a, b = FakeWorker(after_five_looks, "queued"), FakeWorker(after_five_looks, "queued")
    found, dispatcher = ask({"a": a, "b": b}, 16)
    assert (found, dispatcher.counts["hedged"]) == ([b"answer"] * 16, 0), "both have as much to do"


@pytest.mark.usefixtures("quick")
def test_a_worker_that_froze_with_the_dispatcher_is_not_silent() -> None:
    """The answer is there, but the time for it was over before anybody could look."""
    a, b = FakeWorker(after_five_looks, frozen_s=3 * dispatch.ASK_ALIVE_S), FakeWorker()
    found, dispatcher = ask({"a": a, "b": b})
    assert found == [b"answer"]
    assert (a.units, b.units, dispatcher._avoided()) == (1, 0, set())


@pytest.mark.usefixtures("quick")
def test_a_unit_that_used_too_much_is_ended_at_the_other_worker_before_it_hangs_up() -> None:
    async def over_budget(_: FakeWorker) -> Reply:
        return Reply(422, msgspec.json.encode({"code": OVER_BUDGET, "message": "stopped after 30 s"}))

    a, b = FakeWorker(never, "stalled"), FakeWorker(over_budget)
    (error,), _ = ask({"a": a, "b": b})
    assert isinstance(error, LimitExceededError)
    assert a.events == ["stopped", "cancelled"]


@pytest.mark.usefixtures("quick")
def test_a_unit_over_another_limit_is_only_cancelled_at_the_other_worker() -> None:
    async def limit(_: FakeWorker) -> Reply:
        return Reply(422, b'{"code":"limit_exceeded","message":"too many series"}')

    a, b = FakeWorker(never, "stalled"), FakeWorker(limit)
    (error,), _ = ask({"a": a, "b": b})
    assert isinstance(error, LimitExceededError)
    assert a.events == ["cancelled"]


@pytest.mark.usefixtures("quick")
def test_an_error_of_the_query_is_not_tried_elsewhere() -> None:
    async def limit(_: FakeWorker) -> Reply:
        return Reply(422, b'{"code":"limit_exceeded","message":"stopped after 30 s of CPU time"}')

    a, b = FakeWorker(limit), FakeWorker()
    (error,), _ = ask({"a": a, "b": b})
    assert isinstance(error, LimitExceededError)
    assert (a.units, b.units) == (1, 0)


@pytest.mark.usefixtures("quick")
def test_few_units_are_sent_twice_however_many_are_slow() -> None:
    async def slow(_: FakeWorker) -> Reply:
        await asyncio.sleep(0.12)
        return Reply(200, b"answer")

    a, b = FakeWorker(slow, "stalled"), FakeWorker(slow, "stalled")
    found, dispatcher = ask({"a": a, "b": b}, 60)
    assert found == [b"answer"] * 60
    assert dispatcher.counts["hedged"] <= dispatch.MOST_HEDGES + 60 * dispatch.HEDGES


@pytest.mark.usefixtures("quick")
def test_a_worker_that_says_nothing_loses_its_units_at_once() -> None:
    a, b = FakeWorker(never, is_silent=True), FakeWorker()
    found, dispatcher = ask({"a": a, "b": b})
    assert found == [b"answer"]
    assert (a.cancelled, dispatcher._avoided()) == (1, {"a"})


@pytest.mark.usefixtures("quick")
def test_a_unit_that_crashes_two_workers_is_given_up() -> None:
    workers = {name: FakeWorker(returned(CRASHED)) for name in "abc"}
    (error,), _ = ask(workers)
    assert isinstance(error, WorkFailedError)
    assert sum(worker.units for worker in workers.values()) == dispatch.CRASHES


@pytest.mark.usefixtures("quick")
def test_workers_that_start_are_waited_for() -> None:
    async def later(worker: FakeWorker) -> Reply:
        return await (returned(UNFINISHED) if worker.units < 6 else good)(worker)

    assert ask({"a": FakeWorker(later)})[0] == [b"answer"]


@pytest.mark.usefixtures("quick")
def test_workers_that_start_for_ever_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "STARTING_S", 0.0)
    (error,), _ = ask({"a": FakeWorker(returned(UNFINISHED))})
    assert isinstance(error, WorkerUnavailableError)


@pytest.mark.usefixtures("quick")
def test_a_backlog_of_one_organisation_holds_no_slot_that_another_needs() -> None:
    async def run() -> None:
        dispatcher = Dispatcher(("a",), "token", in_flight=4)
        gate = asyncio.Event()

        async def wait(_: FakeWorker) -> Reply:
            await gate.wait()
            return Reply(200, b"answer")

        worker = FakeWorker(wait)
        dispatcher._wires = {"a": worker}  # type: ignore[dict-item]
        heavy = dispatcher.run([unit(n) for n in range(50)], bytes, org="heavy", ahead=50)
        backlog = asyncio.ensure_future(anext(heavy))
        await worker.has_four_units.wait()
        worker.answer = good
        assert [found async for found in dispatcher.run([unit(0)], bytes, org="cheap")] == [b"answer"]
        assert worker.units == 5, "the others wait, for slots that the first four have"
        gate.set()
        await backlog
        await heavy.aclose()
        await dispatcher.close()

    asyncio.run(run())


@pytest.mark.usefixtures("quick")
def test_answers_that_nobody_takes_stop_the_query_but_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader takes one answer and then nothing: few further units run, and others find the slots free."""
    monkeypatch.setattr(dispatch, "WAITING_BYTES", 3_000)

    async def large(_: FakeWorker) -> Reply:
        await asyncio.sleep(0.001)
        return Reply(200, b"x" * 1_000, 0.01)

    async def run() -> tuple[int, int, int]:
        dispatcher = Dispatcher(("a",), "token", in_flight=4)
        worker = FakeWorker(large)
        dispatcher._wires = {"a": worker}  # type: ignore[dict-item]
        slow = dispatcher.run([unit(n) for n in range(200)], bytes, org="slow", ahead=200)
        await anext(slow)
        await asyncio.sleep(0.2)
        stalled = worker.units
        other = [answer async for answer in dispatcher.run([unit(0)], bytes, org="slow")]
        assert other == [b"x" * 1_000], "the organisation's other queries find a slot"
        running = dispatcher.gauges()["lakerunner_query_units_running"]
        rest = [answer async for answer in slow]
        await dispatcher.close()
        return stalled, int(running), len(rest)

    stalled, running, rest = asyncio.run(run())
    assert stalled <= 3 + 4, "those that fit, and those in flight"
    assert (running, rest) == (0, 199)
