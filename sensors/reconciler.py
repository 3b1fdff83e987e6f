"""The guarantee behind the fast path: whatever the tables say is due is requested, whoever forgot about it.

Needs only Postgres. Releases the claims of dead holders, plans batches for pending objects, requests runs for
them and for rollups that have been due for too long.
"""

from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakerunner_assets.signals import SIGNALS
from resources.bindings import Lakerunner
from sensors.ingest import plan_batches
from sensors.overdue import overdue_requests
from sensors.requests import cook_requests

INTERVAL_S = 10
OVERDUE_S = 20.0
"""The ingest sensor has had several chances by then; two sensors must not ask for the same work at once."""


def reconciler_sensor(jobs: Sequence[UnresolvedAssetJobDefinition]) -> dg.SensorDefinition:
    @dg.sensor(
        name="reconciler",
        jobs=jobs,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Requests every due batch and every overdue rollup, releases claims whose holder died.",
    )
    def reconciler(
        context: dg.SensorEvaluationContext, lakerunner: Lakerunner
    ) -> dg.SensorResult | dg.SkipReason:
        index, settings = lakerunner.index, lakerunner.settings
        released = index.release_expired(settings.lease_s)
        if released:
            context.log.warning(f"{released} claims were released: their holders stopped beating")
        requests: list[dg.RunRequest] = []
        for signal in SIGNALS:
            plan_batches(index, settings, signal)
            requests += cook_requests(index, context.instance, settings, signal, OVERDUE_S)
        requests += overdue_requests(index, context.instance, settings)
        return dg.SensorResult(run_requests=requests) if requests else dg.SkipReason("nothing is overdue")

    return reconciler
