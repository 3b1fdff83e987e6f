"""This sensor evaluates the check `fresh` of every tier without a run."""

import json
import time

import dagster as dg

from lakerunner_assets.freshness import FRESH, waits
from resources.bindings import Lakerunner

INTERVAL_S = 60
AGAIN_S = 1800.0
"""Time after which an unchanged verdict is repeated: an old one says nothing about now."""


@dg.sensor(
    name="freshness",
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Says whether each tier is as new as what came in; starts no runs.",
)
def freshness_sensor(
    context: dg.SensorEvaluationContext, lakerunner: Lakerunner
) -> dg.SensorResult | dg.SkipReason:
    told: dict[str, list[float]] = json.loads(context.cursor) if context.cursor else {}
    now = time.time()
    events: list[dg.AssetCheckEvaluation] = []
    for wait in waits(lakerunner.index, lakerunner.settings, time.time_ns()):
        name = wait.key.to_user_string()
        passed, at = told.get(name, [-1.0, 0.0])
        if passed != float(wait.passed) or now - at >= AGAIN_S:
            told[name] = [float(wait.passed), now]
            severity = dg.AssetCheckSeverity.WARN
            events.append(
                dg.AssetCheckEvaluation(
                    asset_key=wait.key,
                    check_name=FRESH,
                    passed=wait.passed,
                    metadata=wait.metadata,
                    severity=severity,
                )
            )
    if not events:
        return dg.SkipReason("no verdict changed")
    return dg.SensorResult(asset_events=events, cursor=json.dumps(told))
