"""Rollups: samples per CPU second at each step, and bytes of all rollups against those of the samples.

python -m benchmarks.tiers.rolling [rows]
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_assets.decode.naming import Attribute
from lakerunner_assets.rollup.build import RollupRequest, roll_up
from lakerunner_assets.rollup.parts import RollupSegment
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from resources.arrays import Doubles
from resources.lake import streams
from resources.lake.frequency import ROLLUPS
from resources.lake.timecut import HOUR_NS

START_NS = 491_220 * HOUR_NS
NS_PER_MS = 1_000_000
HOUR_MS = HOUR_NS // NS_PER_MS
MEMORY_BYTES = 512 << 20
ROWS = 5_000_000


def counters(rng: np.random.Generator, series: int, count: int) -> Doubles:
    """Whole numbers that grow from wherever they were."""
    rate = rng.exponential(30, (series, 1)) + 1
    grown = np.cumsum(rng.poisson(rate, (series, count)), axis=1)
    found: Doubles = (grown + rng.integers(0, 10**7, (series, 1))).astype(np.float64)
    return found


def gauges(rng: np.random.Generator, series: int, count: int) -> Doubles:
    """Shares of four digits that wander."""
    wandering = 0.3 + np.cumsum(rng.normal(0, 0.02, (series, count)), axis=1)
    found: Doubles = np.round(np.clip(wandering, 0, 1), 4).astype(np.float64)
    return found


def noise(rng: np.random.Generator, series: int, count: int) -> Doubles:
    """Doubles of all digits: nothing to gain but from their exponents."""
    return rng.normal(100, 10, (series, count))


KINDS: dict[str, Callable[[np.random.Generator, int, int], Doubles]] = {
    "counters": counters, "gauges": gauges, "noise": noise,
}  # fmt: skip


def measure(rows: int) -> dict[str, Any]:
    """Every kind of values, scraped every 15 and every 10 seconds, for an hour."""
    found: dict[str, Any] = {}
    roll_all("counters", 15_000, 2_000)  # kernels are compiled
    for kind in KINDS:
        for step_ms in (15_000, 10_000):
            found[f"{kind} every {step_ms // 1000} s"] = roll_all(kind, step_ms, rows)
    found["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return found


def roll_all(kind: str, step_ms: int, rows: int) -> dict[str, Any]:
    """An hour of samples up to one hour."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        table = samples(KINDS[kind], step_ms, rows)
        identity = SegmentIdentity("acme", "eu", "metrics", START_NS, "s")
        written = write_metric_segment([table], folder / "tbl_s.parquet", identity)
        del table
        found: dict[str, Any] = {"samples": written.rows, "bytes_per_sample": written.bytes / written.rows}
        sources, source_rows, total = [folder / "tbl_s.parquet"], written.rows, 0
        for each in ROLLUPS[:-1]:
            before = time.process_time()
            request = RollupRequest(
                sources, each.source_ms, each.frequency_ms, START_NS, HOUR_NS, folder, "acme", "eu",
                each.dataset, 1 << 30, MEMORY_BYTES, f"{each.label}_{{}}".format,
            )  # fmt: skip
            parts = roll_up(request)
            seconds = time.process_time() - before
            found[each.label] = _facts(parts, seconds, source_rows, written.rows)
            total += sum(part.facts.bytes for part in parts)
            sources, source_rows = [part.path for part in parts], found[each.label]["rows"]
    found["rollup_bytes_per_sample_byte"] = round(total / written.bytes, 3)
    return found


def _facts(
    parts: tuple[RollupSegment, ...], seconds: float, source_rows: int, samples_: int
) -> dict[str, Any]:
    rows, size = (sum(getattr(part.facts, name) for part in parts) for name in ("rows", "bytes"))
    return {
        "rows": rows,
        "source_rows_per_cpu_s": round(source_rows / seconds),
        "bytes_per_row": round(size / rows, 3),
        "bytes_per_sample": round(size / samples_, 3),
        "columns": _largest([part.path for part in parts], rows),
    }


def _largest(paths: list[Path], rows: int) -> dict[str, float]:
    """Bytes per row of the columns that take any."""
    sizes: dict[str, int] = {}
    for path in paths:
        footer = pq.read_metadata(path)
        for group in range(footer.num_row_groups):
            for index in range(footer.num_columns):
                chunk = footer.row_group(group).column(index)
                sizes[chunk.path_in_schema] = sizes.get(chunk.path_in_schema, 0) + chunk.total_compressed_size
    ranked = sorted(sizes.items(), key=lambda pair: -pair[1])
    return {name: round(size / rows, 2) for name, size in ranked if size / rows >= 0.05}


def samples(values: Callable[[np.random.Generator, int, int], Doubles], step_ms: int, rows: int) -> pa.Table:
    """Scrape by scrape, each series a few milliseconds late, always as many."""
    rng = np.random.default_rng(1)
    count = HOUR_MS // step_ms
    series = max(1, rows // count)
    late = rng.integers(0, step_ms, series)
    codes = np.tile(np.arange(series, dtype=np.int32), count)
    label_sets = [
        streams.canonical({"__name__": f"metric_{n % 200}", "instance": f"host-{n // 200}", "job": "app"})
        for n in range(series)
    ]
    times = START_NS // NS_PER_MS + np.repeat(np.arange(count) * step_ms, series) + 1 + late[codes]

    def coded(texts: list[str], of_row: np.ndarray) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(of_row.astype(np.int32)), pa.array(texts))

    names = [f"metric_{n}" for n in range(200)]
    hosts = [f"host-{n}" for n in range(-(-series // 200))]
    columns = {
        "metric_name": coded(names, codes % 200),
        "chq_tid": pa.array(np.array([streams.stream_id(labels) for labels in label_sets])[codes]),
        "chq_series": coded([streams.labels_to_text(labels) for labels in label_sets], codes),
        "chq_timestamp": pa.array(times),
        "chq_value": pa.array(values(rng, series, count).T.ravel()),
        "chq_metric_type": coded(["sum"], np.zeros(len(codes))),
        "chq_object": pa.array(np.full(len(codes), 1)),
        "chq_position": pa.array(np.arange(len(codes))),
    }
    attributes = {
        "attr_instance": coded(hosts, codes // 200),
        "attr_job": coded(["app"], np.zeros(len(codes))),
    }
    table = pa.table(columns)
    for name, column in attributes.items():
        key = Attribute("record", name.removeprefix("attr_"), "string")
        table = table.append_column(key.field(name, column.type), column)
    return table


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    print(json.dumps(measure(asked), indent=2))
