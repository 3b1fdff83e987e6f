"""P18: from the text of a query to its segments, with 10 thousand to a million segments in the index.

    .venv/bin/python -m benchmarks.planner [--quick] [--json planner.json]

One PostgreSQL of its own grows from size to size. Half of the segments belong to the organisation that asks;
each holds ten services of one hour and a hundred terms. Queries name one service, some of them an
environment, over an hour to a week at any time, and match at most 200 segments. A match is right if the
segment holds a stream that satisfies all matchers.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from pathlib import Path
from typing import Any, cast

import psycopg

from benchmarks.report import Record, tell
from benchmarks.tiers.scratch import scratch_server
from lakerunner_query.coordinator.engine import Engine, Limits
from lakerunner_query.coordinator.languages import LOG_LINES
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.fairness import Admission
from lakerunner_query.plan.logql import LogLinesRequest
from resources.index.postgres import PostgresIndex
from resources.lake.terms import term
from resources.lake.timecut import DAY_NS, HOUR_NS, SECOND_NS

SIZES, QUICK = (10_000, 100_000, 1_000_000), (10_000, 50_000)
END_NS = 1_767_225_600 * SECOND_NS
PER_HOUR = 24
"""Segments of an organisation's hour."""
SERVICES, OF_SEGMENT, TERMS = 240, 10, 100
STAGING_EVERY = 40
"""One segment in so many has half of its services in staging, too."""
MOST = 200
MUST_MS, MUST_SHARE = 50.0, 0.8
AIMS_MS = {10_000: 3.0, 100_000: 5.0, 1_000_000: 10.0}
FILL = """
INSERT INTO lakerunner.segment (
    segment_id, key, org_id, collector, signal, dataset, frequency_ms, dateint, hour_ns, width_ns, min_ns,
    max_ns, rows, bytes, level, format_version, sort_version, terms, label_names, metric_names, series_offset,
    series_length, bloom_offset, bloom_length, batch_id, settled
)
SELECT
    md5(n::text), 'db/' || n, CASE WHEN n %% 2 = 0 THEN 'acme' ELSE 'org-' || n %% 19 END, 'c', 'logs',
    'logs', 0, 20260101, hour_ns, {hour}, hour_ns + 1, hour_ns + {hour} - n %% 1000, 50000, 4000000, 1, 1, 1,
    (
        SELECT array_agg(t) FROM (
            SELECT (%(services)s::bigint[])[1 + (n / 2 * {of_segment} + s) %% {services}] AS t
            FROM generate_series(0, {of_segment} - 1) AS s
            UNION ALL SELECT %(prod)s::bigint
            UNION ALL SELECT %(staging)s::bigint WHERE n / 2 %% {staging_every} = 0
            UNION ALL SELECT ('x' || substr(md5(n || '/' || r), 1, 16))::bit(64)::bigint
            FROM generate_series(1, {others}) AS r
        ) AS them
    ),
    '{{service_name,env,pod}}', '{{}}', 1000, 1000, 2000, 1000, %(batch)s, true
FROM (
    SELECT n, {end} - (1 + n / 2 / {per_hour})::bigint * {hour} AS hour_ns
    FROM generate_series(%(first)s::int, %(last)s::int - 1) AS n
) AS numbered
"""


def service_of(number: int) -> str:
    return f"svc-{number}"


def fill(dsn: str, first: int, last: int) -> None:
    """Grow the index to `last` segments."""
    statement = FILL.format(
        hour=HOUR_NS, of_segment=OF_SEGMENT, services=SERVICES, staging_every=STAGING_EVERY,
        others=TERMS - OF_SEGMENT - 2, end=END_NS, per_hour=PER_HOUR,
    )  # fmt: skip
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        found = connection.execute("SELECT min(batch_id) FROM lakerunner.batch").fetchone()
        values = {
            "services": [term("service_name", service_of(number)) for number in range(SERVICES)],
            "prod": term("env", "prod"), "staging": term("env", "staging"),
            "batch": found[0] if found else 0, "first": first, "last": last,
        }  # fmt: skip
        for at in range(first, last, 50_000):
            end = min(last, at + 50_000)
            connection.execute(statement.encode(), values | {"first": at, "last": end})
        connection.execute("VACUUM ANALYZE lakerunner.segment")


def prepare(index: PostgresIndex, dsn: str) -> None:
    for org in ("acme", *(f"org-{number}" for number in range(19))):
        index.create_organisation(org)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO lakerunner.batch "
            "(kind, org_id, collector, signal, hour_ns, input_bytes, input_count) "
            "VALUES ('rebuild', 'acme', 'c', 'logs', 0, 0, 0)"
        )


def questions(size: int, count: int, seed: int) -> list[tuple[str, int, bool, LogLinesRequest]]:
    """Return text, number of the service, whether staging is asked for, and the times."""
    chosen, hours = random.Random(seed), max(1, size // 2 // PER_HOUR)
    found = []
    for _ in range(count):
        service, is_staging = chosen.randrange(SERVICES), chosen.random() < 0.1
        env = ', env="staging"' if is_staging else ', env="prod"' if chosen.random() < 0.33 else ""
        width = chosen.choice((HOUR_NS, 6 * HOUR_NS, DAY_NS, 7 * DAY_NS))
        end = END_NS - chosen.randrange(hours) * HOUR_NS
        request = LogLinesRequest("acme", end - width, end, 100)
        found.append((f'{{service_name="{service_of(service)}"{env}}}', service, is_staging, request))
    return found


async def measure(index: PostgresIndex, size: int, count: int) -> list[Record]:
    locator = Locator(cast("Any", index))
    engine = Engine(locator, cast("Any", None), Admission(8), Limits(60.0, max_rows=1000))
    times: list[float] = []
    matched = right = largest = 0
    asked = questions(size, count + 50, size)
    try:
        for number, (text, service, is_staging, request) in enumerate(asked):
            began = time.perf_counter()
            query = await engine.prepare(LOG_LINES, text, request)
            took = (time.perf_counter() - began) * 1000
            segments = query.distinct_segments
            if len(segments) > MOST or number < 50:
                continue
            times.append(took)
            largest = max(largest, len(segments))
            matched += len(segments)
            right += sum(_holds(segment, service, request, is_staging=is_staging) for segment in segments)
    finally:
        locator.close()
    p99 = statistics.quantiles(times, n=100)[98]
    aim = AIMS_MS.get(size)
    counters = {
        "queries": len(times),
        "p50_ms": round(statistics.median(times), 2),
        "max_ms": round(max(times), 2),
        "most_segments": largest,
        "mean_segments": round(matched / len(times), 1),
    }
    precision = right / matched if matched else 1.0
    what = f"from text to segments, p99, {size:,} segments"
    return [
        Record(f"P18-{size}", what, p99, "ms", MUST_MS, aim, ok=p99 <= MUST_MS, counters=counters),
        Record(
            f"P18-precision-{size}", f"matched segments that hold such streams, {size:,} segments", precision,
            "of 1", MUST_SHARE, 0.98, ok=precision >= MUST_SHARE,
        ),
    ]  # fmt: skip


def _holds(segment: Any, service: int, request: LogLinesRequest, *, is_staging: bool) -> bool:
    """Tell whether the segment, as it was made, holds a stream of the query in its range."""
    number = int(segment.key.removeprefix("db/"))
    place = (service - number // 2 * OF_SEGMENT) % SERVICES
    in_range = segment.max_ns >= request.start_ns and segment.min_ns < request.end_ns
    is_there = place < OF_SEGMENT
    if is_staging:
        is_there = number // 2 % STAGING_EVERY == 0 and place < OF_SEGMENT // 2
    return bool(in_range and is_there)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    records: list[Record] = []
    with scratch_server() as make:
        index, dsn = make("planner")
        prepare(index, dsn)
        there = 0
        for size in QUICK if given.quick else SIZES:
            fill(dsn, there, size)
            there = size
            records += asyncio.run(measure(index, size, given.queries))
    tell("planner", records, given.json)


if __name__ == "__main__":
    main()
