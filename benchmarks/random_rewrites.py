"""Random rules over random records answer random questions as the records do.

    python -m benchmarks.random_rewrites --language traceql --questions 2000 --seed 1

Records arrive late, twice and are deleted after they were derived. Reports the share of questions that
derived metrics answered; fails if one is answered otherwise, or if fewer than a twentieth are rewritten.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakerunner_query.errors import QueryError
from lakerunner_query.plan import rewrite_logql, rewrite_promql, rewrite_traceql
from lakerunner_query.plan.rewrite import COST, Guards
from resources.index.types import BatchKind, BatchPlan, Publication, Segment, SegmentQuery
from resources.lake.frequency import AS_SENT
from resources.lake.timecut import HOUR_NS
from tests.support.cooking_lake import HOUR
from tests.support.query.rewriting import random_logs, samples, spans
from tests.support.query.rewriting.lake import ORG, RuledLake, RuleLake, without
from tests.support.query.rewriting.samples import SampleLake
from tests.support.query.rewriting.spans import SpanLake

HOURS = 2
LEAST_SHARE = 0.05
QUESTIONS_OF_A_LAKE = 100
RULES = 5


@dataclass
class Tally:
    asked: int = 0
    rewritten: int = 0
    in_part: int = 0
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
            f"{self.asked} questions, {self.rewritten} rewritten ({self.share:.0%}), {self.in_part} of them"
            f" in part, {self.steps} steps from derived metrics, {self.failed_alike} failed alike,"
            f" {len(self.wrong)} wrong; refused by: {refused}"
        )


class Logs:
    """Questions in LogQL."""

    guards = rewrite_logql.GUARDS
    rule = staticmethod(random_logs.rule)
    question = staticmethod(random_logs.question)

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.lake, self.rng, self.is_clean = RuleLake(folder), rng, rng.random() < 0.7
        sent = [self._write(150, hour) for hour in range(HOURS)]
        self.lake.lake.write_again(sent[0], rng.choice((0, 1)))

    def _write(self, count: int, hour: int) -> Segment:
        return self.lake.lake.write(ORG, random_logs.lines(self.rng, count, hour, clean=self.is_clean))

    def late(self, hour: int) -> None:
        self._write(20, hour)

    def options(self) -> Mapping[str, int]:
        return {}


class Spans:
    """Questions in TraceQL."""

    guards = rewrite_traceql.GUARDS
    rule = staticmethod(spans.rule)
    question = staticmethod(spans.question)

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.lake, self.rng, self.is_clean = SpanLake(folder), rng, rng.random() < 0.7
        for hour in range(HOURS):
            self._write(150, hour)

    def _write(self, count: int, hour: int) -> None:
        sent = spans.spans(self.rng, count, hour, clean=self.is_clean)
        for _ in range(self.rng.choice((1, 1, 2))):  # senders repeat what was not acknowledged
            self.lake.write(sent, HOUR + hour * HOUR_NS)

    def late(self, hour: int) -> None:
        self._write(20, hour)

    def options(self) -> Mapping[str, int]:
        """Ask every other question with exemplars."""
        return {"exemplars": self.rng.choice((0, 0, 1, 10, 100))}


class Samples:
    """Questions in PromQL."""

    guards = rewrite_promql.GUARDS
    rule = staticmethod(samples.rule)
    question = staticmethod(samples.question)

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.lake, self.rng = SampleLake(folder), rng
        for hour in range(HOURS):
            samples.write(self.lake, rng, 300, hour)

    def late(self, hour: int) -> None:
        samples.write(self.lake, self.rng, 30, hour)

    def options(self) -> Mapping[str, int]:
        return {}


Language = Logs | Spans | Samples
LANGUAGES: Mapping[str, type[Language]] = {"logql": Logs, "traceql": Spans, "promql": Samples}


def run(
    seed: int,
    questions: int,
    folder: Path,
    language: type[Language] = Logs,
    guards: Guards | None = None,
    tally: Tally | None = None,
) -> Tally:
    """Ask one lake; its records change between the questions.

    Series are derived as the product does it, or bucket by bucket as they are defined.
    """
    rng, tally = random.Random(seed), tally or Tally()
    asked = language(folder, rng)
    derive = asked.lake.derive_as_product if seed % 2 else asked.lake.derive
    try:
        asked.lake.put(*(asked.rule(rng, number) for number in range(RULES)))
        derive()
        known: set[str] = set()
        for number in range(questions):
            if number == questions // 3:
                known, hour = segments(asked.lake), rng.randrange(HOURS)
                asked.late(hour)
            elif number == questions // 2:
                derive()
            elif number == questions * 2 // 3:
                delete(asked.lake, segments(asked.lake) - known)
            _ask(asked, guards or without(COST.name, asked.guards), tally, seed)
    finally:
        asked.lake.close()
    return tally


def segments(lake: RuledLake) -> set[str]:
    return {one.segment_id for one in _live(lake)}


def _live(lake: RuledLake) -> tuple[Segment, ...]:
    query = SegmentQuery(ORG, lake.signal.value, AS_SENT, -(2**62), 2**62)
    return tuple(one for one in lake.index.snapshot((query,)).segments[0] if not one.origin)


def delete(lake: RuledLake, names: set[str]) -> None:
    """Delete what arrived late."""
    for one in _live(lake):
        if one.segment_id in names:
            plan = BatchPlan(BatchKind.REBUILD, ORG, one.collector, lake.signal, one.hour_ns, ())
            claim = lake.index.create_claimed(plan)
            lake.index.publish(Publication(claim, (), retire=(one.segment_id,), hours=(one.hour_ns,)))


def _ask(language: Language, guards: Guards, tally: Tally, seed: int) -> None:
    lake = language.lake
    asked = language.question(language.rng, lake.metrics)
    times = asked.start_ns, asked.end_ns, asked.step_ns
    more = language.options()
    try:
        expected = lake.ask(asked.text, *times, rewrite=False, **more)
    except QueryError:  # no question at all
        return
    found = lake.ask(asked.text, *times, guards=guards, **more)
    tally.asked += 1
    tally.rewritten += found.served > 0
    tally.in_part += any(", in part: " in line for line in found.lines)
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
    arguments.add_argument("--language", choices=LANGUAGES, default="logql")
    given = arguments.parse_args()
    tally = Tally()
    for number in range(-(-given.questions // QUESTIONS_OF_A_LAKE)):
        with tempfile.TemporaryDirectory() as folder:
            language = LANGUAGES[given.language]
            run(given.seed + number, QUESTIONS_OF_A_LAKE, Path(folder), language, tally=tally)
        print(tally.text(), flush=True)
        if len(tally.wrong) > 10:
            break
    print("\n".join(tally.wrong[:20]))
    if tally.share < LEAST_SHARE:
        print(f"fewer than {LEAST_SHARE:.0%} of the questions were rewritten")
    return int(bool(tally.wrong) or tally.share < LEAST_SHARE)


if __name__ == "__main__":
    sys.exit(main())
