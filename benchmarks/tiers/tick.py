"""One tick of lineage over 43,200 partitions per asset: 20 organisations, 90 days, all hours."""

from __future__ import annotations

import datetime as dt
import statistics
import time
import warnings
from typing import Any

import dagster as dg

from lakerunner_assets.cooked.asset import cooked_asset
from lakerunner_assets.keys import Tier, asset_key
from lakerunner_assets.partitions import ORGANISATIONS, partition_key
from lakerunner_assets.raw.asset import raw_asset
from lakerunner_assets.rollup.asset import rollup_asset
from lakerunner_assets.signals import SIGNALS
from resources.bindings import Lakerunner
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, cut, from_datetime

ORGS, DAYS, ROUNDS = 20, 90, 10
COOKED = asset_key(Tier.COOKED, Signal.METRICS)


def measure(orgs: int = ORGS, days: int = DAYS, history: int = 2000) -> dict[str, Any]:
    """Seconds of a tick with nothing new, and with ten changed hours."""
    now = dt.datetime.now(dt.UTC)
    horizon = (now - dt.timedelta(days=days)).date().isoformat()
    spec = SIGNALS[Signal.METRICS]
    defs = dg.Definitions(
        assets=[
            raw_asset(spec, horizon),
            cooked_asset(spec, horizon),
            *(rollup_asset(rollup, horizon) for rollup in ROLLUPS),
        ],
        resources={"lakerunner": Lakerunner()},
    )
    newest = cut(from_datetime(now), HOUR_NS)
    names = [f"org{number:02}" for number in range(orgs)]
    with warnings.catch_warnings(), dg.DagsterInstance.ephemeral() as instance:
        warnings.simplefilter("ignore", dg.BetaWarning)
        instance.add_dynamic_partitions(str(ORGANISATIONS.name), names)
        for number in range(history):
            hour = newest - (number // orgs) * HOUR_NS
            _happens(instance, names[number % orgs], hour)
        cursor: Any = None
        started = time.perf_counter()
        cursor = dg.evaluate_automation_conditions(defs, instance, cursor=cursor).cursor
        first = time.perf_counter() - started
        idle: list[float] = []
        busy: list[float] = []
        requested = 0
        for round_number in range(ROUNDS):
            started = time.perf_counter()
            cursor = dg.evaluate_automation_conditions(defs, instance, cursor=cursor).cursor
            idle.append(time.perf_counter() - started)
            for name in names[:10]:
                _happens(instance, name, newest - round_number * HOUR_NS)
            started = time.perf_counter()
            result = dg.evaluate_automation_conditions(defs, instance, cursor=cursor)
            busy.append(time.perf_counter() - started)
            cursor, requested = result.cursor, requested + result.total_requested
    return {
        "partitions": orgs * days * 24,
        "first_s": first,
        "idle_s": statistics.median(idle),
        "busy_s": statistics.median(busy),
        "worst_s": max(idle + busy),
        "requested": requested,
    }


def _happens(instance: dg.DagsterInstance, org: str, hour_ns: int) -> None:
    partition = str(partition_key(org, hour_ns))
    instance.report_runless_asset_event(dg.AssetMaterialization(COOKED, partition=partition))
