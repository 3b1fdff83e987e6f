"""Random rules over random records answer random questions as the records do.

    python -m benchmarks.random_rewrites --questions 2000 --seed 1

Records arrive late, twice and are deleted after they were derived. Reports the share of questions that
derived metrics answered; fails if one is answered otherwise, or if fewer than a twentieth are rewritten.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from lakerunner_query.plan.rewrite import Guards
from resources.index.types import BatchKind, BatchPlan, Publication
from resources.lake.layout import Signal
from tests.support.query.rewriting.lake import ORG, UNPRICED, RuleLake
from tests.support.query.rewriting.random_logs import HOURS, lines, question, rule

LEAST_SHARE = 0.05
QUESTIONS_OF_A_LAKE = 100
RULES = 5


@dataclass
class Tally:
    asked: int = 0
    rewritten: int = 0
    steps: int = 0
    failed_alike: int = 0
    wrong: list[str] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        return self.rewritten / max(1, self.asked)

    def text(self) -> str:
        refused = ", ".join(f"{name} {count}" for name, count in self.refusals.most_common())
        return (
            f"{self.asked} questions, {self.rewritten} rewritten ({self.share:.0%}), {self.steps} steps from"
            f" derived metrics, {self.failed_alike} failed alike, {len(self.wrong)} wrong;"
            f" refused by: {refused}"
        )


def run(
    seed: int, questions: int, folder: Path, guards: Guards = UNPRICED, tally: Tally | None = None
) -> Tally:
    """Ask one lake; its records change between the questions."""
    rng, tally = random.Random(seed), tally or Tally()
    lake = RuleLake(folder)
    try:
        is_clean = rng.random() < 0.7
        sent = [lake.lake.write(ORG, lines(rng, 150, hour, clean=is_clean)) for hour in range(HOURS)]
        lake.lake.write_again(sent[0], rng.choice((0, 1)))
        lake.put(*(rule(rng, number) for number in range(RULES)))
        lake.derive()
        for number in range(questions):
            if number == questions // 3:
                hour = rng.randrange(HOURS)
                late = lake.lake.write(ORG, lines(rng, 20, hour, clean=is_clean))
            elif number == questions // 2:
                lake.derive()
            elif number == questions * 2 // 3:
                delete(lake, late.segment_id, late.hour_ns)
            _ask(lake, rng, guards, tally, seed)
    finally:
        lake.close()
    return tally


def delete(lake: RuleLake, segment_id: str, hour: int) -> None:
    claim = lake.index.create_claimed(BatchPlan(BatchKind.REBUILD, ORG, "default", Signal.LOGS, hour, ()))
    lake.index.publish(Publication(claim, (), retire=(segment_id,), hours=(hour,)))


def _ask(lake: RuleLake, rng: random.Random, guards: Guards, tally: Tally, seed: int) -> None:
    asked = question(rng, lake.metrics)
    times = asked.start_ns, asked.end_ns, asked.step_ns
    found = lake.ask(asked.text, *times, guards=guards)
    expected = lake.ask(asked.text, *times, rewrite=False)
    tally.asked += 1
    tally.rewritten += found.served > 0
    tally.steps += found.served
    tally.failed_alike += bool(expected.error)
    for line in found.lines:
        if ": from records (" in line:
            refusal = line.rpartition(": from records (")[2]
            name = refusal.partition(", ")[2] if refusal.startswith("rule_") else refusal
            tally.refusals[name.partition(":")[0]] += 1
    if difference := found.differs(expected):
        shown = "\n    ".join((asked.text, str(times), difference, *found.lines))
        tally.wrong.append(f"seed {seed}: {shown}")


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--questions", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    tally = Tally()
    for number in range(-(-given.questions // QUESTIONS_OF_A_LAKE)):
        with tempfile.TemporaryDirectory() as folder:
            run(given.seed + number, QUESTIONS_OF_A_LAKE, Path(folder), tally=tally)
        print(tally.text(), flush=True)
        if len(tally.wrong) > 10:
            break
    print("\n".join(tally.wrong[:20]))
    if tally.share < LEAST_SHARE:
        print(f"fewer than {LEAST_SHARE:.0%} of the questions were rewritten")
    return int(bool(tally.wrong) or tally.share < LEAST_SHARE)


if __name__ == "__main__":
    sys.exit(main())
