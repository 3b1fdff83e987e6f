"""What a lake holds in the end, read from its files and its index with no service in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.samples import Bucket, Oracle, Point
from lakerunner_cli.accounts import open_index
from resources.index.types import TierView
from resources.lake.currency import current_partitions
from resources.lake.frequency import AS_SENT, DAY, ROLLUPS, Rollup
from resources.lake.layout import LAKE_PREFIX, Signal
from resources.lake.metric_values import VALUE_SQL
from resources.lake.rollup_columns import filled
from resources.lake.timecut import DAY_NS, cut
from resources.settings import Settings

NS_PER_MS = 1_000_000
FREQUENCIES = (AS_SENT, *(rollup.frequency_ms for rollup in ROLLUPS))


def metric_rows(settings: Settings, orgs: Sequence[str], service: str) -> tuple[Counter[Point], int]:
    """Every row of frequency 0 in live segments, and how many have a row id that another one has."""
    found: Counter[Point] = Counter()
    doubled = 0
    for org in orgs:
        files = _files(settings, "org_id = %s AND dataset = 'metrics' AND retired_at IS NULL", org)
        if not files:
            continue
        rows = duckdb.execute(
            "SELECT metric_name, attr_label, coalesce(chq_tsns, chq_timestamp * 1000000), "
            f"{VALUE_SQL}, chq_object, chq_position FROM read_parquet($files, union_by_name = true) "
            "WHERE resource_service_name = $service",
            {"files": files, "service": service},
        ).fetchall()
        found.update(Point(org, metric, label, at, value) for metric, label, at, value, _, _ in rows)
        doubled += len(rows) - len({(source, position) for *_, source, position in rows})
    return found, doubled


@dataclass(slots=True)
class RollupFindings:
    """One frequency against the oracle."""

    partitions: int = 0
    buckets: int = 0
    wrong: list[str] = field(default_factory=list)


def rollups(
    settings: Settings, orgs: Sequence[str], oracle: Oracle, now_ns: int
) -> dict[str, RollupFindings]:
    """By label of the frequency; days that are not over are left out."""
    found = {rollup.label: RollupFindings() for rollup in ROLLUPS}
    for org in orgs:
        mine = [point for point in oracle.points if point.org == org]
        days = {cut(point.ms * NS_PER_MS, DAY_NS) for point in mine}
        with open_index(settings) as desk:
            views = {day: desk.tier_view(org, Signal.METRICS, FREQUENCIES, day, day + DAY_NS) for day in days}
        for day, view in views.items():
            here = [point for point in mine if cut(point.ms * NS_PER_MS, DAY_NS) == day]
            for rollup in ROLLUPS:
                if rollup.frequency_ms == DAY and day + DAY_NS > now_ns:
                    continue
                _compare(settings, org, rollup, view, oracle.buckets(rollup.frequency_ms, here), found, day)
    return found


def _compare(
    settings: Settings,
    org: str,
    rollup: Rollup,
    view: TierView,
    expected: set[Bucket],
    found: dict[str, RollupFindings],
    day: int,
) -> None:
    findings = found[rollup.label]
    wanted = {cut(bucket.end_ms * NS_PER_MS, rollup.partition_ns) for bucket in expected}
    current = current_partitions(view.partitions)[rollup.frequency_ms]
    where = f"{org} {rollup.label} day {day}"
    findings.partitions += len(wanted)
    if stale := sorted(wanted - current):
        findings.wrong.append(f"{where}: not current: {stale}")
    rows = Counter(
        bucket
        for segment in view.segments
        if segment.frequency_ms == rollup.frequency_ms
        for bucket in _buckets(settings.data_dir / "lake" / segment.key, org)
        if cut(bucket.end_ms * NS_PER_MS, DAY_NS) == day  # day-wide buckets lie in segments of a month
    )
    findings.buckets += len(expected)
    if missing := expected - rows.keys():
        findings.wrong.append(
            f"{where}: {len(missing)} buckets missing or other, e.g. {min(missing, key=_end)}"
        )
    if extra := rows.keys() - expected:
        findings.wrong.append(f"{where}: {len(extra)} buckets too many or other, e.g. {min(extra, key=_end)}")
    if twice := [bucket for bucket, count in rows.items() if count > 1]:
        findings.wrong.append(f"{where}: {len(twice)} buckets twice, e.g. {twice[0]}")


def _end(bucket: Bucket) -> int:
    return bucket.end_ms


def _buckets(path: Path, org: str) -> Iterator[Bucket]:
    table: pa.Table = filled(pq.read_table(path))
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        yield Bucket(
            org,
            row["metric_name"],
            row["attr_label"],
            row["chq_timestamp"],
            row["chq_rollup_count"],
            row["chq_rollup_sum"] + row["chq_rollup_sum_c"],
            row["chq_rollup_min"],
            row["chq_rollup_max"],
            row["chq_rollup_first"],
            row["chq_rollup_last"],
            row["chq_rollup_resets"],
            row["chq_rollup_reset_sum"],
            row["chq_rollup_changes"],
        )


@dataclass(frozen=True, slots=True)
class Files:
    """Disk against index."""

    live: int
    missing: list[str]
    """Keys of live segments without a file of the right size."""
    unknown: set[str]
    """Keys of files that no segment row names."""
    orphans: set[str]
    """Keys that the sweeper noted."""


def lake_files(settings: Settings) -> Files:
    lake = settings.data_dir / "lake"
    on_disk = {
        path.relative_to(lake).as_posix(): path.stat().st_size
        for path in (lake / LAKE_PREFIX).rglob("*")
        if path.is_file()
    }
    with psycopg.connect(settings.index_dsn) as connection:
        known = connection.execute("SELECT key, bytes, retired_at IS NULL FROM lakerunner.segment").fetchall()
        orphans = {key for (key,) in connection.execute("SELECT key FROM lakerunner.orphan").fetchall()}
    live = {key: size for key, size, alive in known if alive}
    missing = [
        f"{key}: {on_disk.get(key)} of {size} bytes" for key, size in live.items() if on_disk.get(key) != size
    ]
    return Files(len(live), missing, on_disk.keys() - {key for key, _, _ in known}, orphans)


def _files(settings: Settings, where: str, *values: str) -> list[str]:
    with psycopg.connect(settings.index_dsn) as connection:
        rows = connection.execute(f"SELECT key FROM lakerunner.segment WHERE {where}", values).fetchall()
    return [f"{settings.data_dir}/lake/{key}" for (key,) in rows]
