"""Ask PromQL about series written as in promqltest scripts.

asked("up{a="1"} 1 2", "rate(up[2m])", at=60)   one sample a minute from 0 s on
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.promql.context import Options, SourceAnswer
from lakerunner_query.promql.evaluate import QueryResult, combine_results, evaluate
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Labels, Scalar, Series, Steps, Vector
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from tests.golden.memory_source import MemorySource
from tests.golden.promqltest_script import Load, commands

Change = Callable[[Series], Series]


@dataclass(slots=True)
class Changed:
    """A source whose samples are changed on the way, and that may answer windows itself."""

    inner: MemorySource
    change: Change
    answer: SourceAnswer | None = None

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        return self.change(self.inner.select(matchers, from_ms, to_ms))

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        return self.answer


def source_of(series: str, step: str = "1m", change: Change = lambda series: series) -> Changed:
    """One series a line; samples are `step` apart."""
    source = MemorySource()
    script = f"load {step}\n" + "\n".join(f"  {line.strip()}" for line in series.strip().splitlines())
    for command in commands(script):
        assert isinstance(command, Load)
        source.load(command)
    return Changed(source, change)


def answer(source: Changed, text: str, steps: Steps, options: Options = Options()) -> QueryResult:  # noqa: B008
    expr = bind(parse(text), steps.start_ms, steps.end_ms, steps.step_ms)
    return combine_results([evaluate(expr, steps, source, options)])


def asked(
    series: str | Changed,
    text: str,
    *,
    at: float = 0,
    options: Options = Options(),  # noqa: B008
) -> dict[Labels, object]:
    """The instant vector at a second: values by labels, in their order; histograms as they are."""
    found = answer(_source(series), text, Steps(round(at * 1000), 0, 1), options).value
    if isinstance(found, Scalar):
        return {(): float(found.values[0])}
    assert isinstance(found, Vector)
    return {labels: cell(found, row, 0) for row, labels in enumerate(found.labels)}


def ranged(
    series: str | Changed,
    text: str,
    start: float,
    end: float,
    step: float,
    options: Options = Options(),  # noqa: B008
) -> dict[Labels, list[object]]:
    """Return a value for each step by labels, None where there is none."""
    times = Steps(round(start * 1000), round(step * 1000), int((end - start) // step) + 1)
    found = answer(_source(series), text, times, options).value
    if isinstance(found, Scalar):
        return {(): found.values.tolist()}
    assert isinstance(found, Vector)
    return {
        labels: [cell(found, row, at) if found.present[row, at] else None for at in range(times.count)]
        for row, labels in enumerate(found.labels)
    }


def said(series: str | Changed, text: str, at: float = 0, options: Options = Options()) -> list[str]:  # noqa: B008
    """Annotations, as people see them, sorted."""
    found = answer(_source(series), text, Steps(round(at * 1000), 0, 1), options)
    return sorted(annotation.render(text) for annotation in found.annotations)


def cell(vector: Vector, row: int, step: int) -> object:
    if vector.histograms is not None and vector.histograms[row, step] is not None:
        return vector.histograms[row, step]
    return float(vector.values[row, step])


def labels(**of: str) -> Labels:
    """`name` stands for `__name__`."""
    return tuple(sorted((name if name != "name" else "__name__", value) for name, value in of.items()))


def deltas(series: Series) -> Series:
    return replace(series, is_delta=np.ones(len(series.time_ms), np.bool_))


def is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _source(series: str | Changed) -> Changed:
    return source_of(series) if isinstance(series, str) else series
