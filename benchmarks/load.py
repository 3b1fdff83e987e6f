"""64 clients ask for minutes while a worker is killed, one freezes, and one is added.

`python -m benchmarks.load [--quick] [--json OUT]`. Three workers are in the list; the third starts late.
Every answer has to be the one that was given before the storm, or an error that the API declares. Memory of
all processes is read all the time: it has to be as large in the last quarter as it was in the second.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from benchmarks.fairness import (
    CHEAP,
    HEAVY,
    Clients,
    Query,
    cheap_query,
    fill,
    heavy_query,
    percentile,
    system,
)
from benchmarks.promql.ours import Ours
from benchmarks.report import Record, tell

CLIENTS = 64
QUERIES = 24
"""Different queries of each organisation, of which an eighth is heavy."""
DECLARED = {"429": "too many queries", "503": "no worker", "504": "timeout"}
FLAT = 1.1
"""Median memory of the last quarter, against that of the second."""


def query_of(org: str, number: int) -> Query:
    kind = number % QUERIES
    return heavy_query(kind) if org == HEAVY and kind % 8 == 7 else cheap_query(kind)


def content(body: bytes) -> str:
    """The result without statistics, in an order that does not depend on units."""
    return json.dumps(sorted(json.dumps(one, sort_keys=True) for one in json.loads(body)["data"]["result"]))


def expected(port: int, org: str) -> list[str]:
    """The answers before the storm."""
    found = []
    for number in range(QUERIES):
        path, params = query_of(org, number)
        url = f"http://127.0.0.1:{port}{path}?{urllib.parse.urlencode(params)}"
        with urllib.request.urlopen(
            urllib.request.Request(url, headers={"Api-Key": f"key-{org}"}), timeout=120
        ) as answer:
            found.append(content(answer.read()))
    return found


def judge(answers: list[str], number: int, status: int, body: bytes) -> str:
    """Return the fault of an answer, or nothing."""
    if status == 200:
        return "" if content(body) == answers[number % QUERIES] else "wrong answer"
    if str(status) in DECLARED:
        return ""
    return f"undeclared {status}: {body[:200].decode(errors='replace')}"


@dataclass(slots=True)
class Storm:
    """The accidents of the workers, and the memory of the processes meanwhile."""

    ours: Ours
    seconds: float
    events: list[str] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)
    """Share of the time that is over, and bytes of the API and of the worker that nothing happens to."""
    memory_of_worker: bool = False
    """True once the third worker, to which nothing happens, is among them."""
    _began: float = 0.0

    def run(self) -> None:
        self._began = time.monotonic()
        happenings: list[tuple[float, str, Callable[[], object]]] = [
            (0.15, "the third worker is started", partial(self.ours.start_worker, 2)),
            (0.30, "the first worker is killed", self.ours.worker(0).kill),
            (0.45, "the second worker is frozen", partial(self._signal, 1, signal.SIGSTOP)),
            (0.60, "the second worker goes on", partial(self._signal, 1, signal.SIGCONT)),
            (0.65, "the first worker is started again", partial(self.ours.start_worker, 0)),
        ]
        steady = [psutil.Process(self.ours.worker(2).pid)]  # the API, behind the two workers of the start
        while (share := (time.monotonic() - self._began) / self.seconds) < 1:
            while (
                happenings and happenings[0][0] <= share and (len(happenings) > 3 or self._third_is_ready())
            ):
                _, text, happen = happenings.pop(0)
                happened = happen()
                if isinstance(happened, subprocess.Popen) and not self.memory_of_worker:
                    self.memory_of_worker = True
                    steady.append(psutil.Process(happened.pid))
                self.events.append(f"{share * self.seconds:.0f} s: {text}")
                print(self.events[-1], flush=True)
            all_of = [one for each in steady for one in (each, *each.children(recursive=True))]
            self.memory.append((share, sum(one.memory_info().rss for one in all_of)))
            time.sleep(0.2)

    def _third_is_ready(self) -> bool:
        """Without the third worker there would be none while the first is dead and the second frozen."""
        with suppress(OSError), urllib.request.urlopen(f"{self.ours.url(2)}/readyz", timeout=2):
            return True
        return False

    def _signal(self, number: int, sign: signal.Signals) -> None:
        front = psutil.Process(self.ours.worker(number).pid)
        for process in (front, *front.children(recursive=True)):
            os.kill(process.pid, sign)

    def growth(self) -> float:
        def median(low: float, high: float) -> float:
            return statistics.median(size for share, size in self.memory if low <= share < high)

        return median(0.75, 1.0) / median(0.25, 0.5)


def measure(ours: Ours, seconds: float, *, judge_memory: bool) -> list[Record]:
    clients = []
    for org in (HEAVY, CHEAP):
        answers = expected(ours.port, org)
        clients.append(Clients(ours.port, org, partial(query_of, org), check=partial(judge, answers)))
    storm = Storm(ours, seconds)
    thread = threading.Thread(target=storm.run)
    with clients[0].running(CLIENTS // 2), clients[1].running(CLIENTS // 2):
        thread.start()
        thread.join()
    statuses: Counter[str] = sum((one.statuses for one in clients), Counter())
    took = [one for each in clients for one in each.seconds]
    wrong = {text: count for text, count in statuses.items() if text != "200" and text not in DECLARED}
    growth = storm.growth()
    return [
        Record("answers", "answers of 64 clients", float(len(took)), "answers",
               counters={"events": storm.events, **statuses}),
        Record("wrong", "wrong or undeclared answers", float(sum(wrong.values())), "answers", must=0,
               ok=not wrong, counters={"which": wrong}),
        Record("declared", "errors that the API declares", float(sum(statuses[one] for one in DECLARED)),
               "answers"),
        Record("p99", "time of an answer, 99th percentile", percentile(took, 0.99), "s",
               counters={"p50 s": round(percentile(took, 0.5), 3)}),
        Record("memory", "memory of API and third worker, last quarter against second", growth,
               "times", must=FLAT,
               ok=growth <= FLAT if judge_memory else None),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="40 seconds instead of 5 minutes")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    few = partial(fill, lines=5_000, copies=8)
    with (
        tempfile.TemporaryDirectory(prefix="lakerunner-load-") as folder,
        system(Path(folder), workers=3, fill_with=few, late=1) as (ours, _),
    ):
        records = measure(ours, 40.0 if args.quick else 300.0, judge_memory=not args.quick)
    tell("load", records, args.json)


if __name__ == "__main__":
    main()
