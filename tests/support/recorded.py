"""Recorded metrics, and what the ordinary engine says: a lake whose rules are recorded without Spark."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lakerunner_assets.metric_hours.run import HourMade
from lakerunner_assets.recorded.run import RecordReport, record_hours
from lakerunner_assets.segments.metrics import VALUE_COLUMN
from lakerunner_query.coordinator.languages import PROMQL
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import RecordingRule, RuleGroup, RuleLanguage
from lakerunner_query.windows.functions import STALE_BITS
from resources.lake.layout import Signal
from resources.lake.signals import RECORDED_MS
from tests.support.cooking_lake import HOUR, Lake
from tests.support.materialized.lake import rows
from tests.support.query.in_process import InProcess, engine_over

Points = dict[tuple[tuple[tuple[str, str], ...], int], float]
"""Values by labels without the name, and by time in ms."""
MINUTE_MS = 60_000


def declare(lake: Lake, *groups: RuleGroup, org: str = "acme") -> None:
    lake.index.change_rules(org, [put_of(group, "rules.yml") for group in groups], None)


def group(
    name: str, language: RuleLanguage = RuleLanguage.PROMQL, interval_ms: int = 0, **records: str
) -> RuleGroup:
    rules = tuple(RecordingRule(record.replace("__", ":"), expr) for record, expr in records.items())
    return RuleGroup(name, rules, language, interval_ms)


def record(
    lake: Lake, *hours: int, report: RecordReport | None = None, force: bool = False, org: str = "acme"
) -> list[HourMade]:
    report = RecordReport() if report is None else report
    return list(record_hours(lake.run_context(), {org: hours or (HOUR,)}, report, force=force))


def due(lake: Lake) -> list[int]:
    return sorted(one.start_ns for one in lake.index.due_partitions(Signal.METRICS, RECORDED_MS))


def recorded(lake: Lake, metric: str) -> Points:
    """Return the samples of a metric as they are stored, without stale markers."""
    return {key: value for key, value in _stored(lake, metric).items() if not _is_stale(value)}


def ended(lake: Lake, metric: str) -> list[int]:
    """Return the times of stale markers."""
    return sorted(key[1] for key, value in _stored(lake, metric).items() if _is_stale(value))


def _stored(lake: Lake, metric: str) -> Points:
    found: Points = {}
    for row in rows(lake):
        if row["metric_name"] == metric:
            labels = tuple(sorted((k, v) for k, v in row["labels"].items() if k != "__name__"))
            key = labels, row["chq_timestamp"]
            assert key not in found
            found[key] = row[VALUE_COLUMN]
    return found


def _is_stale(value: float) -> bool:
    return int(np.float64(value).view(np.uint64)) == STALE_BITS


def asked(lake: Lake, text: str, times_ms: Sequence[int]) -> Points:
    """Return what the ordinary engine answers at these times, which are equally far apart."""
    engine = engine_over(lake.index, InProcess(lake.folder / "lake", Path(tempfile.mkdtemp(dir=lake.folder))))
    step_ms = times_ms[1] - times_ms[0]
    request = PromQLRequest("acme", times_ms[0], times_ms[-1], step_ms, rewrite=False)

    async def answer() -> Points:
        answered = await engine.collect(await engine.prepare(PROMQL, text, request))
        assert not answered.missing
        found: Points = {}
        for one in answered.series:
            labels = tuple(sorted(pair for pair in one.labels if pair[0] != "__name__"))
            for at, value in json.loads(f"[{one.floats.decode()}]"):
                found[labels, round(float(at) * 1000)] = float(value)
        return found

    return asyncio.run(answer())
