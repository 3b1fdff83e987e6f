"""What the reconciler asks for when lineage forgot a rollup."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from lakerunner_assets.keys import DAY_ROLLUP_JOB, LINEAGE_TAG, ROLLUP_JOB, materialize_job_name
from lakerunner_assets.partitions import ORGANISATIONS, day_partition_key, partition_key
from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import DerivedMetric
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from sensors.reconciler import MAX_STRETCH, OVERDUE_TAG, PATIENCE, overdue_requests, stretches
from tests.support.cooking_lake import HOUR, Lake, lake_in
from tests.support.materialized.lake import cook
from tests.support.materialized.spans import Call
from tests.support.otlp_logs import otlp_logs
from tests.support.rolling_lake import DAY, arrive, every, gauge, roll_hours

START, END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = lake_in(tmp_path)
    made.settings = replace(made.settings, rollup_overdue_s=100)
    made.index._clock = lambda: 1_767_230_000.0 + made.later
    for number in range(2):
        arrive(made, f"a{number}", gauge(every(60, HOUR + number * HOUR_NS)), HOUR + number * HOUR_NS)
    made.cook(Signal.METRICS)
    return made


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        made.add_dynamic_partitions(str(ORGANISATIONS.name), ["acme"])
        yield made


def requests(lake: Lake, instance: dg.DagsterInstance) -> list[tuple[str, str, str]]:
    found = overdue_requests(lake.index, instance, lake.settings)
    assert all(request.tags[OVERDUE_TAG] == "true" for request in found)
    return [(str(r.job_name), r.tags[START], r.tags[END]) for r in found]


def test_neighbouring_hours_are_one_request_once_they_are_overdue(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.later = 99
    assert requests(lake, instance) == []
    lake.later = 101
    hours = partition_key("acme", HOUR), partition_key("acme", HOUR + HOUR_NS)
    assert requests(lake, instance) == [(ROLLUP_JOB, *map(str, hours))]


def test_days_follow_when_no_hour_is_overdue(lake: Lake, instance: dg.DagsterInstance) -> None:
    roll_hours(lake, HOUR, HOUR + HOUR_NS)
    lake.later = 101
    day = str(day_partition_key("acme", DAY))
    assert requests(lake, instance) == [(DAY_ROLLUP_JOB, day, day)]


def test_nothing_is_asked_for_twice_or_while_lineage_is_at_it(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.later = 101
    started = dg.DagsterRunStatus.STARTED
    instance.create_run_for_job(_job("lineage"), tags={LINEAGE_TAG: "true"}, status=started)
    assert requests(lake, instance) == []
    lake.later = 100 * PATIENCE + 1
    assert len(requests(lake, instance)) == 1
    instance.create_run_for_job(_job(ROLLUP_JOB), status=started)
    assert requests(lake, instance) == []


def test_an_organisation_without_partitions_is_not_asked_for(lake: Lake) -> None:
    lake.later = 101
    with dg.DagsterInstance.ephemeral() as empty:
        assert requests(lake, empty) == []


def test_a_long_stretch_is_several_requests() -> None:
    found = stretches([("a", hour * HOUR_NS) for hour in range(2 * MAX_STRETCH + 1)], HOUR_NS)
    assert [(s.last_ns - s.first_ns) // HOUR_NS + 1 for s in found] == [MAX_STRETCH, MAX_STRETCH, 1]


def _job(name: str) -> dg.JobDefinition:
    @dg.op
    def nothing() -> None: ...

    @dg.job(name=name)
    def made() -> None:
        nothing()

    return made


def test_hours_that_rules_derive_from_are_requested_as_the_index_says(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    """Lineage knows nothing of rules: an organisation without them gets no run."""
    job, hour = materialize_job_name(Signal.LOGS), str(partition_key("acme", HOUR))
    lake.arrive("before", otlp_logs([(HOUR + 5, "x")]))
    lake.cook()
    lake.later = 101
    assert job not in [name for name, _, _ in requests(lake, instance)]
    lake.index.change_rules("acme", [put_of(DerivedMetric("m", Signal.LOGS, '{a="b"}', since_ns=HOUR))], None)
    assert job not in [name for name, _, _ in requests(lake, instance)]
    lake.later += lake.settings.rollup_interval_s + 1
    assert (job, hour, hour) in requests(lake, instance)


def test_hours_of_spans_that_lineage_forgot_are_derived(lake: Lake, instance: dg.DagsterInstance) -> None:
    cook(lake, "spans", [Call(b"t" * 16, b"c" * 8, b"", "server", "shop", HOUR + 1800 * 10**9)])
    lake.later = 101
    job, hour = materialize_job_name(Signal.TRACES), str(partition_key("acme", HOUR))
    assert (job, hour, hour) in requests(lake, instance)
    instance.create_run_for_job(_job(job), status=dg.DagsterRunStatus.STARTED)
    assert job not in [name for name, _, _ in requests(lake, instance)]
