"""P12: `sum by (x) (rate(m[1h]))`, step 1 h, from the 1 h rollup against the samples; answers compared first.

    python -m benchmarks.tiers.p12 [days] [series]

Both sides read Parquet from local disk, day-wide segments as sealing leaves them, only the columns they need,
and evaluate day by day. The rollup is built straight from samples: rows are the same by every way up.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_assets.decode.naming import Attribute
from lakerunner_assets.rollup.build import RollupRequest, roll_up
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid, WindowValues
from lakerunner_query.windows.rollup_buckets import Buckets, over_buckets
from lakerunner_query.windows.rollup_rows import columns_of, columns_to_read
from lakerunner_query.windows.samples import Samples, over_samples
from resources.lake import metric_values, streams
from resources.lake import series as series_table
from resources.lake.frequency import AS_SENT, DAY, HOUR
from resources.lake.rollup_columns import TIMESTAMP, filled
from resources.lake.segment_file import read_facts

NS_PER_MS = 1_000_000
START_MS = 20_454 * DAY
SCRAPE_MS = 15_000
GROUPS = 20
Doubles = np.ndarray
MUST, AIM = 50, 200


def measure(days: int, series: int) -> dict[str, Any]:
    """CPU seconds of both ways over that many days, kernels compiled before."""
    with tempfile.TemporaryDirectory() as scratch:
        samples, rollups = _lake(Path(scratch), days, series)
        _answer(from_samples, samples[:1])
        _answer(from_rollups, rollups[:1])
        raw_seconds, raw = _timed(from_samples, samples)
        rolled_seconds, rolled = _timed(from_rollups, rollups)
        _compare(raw, rolled)
        return {
            "days": days,
            "series": series,
            "samples": days * series * (DAY // SCRAPE_MS),
            "sample_bytes": sum(path.stat().st_size for path in samples),
            "rollup_bytes": sum(path.stat().st_size for path in rollups),
            "points_compared": int(raw.size),
            "samples_cpu_s": round(raw_seconds, 3),
            "rollup_cpu_s": round(rolled_seconds, 4),
            "ratio": round(raw_seconds / rolled_seconds, 1),
            "must": MUST,
            "aim": AIM,
            "ok": raw_seconds / rolled_seconds >= MUST,
        }


def from_samples(path: Path, grid: Grid) -> tuple[WindowValues, np.ndarray]:
    """Rates from the samples of a day, and the group of each series."""
    file = pq.ParquetFile(path)
    found = _series_of(path, file)
    table = file.read([TIMESTAMP, *metric_values.VALUE_COLUMNS], use_threads=False)
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    values = metric_values.values(columns)
    samples = Samples.of_codes(
        _codes(found),
        columns[TIMESTAMP].to_numpy(),
        values.to_numpy(zero_copy_only=False),
        found.num_rows,
    )
    return over_samples(Function.RATE, samples, grid), _groups(found)


def from_rollups(path: Path, grid: Grid) -> tuple[WindowValues, np.ndarray]:
    """The same from the rows of the 1 h rollup."""
    file = pq.ParquetFile(path)
    found = _series_of(path, file)
    stored, logical = columns_to_read(file.metadata, Function.RATE)
    rows = columns_of(filled(file.read(stored), logical), _codes(found), HOUR)
    merged = over_buckets(Function.RATE, Buckets(rows, found.num_rows), grid)
    assert not merged.needs_samples.any()
    return merged, _groups(found)


Reader = Callable[[Path, Grid], tuple[WindowValues, np.ndarray]]


def _answer(reader: Reader, paths: Sequence[Path]) -> Doubles:
    """Sums by group and hour, of all days one after the other."""
    sums = []
    for day, path in enumerate(paths):
        rates, groups = reader(path, Grid(START_MS + day * DAY + HOUR, HOUR, 24, HOUR))
        places = (groups[:, None] * 24 + np.arange(24)).ravel()
        weights = np.where(rates.present, rates.values, 0.0).ravel()
        of_day = np.bincount(places, weights, GROUPS * 24).reshape(GROUPS, 24)
        sums.append(of_day)
    return np.concatenate(sums, axis=1)


def _timed(reader: Reader, paths: Sequence[Path]) -> tuple[float, Doubles]:
    """The median of three."""
    seconds = []
    for _ in range(3):
        before = time.process_time()
        found = _answer(reader, paths)
        seconds.append(time.process_time() - before)
    return sorted(seconds)[1], found


def _compare(raw: Doubles, rolled: Doubles) -> None:
    assert raw.min() > 0, "no rates: nothing was compared"
    assert np.allclose(raw, rolled, rtol=1e-12, atol=0.0), (
        f"answers differ by {np.abs(raw / rolled - 1).max()}"
    )


def _series_of(path: Path, opened: pq.ParquetFile) -> pa.Table:
    facts = read_facts(opened.metadata)
    with path.open("rb") as file:
        file.seek(facts.series_offset)
        return series_table.read_table(file.read(facts.series_length), facts.rows)


def _codes(found: pa.Table) -> np.ndarray:
    return np.repeat(np.arange(found.num_rows), found.column("rows").to_numpy())


def _groups(found: pa.Table) -> np.ndarray:
    """The number in the label `x` of each series; every series has it."""
    labels = found.column("labels").chunk(0)
    names = labels.keys.dictionary
    is_x = labels.keys.indices.to_numpy() == pc.index(names, "x").as_py()
    codes = labels.items.indices.to_numpy()[is_x]
    numbers = np.zeros(len(labels.items.dictionary), np.int64)
    used = np.unique(codes)
    numbers[used] = labels.items.dictionary.take(pa.array(used)).cast(pa.int64()).to_numpy()
    groups: np.ndarray = numbers[codes]
    return groups


def _lake(folder: Path, days: int, series: int) -> tuple[list[Path], list[Path]]:
    rng = np.random.default_rng(12)
    labels = [
        streams.canonical({"__name__": "m", "x": str(n % GROUPS), "instance": f"host-{n}"})
        for n in range(series)
    ]
    late, at = rng.integers(1, SCRAPE_MS, series), rng.integers(0, 10**7, series)
    samples, rollups = [], []
    for day in range(days):
        steps = rng.poisson(30, (series, DAY // SCRAPE_MS))
        values = np.cumsum(steps, axis=1) + at[:, None]
        for row in np.flatnonzero(rng.random(series) < 0.1):  # a tenth restarts each day
            begin = int(rng.integers(1, values.shape[1]))
            values[row, begin:] -= values[row, begin]
        at = values[:, -1]
        path = folder / f"tbl_samples-{day}.parquet"
        start_ns = (START_MS + day * DAY) * NS_PER_MS
        identity = SegmentIdentity("acme", "eu", "metrics", start_ns, path.stem)
        write_metric_segment([_table(labels, START_MS + day * DAY, late, values)], path, identity)
        (part,) = roll_up(
            RollupRequest(
                [path], AS_SENT, HOUR, start_ns, DAY * NS_PER_MS, folder, "acme", "eu", "metrics-1h",
                1 << 30, 512 << 20, f"1h-{day}-{{}}".format,
            )
        )  # fmt: skip
        samples.append(path)
        rollups.append(part.path)
    return samples, rollups


def _table(labels: Sequence[streams.Labels], start_ms: int, late: np.ndarray, values: np.ndarray) -> pa.Table:
    series, count = values.shape
    codes = np.repeat(np.arange(series, dtype=np.int32), count)
    times = start_ms + np.tile(np.arange(count) * SCRAPE_MS, series) + late[codes]

    def coded(texts: list[str], of_row: np.ndarray) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(of_row.astype(np.int32)), pa.array(texts))

    same = np.zeros(len(codes), np.int32)
    table = pa.table(
        {
            "metric_name": coded(["m"], same),
            "chq_tid": pa.array(np.array([streams.stream_id(each) for each in labels])[codes]),
            "chq_series": coded([streams.labels_to_text(each) for each in labels], codes),
            "chq_timestamp": pa.array(times),
            "chq_value": pa.array(values.ravel().astype(np.float64)),
            "chq_metric_type": coded(["sum"], same),
            "metric_temporality": coded(["cumulative"], same),
            "chq_object": pa.array(np.full(len(codes), 1)),
            "chq_position": pa.array(np.arange(len(codes))),
        }
    )
    hosts = coded([dict(each)["instance"] for each in labels], codes)
    return table.append_column(
        Attribute("record", "instance", "string").field("attr_instance", hosts.type), hosts
    )


if __name__ == "__main__":
    asked = [int(each) for each in sys.argv[1:]]
    print(
        json.dumps(
            measure(*asked) if len(asked) == 2 else measure(asked[0] if asked else 30, 1_000), indent=2
        )
    )
