"""P2: the same bytes through the whole pipeline, as a share of what two cores could cook.

A stack of its own, warmed by one object. Then all objects are put and announced at once; the clock runs from
the first announcement until no object is pending, so it holds the sensor's tick, a Dagster run, Spark, the
object store and the index. The ceiling is twice what one process cooked of the same bytes a moment before.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

import psycopg

from benchmarks.ingest import ours
from benchmarks.ingest.corpus import START_NS, Corpus
from benchmarks.report import Record
from benchmarks.traffic import Traffic, raw_store, run_counts
from resources.lake.layout import Signal, raw_key
from resources.lake.timecut import to_datetime
from resources.settings import Settings
from tests.support.stack_fixture import start_stack, stop_stack

ORG = "bench"
PATIENCE_S = 900.0
CORES = 2


def measure(corpus: Corpus, copies: int) -> list[Record]:
    """`copies`: how often each object is put, under names of its own."""
    ceiling = CORES * _one_process(corpus)
    with tempfile.TemporaryDirectory(prefix="lakerunner-whole-") as folder:
        settings = start_stack(Path(folder), ())
        try:
            traffic = Traffic(settings, (ORG,))
            traffic.prepare()
            _cooked(traffic, corpus.objects[:1], "warm", 1)
            seconds = _cooked(traffic, corpus.objects, "object", copies)
            counters = _counters(settings)
        finally:
            stop_stack(Path(folder))
    rows = corpus.rows * copies
    share = rows / seconds / ceiling
    return [
        Record(
            "P2",
            "OTLP logs through sensor, Dagster and Spark: share of two cores' ceiling",
            share,
            "",
            must=0.25,
            aim=0.5,
            ok=share >= 0.25,
            counters={
                "rows": rows,
                "seconds": round(seconds, 1),
                "rows_per_second": round(rows / seconds),
                "ceiling_rows_per_second": round(ceiling),
                "objects": len(corpus.objects) * copies,
                "load": round(os.getloadavg()[0], 2),
                **counters,
            },
        )
    ]


def _one_process(corpus: Corpus) -> float:
    """Rows per CPU-second, median of three."""
    with tempfile.TemporaryDirectory() as folder:
        spent = [ours.cpu_of(lambda: ours.cook(Signal.LOGS, corpus.objects, Path(folder))) for _ in range(3)]
    return corpus.rows / statistics.median(spent)


def _cooked(traffic: Traffic, objects: tuple[bytes, ...], name: str, copies: int) -> float:
    """Seconds from the first announcement to the last object done."""
    notices = []
    store = raw_store(traffic.settings)
    for number, data in enumerate(objects * copies):
        key = raw_key(ORG, "bench", Signal.LOGS, to_datetime(START_NS + 1), f"{name}-{number:04}.binpb")
        notices.append((key, len(data), store.put(key, data)))
    began = time.monotonic()
    for notice in notices:
        traffic.announce(*notice)
    keys = [key for key, _, _ in notices]
    while _done(traffic.settings, keys) < len(keys):
        if time.monotonic() - began > PATIENCE_S:
            raise TimeoutError(f"not all of {len(keys)} objects were cooked within {PATIENCE_S:.0f} s")
        time.sleep(0.2)
    return time.monotonic() - began


def _done(settings: Settings, keys: list[str]) -> int:
    with psycopg.connect(settings.index_dsn) as connection:
        text = "SELECT count(*) FROM lakerunner.raw_object WHERE state = 'done' AND key = ANY(%s)"
        (count,) = connection.execute(text, (keys,)).fetchone() or (0,)
    return int(count)


def _counters(settings: Settings) -> dict[str, object]:
    with psycopg.connect(settings.index_dsn) as connection:
        text = "SELECT count(*), sum(rows), sum(bytes) FROM lakerunner.segment WHERE org_id = %s"
        segments, rows, size = connection.execute(text, (ORG,)).fetchone() or (0, 0, 0)
    return {
        "segments": segments,
        "segment_rows": int(rows),
        "segment_bytes": int(size),
        **run_counts(settings),
    }
