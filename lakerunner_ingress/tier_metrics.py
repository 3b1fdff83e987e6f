"""Tiers as gauges, from the same reading as the other numbers of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from resources.exposition import Family, series
from resources.index.sweeping_types import TierNumbers, TierStatus
from resources.lake.frequency import ROLLUPS

_ROLLED = frozenset(rollup.dataset for rollup in ROLLUPS)


@dataclass(frozen=True, slots=True)
class Gauge:
    """One number of a tier; None is no sample."""

    name: str
    help: str
    value: Callable[[TierNumbers], float | None]


def _rolled(value: Callable[[TierNumbers], float]) -> Callable[[TierNumbers], float | None]:
    """Only rollups are ever due; a 0 for anything else would say nothing."""
    return lambda tier: value(tier) if tier.dataset in _ROLLED else None


GAUGES = (
    Gauge("lakerunner_tier_segments", "Live segments.", lambda tier: tier.segments),
    Gauge("lakerunner_tier_bytes", "Bytes of live segments.", lambda tier: tier.bytes),
    Gauge("lakerunner_tier_rows", "Rows of live segments.", lambda tier: tier.rows),
    Gauge(
        "lakerunner_tier_newest_event_timestamp_seconds",
        "Time of the newest event in a live segment; of a rollup, the end of its newest bucket.",
        lambda tier: None if tier.newest_ns is None else tier.newest_ns / 1e9,
    ),
    Gauge(
        "lakerunner_compaction_debt_segments",
        "Live segments that may still be merged.",
        lambda tier: tier.unsettled,
    ),
    Gauge(
        "lakerunner_compaction_debt_bytes",
        "Bytes of live segments that may still be merged.",
        lambda tier: tier.unsettled_bytes,
    ),
    Gauge(
        "lakerunner_rollup_due_partitions",
        "Partitions of rollups whose sources changed since they were built.",
        _rolled(lambda tier: tier.due),
    ),
    Gauge(
        "lakerunner_rollup_due_seconds",
        "How long the longest due partition has been due.",
        _rolled(lambda tier: tier.due_s),
    ),
    Gauge(
        "lakerunner_retired_segments",
        "Replaced segments whose files wait for the sweeper.",
        lambda tier: tier.retired,
    ),
    Gauge(
        "lakerunner_retired_bytes",
        "Bytes of replaced segments that wait for the sweeper.",
        lambda tier: tier.retired_bytes,
    ),
)


def tier_families(status: TierStatus) -> list[Family]:
    return [
        *(_gauge(gauge, status.tiers) for gauge in GAUGES),
        _by_org(
            "lakerunner_orphan_files",
            "Files in the lake that the index does not know.",
            {each.org: each.files for each in status.orphans},
        ),
        _by_org(
            "lakerunner_orphan_bytes", "Bytes of orphans.", {each.org: each.bytes for each in status.orphans}
        ),
    ]


def _gauge(gauge: Gauge, tiers: Iterable[TierNumbers]) -> Family:
    samples: dict[str, float] = {}
    for tier in tiers:
        value = gauge.value(tier)
        if value is not None:
            labels = {"org": tier.org, "signal": tier.signal, "dataset": tier.dataset}
            samples[series(gauge.name, **labels)] = value
    return Family(gauge.name, "gauge", gauge.help, samples)


def _by_org(name: str, text: str, values: Mapping[str, float]) -> Family:
    return Family(name, "gauge", text, {series(name, org=org): value for org, value in values.items()})
