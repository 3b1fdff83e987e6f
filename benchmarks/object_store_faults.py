"""Random queries on files, and on S3 where a tenth of all ranges fails: no answer is short in silence.

    python -m benchmarks.object_store_faults --queries 10000 --seed 1

Queries are of both languages. One lake and one index; workers of their own read the folder, and the same
folder as a bucket behind the fault proxy. These keep hardly anything and try a request twice. An answer from
S3 is `right` (as on files), `partial` and says so, or an `error`. Anything else is a fault, printed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from litestar.testing import TestClient

from benchmarks.ingest.peers import DEFAULT_FOLDER, binary
from benchmarks.logql.against_data import SPAN_NS, START_NS, WORDS, generated
from benchmarks.logql.fuzz_queries import Queries
from benchmarks.promql.fuzz_data import BASE_MS, random_data
from benchmarks.promql.fuzz_lake import sample_rows
from benchmarks.promql.fuzz_queries import Grammar
from benchmarks.promql.samples import Sampled, labels_of
from lakerunner_query.app import create_app
from resources.lake.timecut import HOUR_NS, cut
from resources.settings import Settings
from tests.golden.engine_lake import gauge_table
from tests.golden.lake_source import sample_table
from tests.support.query.homes import USUAL, lakes_on_s3
from tests.support.query.lake import Lake, start_workers
from tests.support.query.metric_lake import publish
from tests.support.s3_server import moto, versitygw
from tests.support.slow_store import Conditions, SlowStore

ORG = KEY = "fuzz"
NS_PER_MS = 1_000_000
PROM, LOKI = "/prometheus/api/v1/query_range", "/loki/api/v1/query_range"
NOISE_LINES, NOISE_SAMPLES = 6_000, 150_000
"""Rows beside those that are asked for, in one segment each: beyond a megabyte it is read by range."""
FEW = {"cache_max_bytes": 256 << 10, "worker_answers_mb": 0, "worker_memory_mb": 128}
"""Settings of workers that read nearly everything again for every query."""


@dataclass
class Tally:
    """Outcomes, and what contradicts them."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    requests: int = 0
    injected: int = 0

    @property
    def queries(self) -> int:
        return self.outcomes.total()

    def line(self) -> str:
        found = " ".join(f"{name}={self.outcomes[name]}" for name in ("right", "partial", "error"))
        return f"{found} faults={len(self.faults)} requests={self.requests} injected={self.injected}"


@dataclass(frozen=True, slots=True)
class Question:
    path: str
    values: dict[str, Any]


@dataclass(frozen=True)
class TwoHomes:
    """The same lake on files and on S3."""

    on_files: TestClient[Any]
    on_s3: TestClient[Any]
    proxy: SlowStore

    def run(self, seed: int, count: int, report_every: int = 0) -> Tally:
        """Ask until so many questions had an answer on files."""
        tally = Tally()
        self.proxy.forget_counts()
        for question in questions(seed):
            told = _ask(self.on_files, question)
            if told.status_code != 200:
                continue
            outcome = judge(told, _ask(self.on_s3, question))
            tally.outcomes[outcome] += 1
            if outcome == "fault":
                tally.faults.append(f"seed {seed}: {question}")
                print(tally.faults[-1], flush=True)
            if report_every and tally.queries % report_every == 0:
                print(f"{tally.queries} queries: {tally.line()}", file=sys.stderr, flush=True)
            if tally.queries >= count:
                break
        counts = self.proxy.forget_counts()
        tally.requests, tally.injected = counts.gets(), counts.faults.total()
        return tally


def judge(told: httpx.Response, found: httpx.Response) -> str:
    """Compare an answer from S3 with the one from files."""
    if found.status_code >= 400:
        return "fault" if found.status_code == 500 else "error"
    if found.headers.get("x-lakerunner-partial") == "true":
        return "partial" if any("partial:" in text for text in found.json().get("warnings", ())) else "fault"
    return "right" if _result(found) == _result(told) else "fault"


def questions(seed: int) -> Iterator[Question]:
    """Yield well-formed queries of both languages, some over all rows of the segments."""
    chance, grammar, logs = random.Random(seed), Grammar(seed), Queries(seed, WORDS)
    for number in itertools.count():
        if number % 2:
            end = START_NS + SPAN_NS * chance.randrange(1, 5) // 4
            values = {"query": logs.any_query(), "start": end - SPAN_NS, "end": end, "limit": 200, "step": 30}
            yield Question(LOKI, values)
        else:
            end = BASE_MS // 1000 + chance.randrange(600, 7200)
            values = {"query": grammar.any(chance.randint(1, 3)), "start": end - 900, "end": end, "step": 60}
            yield Question(PROM, values)


@contextmanager
def two_homes(
    folder: Path, seed: int, server: Settings, conditions: Conditions, retries: int
) -> Iterator[TwoHomes]:
    lake = Lake(folder / "lake")
    lake.add_org(ORG, KEY)
    _fill(lake, seed)
    with ExitStack() as opened:
        on_files = _api(opened, lake, folder / "files", retries)
        proxy = opened.enter_context(lakes_on_s3(server, conditions))
        yield TwoHomes(on_files, _api(opened, lake, folder / "s3-workers", retries), proxy)


def _api(opened: ExitStack, lake: Lake, data: Path, retries: int) -> TestClient[Any]:
    workers = start_workers(data, lake.folder, 1, store_max_retries=retries, store_timeout_s=5.0, **FEW)
    stack = next(workers)
    opened.callback(workers.close)
    return opened.enter_context(TestClient(create_app(stack.settings, lake.index)))


def _fill(lake: Lake, seed: int) -> None:
    chance = random.Random(seed)
    streams: dict[tuple[tuple[str, str], ...], list[tuple[int, str, dict[str, str]]]] = {}
    for line in generated(seed, 600):
        streams.setdefault(line.labels, []).append((line.time_ns, line.text, dict(line.metadata)))
    for part in range(3):
        lake.push(ORG, [(dict(labels), rows[part::3]) for labels, rows in streams.items() if rows[part::3]])
    gap = SPAN_NS // NOISE_LINES
    noise = [(START_NS + n * gap + 1, f"noise {chance.randbytes(150).hex()}", {}) for n in range(NOISE_LINES)]
    lake.push(ORG, [({"app": "noise", "env": "prod"}, noise)])
    rng = np.random.default_rng(seed)
    times = BASE_MS + np.sort(rng.choice(3_500_000, NOISE_SAMPLES, replace=False)) + 1
    filler = Sampled(labels_of("noise", job="noise"), times, rng.random(len(times)))
    _fill_samples(lake, [*random_data(seed).series, filler])


def _fill_samples(lake: Lake, series: Sequence[Sampled]) -> None:
    ends = [int(t) * NS_PER_MS for one in series for t in (one.time_ms[0], one.time_ms[-1])]
    for hour in range(cut(min(ends), HOUR_NS), max(ends), HOUR_NS):
        low, high = hour // NS_PER_MS, (hour + HOUR_NS) // NS_PER_MS
        parts = [part for one in series if len((part := one.between(low, high)).time_ms)]
        floats = [(part.labels, part.time_ms, part.value) for part in parts if part.histograms is None]
        if floats:
            publish(lake, ORG, [gauge_table(floats)], hour + 1)
        if rows := [row for part in parts if part.histograms is not None for row in sample_rows(part)]:
            publish(lake, ORG, [sample_table(rows)], hour + 1)


def _ask(client: TestClient[Any], question: Question) -> httpx.Response:
    return client.get(question.path, params=question.values, headers={"Api-Key": KEY})


def _result(answer: httpx.Response) -> str:
    data = answer.json()["data"]
    return json.dumps([data["resultType"], data["result"]], sort_keys=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.object_store_faults", description=__doc__)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--retries", type=int, default=1, help="of workers, for each request")
    parser.add_argument("--peers", type=Path, default=DEFAULT_FOLDER, help="folder of versitygw; else moto")
    options = parser.parse_args()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="lakerunner-faults-") as name:
        program = binary(options.peers, "versitygw")
        with versitygw(program, Path(name) / "s3") if program else moto() as server:
            home = two_homes(Path(name), options.seed, server, USUAL, options.retries)
            with home as homes:
                tally = homes.run(options.seed, options.queries, 500)
    print(f"object_store_faults: queries={tally.queries} {tally.line()}")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
