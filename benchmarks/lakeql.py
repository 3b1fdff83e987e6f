"""P29: 20 SQL statements over log rows against DuckDB on the same plain files, answers compared first.

    python -m benchmarks.lakeql [--quick] [--json OUT]

Lakerunner answers over HTTP from an API process and two workers; DuckDB reads the files in this process, with
as many threads as there are cores, by their physical columns. Rounds are interleaved. Bytes over the wire are
those of the workers' answers.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.logql.corpus import DAY_NS, START_NS, parts
from benchmarks.logql.lake import KEY, LakeWriter, admit
from benchmarks.promql.ours import Ours
from benchmarks.report import Record, tell
from benchmarks.tiers.scratch import scratch_server

MUST, AIM = 1.2, 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    rows: int
    segments: int
    rounds: int


QUICK, FULL = Plan(1_000_000, 20, 3), Plan(10_000_000, 100, 5)
STATEMENTS = {
    "count": "SELECT count(*) FROM logs",
    "count where": "SELECT count(*) FROM logs WHERE severity = 'ERROR'",
    "aggregates": "SELECT sum(severity_number), avg(severity_number), count(*) FROM logs",
    "distinct hosts": "SELECT count(DISTINCT attr_host) FROM logs",
    "extent": "SELECT min(timestamp), max(timestamp) FROM logs",
    "by severity": "SELECT severity, count(*) AS n FROM logs GROUP BY 1 ORDER BY n DESC, 1",
    "by service": (
        "SELECT resource_service_name, count(*) AS n FROM logs GROUP BY 1 ORDER BY n DESC, 1 LIMIT 10"
    ),
    "by service and severity": (
        "SELECT resource_service_name, severity, count(*) AS n, avg(severity_number) FROM logs "
        "GROUP BY 1, 2 ORDER BY n DESC, 1, 2 LIMIT 10"
    ),
    "by host": "SELECT attr_host, count(*) AS n FROM logs GROUP BY 1 ORDER BY n DESC, 1 LIMIT 10",
    "by minute": (
        "SELECT date_trunc('minute', timestamp) AS m, count(*) FROM logs GROUP BY 1 ORDER BY 1 LIMIT 100"
    ),
    "by hour and severity": (
        "SELECT date_trunc('hour', timestamp) AS h, severity, count(*) FROM logs GROUP BY 1, 2 ORDER BY 1, 2"
    ),
    "by template": (
        "SELECT fingerprint, count(*) AS n, min(message) FROM logs GROUP BY 1 ORDER BY n DESC, 1 LIMIT 10"
    ),
    "substring": "SELECT count(*) FROM logs WHERE message LIKE '%status=404%'",
    "substring by service": (
        "SELECT resource_service_name, count(*) AS n FROM logs WHERE message LIKE '%status=404%' "
        "GROUP BY 1 ORDER BY n DESC, 1 LIMIT 10"
    ),
    "regex": "SELECT count(*) FROM logs WHERE regexp_matches(message, 'status=40[34]')",
    "length of lines": (
        "SELECT resource_service_name, avg(length(message)) AS l, count(*) FROM logs "
        "GROUP BY 1 HAVING count(*) > 100 ORDER BY l DESC, 1 LIMIT 10"
    ),
    "last lines": "SELECT timestamp, message FROM logs ORDER BY timestamp DESC, message LIMIT 10",
    "last errors": (
        "SELECT timestamp, message FROM logs WHERE severity = 'ERROR' AND message LIKE '%status=404%' "
        "ORDER BY timestamp DESC, message LIMIT 10"
    ),
    "one host": "SELECT severity, count(*) FROM logs WHERE attr_host = 'host-007' GROUP BY 1 ORDER BY 1",
    "an hour": (
        "SELECT severity, count(*) FROM logs "
        "WHERE timestamp >= {hour} AND timestamp < {hour} + INTERVAL '1 hour' "
        "GROUP BY 1 ORDER BY 1"
    ),
}
VIEW = """
CREATE VIEW logs AS SELECT make_timestamp(chq_tsns // 1000) AS timestamp, log_level AS severity,
  log_severity_number AS severity_number, log_message AS message, chq_fingerprint AS fingerprint,
  resource_service_name, attr_host
FROM read_parquet([{files}])
"""


def measure(plan: Plan) -> list[Record]:
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="lakerunner-lakeql-")))
        index, dsn = opened.enter_context(scratch_server())("lakeql")
        admit(index)
        writer = LakeWriter(folder / "lake", index)
        for part in parts(plan.rows, plan.segments):
            writer.add(part)
        files = ", ".join(f"'{path}'" for path in sorted((folder / "lake").rglob("*.parquet")))
        peer = duckdb.connect()
        peer.execute(f"SET threads = {os.cpu_count()}")
        peer.execute(VIEW.format(files=files))
        ours = Ours(folder / "ours", folder / "lake", dsn)
        ours.start()
        opened.callback(ours.stop)
        records, ratios = [], []
        for name, text in STATEMENTS.items():
            statement = text.format(hour=f"make_timestamp({(START_NS + 36_000 * 10**9) // 1000})")
            records.append(_compare(name, statement, ours, peer, plan.rounds))
            ratios.append(records[-1].value or math.nan)
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        counters = {
            "rows": writer.rows, "segments": writer.segments, "lake_bytes": writer.bytes,
            "pss_mb": ours.proportional_bytes() >> 20, "load": os.getloadavg()[0],
        }  # fmt: skip
        what = "20 statements against DuckDB on the same files, geometric mean of times"
        return [
            Record("P29", what, mean, "times", MUST, AIM, mean <= MUST, "duckdb", counters=counters),
            *records,
        ]


def _compare(name: str, statement: str, ours: Ours, peer: duckdb.DuckDBPyConnection, rounds: int) -> Record:
    mine, theirs, cpu, peer_cpu = [], [], [], []
    for number in range(rounds + 1):
        before, began = ours.cpu_ms(), time.perf_counter()
        answer = ask(ours.port, statement)
        took = 1000 * (time.perf_counter() - began)
        used = ours.cpu_ms() - before
        peer_before, began = time.process_time(), time.perf_counter()
        rows = peer.execute(statement).fetchall()
        peer_took = 1000 * (time.perf_counter() - began)
        peer_used = 1000 * (time.process_time() - peer_before)
        if number == 0:
            check(name, answer["rows"], rows)
            continue
        mine.append(took)
        theirs.append(peer_took)
        cpu.append(used)
        peer_cpu.append(peer_used)
    value, other = statistics.median(mine), statistics.median(theirs)
    print(
        f"{name}: Lakerunner {value:.1f} ms, DuckDB {other:.1f} ms, {value / other:.2f}; "
        f"CPU {statistics.median(cpu):.0f} / {statistics.median(peer_cpu):.0f} ms",
        flush=True,
    )
    counters = {"ms": round(value, 1), "duckdb_ms": round(other, 1), "cpu_ms": round(statistics.median(cpu))}
    return Record(f"P29-{name.replace(' ', '-')}", name, value / other, "times", counters=counters)


def ask(port: int, statement: str) -> dict[str, Any]:
    body = json.dumps({"q": statement, "s": str(START_NS - DAY_NS), "e": str(START_NS + 2 * DAY_NS)})
    headers = {"Api-Key": KEY, "Content-Type": "application/json", "Accept": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("POST", "/api/v1/query", body, headers)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{statement}: {answer.status} {text[:500]!r}")
    found: dict[str, Any] = json.loads(text)
    return found


def check(name: str, mine: list[list[Any]], theirs: list[tuple[Any, ...]]) -> None:
    """Compare rows; times are compared by their text, numbers within rounding."""
    if len(mine) != len(theirs) or not all(
        _same(a, b) for row, other in zip(mine, theirs, strict=True) for a, b in zip(row, other, strict=True)
    ):
        raise RuntimeError(f"{name}: {mine[:3]} against {theirs[:3]}")


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, float):
        return math.isclose(mine, theirs, rel_tol=1e-9)
    if hasattr(theirs, "isoformat"):
        return bool(str(mine)[:19] == theirs.isoformat()[:19])
    return bool(str(mine) == str(theirs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a million rows, fewer rounds")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    tell("lakeql", measure(QUICK if args.quick else FULL), args.json)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
