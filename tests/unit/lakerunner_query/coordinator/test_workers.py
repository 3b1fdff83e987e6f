"""The set of workers changes while queries run; each change moves only the share of who came or left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lakerunner_query.coordinator import workers
from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.http import Reply, WireError
from lakerunner_query.coordinator.workers import WorkerFinder
from tests.unit.lakerunner_query.coordinator.test_dispatch import FakeWorker, unit

UNITS = [f"acme/logs/{number}" for number in range(2000)]


def owners(urls: tuple[str, ...]) -> list[str]:
    dispatcher = Dispatcher(urls, "token")
    return [dispatcher._choose(affinity, 0) for affinity in UNITS]


def test_api_processes_agree_who_has_which_unit() -> None:
    assert owners(("http://a", "http://b", "http://c")) == owners(("http://c", "http://a", "http://b"))


def test_a_worker_that_comes_or_leaves_moves_only_its_share() -> None:
    three, four = owners(("a", "b", "c")), owners(("a", "b", "c", "d"))
    moved = [new for old, new in zip(three, four, strict=True) if old != new]
    assert set(moved) == {"d"}
    assert 0.2 < len(moved) / len(UNITS) < 0.3
    two = owners(("a", "b"))
    assert all(old == new for old, new in zip(three, two, strict=True) if old != "c")


async def ask(dispatcher: Dispatcher, count: int = 1) -> list[bytes]:
    found = dispatcher.run([unit(n) for n in range(count)], bytes, org="acme", ahead=count)
    return [answer async for answer in found]


@pytest.mark.parametrize("fails", [False, True])
def test_units_at_a_worker_that_leaves_are_finished_or_sent_again(fails: bool) -> None:
    async def run() -> tuple[list[bytes], int, set[str]]:
        gate, begun = asyncio.Event(), asyncio.Event()

        async def wait(_: FakeWorker) -> Reply:
            begun.set()
            await gate.wait()
            if fails:
                raise WireError("connection reset")
            return Reply(200, b"old")

        async def new(_: FakeWorker) -> Reply:
            return Reply(200, b"new")

        leaving, staying = FakeWorker(wait), FakeWorker(new)
        dispatcher = Dispatcher(("leaving",), "token")
        dispatcher._wires = {"leaving": leaving}  # type: ignore[dict-item]
        answers = asyncio.ensure_future(ask(dispatcher))
        await begun.wait()
        dispatcher._wires["staying"] = staying  # type: ignore[assignment]
        dispatcher.set_workers(("staying",))
        gate.set()
        found = await answers
        again = await ask(dispatcher)
        wires = set(dispatcher._wires)
        await dispatcher.close()
        return [*found, *again], leaving.units, wires

    found, units, wires = asyncio.run(run())
    assert found == [b"new" if fails else b"old", b"new"]
    assert (units, wires) == (1, {"staying"})


class Name:
    """Addresses of a name, one answer after the other; None: it cannot be resolved."""

    def __init__(self, *answers: tuple[str, ...] | None) -> None:
        self.answers = list(answers)

    def __call__(self, *_: object) -> Any:
        found = self.answers.pop(0)
        if found is None:
            raise OSError("name or service not known")
        return found


def test_a_name_stands_for_all_its_addresses_and_failures_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, ...]] = []
    name = Name(("10.0.0.2", "10.0.0.1", "10.0.0.1"), None, ("fd00::1",))

    async def run() -> None:
        async def resolve(*_: object, **__: object) -> Any:
            return [(0, 0, 0, "", (host, 4390)) for host in name()]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        finder = WorkerFinder(("dns://workers.svc:4390", "http://fixed:1"), seen.append)
        for _ in range(3):
            await finder.look()

    asyncio.run(run())
    assert seen == [
        ("http://10.0.0.1:4390", "http://10.0.0.2:4390", "http://fixed:1"),
        ("http://[fd00::1]:4390", "http://fixed:1"),
    ]


def test_leases_that_ran_out_while_the_index_was_away_cost_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, ...]] = []
    clock = [0.0]
    index = Name(("a", "b"), ("a", "b"), None, (), ("a",), ("a", "c"), ("a",), ())
    monkeypatch.setattr(workers, "live_workers", index)
    monkeypatch.setattr("lakerunner_query.coordinator.workers.time.monotonic", lambda: clock[0])
    finder = WorkerFinder(("index://",), seen.append, "dsn", lease_s=15.0)

    async def run() -> None:
        for step in (0, 20, 1, 1, 1, 1, 20, 1):
            clock[0] += step
            await finder.look()

    asyncio.run(run())
    assert seen == [("a", "b"), ("a", "b", "c"), ("a",)]
