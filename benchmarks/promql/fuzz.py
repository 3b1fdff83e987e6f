"""Random queries to Prometheus and to the whole query path in this process; answers must be the same.

    python -m benchmarks.promql.fuzz --queries 5000 --seed 1 --faults faults.txt

Every seed gives other data and other queries. A difference is blamed on the smallest part of its query;
what rounding or ties explain is counted, the rest is printed with the data's seed, to be repeated.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from benchmarks.ingest.peers import DEFAULT_FOLDER, binary
from benchmarks.promql.fuzz_blame import Judge, Verdict
from benchmarks.promql.fuzz_compare import other_texts
from benchmarks.promql.fuzz_data import BASE_MS, SPAN_MS, Data, random_data
from benchmarks.promql.fuzz_lake import LakeApi
from benchmarks.promql.fuzz_queries import Grammar, Question
from benchmarks.promql.peers import PROMETHEUS, Peer

SLICE_MS = 1_200_000
PER_SEED = 1_000


@dataclass(slots=True)
class Tally:
    """What came out."""

    asked: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[int, Question, Verdict]] = field(default_factory=list)
    errors: int = 0
    empty: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    mine_s: float = 0.0
    theirs_s: float = 0.0


class Timed:
    """An asker that remembers how long it took, and its last answer."""

    def __init__(self, ask: Any) -> None:
        self._ask, self.seconds = ask, 0.0
        self.last: dict[str, Any] = {}

    def __call__(self, text: str, start_ms: int, end_ms: int, step_ms: int) -> dict[str, Any]:
        began = time.perf_counter()
        found: dict[str, Any] = self._ask(text, start_ms, end_ms, step_ms)
        self.seconds += time.perf_counter() - began
        self.last = found
        return found


@contextmanager
def sides(program: Path, data: Data) -> Iterator[tuple[LakeApi, Peer]]:
    """The same samples on both sides."""
    with tempfile.TemporaryDirectory(prefix="lakerunner-fuzz-") as scratch:
        peer = Peer(PROMETHEUS, program, Path(scratch) / "peer")
        try:
            for start in range(BASE_MS - SLICE_MS, BASE_MS + SPAN_MS + SLICE_MS, SLICE_MS):
                peer.send([one.between(start, start + SLICE_MS) for one in data.series])
            with LakeApi(Path(scratch) / "lake", data.series) as lake:
                yield lake, peer
        finally:
            peer.stop()


def run(program: Path, seed: int, queries: int, tally: Tally, faults: TextIO) -> None:
    data = random_data(seed)
    with sides(program, data) as (lake, peer):
        mine, theirs = Timed(lake.ask), Timed(peer.api.ask)
        judge = Judge(mine, theirs, data.largest())
        grammar = Grammar(seed)
        for _ in range(queries):
            _one(judge, grammar.question(), seed, tally, faults, (mine, theirs))
        tally.mine_s += mine.seconds
        tally.theirs_s += theirs.seconds


def _one(
    judge: Judge, asked: Question, seed: int, tally: Tally, faults: TextIO, sides: tuple[Timed, Timed]
) -> None:
    tally.asked += 1
    verdict = judge.verdict(asked)
    if verdict is None:
        _count(tally, asked, sides[0].last, sides[1].last, seed, faults)
    elif verdict.explained:
        tally.explained[verdict.why] += 1
    else:
        tally.faults.append((seed, asked, verdict))
        print(shown(seed, asked, verdict), file=faults, flush=True)


def _count(
    tally: Tally, asked: Question, mine: dict[str, Any], theirs: dict[str, Any], seed: int, faults: TextIO
) -> None:
    """What equal answers were like, and what was said beside them."""
    if mine["status"] == "error":
        tally.errors += 1
        if _essence(mine["error"]) != _essence(theirs["error"]):
            tally.notes["error text"] += 1
            print(
                f"ERRORTEXT seed {seed} {asked.text}\n  mine   {mine['error']}\n  theirs {theirs['error']}",
                file=faults,
            )
        return
    tally.empty += mine["data"]["result"] == []
    if spelled := other_texts(mine, theirs):
        tally.notes["number text"] += 1
        print(f"NUMBERTEXT seed {seed} {asked}\n  {spelled[:4]}", file=faults)
    for kind in ("warnings", "infos"):
        if sorted(mine.get(kind, [])) != sorted(theirs.get(kind, [])):
            tally.notes[kind] += 1
            print(
                f"NOTES seed {seed} {asked}\n  mine   {mine.get(kind)}\n  theirs {theirs.get(kind)}",
                file=faults,
            )


def _essence(text: str) -> str:
    """Without what stands around it, and which of several groups is named: theirs come in any order."""
    text = text.removeprefix('invalid parameter "query": ')
    return "duplicate series" if text.startswith("found duplicate series for the match group") else text


def shown(seed: int, asked: Question, verdict: Verdict) -> str:
    times = f"--start {asked.start_ms} --end {asked.end_ms} --step {asked.step_ms}"
    return f"FAULT seed {seed} {times}\n  query {asked.text}\n  part  {verdict.part}\n  {verdict.why}"


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the peers too
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promql.fuzz", description=__doc__)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1, help="the first one; each has a thousand queries")
    parser.add_argument("--peers", type=Path, default=DEFAULT_FOLDER, help="folder of their programs")
    parser.add_argument("--faults", type=Path, help="write every difference here as it is found")
    parser.add_argument("--query", help="ask this alone, with --start, --end, --step in milliseconds")
    parser.add_argument("--start", type=int, default=BASE_MS)
    parser.add_argument("--end", type=int, default=BASE_MS + 3_600_000)
    parser.add_argument("--step", type=int, default=0)
    options = parser.parse_args()
    program = binary(options.peers, PROMETHEUS)
    if program is None:
        print(f"no {PROMETHEUS} in {options.peers}: nothing to compare with")
        return 2
    if options.query:
        return _single(program, options)
    tally = Tally()
    began = time.perf_counter()
    with open(options.faults, "a") if options.faults else sys.stdout as faults:  # noqa: PTH123
        for seed in itertools.count(options.seed):
            left = options.queries - tally.asked
            if left <= 0:
                break
            run(program, seed, min(left, PER_SEED), tally, faults)
            print(f"seed {seed}: {_summary(tally, time.perf_counter() - began)}", file=sys.stderr, flush=True)
    print(f"promql-fuzz: {_summary(tally, time.perf_counter() - began)}")
    return 1 if tally.faults else 0


def _single(program: Path, options: argparse.Namespace) -> int:
    data = random_data(options.seed)
    asked = Question(options.query, options.start, options.end, options.step)
    with sides(program, data) as (lake, peer):
        at = asked.text, asked.start_ms, asked.end_ms, asked.step_ms
        print(f"ours   {lake.ask(*at)}\ntheirs {peer.api.ask(*at)}")
        verdict = Judge(lake.ask, peer.api.ask, data.largest()).verdict(asked)
    print("the same" if verdict is None else f"explained={verdict.explained} {verdict.why}\n  {verdict.part}")
    return 0 if verdict is None or verdict.explained else 1


def _summary(tally: Tally, seconds: float) -> str:
    explained = ", ".join(f"{why} {count}" for why, count in tally.explained.items()) or "none"
    beside = ", ".join(f"{kind} {count}" for kind, count in tally.notes.items()) or "none"
    return (
        f"{tally.asked} queries in {seconds:.0f} s, {tally.errors} errors on both sides, "
        f"{tally.empty} empty, "
        f"{len(tally.faults)} unexplained; explained: {explained}; other texts: {beside}; "
        f"ours {tally.mine_s:.0f} s, theirs {tally.theirs_s:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
