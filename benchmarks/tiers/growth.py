"""P20: what stays as quick as it was when ten and a hundred times as much is stored.

Three databases on one server, with 1, 10 and 100 times as many hours of history; the newest hour, its files
and what is unsettled or due are the same in each. Every question is asked of the three in turn, round after
round, so that whatever else the machine does falls on all of them.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg

from benchmarks.ingest.corpus import START_NS
from benchmarks.ingest.corpus.logs import web_logs
from benchmarks.report import Record
from benchmarks.tiers.scratch import Database, scratch_server
from lakerunner_assets.cooked.plan import plan_all_now
from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.engine import Engine, Limits
from lakerunner_query.coordinator.languages import LOG_LINES
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.logql_lines import read_rows
from lakerunner_query.fairness import Admission
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.protocol.tables import encode_answer
from lakerunner_query.protocol.units import LogUnit, Unit
from lakerunner_query.worker.logs.lines import LineScanner
from lakerunner_query.worker.logs.segment_opener import SegmentOpener
from lakerunner_query.worker.shared.block_cache import BlockCache
from lakerunner_query.worker.shared.lake_filesystem import LakeFileSystem
from resources.duckdb import Cancellation, DuckLimits, DuckSession
from resources.index.account_types import StorageProfile
from resources.index.postgres import PostgresIndex
from resources.index.types import BatchKind, Intake, ObjectDone, ObjectNotice, Publication, SegmentQuery
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.cooking_lake import Lake, lake_in

SCALES = (1, 10, 100)
ORGS = 10
SEGMENTS_OF_HOUR = 10
"""Synthetic ones of an organisation's hour: 3 of logs, 3 of traces, 4 of metrics."""
RECORDS = 60_000
MUST, AIM = 1.5, 1.05
INGEST_MUST, INGEST_AIM = 1.15, 1.02
QUERY = '{service_name="svc-1"} |= "status 500"'
FREQUENCIES = (0, *(rollup.frequency_ms for rollup in ROLLUPS))


@dataclass(slots=True)
class Stored:
    """One database and the lake it stands for."""

    lake: Lake
    index: PostgresIndex
    dsn: str
    engine: Engine
    published: int = 0


def measure(hours: int, rounds: int) -> list[Record]:
    """`hours` of history at 1x."""
    with scratch_server() as database, tempfile.TemporaryDirectory(prefix="lakerunner-growth-") as folder:
        stored = [_stored(database, Path(folder), scale, hours) for scale in SCALES]
        counts = {
            f"segments_at_{scale}x": _segments(one.dsn) for scale, one in zip(SCALES, stored, strict=True)
        }
        return [
            _record(identity, what, ask, stored, rounds, counts, ingest=identity.endswith("ingest"))
            for identity, what, ask in QUESTIONS
        ]


def _query(one: Stored) -> int:
    """From text to rows, the worker in this process, its files cached."""
    return asyncio.run(_ask(one.engine))


async def _ask(engine: Engine) -> int:
    wanted = LogLinesRequest("acme", START_NS, START_NS + HOUR_NS, 1000)
    _, collected = await read_rows(engine, await engine.prepare(LOG_LINES, QUERY, wanted))
    return collected.rows


def _view(one: Stored) -> int:
    view = one.index.tier_view("acme", Signal.METRICS, FREQUENCIES, START_NS, START_NS + HOUR_NS)
    return len(view.segments) + len(view.partitions)


def _unsettled(one: Stored) -> int:
    return len(one.index.unsettled(Signal.LOGS))


def _due(one: Stored) -> int:
    return sum(len(one.index.due_partitions(Signal.METRICS, r.frequency_ms)) for r in ROLLUPS)


def _publish(one: Stored) -> int:
    """All statements of one object but those of cooking: registered, batched, claimed, published."""
    one.published += 1
    key = f"otel-raw/acme/c/logs/2026/01/14/12/growth-{one.published:06}.binpb"
    notice = ObjectNotice("raw", key, "acme", "c", Signal.LOGS, START_NS, 1000)
    one.index.take_in(Intake("k", (notice,)))
    one.index.plan_batches(Signal.LOGS, lambda pending: plan_all_now(pending, one.lake.settings))
    (claim,) = one.index.claim_due(Signal.LOGS, BatchKind.COOK, 1)
    (obj,) = claim.inputs
    segment = replace(
        one.index.find_segments(SegmentQuery("acme", "logs", 0, START_NS, START_NS + HOUR_NS))[0],
        segment_id=f"ffff{one.published:028x}", key=f"growth/{one.published}", dataset="growth",
        object_ids=(obj.object_id,), settled=True,
    )  # fmt: skip
    done = ObjectDone(obj.object_id, "", segment.rows, 0, 0, ((START_NS, segment.rows),))
    return len(one.index.publish(Publication(claim, (segment,), done=(done,), hours=(START_NS,))))


Question = tuple[str, str, Callable[[Stored], int]]
QUESTIONS: tuple[Question, ...] = (
    ("P20-query", "a log query over a fixed hour, engine and worker in one process", _query),
    ("P20-view", "tier_view of one hour, all frequencies", _view),
    ("P20-unsettled", "what the planner looks at, all organisations", _unsettled),
    ("P20-due", "due partitions of all rollups", _due),
    ("P20-ingest", "index statements of one object from notification to publication", _publish),
)


def _record(
    identity: str,
    what: str,
    ask: Callable[[Stored], int],
    stored: list[Stored],
    rounds: int,
    counts: dict[str, int],
    *,
    ingest: bool,
) -> Record:
    answers = [ask(one) for one in stored]  # and warm
    if len(set(answers)) > 1:
        raise RuntimeError(f"{identity}: the answers differ with what else is stored: {answers}")
    took: list[list[float]] = [[] for _ in stored]
    for _ in range(rounds):
        for times, one in zip(took, stored, strict=True):
            began = time.perf_counter()
            ask(one)
            times.append(time.perf_counter() - began)
    medians = [statistics.median(times) * 1000 for times in took]
    grown = max(1e-9, medians[-1] / medians[0]) ** (1 / (len(medians) - 1))
    must, aim = (INGEST_MUST, INGEST_AIM) if ingest else (MUST, AIM)
    return Record(
        identity, f"growth per 10x of stored data: {what}", grown, "times",
        must=must, aim=aim, ok=grown <= must,
        counters={
            **counts,
            "median_ms": [round(each, 3) for each in medians],
            "best_ms": [round(min(times) * 1000, 3) for times in took],
            "rows_of_the_answer": answers[0],
            "rounds": rounds,
            "load": round(os.getloadavg()[0], 2),
        },
    )  # fmt: skip


def _stored(database: Database, folder: Path, scale: int, hours: int) -> Stored:
    index, dsn = database(f"times{scale}")
    home = folder / str(scale)
    home.mkdir()
    lake = replace(lake_in(home), index=index)  # type: ignore[arg-type]
    index.create_organisation("acme")
    index.put_storage_profile(StorageProfile("raw", f"file://{home}/raw"))
    for number, data in enumerate(web_logs(RECORDS, seed=5).objects):
        lake.arrive(f"{number}.binpb", data, START_NS)
        lake.cook()
    _history(dsn, hours * scale)
    return Stored(lake, index, dsn, _engine(index, home))


class _InProcess(Dispatcher):
    """A worker without a network in between."""

    def __init__(self, scanner: LineScanner) -> None:
        super().__init__((), "")
        self._scanner = scanner

    async def run(
        self, units: Iterable[Unit], decode: Callable[[bytes], Answer], *, org: str, ahead: int = 1
    ) -> AsyncGenerator[Answer, None]:
        del org, ahead
        for unit in units:
            assert isinstance(unit, LogUnit)
            yield decode(encode_answer(*self._scanner.run(unit, Cancellation())))


def _engine(index: PostgresIndex, home: Path) -> Engine:
    store = open_store(f"file://{home}/lake", Settings(data_dir=home))
    blocks = BlockCache(home / "cache", 1 << 30, store)
    session = DuckSession(DuckLimits(512, 2, home / "spill", (), LakeFileSystem(blocks.handle)))
    scanner = LineScanner(SegmentOpener(blocks), session)
    return Engine(Locator(index), _InProcess(scanner), Admission(8), Limits(60.0, 50_000))


def _history(dsn: str, hours: int) -> None:
    """Rows of older hours, copied from a real one as far as they have anything to say."""
    with psycopg.connect(dsn) as connection:
        for statement in HISTORY.split(";\n"):
            if statement.strip():
                connection.execute(
                    statement.encode(),
                    {
                        "orgs": ORGS - 1, "hours": hours, "newest": START_NS, "hour": HOUR_NS, "day": DAY_NS,
                        "per_hour": SEGMENTS_OF_HOUR,
                    },
                )  # fmt: skip
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(b"VACUUM ANALYZE")


def _segments(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        (count,) = cast(
            "tuple[Any]", connection.execute("SELECT count(*) FROM lakerunner.segment").fetchone()
        )
    return int(count)


Answer = TypeVar("Answer")
HISTORY = """
INSERT INTO lakerunner.organization (org_id)
SELECT 'org-' || o FROM generate_series(1, %(orgs)s) AS o;

CREATE TEMPORARY TABLE placed AS
SELECT
    row_number() OVER () AS n,
    CASE WHEN o = 0 THEN 'acme' ELSE 'org-' || o END AS org_id,
    CASE WHEN k < 3 THEN 'logs' WHEN k < 6 THEN 'traces' ELSE 'metrics' END AS signal,
    (ARRAY[0, 0, 0, 0, 0, 0, 0, 10000, 60000, 3600000])[k + 1]::bigint AS frequency_ms,
    (ARRAY['', '', '', '', '', '', '', '-10s', '-1m', '-1h'])[k + 1] AS suffix,
    %(newest)s::bigint - h * %(hour)s::bigint AS hour_ns,
    h
FROM
    generate_series(0, %(orgs)s) AS o,
    generate_series(1, %(hours)s) AS h,
    generate_series(0, %(per_hour)s - 1) AS k;

INSERT INTO lakerunner.batch
(kind, org_id, collector, signal, hour_ns, state, input_bytes, input_count, finished_at)
SELECT 'cook', org_id, 'c', signal, hour_ns, 'done', 1000, 1, now() FROM placed ORDER BY n;

INSERT INTO lakerunner.raw_object
(bucket, key, org_id, collector, signal, arrival_hour_ns, size, state, rows, done_at)
SELECT 'raw', 'history/' || n, org_id, 'c', signal, hour_ns, 1000, 'done', 1000, now() FROM placed ORDER BY n;

CREATE TEMPORARY TABLE offsets AS
SELECT
    (SELECT max(batch_id) FROM lakerunner.batch) - count(*) AS batch,
    (SELECT max(object_id) FROM lakerunner.raw_object) - count(*) AS object
FROM placed;

INSERT INTO lakerunner.segment
(
    segment_id, key, org_id, collector, signal, dataset, frequency_ms, dateint, hour, hour_ns, width_ns,
    min_ns, max_ns, rows, bytes, level, format_version, sort_version, terms, label_names, metric_names,
    series_offset, series_length, bloom_offset, bloom_length, batch_id, settled
)
SELECT
    lpad(to_hex(p.n), 32, '0'), 'history/' || p.n, p.org_id, 'c', p.signal, p.signal || p.suffix,
    p.frequency_ms, s.dateint, s.hour, p.hour_ns, %(hour)s, p.hour_ns + 1, p.hour_ns + %(hour)s,
    1000, 100000, 1,
    s.format_version, s.sort_version, s.terms, s.label_names, '{}', s.series_offset, s.series_length,
    s.bloom_offset, s.bloom_length, f.batch + p.n, TRUE
FROM placed AS p, offsets AS f, (SELECT * FROM lakerunner.segment ORDER BY key LIMIT 1) AS s;

INSERT INTO lakerunner.segment_source (segment_id, object_id)
SELECT lpad(to_hex(p.n), 32, '0'), f.object + p.n FROM placed AS p, offsets AS f;

INSERT INTO lakerunner.batch_input (batch_id, ordinal, object_id)
SELECT f.batch + p.n, 1, f.object + p.n FROM placed AS p, offsets AS f;

INSERT INTO lakerunner.raw_object_hour (object_id, hour_ns, rows, org_id, signal)
SELECT f.object + p.n, p.hour_ns, 1000, p.org_id, p.signal FROM placed AS p, offsets AS f;

INSERT INTO lakerunner.partition (org_id, signal, frequency_ms, start_ns, version, due_since)
SELECT DISTINCT
    org_id, signal, frequency_ms, hour_ns, 1, CASE WHEN frequency_ms > 0 AND h <= 3 THEN now() END
FROM placed;

INSERT INTO lakerunner.partition (org_id, signal, frequency_ms, start_ns, version)
SELECT 'acme', 'metrics', f, %(newest)s::bigint, 1 FROM unnest(ARRAY[0, 10000, 60000, 300000, 3600000]) AS f;

INSERT INTO lakerunner.partition (org_id, signal, frequency_ms, start_ns, version)
SELECT DISTINCT org_id, 'metrics', 86400000, hour_ns / %(day)s::bigint * %(day)s::bigint, 1 FROM placed
ON CONFLICT DO NOTHING
"""
