"""What answers the queries of scripts: evaluation over samples in memory, or over a lake.

A stack loads series, forgets them, and answers in the shape in which Prometheus would.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from lakerunner_query.errors import QueryError
from lakerunner_query.promql.context import Options
from lakerunner_query.promql.evaluate import QueryResult, combine_results, evaluate
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.vectors.vector import Scalar, Series, Steps, String, Vector
from tests.golden.memory_source import MemorySource
from tests.golden.promqltest_compare import Outcome, Point, Row
from tests.golden.promqltest_script import Load, Times

OPTIONS = Options(start_timestamps=True)


class Stack(Protocol):
    def clear(self) -> None: ...

    def load(self, load: Load) -> None: ...

    def ask(self, text: str, times: Times, is_range: bool) -> Outcome: ...


class SourceStack:
    """Evaluates over any source that keeps what scripts load."""

    options = OPTIONS

    def __init__(self, source: MemorySource) -> None:
        self._source = source

    def clear(self) -> None:
        self._source.clear()

    def load(self, load: Load) -> None:
        self._source.load(load)

    def ask(self, text: str, times: Times, is_range: bool) -> Outcome:
        step_ms = times.step_ms if is_range else 0
        count = (times.end_ms - times.start_ms) // times.step_ms + 1 if is_range else 1
        steps = Steps(times.start_ms, step_ms or 1, count)
        try:
            expr = bind(parse(text), times.start_ms, times.end_ms, step_ms)
            answer = combine_results([evaluate(expr, steps, self._source, self.options)])
        except QueryError as error:
            return Outcome(failure=str(error))
        return outcome_of(answer, text, steps, is_range)


def outcome_of(answer: QueryResult, text: str, steps: Steps, is_range: bool) -> Outcome:
    said = [(note.kind, note.render(text)) for note in answer.annotations]
    warnings = tuple(text for kind, text in said if kind == "warning")
    infos = tuple(text for kind, text in said if kind == "info")
    match answer.value:
        case Scalar(values=values) if not is_range:
            return Outcome(scalar=float(values[0]), warnings=warnings, infos=infos)
        case Scalar(values=values):
            points = tuple(zip(steps.times_ms.tolist(), values.tolist(), strict=True))
            return Outcome((Row((), points),), is_matrix=True, warnings=warnings, infos=infos)
        case String(value=value):
            return Outcome(string=value, warnings=warnings, infos=infos)
        case Vector() as vector:
            return Outcome(_rows(vector, steps), is_range, warnings=warnings, infos=infos)
        case Series() as series:
            return Outcome(_sample_rows(series), True, warnings=warnings, infos=infos)


def _rows(vector: Vector, steps: Steps) -> tuple[Row, ...]:
    times = steps.times_ms.tolist()
    found = []
    for row, labels in enumerate(vector.labels):
        at = np.flatnonzero(vector.present[row]).tolist()
        points = tuple((times[i], _cell(vector, row, i)) for i in at)
        if points:
            found.append(Row(labels, points))
    return tuple(found)


def _cell(vector: Vector, row: int, step: int) -> Point:
    histogram = None if vector.histograms is None else vector.histograms[row, step]
    return float(vector.values[row, step]) if histogram is None else histogram


def _sample_rows(series: Series) -> tuple[Row, ...]:
    found = []
    for row, labels in enumerate(series.labels):
        places = range(int(series.offsets[row]), int(series.offsets[row + 1]))
        points = tuple((int(series.time_ms[i]), _sample(series, i)) for i in places)
        if points:
            found.append(Row(labels, points))
    return tuple(found)


def _sample(series: Series, place: int) -> Point:
    histogram = None if series.histograms is None else series.histograms[place]
    return float(series.value[place]) if histogram is None else histogram
