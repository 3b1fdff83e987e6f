"""Workers under units that nobody can stop, readers that freeze or crash, and neighbours with work to do."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import psutil
import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from lakerunner_query.coordinator import dispatch
from resources.lake.timecut import SECOND_NS
from tests.support.exposition_parser import parse
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.hostile_reader import WAKE
from tests.support.query.lake import Client, Lake, Line, Stack, WorkerProcess, start_workers

pytestmark = pytest.mark.integration
S = SECOND_NS
BUDGET_S = 1.0


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    for org in ("hostile", "neighbour"):
        lake.add_org(org, f"key-{org}")
        lake.write(org, [Line(i * S, f"{org} {i}") for i in range(1, 20)])
    return lake


@pytest.fixture(scope="module")
def hostile(small: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("data")
    yield from start_workers(
        folder, small.folder, 2, "tests.support.query.hostile_reader", worker_unit_cpu_s=BUDGET_S
    )


@pytest.fixture
def http(small: Lake, hostile: Stack) -> Iterator[TestClient]:  # type: ignore[type-arg]
    for worker in hostile.workers:
        worker.wait_ready()
    with TestClient(create_app(hostile.settings, small.index)) as client:
        yield client


@dataclass
class Neighbour:
    """Asks again and again, and notes how long each answer took."""

    client: Client
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        is_over = threading.Event()

        def ask() -> None:
            while not is_over.is_set():
                began = time.monotonic()
                answer = self.client.loki('{service_name="web"}')
                if answer.status_code != 200 or answer.text.count("neighbour ") != 19:
                    self.wrong.append(answer.text)
                self.seconds.append(time.monotonic() - began)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join(PATIENCE_S)

    def wait_for_answers(self, count: int) -> None:
        """Wait until it was answered so many times more."""
        wanted = len(self.seconds) + count
        wait_for(lambda: len(self.seconds) >= wanted, f"{count} answers for the neighbour")


def counted(stack: Stack, name: str, **labels: str) -> float:
    total = 0.0
    for worker in stack.workers:
        found = parse(httpx.get(f"{worker.url}/metrics", timeout=PATIENCE_S).text)
        total += found.get((name, frozenset(labels.items())), 0.0)
    return total


def kills_for_budget(stack: Stack) -> float:
    return counted(stack, "lakerunner_worker_kills_total", reason="over_budget")


@pytest.mark.parametrize("burn", ["burn-python", "burn-kernel"])
def test_a_unit_that_obeys_nobody_is_stopped_and_its_neighbours_are_answered(
    http: TestClient,  # type: ignore[type-arg]
    hostile: Stack,
    monkeypatch: pytest.MonkeyPatch,
    burn: str,
) -> None:
    monkeypatch.setattr(dispatch, "ASK_ALIVE_S", PATIENCE_S)  # fronts that this machine keeps waiting live
    kills = kills_for_budget(hostile)
    charged = counted(hostile, "lakerunner_worker_unit_cpu_seconds_total")
    neighbour = Neighbour(Client(http, "key-neighbour"))
    with neighbour.asking():
        neighbour.wait_for_answers(1)
        began = time.monotonic()
        answer = Client(http, "key-hostile").loki(f'{{service_name="web"}} |= "{burn}"')
        print(f"{burn}: stopped after {time.monotonic() - began:.2f} s")
        neighbour.wait_for_answers(3)
    assert answer.status_code == 400, answer.text  # Loki's status of limits
    assert "CPU time" in answer.text
    print(f"neighbours: {sorted(neighbour.seconds)[-3:]}")
    assert neighbour.wrong == []
    kills = kills_for_budget(hostile) - kills
    assert kills == 1, "no other worker tries it: the neighbour has that one for itself"
    charged = counted(hostile, "lakerunner_worker_unit_cpu_seconds_total") - charged
    assert charged > BUDGET_S, "what was killed is charged, too"


def test_both_copies_of_a_unit_end_when_one_used_too_much(
    small: Lake,
    hostile: Stack,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The unit is sent twice though it runs; its copy ends though one worker has a budget of a day."""
    monkeypatch.setattr(dispatch, "ASK_ALIVE_S", PATIENCE_S)
    monkeypatch.setattr(dispatch, "is_slow", lambda found, *_: found.state == "running")
    module = "tests.support.query.hostile_reader"
    for patient in start_workers(tmp_path, small.folder, 1, module, worker_unit_cpu_s=24 * 3600.0):
        strict = hostile.workers[0]
        strict.wait_ready()
        both = replace(patient.settings, worker_urls=f"{strict.url},{patient.workers[0].url}")
        with TestClient(create_app(both, small.index)) as client:
            answer = Client(client, "key-hostile").loki('{service_name="web"} |= "burn-python"')
        assert (answer.status_code, "CPU time" in answer.text) == (400, True)
        wait_for(lambda patient=patient: kills_for_budget(patient) == 1, "the end of the other copy")
        strict.wait_ready()


def test_a_unit_over_its_budget_that_obeys_costs_no_process(http: TestClient, hostile: Stack) -> None:  # type: ignore[type-arg]
    readers = [worker.reader() for worker in hostile.workers]
    answer = Client(http, "key-hostile").loki('{service_name="web"} |= "burn-politely"')
    assert (answer.status_code, "CPU time" in answer.text) == (400, True)
    assert [worker.reader() for worker in hostile.workers] == readers


def test_a_reader_that_is_stopped_is_replaced_and_its_units_go_elsewhere(
    http: TestClient,  # type: ignore[type-arg]
    hostile: Stack,
) -> None:
    client = Client(http, "key-hostile")
    for worker in hostile.workers:
        worker.wait_ready()
        frozen = worker.reader()
        os.kill(frozen, signal.SIGSTOP)
        assert len(client.lines('{service_name="web"}')) == 19
        wait_for(lambda frozen=frozen: not psutil.pid_exists(frozen), "the end of the frozen reader")
        worker.wait_ready()


def test_a_unit_in_a_reader_that_freezes_is_sent_elsewhere(http: TestClient, hostile: Stack) -> None:  # type: ignore[type-arg]
    """It is frozen with the unit in hand."""
    found: list[int] = []
    client = Client(http, "key-hostile")
    ask = threading.Thread(target=lambda: found.append(len(client.lines('{service_name="web"} != "nap"'))))
    ask.start()
    busy = wait_for(lambda: [w for w in hostile.workers if runs_a_unit(w)], "the unit at a worker")
    os.kill(busy[0].reader(), signal.SIGSTOP)
    (hostile.settings.data_dir / WAKE).touch()
    ask.join(PATIENCE_S)
    assert found == [19]


def runs_a_unit(worker: WorkerProcess) -> bool:
    return "units_running 1" in httpx.get(f"{worker.url}/metrics", timeout=PATIENCE_S).text


def test_a_unit_that_crashes_readers_is_not_tried_everywhere(http: TestClient, hostile: Stack) -> None:  # type: ignore[type-arg]
    answer = Client(http, "key-hostile").loki('{service_name="web"} |= "crash"')
    assert answer.status_code == 500, answer.text
    assert "2 query workers ended while they ran a part of this query" in answer.text
    for worker in hostile.workers:
        worker.wait_ready()
    assert len(Client(http, "key-neighbour").lines('{service_name="web"}')) == 19


def test_the_reader_ends_with_its_front(small: Lake, tmp_path: Path) -> None:
    for stack in start_workers(tmp_path, small.folder, 1):
        reader = stack.workers[0].reader()
        stack.workers[0].kill()
        wait_for(lambda reader=reader: not psutil.pid_exists(reader), "the end of the reader")
