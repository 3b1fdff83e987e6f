"""Questions in PromQL and LogQL, and the lake that they are about; two doors are asked each of them."""

from __future__ import annotations

import json
import random
from pathlib import Path

from benchmarks.promql.fuzz_data import BASE_MS, random_data
from benchmarks.promql.fuzz_lake import sample_rows
from benchmarks.promql.samples import Sampled
from lakerunner_query.vectors.vector import Labels
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.golden.lake_source import sample_table
from tests.golden.memory_source import Sample
from tests.support.query.lake import BASE, Entry, Lake
from tests.support.query.metric_lake import publish

SEED = 7
MINUTES = 70
"""Length of the data, which begins at BASE."""
NS_PER_MS = 1_000_000
CASES = Path(__file__).parents[2] / "golden" / "cases" / "doors"


def expressions(language: str) -> list[str]:
    """Return the questions of a file, one a line."""
    lines = (CASES / f"{language}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def write_samples(lake: Lake, org: str) -> None:
    """Write series of every kind: resets, stale markers, odd numbers, native histograms."""
    for part in range(0, MINUTES, 60):
        low, high = BASE_MS + part * 60_000 - 1, BASE_MS + min(part + 60, MINUTES) * 60_000 - 1
        cut = [one.between(low, high) for one in random_data(SEED).series]
        rows = [row for one in cut if len(one.time_ms) for row in _rows(one)]
        publish(lake, org, [sample_table(rows)], BASE + part * 60 * SECOND_NS)


def _rows(one: Sampled) -> list[tuple[Labels, Sample]]:
    if one.histograms is not None:
        return sample_rows(one)
    pairs = zip(one.time_ms.tolist(), one.value.tolist(), strict=True)
    return [(one.labels, Sample(at, number)) for at, number in pairs]


def write_lines(lake: Lake, org: str) -> None:
    """Write lines of three services, with metadata, and some of them twice."""
    rng = random.Random(SEED)
    for hour in range(2):
        streams: dict[tuple[str, str], list[Entry]] = {}
        for _ in range(240):
            at = BASE + hour * HOUR_NS + rng.randrange(min(60, MINUTES - 60 * hour) * 60 * SECOND_NS)
            app, env = rng.choice(("web", "web", "api", "db")), rng.choice(("prod", "dev"))
            metadata = {"trace": f"t{rng.randrange(4)}"} if rng.random() < 0.5 else {}
            if rng.random() < 0.3:
                metadata |= {"pod": f"p{rng.randrange(3)}", "env": "metadata's own"}
            entry = (at, _line(rng, app), metadata)
            streams.setdefault((app, env), []).extend([entry] * rng.choice((1, 1, 1, 2)))
        lake.push(org, [({"app": app, "env": env}, entries) for (app, env), entries in streams.items()])


def _line(rng: random.Random, app: str) -> str:
    number = rng.randrange(100)
    if app == "api":
        user = {"name": rng.choice(("ann", "bob", 'ünï "q"')), "id": number % 7}
        found = json.dumps({"user": user, "tags": ["a", number], "_entry": f"entry {number}", "env": "inner"})
        return found if rng.random() < 0.9 else found[:-5]
    if app == "db":
        return rng.choice(("\x1b[31mred\x1b[0m alert", "plain\ttab", "two\nlines", ""))
    status, verb = rng.choice((200, 404, 500)), rng.choice(("GET", "POST"))
    rest = f"took={number}ms size={number * 37}B ip_=10.0.0.{number % 8} took {number}ms"
    word = rng.choice(("error", "fine", "it's"))
    return f"{word} method={verb} status={status} {rest}"
