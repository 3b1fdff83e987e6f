"""One unit of a metric query over logs on one worker: the expression over its steps, as finished text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from lakerunner_query.errors import LimitExceededError, WorkFailedError
from lakerunner_query.logql.lang.ast import LogQuery, SampleExpr
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.metrics.context import LogSteps, Options
from lakerunner_query.logql.metrics.evaluate import Answer, evaluate
from lakerunner_query.protocol.answers import MetricAnswer
from lakerunner_query.protocol.units import LogMetricUnit
from lakerunner_query.vectors.vector import Scalar
from lakerunner_query.worker.logs.lake_source import DamagedError, LakeLogSource, Lost
from lakerunner_query.worker.logs.metric_rendering import scalar_text, vector_texts
from lakerunner_query.worker.logs.shared import Shared
from lakerunner_query.worker.opening import SegmentOpener
from resources.duckdb import Cancellation, DuckSession


class LogMetricScanner:
    """Everything a worker process shares between metric queries over logs."""

    def __init__(self, opener: SegmentOpener, session: DuckSession) -> None:
        self._opener = opener
        self._session = session

    def run(self, unit: LogMetricUnit, cancellation: Cancellation) -> MetricAnswer:
        expr = samples(unit.text)
        steps = LogSteps(unit.start_ns, unit.step_ns, unit.steps)
        options = Options(max_series=unit.max_series) if unit.max_series else Options()
        shared, lost = Shared(self._opener, self._session, cancellation), Lost()
        while True:
            source = LakeLogSource(unit.segments, shared, lost, unit.now_ns)
            try:
                with _enough_memory():
                    return rendered(evaluate(expr, steps, source, options), steps, source)
            except DamagedError:
                continue


def rendered(found: Answer, steps: LogSteps, source: LakeLogSource) -> MetricAnswer:
    times_ms = steps.times_ns // 1_000_000
    if isinstance(found.value, Scalar):
        series = scalar_text(found.value.values, times_ms)
    else:
        series = vector_texts(found.value, times_ms)
    return MetricAnswer(
        "scalar" if isinstance(found.value, Scalar) else "vector",
        series,
        is_ordered=found.is_ordered,
        samples=sum(one.points for one in series),
        report=source.report(),
    )


@lru_cache(256)
def samples(text: str) -> SampleExpr:
    expr = parse_expr(text)
    if isinstance(expr, LogQuery):
        raise WorkFailedError("a unit of samples brings a query for lines")
    return expr


@contextmanager
def _enough_memory() -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise LimitExceededError(
            "this part of the query needs more memory than a worker has: narrow the time range, "
            "use a larger step, or select fewer streams"
        ) from error
