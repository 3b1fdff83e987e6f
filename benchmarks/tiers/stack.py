"""What benchmarks with a stack of their own look at: Dagster's tables, versions of partitions, segments."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow.compute as pc
import pyarrow.parquet as pq
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from lakerunner_cli.accounts import open_index
from resources.index.types import SegmentQuery, TierView
from resources.lake.currency import current_partitions
from resources.lake.frequency import HOUR, ROLLUPS, rollup_of
from resources.lake.layout import Signal
from resources.lake.rollup_columns import filled
from resources.lake.timecut import DAY_NS, HOUR_NS
from resources.settings import Settings

FREQUENCIES = (0, *(rollup.frequency_ms for rollup in ROLLUPS))
EVER = (-(2**62), 2**62)
NS_PER_MS = 1_000_000


@dataclass(slots=True)
class Sums:
    """Count and sum of samples, in whole numbers: they compare exactly."""

    count: int = 0
    total: int = 0

    def add(self, values: Iterable[int]) -> None:
        for value in values:
            self.count, self.total = self.count + 1, self.total + value


def gauges(series: Sequence[str], points: Sequence[tuple[int, Sequence[int]]]) -> bytes:
    """OTLP: one gauge, a series per name; (nanoseconds, a value for each)."""
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add()
    group.resource.attributes.add(key="service.name").value.string_value = "bench"
    gauge = group.scope_metrics.add().metrics.add(name="queue_depth").gauge
    for moment, values in points:
        for name, value in zip(series, values, strict=True):
            point = gauge.data_points.add(time_unix_nano=moment, as_double=value)
            point.attributes.add(key="queue").value.string_value = name
    return bytes(request.SerializeToString())


def wait_for_orgs(settings: Settings, orgs: Sequence[str], patience_s: float = 120.0) -> None:
    """Until Dagster has partitions of all of them."""
    deadline = time.monotonic() + patience_s
    wanted = set(orgs)
    while True:
        with dagster(settings) as connection:
            rows = connection.execute("SELECT partition FROM dynamic_partitions").fetchall()
        if wanted <= {name for (name,) in rows}:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"no partitions of {sorted(wanted - {name for (name,) in rows})}")
        time.sleep(0.5)


def view_of(settings: Settings, org: str, start_ns: int, end_ns: int) -> TierView:
    with open_index(settings) as desk:
        return desk.tier_view(org, Signal.METRICS, FREQUENCIES, start_ns, end_ns)


def stale(view: TierView, hours: Iterable[int], *, days: bool) -> list[str]:
    """Rollups of these hours (and their days) that are missing or were built from what is no more."""
    current = current_partitions(view.partitions)
    wanted = set(hours)
    found: list[str] = []
    for rollup in ROLLUPS:
        if rollup.partition_ns == HOUR_NS:
            starts = wanted
        elif days:
            starts = {hour // DAY_NS * DAY_NS for hour in wanted}
        else:
            continue
        found += [f"{rollup.label} {start}" for start in sorted(starts - current[rollup.frequency_ms])]
    return found


def rolled_sums(settings: Settings, org: str, frequency_ms: int = HOUR) -> Sums:
    """What all rows of a rollup say together."""
    dataset = rollup_of(frequency_ms).dataset
    with open_index(settings) as desk:
        segments = desk.find_segments(SegmentQuery(org, dataset, frequency_ms, *EVER))
    found = Sums()
    for segment in segments:
        table = filled(pq.read_table(f"{settings.data_dir}/lake/{segment.key}"))
        count = pc.sum(table.column("chq_rollup_count")).as_py()
        sums = pc.add(table.column("chq_rollup_sum"), table.column("chq_rollup_sum_c"))
        found.count += int(count or 0)
        found.total += round(pc.sum(sums).as_py() or 0)
    return found


def dagster(settings: Settings) -> psycopg.Connection[Any]:
    return psycopg.connect(settings.index_dsn.rsplit("/", 1)[0] + "/dagster")


@dataclass(frozen=True, slots=True)
class Run:
    run_id: str
    job: str
    status: str
    created_s: float
    assets: frozenset[str]
    tags: dict[str, str]

    @property
    def why(self) -> str:
        """Who asked for it."""
        if self.tags.get("lakerunner/overdue"):
            return "overdue"
        if self.tags.get("dagster/from_automation_condition") == "true":
            return "lineage"
        return (
            "backfill" if "dagster/backfill" in self.tags else self.tags.get("dagster/sensor_name", "other")
        )


def runs(settings: Settings) -> list[Run]:
    with dagster(settings) as connection:
        rows = connection.execute(
            "SELECT run_id, pipeline_name, status, extract(EPOCH FROM create_timestamp), run_body FROM runs"
        ).fetchall()
    return [_run(*row) for row in rows]


def _run(run_id: str, job: str, status: str, created_s: float, body: str) -> Run:
    found = json.loads(body)
    chosen = found.get("asset_selection") or ()
    items = chosen.get("__frozenset__") or chosen.get("__set__") if isinstance(chosen, dict) else chosen
    assets = frozenset("/".join(item["path"]) for item in items or ())
    return Run(run_id, job, status, float(created_s), assets, found.get("tags") or {})


def kinds(found: Iterable[Run]) -> dict[str, int]:
    """Runs by tier, who asked, and how they ended."""
    counted: Counter[str] = Counter()
    for run in found:
        tiers = sorted({name.split("/")[0] for name in run.assets}) or [run.job]
        counted[f"{'+'.join(tiers)} {run.why} {run.status}"] += 1
    return dict(sorted(counted.items()))


def complaints(settings: Settings) -> dict[str, int]:
    """What Dagster's event log holds at level ERROR and above, by the first words."""
    with dagster(settings) as connection:
        rows = connection.execute(
            "SELECT coalesce(dagster_event_type, 'message'), event::json ->> 'user_message' FROM event_logs "
            "WHERE (event::json ->> 'level')::int >= 40"
        ).fetchall()
    return dict(Counter(f"{kind}: {(message or '')[:160]}" for kind, message in rows))


def failed_checks(settings: Settings) -> dict[str, int]:
    """By name."""
    with dagster(settings) as connection:
        rows = connection.execute(
            "SELECT concat_ws(' ', asset_key, check_name), count(*) FROM asset_check_executions "
            "WHERE execution_status = 'FAILED' GROUP BY 1"
        ).fetchall()
    return {f"check {name} failed": count for name, count in rows}
