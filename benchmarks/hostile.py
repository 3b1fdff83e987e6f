"""Hostile queries, each with the CPU seconds that it may burn and what has to come of it.

    python -m benchmarks.hostile [--quick] [--only TEXT] [--json OUT]

A child process runs plan, evaluation and rendering of every query, and says what came of it and the CPU time
of all its threads. It is killed where a query takes many times what it may, and another one goes on. The exit
code is 1 if a query took longer, or was answered other than it has to be. `--quick` takes every twelfth.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from benchmarks.hostile_lake import hostile_lake
from benchmarks.hostile_queries import ANSWER, Hostile, hostile_queries
from benchmarks.small_lake import SmallLake, Times

QUICK = 12
KILL_FACTOR, KILL_S = 5.0, 20.0
WARM = (
    ("promql", "sum(rate(requests_total[5m])) + histogram_quantile(0.5, size)"),
    ("logql", '{app="web"} | json'),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Cost and outcome of a query."""

    name: str
    language: str
    cpu_s: float
    allowed_s: float
    found: str
    message: str
    is_expected: bool

    @property
    def is_fault(self) -> bool:
        return not self.is_expected or self.cpu_s > self.allowed_s


def measure(queries: Sequence[Hostile]) -> Iterator[Verdict]:
    """Run all queries in child processes, one after the other, and yield verdicts as they come."""
    done = 0
    while done < len(queries):
        rest = queries[done:]
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        child = context.Process(target=_serve, args=(there, [asdict(one) for one in rest]), daemon=True)
        child.start()
        there.close()
        try:
            for verdict in _verdicts(here, child.pid or 0, rest):
                done += 1
                yield verdict
        finally:
            child.kill()
            child.join()


def _verdicts(answers: Connection, pid: int, rest: Sequence[Hostile]) -> Iterator[Verdict]:
    """Yield verdicts until the child is done, gone or has to be killed."""
    answers.recv()  # the lake is there
    for query in rest:
        before = _cpu_s(pid)
        most = KILL_S + KILL_FACTOR * query.cpu_s
        while not answers.poll(0.25):
            if _cpu_s(pid) - before > most:
                yield _verdict(query, _cpu_s(pid) - before, "killed", "did not end")
                return
        try:
            seconds, code, message = answers.recv()
        except EOFError:
            yield _verdict(query, _cpu_s(pid) - before, "crashed", "the process is gone")
            return
        yield _verdict(query, seconds, code, message)


def _cpu_s(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _verdict(query: Hostile, seconds: float, code: str, message: str) -> Verdict:
    shown = message.splitlines()[-1][:100] if code == "internal" and message else message[:100]
    return Verdict(query.name, query.language, seconds, query.cpu_s, code, shown, code in query.expected)


def _serve(answers: Connection, queries: list[dict[str, object]]) -> None:
    """Run the queries, and send what each took and came to."""
    with (
        tempfile.TemporaryDirectory(prefix="lakerunner-hostile-") as folder,
        hostile_lake(Path(folder)) as lake,
    ):
        for language, text in WARM:
            _ask(lake, language, text, Times())
        answers.send("ready")
        for query in queries:
            at, allowed = Times(**query["at"]), float(query["cpu_s"])  # type: ignore[arg-type]
            asked = lake, str(query["language"]), str(query["text"]), at
            took, code, message = _timed(*asked)
            if allowed < took <= KILL_FACTOR * allowed:  # the first of its kind may have compiled a kernel
                took, code, message = min(_timed(*asked), (took, code, message))
            answers.send((took, code, message))


def _timed(lake: SmallLake, language: str, text: str, at: Times) -> tuple[float, str, str]:
    began = time.process_time()
    code, message = _ask(lake, language, text, at)
    return time.process_time() - began, code, message


def _ask(lake: SmallLake, language: str, text: str, at: Times) -> tuple[str, str]:
    outcome = lake.promql(text, at) if language == "promql" else lake.logql(text, at)
    return outcome.code or ANSWER, outcome.message


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every twelfth query")
    parser.add_argument("--only", default="", help="queries with this in their name")
    parser.add_argument("--json", type=Path, help="write the verdicts here")
    options = parser.parse_args(arguments)
    queries = [one for one in hostile_queries() if options.only in one.name]
    verdicts = []
    for one in measure(queries[::QUICK] if options.quick else queries):
        verdicts.append(one)
        mark = "FAULT" if one.is_fault else "     "
        took = f"{mark} {one.cpu_s:7.2f} of {one.allowed_s:5.1f} s"
        print(f"{took}  {one.language}  {one.name}: {one.found} {' '.join(one.message.split())}", flush=True)
    faults = [one for one in verdicts if one.is_fault]
    print(
        f"{len(verdicts)} queries, {len(faults)} faults, {sum(one.cpu_s for one in verdicts):.0f} CPU seconds"
    )
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in verdicts], indent=1))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
