"""Compares query times of two checkouts in one sitting: `python -m benchmarks.before_after OTHER_CHECKOUT`.

Each checkout writes the same small lake on local disk, starts two workers, and answers the same requests over
HTTP, in alternating rounds that ask for other times each. Answers must be equal. The ratios are the other
checkout's CPU and wall time by this one's, workers and API together, best round each: above 1, this one is
faster. A request marked cold is the first one of workers that were just started.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
PLACES = (
    ("tests.support.query.lake", "tests.support.query.metric_lake"),
    ("tests.integration.query.conftest", "tests.integration.query.metric_lake"),
)
"""Modules with the small lakes of tests, newest first."""
PROM, LOKI = "/prometheus/api/v1/query_range", "/loki/api/v1/query_range"
REQUESTS = {
    "P10 sum by rate": (PROM, "sum by (job) (rate(requests_total[5m]))"),
    "P10 quantile": (PROM, "quantile_over_time(0.9, requests_total[10m])"),
    "P11 topk of max": (PROM, "topk(3, max_over_time(requests_total[5m]))"),
    "P13 counts by service, level": (
        LOKI, 'sum by (service_name, detected_level) (count_over_time({service_name=~".+"}[1m]))'
    ),
    "P14 unique token": (LOKI, '{service_name=~".+"} |= "token77777"'),
    "P15 substring": (LOKI, 'sum(count_over_time({service_name=~".+"} |= "fail" [5m]))'),
    "P15 regex": (LOKI, 'sum(count_over_time({service_name=~".+"} |~ "took [0-9]+7 ms" [5m]))'),
    "P16 last matches": (LOKI, '{service_name="web"} |= "took"'),
    "json and filter": (LOKI, 'sum(count_over_time({service_name="json"} | json | status >= 500 [5m]))'),
}  # fmt: skip
COLD = ("P10 sum by rate", "P13 counts by service, level", "P14 unique token", "P16 last matches")
"""Requests that are also asked of workers that were just started."""
KEY = {"x-cardinalhq-api-key": "key"}
LINES, SERIES, SAMPLES, ROUNDS = 120_000, 200, 2_000, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="another checkout, such as a worktree")
    parser.add_argument("--quick", action="store_true", help="two rounds")
    asked = parser.parse_args()
    with contextlib.ExitStack() as stack:
        here, there = (stack.enter_context(driver(root)) for root in (ROOT, asked.other.resolve()))
        rounds = 2 if asked.quick else ROUNDS
        best: dict[str, list[float]] = {}
        for number in range(rounds + 1):
            for name in (*REQUESTS, *(f"{name}, cold" for name in COLD)):
                answers = [ask(one, f"{name}|{number}") for one in (here, there)]
                assert answers[0]["answer"] == answers[1]["answer"], f"{name}: other answers"
                if number:
                    took = [answer[kind] for kind in ("cpu_s", "wall_s") for answer in answers]
                    best[name] = [min(pair) for pair in zip(best.get(name, took), took, strict=True)]
    for name, (mine, other, my_wall, other_wall) in best.items():
        print(
            f"{name:34} CPU {1000 * mine:7.1f} ms here, {1000 * other:7.1f} there, ratio {other / mine:5.2f};"
            f" wall {1000 * my_wall:7.1f}, {1000 * other_wall:7.1f}, ratio {other_wall / my_wall:5.2f}"
        )


@contextlib.contextmanager
def driver(root: Path) -> Any:
    """Run this file as a program of that checkout."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--drive"],
        cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(30)


def ask(process: Any, name: str) -> dict[str, Any]:
    process.stdin.write(name + "\n")
    process.stdin.flush()
    while not (line := process.stdout.readline()).startswith("{"):
        assert line, "the driver died"
    answer: dict[str, Any] = json.loads(line)
    return answer


def drive() -> None:
    """Answer names of requests from standard input with the CPU time and a digest of the answer."""
    logging.disable(logging.INFO)
    lakes, metrics = _modules()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        lake = lakes.Lake(folder / "lake")
        lake.add_org("acme", "key")
        fill(lake, lakes, metrics)
        site = Site(lakes, lake, folder)
        site.start()
        for line in sys.stdin:
            name, _, number = line.strip().partition("|")
            if name.endswith(", cold"):
                site.start()
            path, query = REQUESTS[name.removesuffix(", cold")]
            end = lakes.BASE // 10**9 + 3600 - int(number)  # other steps: no answer is in a cache
            params = {"query": query, "start": end - 3600, "end": end, "step": 15, "limit": 100}
            print(json.dumps(site.ask(path, params)), flush=True)
        site.stop()


class Site:
    """Two workers and an API in this process, which may be started anew."""

    def __init__(self, lakes: Any, lake: Any, folder: Path) -> None:
        self._lakes, self._lake, self._folder, self._starts = lakes, lake, folder, 0
        self._opened = contextlib.ExitStack()

    def start(self) -> None:
        from litestar.testing import TestClient

        from lakerunner_query.app import create_app

        self.stop()
        self._starts += 1
        stacks = self._lakes.start_workers(self._folder / f"data-{self._starts}", self._lake.folder, 2)
        stack = next(stacks)
        self._opened.callback(stacks.close)
        fronts = [psutil.Process(worker.process.pid) for worker in stack.workers]
        self._workers = [each for one in fronts for each in (one, *one.children(recursive=True))]
        self._http = self._opened.enter_context(
            TestClient(create_app(replace(stack.settings), self._lake.index))
        )
        self._http.get("/prometheus/api/v1/query", params={"query": "1", "time": 0}, headers=KEY)

    def stop(self) -> None:
        self._opened.close()

    def ask(self, path: str, params: dict[str, Any]) -> dict[str, Any]:
        before, began = cpu(self._workers), time.perf_counter()
        answer = self._http.get(path, params=params, headers=KEY)
        wall = time.perf_counter() - began
        took = cpu(self._workers) - before
        assert answer.status_code == 200, answer.text
        result = json.dumps(answer.json()["data"]["result"], sort_keys=True)
        digest = hashlib.sha256(result.encode()).hexdigest()
        return {"cpu_s": took, "wall_s": wall, "answer": digest}


def _modules() -> tuple[Any, Any]:
    for lakes, metrics in PLACES:
        with contextlib.suppress(ModuleNotFoundError):
            return import_module(lakes), import_module(metrics)
    raise SystemExit("this checkout has no lake for tests")


def fill(lake: Any, lakes: Any, metrics: Any) -> None:
    """Write the same lines and samples in every checkout."""
    step = 3_600_000_000_000 // LINES
    services = ("web", "api", "db", "json")
    for first in range(0, LINES, 30_000):
        lines = []
        for n in range(first, first + 30_000):
            service = services[n % 4]
            text = f"request {n} took {n % 997} ms token{n} {'fail' if n % 50 == 0 else 'ok'}"
            if service == "json":
                text = json.dumps({"msg": text, "status": 500 if n % 20 == 3 else 200})
            lines.append(lakes.Line(n * step + 1, text, service=service, level=9 if n % 10 else 17))
        lake.write("acme", lines)
    names = [metrics.labels("requests_total", job=f"j{n % 10}", pod=f"p{n}") for n in range(SERIES)]
    gap = 3_600_000 // SAMPLES
    series = {
        name: [(at * gap, float(at * (n + 1))) for at in range(SAMPLES)] for n, name in enumerate(names)
    }
    metrics.write_samples(lake, "acme", series)


def cpu(workers: list[psutil.Process]) -> float:
    """Return the CPU seconds of this process and of all threads of the workers, to the nanosecond."""
    threads = [each for worker in workers for each in Path(f"/proc/{worker.pid}/task").iterdir()]
    return (
        time.process_time() + sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9
    )


if __name__ == "__main__":
    drive() if "--drive" in sys.argv else main()
