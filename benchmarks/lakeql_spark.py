"""A statement whose rows do not fit into the query API is handed over to Spark; its memory is measured.

    python -m benchmarks.lakeql_spark [--rows 30000000] [--json OUT]

The API has 512 MB for SQL (`query_sql_memory_mb`). With 30 million rows the hand-over happens by itself; with
fewer the statement asks for it. The answer is compared with DuckDB's over the same files.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.lakeql import VIEW, check
from benchmarks.logql.corpus import DAY_NS, START_NS, parts
from benchmarks.logql.lake import KEY, LakeWriter, admit
from benchmarks.promql.ours import Ours
from benchmarks.report import Record, tell
from benchmarks.tiers.scratch import scratch_server
from lakerunner_query.coordinator.lakeql_scans import MOST_BYTES
from resources.settings import Settings
from tests.support.stack_fixture import start_stack, stop_stack

STATEMENT = (
    "SELECT attr_host, severity, count(*) AS n, median(severity_number) AS middle, "
    "min(timestamp) AS first, max(timestamp) AS last FROM logs GROUP BY 1, 2 ORDER BY 1, 2"
)
"""A median has no parts: every row travels."""
ROW_BYTES = 44
"""Bytes by which the API estimates a row of the statement."""
ROWS_PER_SEGMENT = 300_000
MEMORY_MB = 512


def measure(rows: int) -> list[Record]:
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="lakerunner-spark-")))
        index, dsn = opened.enter_context(scratch_server())("spark")
        admit(index)
        writer = LakeWriter(folder / "lake", index)
        for part in parts(rows, max(1, rows // ROWS_PER_SEGMENT)):
            writer.add(part)
        spark = start_stack(folder / "spark", ("spark",))
        opened.callback(stop_stack, folder / "spark")
        where = {"spark_remote": spark.spark_remote, "spark_token": spark.spark_token}
        ours = Ours(folder / "ours", folder / "lake", dsn, store={**where, "query_sql_memory_mb": MEMORY_MB})
        ours.start()
        opened.callback(ours.stop)
        opened.enter_context(_driver(replace(spark, lake_url=(folder / "lake").as_uri(), index_dsn=dsn)))
        goes_by_itself = rows * ROW_BYTES > MOST_BYTES
        before, began = _peak_mb(ours), time.perf_counter()
        answer, job_id = _ask(ours.port, "auto" if goes_by_itself else "spark")
        took, after = time.perf_counter() - began, _peak_mb(ours)
        if not job_id:
            raise RuntimeError("the statement was not handed over")
        files = ", ".join(f"'{path}'" for path in sorted((folder / "lake" / "db").rglob("*.parquet")))
        peer = duckdb.connect()
        peer.execute(VIEW.format(files=files))
        check("spark", answer["rows"], peer.execute(STATEMENT).fetchall())
    counters = {
        "rows": rows, "seconds": round(took, 1), "rows_per_second": round(rows / took), "api_peak_mb": after,
        "api_peak_before_mb": before, "by_itself": goes_by_itself, "load": os.getloadavg()[0],
        **answer["stats"],
    }  # fmt: skip
    what = f"{rows} rows handed over, peak memory of the query API in MB"
    return [
        Record("P29-spark", what, after, "MB", MEMORY_MB, MEMORY_MB, after <= MEMORY_MB, counters=counters)
    ]


class _driver:  # noqa: N801 - used as a function
    """Run a `query-jobs` process while the block runs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __enter__(self) -> None:
        code = (
            "from lakerunner_query.handover.process import serve; "
            "from resources.settings import Settings; serve(Settings.load())"
        )
        environment = {**os.environ, **self._settings.child_environment()}
        self._process = subprocess.Popen([sys.executable, "-c", code], env=environment)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)


def _peak_mb(ours: Ours) -> int:
    """Return the greatest resident size that the API process had; it was started last."""
    status = Path(f"/proc/{ours.worker(-1).pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) >> 10


def _ask(port: int, engine: str) -> tuple[dict[str, Any], str]:
    times = {"s": str(START_NS - DAY_NS), "e": str(START_NS + 2 * DAY_NS)}
    body = json.dumps({"q": STATEMENT, **times, "engine": engine})
    headers = {"Api-Key": KEY, "Content-Type": "application/json", "Accept": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1800)
    try:
        connection.request("POST", "/api/v1/query", body, headers)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status} {text[:500]!r}")
    return json.loads(text), answer.getheader("X-Lakerunner-Query-Id") or ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    tell("lakeql_spark", measure(args.rows), args.json)


if __name__ == "__main__":
    main()
