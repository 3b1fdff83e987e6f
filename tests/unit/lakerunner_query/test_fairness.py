"""Slots are shared by what organisations really used; time is a number that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lakerunner_query.fairness import ACTIVE_S, FORGET_S, FairTurns, QueueFullError, Turn, WithdrawnError


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """Units that wait in order, and the ones that run."""

    def __init__(self, turns: FairTurns, clock: Clock) -> None:
        self.turns, self.clock = turns, clock
        self.running: list[Turn] = []
        self.started: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def send(self, org: str, count: int = 1) -> None:
        self.tasks += [asyncio.create_task(self._wait(org)) for _ in range(count)]
        await settle()

    async def _wait(self, org: str) -> None:
        turn = await self.turns.acquire(org)
        self.started.append(org)
        self.running.append(turn)

    async def finish(self, cost_s: float, org: str = "") -> None:
        """End the oldest unit, or the oldest of one organisation."""
        turn = next(one for one in self.running if not org or one.org == org)
        self.running.remove(turn)
        turn.cost_s = cost_s
        self.clock.now += cost_s
        turn.release()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def with_bench(scene: Callable[[Bench], Awaitable[None]], slots: int = 2, reserve: int = 1) -> None:
    async def run() -> None:
        clock = Clock()
        bench = Bench(FairTurns(slots, reserve=reserve, waiting_per_org=50, clock=clock), clock)
        await scene(bench)
        for task in bench.tasks:
            task.cancel()
        await asyncio.gather(*bench.tasks, return_exceptions=True)

    asyncio.run(run())


def test_a_backlog_does_not_delay_the_first_unit_of_another_organisation() -> None:
    async def scene(bench: Bench) -> None:
        await bench.send("heavy", 30)
        assert bench.started == ["heavy"] * 2, "alone, it has all regular slots"
        await bench.send("cheap")
        assert bench.started[2:] == ["cheap"], "the slot in reserve"

    with_bench(scene)


def test_the_next_slot_goes_to_whoever_used_least() -> None:
    async def scene(bench: Bench) -> None:
        await bench.send("heavy", 20)
        await bench.send("cheap", 20)
        for _ in range(18):
            await bench.finish(10.0, "heavy" if bench.running[0].org == "heavy" else "")
            if any(one.org == "cheap" for one in bench.running):
                await bench.finish(0.1, "cheap")
        used = bench.started.count("cheap")
        assert used >= 15, f"{used} cheap units: each cost a hundredth of a heavy one"

    with_bench(scene)


def test_equal_organisations_get_equal_seconds_whatever_a_unit_costs() -> None:
    async def scene(bench: Bench) -> None:
        cost = {"long": 4.0, "short": 1.0}
        spent = {"long": 0.0, "short": 0.0}
        for org in cost:
            await bench.send(org, 48)
        while spent["long"] + spent["short"] < 60:
            org = bench.running[0].org
            spent[org] += cost[org]
            await bench.finish(cost[org])
        assert abs(spent["long"] - spent["short"]) <= 3 * cost["long"]

    with_bench(scene, slots=1, reserve=0)


def test_nobody_saves_up_while_idle() -> None:
    async def scene(bench: Bench) -> None:
        await bench.send("new")
        await bench.finish(0.01)
        await bench.send("busy", 40)
        for _ in range(10):
            await bench.finish(5.0)
        await bench.send("new", 40)
        before = len(bench.started)
        for _ in range(20):
            await bench.finish(5.0)
        since = bench.started[before:]
        assert 8 <= since.count("busy") <= 12, since

    with_bench(scene, slots=1, reserve=0)


def test_an_organisation_alone_uses_all_regular_slots_again() -> None:
    async def scene(bench: Bench) -> None:
        await bench.send("heavy", 9)
        await bench.send("cheap")
        await bench.finish(0.1, "cheap")
        await bench.finish(0.1, "heavy")
        assert len(bench.running) == 1, "its share while another one is active"
        bench.clock.now += ACTIVE_S
        await bench.finish(0.1)
        assert len(bench.running) == 2

    with_bench(scene)


def test_a_full_queue_refuses_its_organisation_only() -> None:
    async def scene(bench: Bench) -> None:
        await bench.send("heavy", 52)
        with pytest.raises(QueueFullError, match="50 units of this organisation"):
            await bench.turns.acquire("heavy")
        await bench.send("cheap")
        assert bench.started[-1] == "cheap"

    with_bench(scene)


def test_units_that_left_the_queue_take_no_slot() -> None:
    async def scene(bench: Bench) -> None:
        await bench.send("a", 4)
        for task in bench.tasks[2:]:
            task.cancel()
        await settle()
        assert bench.turns.waiting == 0
        await bench.finish(1.0)
        await bench.finish(1.0)
        assert bench.turns.running == 0

    with_bench(scene)


def test_a_unit_that_leaves_just_when_its_turn_comes_gives_it_back() -> None:
    async def scene(bench: Bench) -> None:
        await bench.send("a", 2)
        turn = bench.running.pop()
        turn.release()  # grants the slot in the same step of the loop
        bench.tasks[1].cancel()
        await settle()
        assert bench.turns.running == 0
        await bench.send("b")
        assert bench.started[-1] == "b"

    with_bench(scene, slots=1, reserve=0)


def test_an_organisation_without_a_name_is_one_like_others() -> None:
    async def scene(bench: Bench) -> None:
        await bench.send("")
        assert bench.started == [""]

    with_bench(scene)


def test_what_waits_can_be_sent_elsewhere() -> None:
    async def scene(bench: Bench) -> None:
        await bench.send("a", 5)
        assert bench.turns.withdraw("gone") == 3
        await settle()
        assert [type(task.exception()) for task in bench.tasks if task.done() and task.exception()] == (
            [WithdrawnError] * 3
        )

    with_bench(scene)


def test_idle_organisations_are_forgotten() -> None:
    async def scene(bench: Bench) -> None:
        for number in range(100):
            await bench.send(f"org-{number}")
            await bench.finish(0.0)
        bench.clock.now += FORGET_S + 1
        await bench.send("last")
        assert list(bench.turns._shares) == ["last"]

    with_bench(scene)
