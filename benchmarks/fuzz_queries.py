"""Random queries of both languages, well-formed and spoiled, through plan, evaluation and rendering.

    python -m benchmarks.fuzz_queries --cases 200000 --seed 1 --resume /tmp/queries.state

Nothing is compared with anybody: a query may have any answer or any declared error, but no status of 500 and
no exception. Each seed is a lake of other data and a thousand queries; the file of `--resume` keeps which
seeds are done and what they found, so that a run may be cut off. A fault is repeated by its seed and text.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.logql.against_data import WORDS
from benchmarks.logql.fuzz_queries import Queries
from benchmarks.promql.fuzz_queries import Grammar
from benchmarks.small_lake import Outcome, SmallLake, Times
from benchmarks.systematic_queries import promql_calls, promql_operators

PER_SEED = 1_000
SLOW_S = 2.0
PIECES = (
    *"{}()[],|=<>!~+-*/%^.;'\"`#$@:5\\\0\x7f",
    *(
        "offset",
        "@",
        "start()",
        "end()",
        "step()",
        "range()",
        "bool",
        "on ()",
        "ignoring (job)",
        "group_left",
    ),
    *(
        "by (job)",
        "without ()",
        "and",
        "or",
        "unless",
        "atan2",
        "</",
        ">/",
        "fill(1)",
        "anchored",
        "smoothed",
    ),
    *("[5m]", "[5m:]", "[5m:1s]", "[1e3]", "[0]", "[-5m]", "[100y]", "1e308", "-1e308", "NaN", "Inf", "-Inf"),
    *(
        "9223372036854775808",
        "0x8000000000000000",
        "1e-320",
        "07",
        "1_000",
        "1" * 400,
        "0." + "0" * 400 + "1",
    ),
    *("info(temp)", "absent(size)", "vector(1)", "time()", "sum(", "rate(", '"\\xff"', '"é"', "é", "\u2028"),
    *("sort_by_label(temp,", "count_values(", "quantile(", "label_replace(", "histogram_quantile("),
)
"""Pieces of PromQL, and a few of nothing."""


@dataclass(slots=True)
class State:
    """Findings of a run, kept in the file of `--resume`."""

    next_seed: int
    cases: int = 0
    answers: int = 0
    seconds: float = 0.0
    codes: Counter[str] = field(default_factory=Counter)
    faults: list[dict[str, object]] = field(default_factory=list)
    slow: list[tuple[float, int, str]] = field(default_factory=list)

    def save(self, path: Path | None) -> None:
        if path is not None:
            path.write_text(json.dumps({**asdict(self), "codes": dict(self.codes)}))

    @classmethod
    def load(cls, path: Path | None, seed: int) -> State:
        if path is None or not path.exists():
            return cls(seed)
        known = json.loads(path.read_text())
        return cls(**{**known, "codes": Counter(known["codes"])})


@dataclass(frozen=True, slots=True)
class Case:
    language: str
    text: str
    at: Times


def cases(seed: int, count: int) -> Iterator[Case]:
    """Yield the queries of a seed: of three, one is spoiled."""
    chance = random.Random(seed)
    grammar, queries = Grammar(seed), Queries(seed, WORDS)
    systematic = [*promql_operators(), *promql_calls(chance, 200)]
    for _ in range(count):
        kind = chance.random()
        if kind < 0.45:
            text = grammar.any(chance.randint(1, 4))
            language = "promql"
        elif kind < 0.55:
            text, language = chance.choice(systematic), "promql"
        else:
            text, language = queries.any_query(), "logql"
        if chance.random() < 1 / 3:
            text = spoil(chance, text) if language == "promql" else queries.spoiled(text)
        yield Case(language, text, _times(chance))


def spoil(chance: random.Random, text: str) -> str:
    """Cut, double, exchange or insert something at one to three places."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        at, to = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        to = min(to, at + chance.choice((1, 3, 20)))
        kind = chance.randrange(4)
        piece = ("", text[at:to] * 2, chance.choice(PIECES), chance.choice(PIECES) + text[at:to])[kind]
        text = text[:at] + piece + text[to:]
    return text


def _times(chance: random.Random) -> Times:
    end = chance.choice((0, 60_000, 600_000, 601_123, 3_600_000))
    if chance.random() < 0.5:
        return Times(end, end, 0)
    step = chance.choice((1_000, 15_000, 60_000, 77_000, 600_000))
    return Times(max(0, end - step * chance.randrange(1, 60)), end, step)


def run_seed(seed: int, count: int, state: State) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="lakerunner-queries-") as folder,
        SmallLake(Path(folder), seed) as lake,
    ):
        for case in cases(seed, count):
            began = time.process_time()
            found = (
                lake.promql(case.text, case.at)
                if case.language == "promql"
                else lake.logql(case.text, case.at)
            )
            _count(state, seed, case, found, time.process_time() - began)


def _count(state: State, seed: int, case: Case, found: Outcome, seconds: float) -> None:
    state.cases += 1
    state.seconds += seconds
    state.codes[found.code or "answered"] += 1
    if found.is_unexplained:
        state.faults.append({"seed": seed, **asdict(case), "message": found.message})
        print(f"FAULT seed {seed} {case.language} {case.text!r} {case.at}\n{found.message}", flush=True)
    if seconds > SLOW_S:
        state.slow.append((round(seconds, 1), seed, case.text))
        print(f"SLOW {seconds:.1f} s, seed {seed} {case.language} {case.text!r} {case.at}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz_queries", description=__doc__)
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1, help="the first one; each has a thousand queries")
    parser.add_argument("--resume", type=Path, help="keep the state here, and go on where it ends")
    options = parser.parse_args(arguments)
    state = State.load(options.resume, options.seed)
    while state.cases < options.cases:
        run_seed(state.next_seed, min(PER_SEED, options.cases - state.cases), state)
        state.next_seed += 1
        state.save(options.resume)
        print(f"seed {state.next_seed - 1}: {_summary(state)}", file=sys.stderr, flush=True)
    print(_summary(state))
    return 1 if state.faults else 0


def _summary(state: State) -> str:
    codes = ", ".join(f"{code} {count}" for code, count in state.codes.most_common())
    return (
        f"{state.cases} queries, {len(state.faults)} faults, {len(state.slow)} slow, "
        f"{state.cases / max(state.seconds, 1e-9):.0f} a CPU second; {codes}"
    )


if __name__ == "__main__":
    sys.exit(main())
