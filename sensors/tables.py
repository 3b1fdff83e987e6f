"""The sensor requests one run for all open tables that are due.

It needs the index only. A run that is under way takes what is due by itself, so there is never a second one.
"""

import time
from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakerunner_assets.keys import MODE_TAG, TABLES_JOB
from lakerunner_assets.tables.asset import DUE
from resources.bindings import Lakerunner
from resources.index.open_tables import OpenTable
from sensors.requests import WAITING

INTERVAL_S = 15
FAILED_PAUSE_S = 120.0
"""Pause after a request that left the same tables due."""


def tables_sensor(job: UnresolvedAssetJobDefinition) -> dg.SensorDefinition:
    @dg.sensor(
        name="open_tables",
        job=job,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Requests a run when open tables lag behind the index.",
    )
    def open_tables(
        context: dg.SensorEvaluationContext, lakerunner: Lakerunner
    ) -> dg.SensorResult | dg.SkipReason:
        from lakerunner_assets.tables.run import due_tables

        orgs = context.instance.get_dynamic_partitions("org")
        listed = [table for table in lakerunner.index.list_tables() if table.org in orgs]
        due = due_tables(listed, lakerunner.settings)
        if not due:
            return dg.SkipReason(f"none of {len(listed)} tables is due")
        if _under_way(context.instance):
            return dg.SkipReason("a run is under way")
        state = ",".join(f"{table.table_id}.{table.committed}" for table in due)
        before, _, at = (context.cursor or "").partition("@")
        if before == state and time.time() - float(at) < FAILED_PAUSE_S:
            return dg.SkipReason(f"{len(due)} tables are due, asked for lately")
        return dg.SensorResult(run_requests=[_request(due, orgs)], cursor=f"{state}@{time.time():.0f}")

    return open_tables


def _request(due: Sequence[OpenTable], orgs: Sequence[str]) -> dg.RunRequest:
    """Show the run under the organisations of its tables; `orgs` are in Dagster's order of a range."""
    wanted = {table.org for table in due}
    shown = [org for org in orgs if org in wanted]
    return dg.RunRequest(
        job_name=TABLES_JOB,
        tags={
            MODE_TAG: DUE,
            "dagster/asset_partition_range_start": shown[0],
            "dagster/asset_partition_range_end": shown[-1],
        },
    )


def _under_way(instance: dg.DagsterInstance) -> bool:
    wanted = dg.RunsFilter(job_name=TABLES_JOB, statuses=[*WAITING, dg.DagsterRunStatus.STARTED])
    return bool(instance.get_runs(filters=wanted, limit=1))
