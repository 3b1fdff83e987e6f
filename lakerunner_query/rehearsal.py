"""A query over two segments of a few rows, from files to finished text: a worker does it before it is ready.

What a process does for the first time takes long: kernels come from disk, libraries set up their codecs and
threads. None of that is about anybody's data, so no query needs to wait for it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.protocol.answers import encode_metric_answer
from lakerunner_query.protocol.units import MetricUnit, SegmentRef
from lakerunner_query.worker.metrics.open import MetricOpener
from lakerunner_query.worker.metrics.scan import MetricScanner
from lakerunner_query.worker.shared.cache import SegmentsInPlace
from resources.arrays import Int64s
from resources.duckdb import Cancellation
from resources.lake import metric_values, series
from resources.lake.streams import Labels

SERIES, SAMPLES, STEP_MS = 3, 40, 15_000
NS_PER_MS = 1_000_000
MINUTE_MS = 60_000
QUERIES = ("sum by (a) (rate(m[5m]))", 'rate(m{a=~"a[0-1]"}[5m])', "topk(1, m)")
DELTA = ("chq_timestamp", metric_values.SCALED)


class NoStore:
    """Files in place are read, and nothing is fetched."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        raise ValueError(f"{key}: {length} bytes from {start} on: expected a file that is here")

    def fetch_to(self, key: str, path: Path) -> int:
        raise ValueError(f"{key} to {path}: expected a file that is here")


def rehearse() -> None:
    """Queries that nobody asked, with caches of their own."""
    with tempfile.TemporaryDirectory(prefix="lakerunner-rehearsal-") as scratch:
        folder = Path(scratch)
        segments = (segment(folder, "whole", 0), segment(folder, "doubles", SAMPLES * STEP_MS))
        scanner = MetricScanner(MetricOpener(SegmentsInPlace(folder), NoStore(), 1 << 20))
        for text in QUERIES:
            encode_metric_answer(scanner.run(unit(text, segments), Cancellation()))


def unit(text: str, segments: tuple[SegmentRef, ...]) -> MetricUnit:
    """Ten minutes, the first of which cut into the first segment."""
    return MetricUnit(
        affinity="", text=text, start_ms=7 * MINUTE_MS, end_ms=17 * MINUTE_MS, step_ms=MINUTE_MS,
        first_ms=7 * MINUTE_MS, steps=11, lookback_ms=5 * MINUTE_MS, segments=segments,
    )  # fmt: skip


def segment(folder: Path, name: str, start_ms: int) -> SegmentRef:
    """Counters, as whole numbers or, by this name, as doubles too."""
    times = np.tile(start_ms + np.arange(SAMPLES) * STEP_MS, SERIES)
    values = np.tile(np.arange(SAMPLES), SERIES)
    path = folder / name
    with pa.OSFile(str(path), "wb") as sink:
        table = _rows(times, values, has_doubles=name == "doubles")
        options = {"use_dictionary": False, "column_encoding": dict.fromkeys(DELTA, "DELTA_BINARY_PACKED")}
        with pq.ParquetWriter(sink, table.schema, compression="zstd", **options) as writer:
            writer.write_table(table)
            offset = sink.tell()
            encoded = series.encode(_series(start_ms))
            sink.write(encoded)
    end_ms = start_ms + SAMPLES * STEP_MS
    return SegmentRef(
        name, name, path.stat().st_size, start_ms * NS_PER_MS, end_ms * NS_PER_MS, offset, len(encoded),
        len(times),
    )  # fmt: skip


def _rows(times: Int64s, values: Int64s, *, has_doubles: bool) -> pa.Table:
    is_double = np.arange(len(times)) < (SAMPLES if has_doubles else 0)
    columns = {
        "chq_timestamp": pa.array(times, pa.int64()),
        metric_values.SCALED: pa.array(values, pa.int64(), mask=is_double),
        metric_values.BASE: pa.array(np.zeros(len(times), np.int64)),
        metric_values.EXPONENT: pa.array(np.zeros(len(times), np.int32)),
        metric_values.DOUBLE: pa.array(values.astype(np.float64), mask=~is_double),
        "chq_metric_type": pa.array(["sum"] * len(times)),
    }
    fields = [pa.field(name, column.type, column.null_count > 0) for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _series(start_ms: int) -> pa.Table:
    labels: list[Labels] = [(("__name__", "m"), ("a", f"a{number}")) for number in range(SERIES)]
    each = np.arange(SERIES)
    return series.build(
        labels,
        {
            "tid": each,
            "row": each * SAMPLES,
            "rows": np.full(SERIES, SAMPLES),
            "first_ms": np.full(SERIES, start_ms),
            "last_ms": np.full(SERIES, start_ms + (SAMPLES - 1) * STEP_MS),
            "base": np.zeros(SERIES, np.int64),
            "exponent": np.zeros(SERIES, np.int64),
        },
    )
