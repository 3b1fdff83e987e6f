"""Dagster loads these definitions. Assets are added in `graph.py`, sensors in `sensors/`."""

from __future__ import annotations

import warnings

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakerunner_assets.freshness import fresh_check_keys, freshness_checks
from lakerunner_assets.graph import build_assets
from lakerunner_assets.keys import (
    DAY_ROLLUP_JOB,
    RECORD_JOB,
    ROLLUP_JOB,
    TABLES_JOB,
    Tier,
    asset_key,
    compact_job_name,
    cook_job_name,
    materialize_job_name,
    rollup_key,
    table_key,
)
from lakerunner_assets.signals import SIGNALS
from resources.bindings import Lakerunner
from resources.iceberg import TABLES
from resources.lake.frequency import DAY, ROLLUPS, rollup_of
from resources.lake.layout import Signal
from resources.settings import Settings
from sensors.freshness import freshness_sensor
from sensors.ingest import ingest_sensor
from sensors.lineage import lineage_sensor
from sensors.outbox import outbox_sensor
from sensors.planner import planner_sensor
from sensors.raw_listing import listing_job_name, listing_schedule
from sensors.reconciler import reconciler_sensor
from sensors.sweeping import sweeping_sensor
from sensors.tables import tables_sensor
from sensors.wakeup import wake_up_sensor

# Back-fill policies are beta in Dagster and warn once per asset at every load; we mean to use them.
warnings.filterwarnings("ignore", category=dg.BetaWarning)


def build_defs(settings: Settings) -> dg.Definitions:
    cook_jobs = {signal: _job(cook_job_name(signal), asset_key(Tier.COOKED, signal)) for signal in SIGNALS}
    list_jobs = {signal: _job(listing_job_name(signal), asset_key(Tier.RAW, signal)) for signal in SIGNALS}
    compact_jobs = {s: _job(compact_job_name(s), asset_key(Tier.COMPACTED, s)) for s in SIGNALS}
    roll_jobs = [
        _job(ROLLUP_JOB, *(rollup_key(rollup) for rollup in ROLLUPS if rollup.frequency_ms != DAY)),
        _job(DAY_ROLLUP_JOB, rollup_key(rollup_of(DAY))),
    ]
    derive_jobs = [_job(materialize_job_name(s), asset_key(Tier.MATERIALIZED, s)) for s in SIGNALS]
    record_job = _job(RECORD_JOB, asset_key(Tier.RECORDED, Signal.METRICS))
    tables_job = _job(TABLES_JOB, *map(table_key, TABLES))
    made_jobs = [*roll_jobs, *derive_jobs, record_job]
    return dg.Definitions(
        assets=build_assets(settings.horizon),
        asset_checks=freshness_checks(),
        jobs=[*cook_jobs.values(), *list_jobs.values(), *compact_jobs.values(), *made_jobs, tables_job],
        sensors=[
            *(
                ingest_sensor(signal, [cook_jobs[signal], list_jobs[signal]], settings.sensor_interval_s)
                for signal in SIGNALS
            ),
            *(
                planner_sensor(signal, compact_jobs[signal], settings.planner_interval_s)
                for signal in SIGNALS
            ),
            lineage_sensor(settings.rollup_interval_s),
            reconciler_sensor([*cook_jobs.values(), *made_jobs]),
            wake_up_sensor([*compact_jobs.values(), *made_jobs]),
            outbox_sensor,
            freshness_sensor,
            sweeping_sensor,
            tables_sensor(tables_job),
        ],
        schedules=[listing_schedule(signal) for signal in SIGNALS],
        resources={"lakerunner": Lakerunner()},
        executor=dg.in_process_executor,
    )


def _job(name: str, *keys: dg.AssetKey) -> UnresolvedAssetJobDefinition:
    return dg.define_asset_job(
        name,
        selection=dg.AssetSelection.assets(*keys) - dg.AssetSelection.checks(*fresh_check_keys()),
        executor_def=dg.in_process_executor,
    )


defs = build_defs(Settings.load())
