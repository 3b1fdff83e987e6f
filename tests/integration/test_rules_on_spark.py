"""Rules are derived by tasks of a real Spark, for all signals, and say what the raw records say."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakerunner_assets.materialized.run import DeriveReport
from lakerunner_query.rules.documents import SAMPLE, DerivedMetric
from resources.lake.layout import Signal
from resources.settings import Settings
from resources.spark import SparkTasks
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.materialized.lake import cook
from tests.support.materialized.rules import (
    declare,
    derive_rules,
    derived,
    due_hours,
    raw_logs,
    raw_samples,
    raw_spans,
)
from tests.support.materialized.spans import traces
from tests.support.otlp_logs import otlp_logs
from tests.support.rolling_lake import arrive, every, gauge
from tests.support.stack_fixture import forget_spark_session, start_stack, stop_stack

pytestmark = [pytest.mark.integration, pytest.mark.slow]
SHOP = '{service_name="shop"} |= "code" | logfmt'
METRICS = (
    DerivedMetric("codes", Signal.LOGS, SHOP, ("code",)),
    DerivedMetric("took", Signal.LOGS, SHOP, ("code",), "took"),
    DerivedMetric("lines", Signal.LOGS, '{service_name=~".+"}', ("service_name",)),
    DerivedMetric("failed", Signal.TRACES, "{ status = error }", ("resource.service.name",)),
    DerivedMetric("load", Signal.METRICS, "level", ("service_name",), SAMPLE),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    data_dir = tmp_path_factory.mktemp("spark")
    yield start_stack(data_dir, ("spark",))
    forget_spark_session()
    stop_stack(data_dir)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with an hour of every signal, cooked here."""
    made = lake_in(tmp_path)
    declare(made, *METRICS)
    lines = [(HOUR + n * SECOND, f"code={200 + n % 3} took={n}") for n in range(1, 600)]
    made.arrive("logs", otlp_logs(lines))
    made.cook()
    cook(made, "traces", traces(random.Random(2), 40, HOUR))
    arrive(made, "metrics", gauge(every(7)))
    made.cook(Signal.METRICS)
    return made


def test_tasks_of_spark_derive_what_queries_say(server: Settings, lake: Lake) -> None:
    lake.tasks = SparkTasks(replace(server, lake_url=lake.settings.lake_url))  # type: ignore[assignment]
    report = DeriveReport()
    for signal in Signal:
        derive_rules(lake, signal, due_hours(lake, signal), report)
    assert (report.failed, report.ineligible) == ([], [])
    assert derived(lake, "codes") == raw_logs(lake, f"sum by (code) (count_over_time({SHOP} [10s]))")
    took = raw_logs(lake, f"sum by (code) (sum_over_time({SHOP} | unwrap took [10s]))")
    assert derived(lake, "took") == pytest.approx(took, rel=1e-12)
    assert sum(derived(lake, "lines").values()) == 599
    failed = "{ status = error } | count_over_time() by (resource.service.name)"
    assert derived(lake, "failed") == raw_spans(lake, failed)
    load = raw_samples(lake, "sum by (service_name) (sum_over_time(level[10s]))")
    assert derived(lake, "load") == pytest.approx(load, rel=1e-12)
