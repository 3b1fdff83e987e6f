"""Rules, what they derive, and what the raw records say: a lake whose rules are derived without Spark."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lakerunner_assets.materialized.run import DeriveReport, HourDerived, derive_hours
from lakerunner_assets.materialized.span_rules import label_name
from lakerunner_assets.segments.metrics import VALUE_COLUMN
from lakerunner_query.coordinator.languages import LOG_SAMPLES, PROMQL, TRACE_METRICS
from lakerunner_query.coordinator.logql_samples import LogSamplesRequest
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.coordinator.traceql import series_of
from lakerunner_query.plan.traceql import TraceMetricsRequest
from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import DerivedMetric
from resources.index.rule_types import CoverageQuery, RuleSet
from resources.lake.layout import Signal
from resources.lake.signals import MATERIALIZED_MS
from resources.lake.timecut import HOUR_NS
from tests.support.cooking_lake import HOUR, Lake
from tests.support.materialized.lake import rows
from tests.support.query.in_process import InProcess, engine_over

BUCKET_NS = 10 * 10**9
Cells = dict[tuple[tuple[tuple[str, str], ...], int], float]
"""Values by labels without the name, and by end in ms."""


def declare(lake: Lake, *metrics: DerivedMetric, org: str = "acme") -> RuleSet:
    return lake.index.change_rules(org, [put_of(one) for one in metrics], None)


def derive_rules(
    lake: Lake,
    signal: Signal,
    hours: Sequence[int] = (HOUR,),
    report: DeriveReport | None = None,
    *,
    force: bool = False,
    org: str = "acme",
) -> list[HourDerived]:
    found = derive_hours(
        lake.run_context(), signal, {org: hours}, DeriveReport() if report is None else report, force=force
    )
    return list(found)


def due_hours(lake: Lake, signal: Signal) -> list[int]:
    return sorted(due.start_ns for due in lake.index.due_partitions(signal, MATERIALIZED_MS))


def derived(lake: Lake, metric: str, hours: int = 1) -> Cells:
    """Return the samples of a metric as they are stored, of the first hours."""
    found: Cells = {}
    for row in rows(lake):
        inside = HOUR < row["chq_timestamp"] * 10**6 <= HOUR + hours * HOUR_NS
        if inside and row["metric_name"] == metric:
            labels = tuple(sorted((k, v) for k, v in row["labels"].items() if k != "__name__"))
            key = labels, row["chq_timestamp"]
            assert key not in found
            found[key] = row[VALUE_COLUMN]
    return found


def raw_logs(lake: Lake, text: str, hours: int = 1) -> Cells:
    """Return what a LogQL query answers at every end of a bucket; empty labels count as absent."""
    engine = engine_over(lake.index, InProcess(lake.folder / "lake", Path(tempfile.mkdtemp(dir=lake.folder))))

    async def answer() -> Cells:
        end = HOUR + hours * HOUR_NS
        request = LogSamplesRequest("acme", HOUR + BUCKET_NS, end, BUCKET_NS, rewrite=False)
        answered = await engine.collect(await engine.prepare(LOG_SAMPLES, text, request))
        assert not answered.missing
        found: Cells = {}
        for one in answered.series:
            labels = tuple(sorted(pair for pair in one.labels if pair[1]))
            for at, value in json.loads(f"[{one.floats.decode()}]"):
                key = labels, round(float(at) * 1000)
                found[key] = found.get(key, 0.0) + float(value)
        return found

    return asyncio.run(answer())


def gaps(lake: Lake, signal: Signal, name: str, hours: int = 1) -> tuple[int, ...]:
    """Return the hours in which a rule may not stand for its source."""
    (rule,) = [one for one in lake.index.rules("acme").rules if one.name == name]
    asked = CoverageQuery("acme", signal, ((rule.rule_id, rule.version),), HOUR, HOUR + hours * HOUR_NS)
    return lake.index.snapshot((), coverage=(asked,)).gaps[0].hours


def raw_spans(lake: Lake, text: str) -> Cells:
    """Return what a TraceQL query answers at every end of a bucket, without empty ones."""
    engine = engine_over(lake.index, InProcess(lake.folder / "lake", Path(tempfile.mkdtemp(dir=lake.folder))))

    async def answer() -> Cells:
        request = TraceMetricsRequest("acme", HOUR + BUCKET_NS, BUCKET_NS, HOUR_NS // BUCKET_NS)
        query = await engine.prepare(TRACE_METRICS, text, request)
        found: Cells = {}
        for one in series_of(query, await engine.collect(query)):
            named = ((label_name(name), str(value)) for name, kind, value in one.labels if kind != "nil")
            labels = tuple(sorted(pair for pair in named if pair[0] != "__name__"))
            for place, value in enumerate(one.values.tolist()):
                if not math.isnan(value) and (value or "count" not in text):
                    found[labels, (HOUR + (place + 1) * BUCKET_NS) // 10**6] = value
        return found

    return asyncio.run(answer())


def raw_samples(lake: Lake, text: str) -> Cells:
    """Return what a PromQL query answers at every end of a bucket."""
    engine = engine_over(lake.index, InProcess(lake.folder / "lake", Path(tempfile.mkdtemp(dir=lake.folder))))

    async def answer() -> Cells:
        start, end = (HOUR + BUCKET_NS) // 10**6, (HOUR + HOUR_NS) // 10**6
        request = PromQLRequest("acme", start, end, BUCKET_NS // 10**6)
        answered = await engine.collect(await engine.prepare(PROMQL, text, request))
        return {
            (one.labels, round(float(at) * 1000)): float(value)
            for one in answered.series
            for at, value in json.loads(f"[{one.floats.decode()}]")
        }

    return asyncio.run(answer())
