"""Costly bodies of one organisation: its neighbours are answered as before, and it alone is told to wait."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import zstandard
from litestar.testing import TestClient

from lakerunner_ingress.app import create_app
from lakerunner_ingress.errors import OverloadedError
from lakerunner_ingress.receivers import lines
from lakerunner_ingress.receivers.checker_process import Job
from lakerunner_ingress.receivers.checking import CheckerProcess, checked_push
from lakerunner_ingress.receivers.forms import Form, Push
from lakerunner_ingress.receivers.lines import Line, Shares
from lakerunner_ingress.receivers.memory import Memory
from lakerunner_ingress.receivers.refusals import BadRequestError, TooLargeError
from resources.lake.layout import Signal
from resources.proto.loki import PushRequest
from resources.settings import Settings
from tests.support.ingress.doubles import FakeProducer, FlakyIndex
from tests.support.ingress.push_fakes import KEY, index_with
from tests.support.otlp_logs import otlp_logs
from tests.support.patience import PATIENCE_S, until, wait_for

PROTOBUF = {"content-type": "application/x-protobuf"}
NEIGHBOUR = {"Authorization": "Bearer beta-write"}
LOGS = Push(Signal.LOGS, Form.OTLP_PROTOBUF, "")


@pytest.fixture
def index(tmp_path: Path) -> FlakyIndex:
    return index_with(tmp_path)


@pytest.fixture
def client(index: FlakyIndex) -> Iterator[TestClient[Any]]:
    with TestClient(create_app(Settings(), index, FakeProducer())) as found:  # type: ignore[arg-type]
        yield found


def costly_body() -> bytes:
    """Many streams without labels in JSON, which is a few kilobytes on the wire."""
    return zstandard.compress(b'{"streams":[' + b",".join([b'{"stream":{},"values":[]}'] * 150_000) + b"]}")


def test_a_flood_of_costly_bodies_leaves_the_neighbours_latency_as_it_was(client: TestClient[Any]) -> None:
    body, stop, statuses = costly_body(), threading.Event(), []
    assert len(body) < 20_000

    def flood() -> None:
        headers = KEY | {"content-type": "application/json", "content-encoding": "zstd"}
        while not stop.is_set():
            statuses.append(client.post("/loki/api/v1/push", content=body, headers=headers).status_code)

    def latencies(pushes: int) -> list[float]:
        found = []
        for number in range(pushes):
            began = time.monotonic()
            answer = client.post("/v1/logs", content=otlp_logs([(number, "x")]), headers=NEIGHBOUR | PROTOBUF)
            assert answer.status_code == 200
            found.append(time.monotonic() - began)
        return found

    latencies(3)
    before = statistics.median(latencies(20))
    with ThreadPoolExecutor(3) as pool:
        senders = [pool.submit(flood) for _ in range(3)]
        wait_for(lambda: statuses, "the first costly body")
        during = latencies(30)
        stop.set()
    for sender in senders:
        sender.result()
    assert statistics.median(during) < 20 * before, (before, sorted(during))
    assert set(statuses) <= {400, 413, 429, 503}


def test_the_opened_size_is_charged_also_of_a_body_that_is_refused(client: TestClient[Any]) -> None:
    client.app.state.receivers._quota._limit_of = lambda _: 10_000
    headers = KEY | {"content-type": "application/json", "content-encoding": "zstd"}
    body = zstandard.compress(b'{"streams":[' + b" " * 500_000)
    assert client.post("/loki/api/v1/push", content=body, headers=headers).status_code == 400
    refused = client.post("/loki/api/v1/push", content=body, headers=headers)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 30


def test_one_organisation_cannot_take_all_memory_and_is_the_one_that_waits() -> None:
    memory = Memory(1000)
    flood = [memory.hold("acme") for _ in range(100)]
    for hold in flood[:7]:
        hold.grow(100)
    with pytest.raises(OverloadedError, match="acme has"):
        flood[7].grow(100)
    assert memory.used_by["acme"] == 700
    neighbour = memory.hold("beta")
    for _ in range(2):
        neighbour.grow(60)
    with pytest.raises(OverloadedError, match="acme has"):
        memory.hold("acme").grow(60)
    with pytest.raises(TooLargeError, match="more than the 750 bytes"):
        memory.hold("other").grow(751)
    for hold in (*flood, neighbour):
        with hold:
            pass
    assert (memory.used, memory.used_by) == (0, {})


def test_a_line_gives_the_next_turn_to_who_used_least() -> None:
    order: list[str] = []
    gate = threading.Event()

    def call(name: str, seconds: float) -> Any:
        def run() -> tuple[float, str]:
            assert gate.wait(PATIENCE_S)
            order.append(name)
            return seconds, name

        return run

    async def work() -> None:
        line: Line[str] = Line(1, Shares(lambda: 0.0))
        first = [asyncio.create_task(line.run("acme", call(f"a{n}", 5.0))) for n in range(4)]
        second = [asyncio.create_task(line.run("beta", call(f"b{n}", 0.1))) for n in range(4)]
        await until(lambda: line.waiting == 7, "the first call in the thread")
        gate.set()
        await asyncio.gather(*first, *second)
        line.close()

    asyncio.run(work())
    assert order == ["a0", "b0", "b1", "b2", "b3", "a1", "a2", "a3"]


def test_a_thread_is_always_kept_for_others() -> None:
    gate = threading.Event()

    def slow() -> tuple[float, str]:
        assert gate.wait(PATIENCE_S)
        return 1.0, "slow"

    async def work() -> None:
        line: Line[str] = Line(2, Shares())
        slow_ones = [asyncio.create_task(line.run("acme", slow)) for _ in range(4)]
        await until(lambda: line.waiting == 3, "the first call in a thread")
        assert await asyncio.wait_for(line.run("beta", lambda: (0.0, "quick")), PATIENCE_S) == "quick"
        gate.set()
        await asyncio.gather(*slow_ones)
        line.close()

    asyncio.run(work())


def test_a_line_is_bounded_for_one_organisation_and_open_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "WAITING_PER_ORG", 3)
    gate = threading.Event()

    def call() -> tuple[float, None]:
        assert gate.wait(PATIENCE_S)
        return 0.0, None

    async def work() -> None:
        line: Line[None] = Line(2, Shares())
        tasks = [asyncio.create_task(line.run("acme", call)) for _ in range(4)]
        await until(lambda: line.waiting == 3, "the first call in a thread")
        with pytest.raises(OverloadedError, match="requests of acme are waiting"):
            await line.run("acme", call)
        tasks[2].cancel()
        gate.set()
        await line.run("beta", call)
        assert [type(found) for found in await asyncio.gather(*tasks, return_exceptions=True)] == [
            type(None),
            type(None),
            asyncio.CancelledError,
            type(None),
        ]
        line.close()

    asyncio.run(work())


def test_cpu_seconds_count_less_the_longer_they_are_ago() -> None:
    now = [0.0]
    shares = Shares(lambda: now[0])
    shares.add("acme", 8.0)
    now[0] += 2 * lines.HALF_LIFE_S
    assert shares.of("acme") == pytest.approx(2.0)
    assert shares.of("beta") == 0.0


# --- a process of its own ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def process() -> Iterator[CheckerProcess]:
    found = CheckerProcess()
    yield found
    found.close()


def checked(process: CheckerProcess, body: bytes, push: Push = LOGS, most: int = 1 << 24) -> Any:
    with Memory(1 << 28).hold() as hold:
        outcome = process.check(Job(push, most, 1 << 28), body, hold)
        assert hold.size == (len(outcome.checked.data) if outcome.checked else 0)
        return outcome


def test_a_process_keeps_a_body_as_a_thread_does(process: CheckerProcess) -> None:
    body = otlp_logs([(n, "x" * 1000) for n in range(3000)])
    outcome = checked(process, zstandard.compress(body), Push(Signal.LOGS, Form.OTLP_PROTOBUF, "zstd"))
    found = checked_push(outcome)
    assert (found.data, found.signal, found.form) == (body, Signal.LOGS, Form.OTLP_PROTOBUF)
    assert outcome.opened == len(body)
    assert outcome.cpu_seconds > 0


def test_a_process_says_why_it_refuses(process: CheckerProcess) -> None:
    with pytest.raises(BadRequestError, match="byte 0: "):
        checked_push(checked(process, b"\x00"))
    body = zstandard.compress(b"x" * 100)
    packed = Push(Signal.LOGS, Form.OTLP_PROTOBUF, "zstd")
    with pytest.raises(TooLargeError, match="more than 10 bytes once opened"):
        checked_push(checked(process, body, packed, 10))
    push = PushRequest()
    for labels in ("{", '{a="b"}'):
        push.streams.add(labels=labels).entries.add(line="x")
    found = checked_push(checked(process, push.SerializeToString(), Push(Signal.LOGS, Form.LOKI_PUSH, "")))
    assert (found.rejected, found.reason[:12]) == (1, "streams[0]: ")


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [(11, BadRequestError, "the body ended the process"), (27, TooLargeError, "more than 15 s of CPU time")],
)
def test_a_body_that_ends_the_process_is_refused_and_the_next_one_is_not(
    process: CheckerProcess, number: int, kind: type[Exception], text: str
) -> None:
    checked(process, b"")
    running, _, _ = process._running()
    running.send_signal(number)
    running.wait(PATIENCE_S)
    running.poll = lambda: None  # type: ignore[method-assign] # it ended while the body was checked
    with pytest.raises(kind, match=text):
        checked_push(checked(process, b"\x00"))
    del running.poll
    assert checked_push(checked(process, b"")).data == b""


def test_a_job_that_takes_too_long_ends_the_process() -> None:
    """The kernel's timer counts CPU time in libraries, too."""
    code = "import signal, re; signal.setitimer(signal.ITIMER_PROF, 0.05)\n" + "sum(range(1 << 40))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -27
