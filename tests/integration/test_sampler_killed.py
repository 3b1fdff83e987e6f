"""A sampler that is killed again and again decides as one that is not, and loses no kept trace."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.table import Table

from resources.index.postgres import PostgresIndex
from tests.support.redis_server import running_redis
from tests.support.sampler_child import CONFIG, PRELOADED, Child, Sink, decisions_of, run_child, running_sink
from tests.support.span_tables import SpanRow, append, make_table

pytestmark = [pytest.mark.integration, pytest.mark.slow]
COMMITS, TRACES = 16, 6
KILLS = int(os.environ.get("SAMPLER_KILLS", "8"))
"""Processes that are killed; 21 at most, more would need more commits."""
LIFE_S = 600.0


def fill(table: Table, seed: int) -> None:
    """Append commits of ten seconds each; some traces fail, some grow after they were decided."""
    chance = random.Random(seed)
    for number in range(COMMITS):
        rows = []
        for trace in range(number * TRACES + 1, (number + 1) * TRACES + 1):
            at = number * 10 + chance.random() * 10
            rows += [
                SpanRow(trace * 7919 << 70 | trace, span, at + span / 10, error=chance.random() < 0.05)
                for span in range(1, chance.randint(2, 5))
            ]
        for trace in chance.sample(range(1, max(number - 3, 1) * TRACES), 3 if number > 3 else 0):
            error = chance.random() < 0.5
            rows.append(SpanRow(trace * 7919 << 70 | trace, 100 + number, number * 10, error=error))
        append(table, *rows)


def config(folder: Path, name: str, sink: Sink, redis_url: str) -> Path:
    path = folder / f"{name}.yaml"
    exports = f'{{name: otlp, type: otlp_http, url: "{sink.url(name)}"}}'
    path.write_text(CONFIG.format(folder=folder, name=name, redis=redis_url, exports=exports))
    return path


def test_kills_change_nothing(tmp_path: Path, postgres_index: PostgresIndex, index_dsn: str) -> None:
    postgres_index.create_organisation("acme")
    postgres_index.create_organisation("other")
    fill(make_table(tmp_path), 11)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)

    def live(child: Child) -> int:
        process = context.Process(target=run_child, args=(child,))
        process.start()
        process.join(LIFE_S)
        assert process.exitcode is not None, "the sampler does not get on"
        return process.exitcode

    with running_sink() as sink, running_redis(tmp_path) as redis:
        quiet = config(tmp_path, "quiet", sink, f"{redis.url}?db=1")  # or each would leave the other's traces
        assert live(Child(index_dsn, tmp_path, quiet, COMMITS)) == 0
        path, chance, kills = config(tmp_path, "killed", sink, redis.url), random.Random(5), 0
        while kills < KILLS:
            exit_code = live(Child(index_dsn, tmp_path, path, COMMITS, chance.randint(1, 14)))
            assert exit_code in {0, -9}
            if exit_code == 0:
                break
            kills += 1
        assert kills >= KILLS - 1, "more commits are needed for so many kills"
        assert live(Child(index_dsn, tmp_path, path, COMMITS)) == 0
        expected, found = sink.spans["quiet"], sink.spans["killed"]
    assert set(expected) == set(found), "no kept span is lost, and no other one came"
    assert set(expected.values()) == {1}
    again = Counter(trace for (trace, _), count in found.items() if count > 1)
    print(f"{kills} kills: {len(again)} of {len({t for t, _ in found})} traces came again")
    assert max(found.values()) <= 1 + kills
    decided, undisturbed = decisions_of(index_dsn, "killed"), decisions_of(index_dsn, "quiet")
    same = ["trace_id", "is_kept", "policy", "spans", "probability", "first"]
    assert decided.select(same).equals(undisturbed.select(same))
    assert decided.num_rows >= COMMITS * TRACES / 2
