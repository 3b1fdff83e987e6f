"""Segments of samples and of rollups for tests, and what stands in a rollup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_assets.rollup.build import RollupRequest, roll_up
from lakerunner_assets.rollup.ddsketch import build
from lakerunner_assets.rollup.parts import RollupSegment
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from resources.lake import rollup_columns as rollup
from resources.lake import series, streams
from resources.lake.segment_file import read_facts
from tests.support.rollup import oracle
from tests.support.segments import metric_tables
from tests.support.segments.metric_tables import Row

NOON = 1_768_392_000_000
"""12:00:00.000 of some day, ms."""
HOUR_MS = 3_600_000
UP = {"__name__": "up", "instance": "a"}
Found = dict[tuple[str, int], dict[str, Any]]


def row(position: int, ms: int, value: float | None, labels: dict[str, str] = UP, **more: Any) -> Row:
    """A point `ms` after noon."""
    return {**metric_tables.row(position, labels, 0, value, **more), "chq_timestamp": NOON + ms}


def sample_segment(folder: Path, name: str, rows: Sequence[Row]) -> Path:
    path = folder / f"tbl_{name}.parquet"
    identity = SegmentIdentity("acme", "eu", "metrics", 0, name)
    write_metric_segment([metric_tables.table(rows)], path, identity)
    return path


def rolled(
    folder: Path,
    sources: Sequence[Path],
    source_ms: int,
    target_ms: int,
    start_ms: int = NOON,
    width_ms: int = HOUR_MS,
    target_bytes: int = 1 << 30,
    memory_bytes: int = 64 << 20,
    name: str = "r",
) -> tuple[RollupSegment, ...]:
    request = RollupRequest(
        sources,
        source_ms,
        target_ms,
        start_ms * 1_000_000,
        width_ms * 1_000_000,
        folder,
        "acme",
        "eu",
        f"metrics-{target_ms}",
        target_bytes,
        memory_bytes,
        lambda part: f"{name}{target_ms}_{source_ms}_{part}",
    )
    return roll_up(request)


def paths(parts: Sequence[RollupSegment]) -> list[Path]:
    return [part.path for part in parts]


def of_rows(folder: Path, rows: Sequence[Row], target_ms: int = 10_000, **more: Any) -> Found:
    return content(rolled(folder, [sample_segment(folder, "s", rows)], 0, target_ms, **more))


def stepped(folder: Path, rows: Sequence[Row], widths: Sequence[int], **more: Any) -> Found:
    """Each width from the one before it."""
    sources, source_ms = [sample_segment(folder, "s", rows)], 0
    parts: tuple[RollupSegment, ...] = ()
    for width in widths:
        parts = rolled(folder, sources, source_ms, width, name="step", **more)
        sources, source_ms = paths(parts), width
    return content(parts)


def content(parts: Sequence[RollupSegment]) -> Found:
    """Rows in the logical form, by label set and end of the bucket."""
    found: Found = {}
    for part in parts:
        table = rollup.filled(pq.read_table(part.path))
        cells = {name: cells_of(table.column(name)) for name in table.column_names}
        for labels, begin, end in runs(part.path):
            for place in range(begin, end):
                values = {name: column[place] for name, column in cells.items()}
                key = (labels, values[rollup.TIMESTAMP])
                assert key not in found
                found[key] = values
    return found


def runs(path: Path) -> list[tuple[str, int, int]]:
    facts = read_facts(pq.read_metadata(path))
    raw = path.read_bytes()[facts.series_offset : facts.series_offset + facts.series_length]
    table = series.decode(raw, facts.rows)
    return [(streams.labels_to_text(each.labels), each.row, each.row + each.rows) for each in table]


def cells_of(column: pa.ChunkedArray) -> list[Any]:
    """Doubles bit by bit: a signalling NaN must not be quietened on the way."""
    whole = column.combine_chunks()
    if not pa.types.is_floating(whole.type):
        return list(whole.to_pylist())
    raw = np.frombuffer(whole.buffers()[1], np.float64)[whole.offset : whole.offset + len(whole)]
    return [None if cell is None else raw[place] for place, cell in enumerate(whole.to_pylist())]


def single(found: Found) -> dict[str, Any]:
    assert len(found) == 1
    return next(iter(found.values()))


def sketch_of(values: Sequence[float]) -> bytes | None:
    finite = np.array([value for value in values if math.isfinite(value)], np.float64)
    none = np.zeros(0, np.int64)
    made = build(
        finite, np.ones(len(finite)), np.zeros(len(finite), np.int64), pa.array([], pa.binary()), none, 1
    )
    return made[0].as_py()  # type: ignore[no-any-return]


def told_sketch(values: dict[str, Any]) -> bytes | None:
    """The sketch of a row, also if it follows from the others."""
    if values[rollup.SKETCH] is not None:
        return values[rollup.SKETCH]  # type: ignore[no-any-return]
    count, first, last, prev = (
        values[name] for name in (rollup.COUNT, rollup.FIRST, rollup.LAST, rollup.PREV)
    )
    if values[rollup.CHANGES] == 0 or count > 4:
        return sketch_of([last] * count)
    said = [first, last, prev][:count]
    if count == 4:
        rest = sum(map(Fraction, (values[rollup.SUM], values[rollup.SUM_C]))) - sum(map(Fraction, said))
        said.append(float(rest))
    return sketch_of(said)


def same_number(found: float | None, wanted: float | None, within: float) -> bool:
    if found is None or wanted is None:
        return found is None and wanted is None
    if math.isnan(wanted) or math.isinf(wanted):
        return math.isnan(found) if math.isnan(wanted) else found == wanted
    return abs(found - wanted) <= within


def assert_as_defined(found: Found, wanted: dict[tuple[str, int], dict[str, Any]]) -> None:
    """Every column of every row is what the definitions say."""
    assert found.keys() == wanted.keys()
    for key, values in found.items():
        assert_row(values, wanted[key], str(key))


def assert_row(values: dict[str, Any], wanted: dict[str, Any], where: str) -> None:
    for name in ("count", "resets", "changes", "last_stale"):
        assert values[f"chq_rollup_{name}"] == wanted[name], (where, name)
    for name in ("first", "last", "prev"):
        told, expected = values[f"chq_rollup_{name}"], wanted.get(name)
        assert (told is None) == (expected is None), (where, name)
        assert told is None or oracle.bits(told) == oracle.bits(expected), (where, name)
    timed = (
        ("first_ts", "last_ts")
        if wanted["count"] and wanted["hist_count"]
        else ("first_ts", "last_ts", "prev_ts")
    )
    for name in timed:
        assert values[f"chq_rollup_{name}"] == wanted.get(name), (where, name)
    for name in ("min", "max"):
        assert same_number(values[f"chq_rollup_{name}"], wanted.get(name), 0.0), (where, name)
    near = 1e-12 * wanted["magnitude"]
    sums = values[rollup.SUM]
    if wanted["count"]:
        sums += values[rollup.SUM_C]
        largest = max((abs(v) for v in wanted["values"] if math.isfinite(v)), default=0.0)
        squares = 1e-12 * largest * largest * wanted["count"] + 1e-9 * (
            wanted["m2"] if math.isfinite(wanted["m2"]) else 0
        )
        assert same_number(values[rollup.M2], wanted["m2"], squares), (
            where,
            "m2",
            values[rollup.M2],
            wanted["m2"],
        )
    assert same_number(sums, wanted.get("sum"), near), (where, "sum", sums, wanted.get("sum"))
    assert same_number(values[rollup.RESET_SUM], wanted["reset_sum"], near), (where, "reset_sum")
    if wanted["count"]:
        assert told_sketch(values) == sketch_of(wanted["values"]), (where, "sketch")
    assert values.get("metric_temporality") == wanted["temporality"], (where, "temporality")
    _assert_histograms(values, wanted, where)


def _assert_histograms(values: dict[str, Any], wanted: dict[str, Any], where: str) -> None:
    for name in ("count", "mixed", "resets"):
        assert values[f"chq_hist_{name}"] == wanted[f"hist_{name}"], (where, name)
    for name in ("first", "last", "sum"):
        told = oracle.struct_histogram(values[f"chq_hist_{name}"])
        expected = wanted[f"hist_{name}"]
        if name == "sum" and told is not None and expected is not None:
            total, whole = told.pop("sum"), {**expected}
            assert same_number(total, whole.pop("sum"), 1e-9), (where, name)
            expected = whole
        assert told == expected, (where, name)
