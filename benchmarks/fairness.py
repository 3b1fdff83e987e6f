"""P28: cheap queries of one organisation, alone and beside fifty heavy ones of another.

`python -m benchmarks.fairness [--quick] [--json OUT]`. Two workers, an API and PostgreSQL of its own. Rounds
alone and together take turns, so that what else the machine does falls on both. Heavy queries are all
different, so that no cache answers them.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import random
import socket
import tempfile
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.promql.ours import Ours
from benchmarks.report import Record, tell
from benchmarks.tiers.scratch import scratch_server
from resources.lake.timecut import SECOND_NS
from tests.support.query.lake import BASE, Lake, Line
from tests.support.query.metric_lake import BASE_S, labels, write_samples

HEAVY, CHEAP = "heavy", "cheap"
LINES, COPIES = 20_000, 40
HEAVY_CLIENTS, CHEAP_CLIENTS = 50, 2
MUST, AIM = 3.0, 1.5
Query = tuple[str, dict[str, object]]
LOKI, PROMETHEUS = "/loki/api/v1/query_range", "/prometheus/api/v1/query_range"
WORDS = ("connection", "timeout", "disk", "blk_", "PacketResponder", "session", "opened", "closed", "kernel")


def fill(lake: Lake, *, lines: int = LINES, copies: int = COPIES) -> None:
    """Lines like those of a cluster's logs, many for one organisation and few for the other."""
    chance = random.Random(7)

    def line(number: int, spread_s: float) -> Line:
        text = (
            f"{chance.choice(WORDS)} {chance.choice(WORDS)} from 10.0.{number % 250}.{number % 7} "
            f"took {chance.randrange(5000)} ms status={chance.choice((200, 404, 500))} id={number:08x}"
        )
        return Line(int(number * spread_s * SECOND_NS), text, f"service-{number % 12}")

    for org, count in ((HEAVY, lines), (CHEAP, 4_000)):
        lake.add_org(org, f"key-{org}")
        made = lake.write(org, [line(number, 3500 / count) for number in range(count)])
        if org == HEAVY:
            lake.write_again(made, copies)
    for org, series in ((HEAVY, 400), (CHEAP, 10)):
        names = [labels("requests_total", job=f"j{n % 4}", pod=f"p{n}") for n in range(series)]
        write_samples(lake, org, {name: [(at * 15_000, float(at)) for at in range(240)] for name in names})


def heavy_query(number: int) -> Query:
    logs = {"start": BASE, "end": BASE + 3600 * SECOND_NS, "step": 15}
    samples = {"start": BASE_S, "end": BASE_S + 3600, "step": 15}
    of_logs = f'{{service_name=~"service-.*"}} |~ "took [0-9]+ ms" != "never {number}"'
    match number % 3:
        case 0:
            return LOKI, {"query": f"sum by (service_name) (rate({of_logs} [1m]))", **logs}
        case 1:
            text = f'sum by (status) (count_over_time({of_logs} | logfmt | status != "{number}" [5m]))'
            return LOKI, {"query": text, **logs}
        case _:
            text = f'quantile_over_time(0.9, requests_total{{pod!="{number}"}}[30m])'
            return PROMETHEUS, {"query": f"sum by (job) ({text})", **samples}


def cheap_query(number: int) -> Query:
    logs = {"start": BASE, "end": BASE + 3600 * SECOND_NS}
    samples = {"start": BASE_S, "end": BASE_S + 1800, "step": 60}
    match number % 4:
        case 0:
            return LOKI, {"query": '{service_name="service-3"} |= "timeout"', **logs, "limit": 20}
        case 1:
            return LOKI, {"query": 'sum(rate({service_name="service-5"} |= "disk" [5m]))', **logs, "step": 60}
        case 2:
            return PROMETHEUS, {"query": "sum by (job) (rate(requests_total[5m]))", **samples}
        case _:
            return PROMETHEUS, {"query": 'requests_total{pod="p3"}', **samples}


@dataclass(slots=True)
class Clients:
    """Threads that ask one query after the other, and what they saw."""

    port: int
    org: str
    query: Callable[[int], Query]
    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    check: Callable[[int, int, bytes], str] | None = None
    """Number, status and body to what is wrong with the answer, or nothing."""
    _connections: list[http.client.HTTPConnection] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _is_over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self, count: int) -> Iterator[None]:
        self._is_over.clear()
        threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for connection in self._connections:
                if connection.sock is not None:
                    connection.sock.shutdown(socket.SHUT_RDWR)  # who waits for an answer leaves
            self._connections.clear()
            for thread in threads:
                thread.join(120)

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        self._connections.append(connection)
        while not self._is_over.is_set():
            number = next(self._numbers)
            path, params = self.query(number)
            began = time.perf_counter()
            try:
                connection.request(
                    "GET", f"{path}?{urllib.parse.urlencode(params)}", headers={"Api-Key": f"key-{self.org}"}
                )
                answer = connection.getresponse()
                body, status = answer.read(), answer.status
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                body, status = str(error).encode(), 0
            if self._is_over.is_set():
                break
            self.seconds.append(time.perf_counter() - began)
            wrong = self.check(number, status, body) if self.check else ""
            self.statuses[wrong or str(status)] += 1
        connection.close()


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


@contextmanager
def system(
    folder: Path, workers: int = 2, fill_with: Callable[[Lake], None] = fill, late: int = 0
) -> Iterator[tuple[Ours, Lake]]:
    with scratch_server() as database:
        index, dsn = database("fairness")
        lake = Lake(folder / "lake", index)
        fill_with(lake)
        ours = Ours(folder / "data", folder / "lake", dsn, workers, memory_mb=1024)
        ours.start(late)
        try:
            yield ours, lake
        finally:
            ours.stop()


def measure(ours: Ours, rounds: int, seconds: float) -> list[Record]:
    alone, beside = Clients(ours.port, CHEAP, cheap_query), Clients(ours.port, CHEAP, cheap_query)
    heavy = Clients(ours.port, HEAVY, heavy_query)
    with Clients(ours.port, CHEAP, cheap_query).running(CHEAP_CLIENTS):
        time.sleep(min(3.0, seconds))
    for _ in range(rounds):
        with alone.running(CHEAP_CLIENTS):
            time.sleep(seconds)
        with heavy.running(HEAVY_CLIENTS):
            time.sleep(2.0)
            with beside.running(CHEAP_CLIENTS):
                time.sleep(seconds)
    ratio = percentile(beside.seconds, 0.99) / percentile(alone.seconds, 0.99)
    return [
        Record("alone", "cheap queries alone, p99", 1e3 * percentile(alone.seconds, 0.99), "ms",
               counters={"p50 ms": round(1e3 * percentile(alone.seconds, 0.5), 1), **alone.statuses}),
        Record("beside", "cheap queries beside 50 heavy ones, p99", 1e3 * percentile(beside.seconds, 0.99),
               "ms", counters={"p50 ms": round(1e3 * percentile(beside.seconds, 0.5), 1), **beside.statuses}),
        Record("heavy", "heavy queries, median", percentile(heavy.seconds, 0.5), "s",
               counters={**heavy.statuses}),
        Record("P28", "p99 beside against alone", ratio, "times", MUST, AIM, ratio <= MUST),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 rounds of 5 s instead of 6 of 15 s")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rounds, seconds = (2, 5.0) if args.quick else (6, 15.0)
    with (
        tempfile.TemporaryDirectory(prefix="lakerunner-fairness-") as folder,
        system(Path(folder)) as (ours, _),
    ):
        records = measure(ours, rounds, seconds)
    tell("fairness", records, args.json)


if __name__ == "__main__":
    main()
