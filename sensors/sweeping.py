"""The sweeping sensor sweeps every ten minutes in the code server; it starts no runs.

One sweeper at a time, by an advisory lock: a second one does nothing and says so.
"""

from typing import cast

import dagster as dg

from resources.bindings import Lakerunner
from resources.index.contract import SweepIndex

INTERVAL_S = 600
MAX_S = 40.0
"""Time of a sweep: Dagster gives a tick a minute. What is left is swept by the next one."""


@dg.sensor(
    name="sweeper",
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Deletes what is past its retention and files that nothing needs; starts no runs.",
)
def sweeping_sensor(context: dg.SensorEvaluationContext, lakerunner: Lakerunner) -> dg.SkipReason:
    from lakerunner_assets.sweep.act import sweep
    from lakerunner_assets.sweep.plan import Policy

    settings = lakerunner.settings
    index = cast("SweepIndex", lakerunner.index)
    report = sweep(index, settings, Policy.of(settings), max_s=MAX_S)
    for problem in report.problems:
        context.log.warning(problem)
    return dg.SkipReason(report.summary())
