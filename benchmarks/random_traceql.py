"""Random TraceQL over random traces, against a plain evaluation of whole traces.

    python -m benchmarks.random_traceql --count 20000 --seed 1 --resume /tmp/traceql.state

Every two hundred queries have traces of their own, which are stored several times, each time cut into other
objects and segments; a query is asked of one of them, over HTTP, with real workers. Traces and query follow
from seed and number, so that a difference is repeated by these two (`--only 1:4711`, which asks all of them).
The file of `--resume` keeps how far the run came and what it found.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.cooking_lake import Lake
from tests.support.query.traceql.asking import Asker, World, build_world, question_of, served, served_here
from tests.support.query.traceql.random_queries import Question

QUERIES_PER_WORLD = 200
TRACES, CUTS = 25, 3
WORLDS_PER_LAKE = 20


@dataclass
class Found:
    """Counts of a run so far."""

    done: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    differences: list[dict[str, str]] = field(default_factory=list)


def run(count: int, seed: int, resume: Path | None, seconds: float, *, is_here: bool) -> Found:
    """Compare so many queries, from where the last run ended, for so long."""
    found = _resumed(resume)
    ends = time.monotonic() + seconds
    while found.done < count and time.monotonic() < ends:
        with tempfile.TemporaryDirectory() as folder, _served(Path(folder), is_here) as (lake, asker):
            for _ in range(WORLDS_PER_LAKE):
                if found.done >= count or time.monotonic() > ends:
                    break
                world = build_world(lake, f"{seed}:{found.done // QUERIES_PER_WORLD}", TRACES, CUTS)
                last = min(count, (found.done // QUERIES_PER_WORLD + 1) * QUERIES_PER_WORLD)
                while found.done < last:
                    _compare_one(found, asker, world, seed)
                if resume is not None:
                    resume.write_text(json.dumps(vars(found)))
    return found


def _served(folder: Path, is_here: bool) -> AbstractContextManager[tuple[Lake, Asker]]:
    return served_here(folder) if is_here else served(folder)


def _compare_one(found: Found, asker: Asker, world: World, seed: int) -> None:
    number = found.done
    question = question_of(world, number)
    problem = ask(asker, world, number % len(world.orgs), question)
    found.outcomes[f"{'different' if problem else 'equal'}, {question.kind}"] += 1
    found.done += 1
    if problem:
        name = f"{seed}:{number}"
        found.differences.append({"name": name, "problem": problem, "query": question.text})
        print(f"{name}: {problem[:600]}\n    {question.text}", flush=True)


def ask(asker: Asker, world: World, cut: int, question: Question) -> str:
    try:
        return asker.difference(world, cut, question)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is a finding
        return f"{type(error).__name__}: {str(error)[:300]}"


def _resumed(resume: Path | None) -> Found:
    if resume is None or not resume.exists():
        return Found()
    known = json.loads(resume.read_text())
    return Found(known["done"], Counter(known["outcomes"]), known["differences"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop then, to be resumed")
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--here", action="store_true", help="workers' readers run in this process")
    parser.add_argument(
        "--only", nargs="*", help="seed:number of queries, asked of every cut of their traces"
    )
    given = parser.parse_args(arguments)
    logging.disable(logging.INFO)
    if given.only:
        return _show(given.only, is_here=given.here)
    found = run(given.count, given.seed, given.resume, given.seconds, is_here=given.here)
    for outcome, number in sorted(found.outcomes.items()):
        print(f"{number:7} {outcome}")
    print(f"{found.done} queries, {len(found.differences)} differences")
    return 1 if found.differences else 0


def _show(names: list[str], *, is_here: bool) -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder), is_here) as (lake, asker):
        worlds: dict[str, World] = {}
        for name in names:
            seed, _, number = name.partition(":")
            key = f"{seed}:{int(number) // QUERIES_PER_WORLD}"
            world = worlds.get(key) or build_world(lake, key, TRACES, CUTS)
            worlds[key] = world
            question = question_of(world, int(number))
            print(f"{name}: {question}")
            for cut, how in enumerate(world.cuts):
                problem = ask(asker, world, cut, question)
                wrong += bool(problem)
                print(f"    {how}: {problem or 'equal'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
