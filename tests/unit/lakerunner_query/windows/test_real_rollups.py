"""Real segments, rolled up 10 s → 1 m → 5 m → 1 h → 1 d, read back: every function as samples have it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_assets.rollup.build import RollupRequest, roll_up
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from lakerunner_query.windows.rollup_buckets import Buckets, join_columns, over_buckets
from lakerunner_query.windows.rollup_rows import columns_needed, columns_of
from resources.lake import series as series_table
from resources.lake.frequency import ROLLUPS
from resources.lake.rollup_columns import LOGICAL, filled
from resources.lake.segment_file import read_facts
from tests.support.query.windows.agreeing import check, may_ask
from tests.support.query.windows.oracle import STALE, Point, is_stale
from tests.support.segments import metric_tables
from tests.support.segments.metric_tables import Row

DAY_MS = 86_400_000
DAY = 1_768_348_800_000
"""00:00 of some day, ms."""
SPAN_MS = 2 * DAY_MS
NAMES = ("counter", "gauge", "delta", "odd", "sparse")


def drawn(name: str, rng: np.random.Generator) -> list[Point]:
    """Some hours on either side of midnight."""
    pause = 3_600_000 if name == "sparse" else 15_000
    times = np.arange(DAY + DAY_MS - 5_400_000, DAY + DAY_MS + 7_200_000, pause)
    if name == "sparse":
        times = np.arange(DAY, DAY + SPAN_MS, pause) + 1
    times = times[rng.random(len(times)) < 0.9] + (rng.integers(0, 900) if name != "gauge" else 0)
    steps = rng.integers(0, 50, len(times)).astype(np.float64)
    if name == "counter":
        for at in np.flatnonzero(rng.random(len(times)) < 0.03):
            steps[at] = -steps[:at].sum()
        values = np.cumsum(steps)
    else:
        values = steps - 20 * (name == "gauge")
    if name == "odd":
        odd = rng.random(len(times)) < 0.02
        values[odd] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e300, 0.1 + 0.2], odd.sum())
    values = np.where(rng.random(len(times)) < 0.02, np.float64(STALE), values)
    return [Point(int(t), float(v), name == "delta") for t, v in zip(times, values, strict=True)]


def rows_of(name: str, points: Sequence[Point], rng: np.random.Generator) -> list[Row]:
    """Add samples that do not count: an earlier nanosecond of the same millisecond."""
    rows = []
    for point in points:
        for late in (True, False) if rng.random() < 0.05 else (True,):
            rows.append(
                {
                    **metric_tables.row(len(rows), {"__name__": name}, 0, point.value if late else 1234.0),
                    "chq_timestamp": point.ts,
                    "chq_tsns": point.ts * 1_000_000 + (500 if late else 3),
                    "metric_temporality": "delta" if point.delta else "cumulative",
                }
            )
    return rows


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[list[Point]], dict[int, Path]]:
    """Points by series, and the segment of each frequency."""
    rng = np.random.default_rng(12)
    folder = tmp_path_factory.mktemp("lake")
    all_points = [drawn(name, rng) for name in NAMES]
    rows = [row for name, points in zip(NAMES, all_points, strict=True) for row in rows_of(name, points, rng)]
    source = folder / "tbl_samples.parquet"
    write_metric_segment(
        [metric_tables.table(rows)], source, SegmentIdentity("acme", "eu", "metrics", 0, "s")
    )
    segments = {0: source}
    for rollup in ROLLUPS:
        (part,) = roll_up(
            RollupRequest(
                [segments[rollup.source_ms]], rollup.source_ms, rollup.frequency_ms,
                DAY * 1_000_000, SPAN_MS * 1_000_000, folder, "acme", "eu", rollup.dataset,
                1 << 30, 64 << 20, lambda number, label=rollup.label: f"{label}_{number}",
            )
        )  # fmt: skip
        segments[rollup.frequency_ms] = part.path
    return all_points, segments


def read(path: Path, width_ms: int, names: Sequence[str] = tuple(LOGICAL)) -> Buckets:
    table = filled(pq.read_table(path), names)
    facts = read_facts(pq.read_metadata(path))
    raw = path.read_bytes()[facts.series_offset : facts.series_offset + facts.series_length]
    found = series_table.decode(raw, facts.rows)
    codes = [NAMES.index(dict(each.labels)["__name__"]) for each in found]
    codes_of_rows = np.repeat(codes, [each.rows for each in found])
    order = pa.array(np.argsort(codes_of_rows, kind="stable"))
    return Buckets(columns_of(table.take(order), np.sort(codes_of_rows), width_ms), len(NAMES))


@pytest.mark.parametrize("rollup", ROLLUPS, ids=[rollup.label for rollup in ROLLUPS])
def test_every_frequency_gives_what_samples_give(
    lake: tuple[list[list[Point]], dict[int, Path]], rollup: object
) -> None:
    all_points, segments = lake
    width = rollup.frequency_ms  # type: ignore[attr-defined]
    buckets = read(segments[width], width)
    midnight = DAY + DAY_MS
    for steps_before, range_buckets, step_buckets in ((3, 1, 1), (7, 5, 2), (60, 47, 11)):
        start = midnight - min(steps_before * width, DAY_MS) // width * width
        check(buckets, all_points, Grid(start, step_buckets * width, 6, range_buckets * width))
        check(
            buckets, all_points, Grid(start, step_buckets * width, 3, range_buckets * width, offset_ms=-width)
        )


def test_a_mosaic_of_segments_gives_what_samples_give(
    lake: tuple[list[list[Point]], dict[int, Path]],
) -> None:
    """23:10 to 01:20: 1 m, 5 m, 1 h and back; sums of what is not finite go to the samples, nothing else."""
    all_points, segments = lake
    midnight, minute = DAY + DAY_MS, 60_000
    borders = [
        (-50, -45, minute), (-45, 0, 5 * minute), (0, 60, 60 * minute), (60, 75, 5 * minute), (75, 80, minute)
    ]  # fmt: skip
    pieces = []
    for start, end, width in borders:
        columns = read(segments[width], width).columns
        inside = (columns.end_ms > midnight + start * minute) & (columns.end_ms <= midnight + end * minute)
        pieces.append(columns.take(inside))
    window = Grid(midnight + 80 * minute, 0, 1, 130 * minute)
    check(Buckets(join_columns(pieces), len(NAMES)), all_points, window)


def test_the_series_are_what_they_should_be(lake: tuple[list[list[Point]], dict[int, Path]]) -> None:
    """Resets, stale markers and infinities are really there."""
    all_points, _ = lake
    counter, _, _, odd, _ = all_points
    values = [point.value for point in counter if not is_stale(point.value)]
    assert sum(b < a for a, b in pairwise(values)) > 3
    assert sum(is_stale(point.value) for point in counter) > 3
    assert may_ask(Function.SUM, odd)
    assert not may_ask(Function.SUM, [point for point in counter if not is_stale(point.value)])


@pytest.mark.parametrize("function", Function)
def test_the_columns_of_a_function_are_enough(
    lake: tuple[list[list[Point]], dict[int, Path]], function: Function
) -> None:
    path, width = lake[1][300_000], 300_000
    grid = Grid(DAY + DAY_MS, width, 12, 3 * width)
    whole = over_buckets(function, read(path, width), grid)
    some = over_buckets(function, read(path, width, columns_needed(function)), grid)
    assert whole.present.any()
    np.testing.assert_array_equal(some.needs_samples, whole.needs_samples)
    np.testing.assert_array_equal(some.present, whole.present)
    np.testing.assert_array_equal(some.values[some.present], whole.values[some.present])
