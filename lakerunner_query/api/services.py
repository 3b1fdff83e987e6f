"""What the handlers of one API process share, built once by `app.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakerunner_query.api.metrics import Counters
from lakerunner_query.api.watching import QueryWatch
from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.logql_lines import Engine
from lakerunner_query.coordinator.logql_samples import LogMetricEngine
from lakerunner_query.coordinator.names import SeriesEngine, StreamEngine
from lakerunner_query.coordinator.promql import MetricEngine
from lakerunner_query.promql.lang.cursor import Features
from resources.settings import Settings
from resources.store.latency import LatencyTable


@dataclass(frozen=True, slots=True)
class Services:
    settings: Settings
    locator: Locator
    dispatcher: Dispatcher
    engine: Engine
    metrics: MetricEngine
    log_metrics: LogMetricEngine
    series: SeriesEngine
    streams: StreamEngine
    counters: Counters
    query_times: LatencyTable = field(
        default_factory=lambda: LatencyTable("lakerunner_query_seconds", ("api", "outcome"))
    )

    @property
    def features(self) -> Features:
        """Optional parts of PromQL that may be used."""
        return Features.named(self.metrics.limits.features)

    def watch(self, api: str) -> QueryWatch:
        """Times one query, for `/metrics`; use it as a context."""
        return QueryWatch(api, self.query_times, self.counters)
