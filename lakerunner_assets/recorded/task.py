"""A Spark task evaluates recording rules over one hour, and stores the samples.

A rule that cannot be evaluated fails alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakerunner_assets.metric_hours.task import HourAnswer, HourUnit, fetch, run_unit, write_hour
from lakerunner_assets.recorded.evaluate import RecordedHour, RecordedRule, record_hour
from lakerunner_assets.recorded.plan import ORIGIN
from lakerunner_assets.recorded.samples import sample_table
from lakerunner_assets.recorded.sources import open_sources
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.rules.catalog import group_of
from resources.index.rule_types import StoredRule
from resources.lake.timecut import HOUR_NS
from resources.objects.client import ObjectStore

MOST_SAMPLES = 2_000_000
"""Samples that the rules of an organisation may record in an hour."""


@dataclass(frozen=True, slots=True)
class RecordUnit(HourUnit):
    groups: tuple[StoredRule, ...]
    interval_ms: int
    """Interval of groups that have none of their own."""
    metrics: tuple[SegmentRef, ...]
    logs: tuple[SegmentRef, ...]


@dataclass(frozen=True, slots=True)
class RecordAnswer(HourAnswer):
    """One segment, none where nothing was recorded."""

    rules: tuple[RecordedRule, ...] = ()


def record(payload: bytes) -> bytes:
    """Record one encoded unit; return an encoded answer."""
    return run_unit(payload, RecordUnit, RecordAnswer, _record)


def _record(unit: RecordUnit, lake: ObjectStore, folder: Path) -> RecordAnswer:
    here = fetch(lake, (*unit.metrics, *unit.logs), folder)
    found = _evaluate(unit, here[: len(unit.metrics)], here[len(unit.metrics) :], folder)
    if not found.samples:
        return RecordAnswer(unit.batch_id, rules=found.rules)
    segment = write_hour(unit, ORIGIN, [sample_table(found.samples)], lake, folder)
    return RecordAnswer(unit.batch_id, (segment,), rules=found.rules)


def _evaluate(
    unit: RecordUnit, metrics: Sequence[SegmentRef], logs: Sequence[SegmentRef], folder: Path
) -> RecordedHour:
    groups = [group_of(one) for one in unit.groups]
    if not groups:
        return RecordedHour((), ())
    with open_sources(metrics, logs, folder, unit.hour_ns + HOUR_NS) as sources:
        return record_hour(groups, unit.hour_ns, unit.interval_ms, sources.made, sources.ask, MOST_SAMPLES)
