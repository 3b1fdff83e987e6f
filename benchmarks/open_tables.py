"""Open tables are measured: a plain column of values, the expression instead, and following the index.

`python -m benchmarks.open_tables`. Bytes are those of a segment of an hour and of a day of gauges and
counters (the corpus of P9), with and without `chq_value` as doubles; seconds are those of one sum in DuckDB;
commits register segments in a table that has many already.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.ingest.corpus.metrics import app_metrics
from benchmarks.ingest.ours import cook
from benchmarks.report import Record, tell
from lakerunner_assets.tables.run import update_tables
from lakerunner_assets.tables.views import value_expression
from resources.index.memory import MemoryIndex
from resources.index.memory.open_tables import note_changes
from resources.index.memory.state import StoredSegment
from resources.index.types import Segment
from resources.lake.layout import Signal
from resources.lake.metric_values import VALUE_COLUMNS, values
from resources.lake.timecut import HOUR_NS
from resources.settings import Settings

HOUR_STEPS, DAY_STEPS = 240, 5760
HOUR_RESOURCES, DAY_RESOURCES = 40, 5
PLAIN = "chq_value"
ROUNDS = 7
FILES, NEW_FILES = 2000, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the records here")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    records = [*_values("hour", HOUR_STEPS, HOUR_RESOURCES), *_values("day", DAY_STEPS, DAY_RESOURCES)]
    tell("open_tables", [*records, *_commits()], options.json)


def _values(span: str, steps: int, resources: int) -> list[Record]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        cooked = cook(Signal.METRICS, app_metrics(steps, resources, histograms=False).objects, folder)
        segment = folder / "segment.parquet"
        table = pq.read_table(segment)
        numbers = values({name: table.column(name).combine_chunks() for name in VALUE_COLUMNS})
        sizes = {}
        for encoding in ("BYTE_STREAM_SPLIT", "PLAIN"):
            path = folder / f"{encoding}.parquet"
            pq.write_table(
                pa.table({PLAIN: numbers}), path, compression="zstd", compression_level=3,
                use_dictionary=False, column_encoding={PLAIN: encoding}, row_group_size=250_000,
            )  # fmt: skip
            sizes[encoding] = path.stat().st_size / cooked.rows
        least = min(sizes, key=lambda name: sizes[name])
        reads = {
            "stored": _seconds(f"SELECT sum({value_expression()}) FROM '{segment}'") / cooked.rows,
            "plain": _seconds(f"SELECT sum({PLAIN}) FROM '{folder / least}.parquet'") / cooked.rows,
        }
    counters = {
        "samples": cooked.rows, "bytes_per_sample_now": round(cooked.bytes / cooked.rows, 3),
        **{f"plain_{name.lower()}": round(size, 3) for name, size in sizes.items()},
    }  # fmt: skip
    return [
        Record(f"value-bytes-{span}", f"a plain column of values, {span}", sizes[least], "B/sample",
               counters=counters),
        Record(f"value-sum-{span}", f"sum by the expression, {span}", reads["stored"] * 1e9, "ns/sample",
               counters={"plain column, ns/sample": round(reads["plain"] * 1e9, 2)}),
    ]  # fmt: skip


def _seconds(query: str) -> float:
    """Return the least of some rounds, on one thread."""
    with duckdb.connect(config={"threads": 1}) as connection:
        taken = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            connection.execute(query).fetchall()
            taken.append(time.perf_counter() - began)
    return min(taken)


def _commits() -> list[Record]:
    """Register files one by one name, all with the bytes of one segment."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        cook(Signal.METRICS, app_metrics(20, 2, histograms=False).objects, folder)
        data = (folder / "segment.parquet").read_bytes()
        index = MemoryIndex()
        index.create_organisation("acme")
        index.add_table("acme", "metrics")
        settings = Settings(
            data_dir=folder, lake_url=f"file://{folder}/lake",
            tables_catalog=f"type=sql;uri=sqlite:///{folder}/catalog.db",
        )  # fmt: skip
        rows = pq.read_metadata(folder / "segment.parquet").num_rows

        def publish(numbers: range) -> None:
            kept = []
            for number in numbers:
                made = _segment(number, rows, len(data))
                path = folder / "lake" / made.key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                kept.append(StoredSegment(made, time.time()))
                index._state.segments[made.segment_id] = kept[-1]  # noqa: SLF001 - no batches here
            note_changes(index._state, kept, time.time)  # noqa: SLF001

        def update() -> float:
            began = time.perf_counter()
            update_tables(index, settings, [("acme", "metrics")], print)
            return time.perf_counter() - began

        publish(range(FILES))
        first = update()
        taken = []
        for turn in range(ROUNDS):
            publish(range(FILES + turn * NEW_FILES, FILES + (turn + 1) * NEW_FILES))
            taken.append(update())
        idle = update()
    return [
        Record("commit-first", f"first snapshot of {FILES:,} files", first, "s",
               counters={"ms per file": round(first / FILES * 1000, 2)}),
        Record("commit-next", f"snapshot of {NEW_FILES} more files", sorted(taken)[len(taken) // 2], "s",
               counters={"without a change, s": round(idle, 3)}),
    ]  # fmt: skip


def _segment(number: int, rows: int, size: int) -> Segment:
    hour = (490_896 + number % 48) * HOUR_NS
    made = Segment(
        segment_id=f"{number:032x}", key=f"db/acme/c/{number}.parquet", org="acme", collector="c",
        signal=Signal.METRICS, dataset="metrics", frequency_ms=0, hour_ns=hour, width_ns=HOUR_NS,
        min_ns=hour + 1, max_ns=hour + HOUR_NS, rows=rows, bytes=size, level=0, origin="", format_version=1,
        sort_version=1, terms=(), label_names=(), metric_names=(), series_offset=0, series_length=0,
        bloom_offset=0, bloom_length=0,
    )  # fmt: skip
    return replace(made, settled=True)


if __name__ == "__main__":
    main()
