"""Handlers share one set of services; each query is timed from request to last byte.

Outcomes are `complete`, `partial`, the code of an error, or `abandoned` when the caller left. A handler that
answers with a stream prepares under `with watch:`, hands over, and the stream goes on under the same watch.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from litestar.datastructures import State

from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.engine import Engine
from lakerunner_query.coordinator.lakeql import LakeQL
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.merge import RowMerge
from lakerunner_query.errors import QueryError
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.serving import Counters
from resources.exposition import series
from resources.objects.latency import LatencyTable
from resources.settings import Settings

ABANDONED = "abandoned"


@dataclass(slots=True)
class QueryWatch:
    """One query, timed and counted by its outcome."""

    api: str
    times: LatencyTable
    counters: Counters
    outcome: str = ABANDONED
    began: float = field(default_factory=time.perf_counter)
    _handed_over: bool = False

    def hand_over(self) -> None:
        """Count the query at the end of the next block; the answer goes on after this one."""
        self._handed_over = True

    def finish(self, collected: RowMerge) -> None:
        """End a query for lines without an error."""
        self.end(partial=collected.is_partial)
        self.counters.add(series("lakerunner_query_rows_total", api=self.api), collected.rows)
        considered = collected.bytes_considered
        self.counters.add(series("lakerunner_query_bytes_considered_total", api=self.api), considered)

    def end(self, *, partial: bool, points: int = 0) -> None:
        """End a query without an error; `points` are samples of its answer."""
        self.outcome = "partial" if partial else "complete"
        if points:
            self.counters.add(series("lakerunner_query_points_total", api=self.api), points)

    def fail(self, error: BaseException) -> None:
        if isinstance(error, QueryError):
            self.outcome = error.code
        else:
            self.outcome = "internal" if isinstance(error, Exception) else ABANDONED

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.fail(error)
        elif self._handed_over:
            self._handed_over = False
            return
        self.times.add(self.api, self.outcome, time.perf_counter() - self.began)


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the handlers of one API process share, built once by `app.py`."""

    settings: Settings
    locator: Locator
    dispatcher: Dispatcher
    engine: Engine
    lakeql: LakeQL
    counters: Counters
    query_times: LatencyTable = field(
        default_factory=lambda: LatencyTable("lakerunner_query_seconds", ("api", "outcome"))
    )

    @property
    def features(self) -> Features:
        """Optional parts of PromQL that are enabled."""
        return Features.from_flags(self.engine.limits.features)

    def watch(self, api: str) -> QueryWatch:
        """Time one query for `/metrics`; use it as a context."""
        return QueryWatch(api, self.query_times, self.counters)


def provide_services(state: State) -> Services:
    services: Services = state.services
    return services
