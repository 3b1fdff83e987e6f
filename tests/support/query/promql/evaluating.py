"""A tiny source for tests of evaluation: series written down as `{labels: {time in seconds: value}}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lakerunner_query.gotext.regexp import full_matches
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.promql.context import Annotation, Options, SourceAnswer
from lakerunner_query.promql.evaluate import QueryResult, combine_results, evaluate
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import Labels, Series, Steps, Vector
from lakerunner_query.windows.functions import STALE_BITS, Function
from lakerunner_query.windows.grid import Grid

STALE = float(np.uint64(STALE_BITS).view(np.float64))
Cell = float | Histogram
Data = Mapping[str, Mapping[int, Cell]]


def labels_of(text: str) -> Labels:
    """
    >>> labels_of('up{job=a,z=1}')
    (('__name__', 'up'), ('job', 'a'), ('z', '1'))
    """
    metric, _, rest = text.partition("{")
    pairs = [pair.partition("=") for pair in rest.removesuffix("}").split(",") if pair]
    labels = [(name, value) for name, _, value in pairs]
    return tuple(sorted([*labels, ("__name__", metric)] if metric else labels))


class Written:
    """Every series with a constant distance of samples or none; see `labels_of` for names."""

    def __init__(self, data: Data) -> None:
        self.series = dict(sorted((labels_of(text), samples) for text, samples in data.items()))
        self.asked = 0

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        self.asked += 1
        found = {
            labels: {at: cell for at, cell in samples.items() if from_ms < at * 1000 <= to_ms}
            for labels, samples in self.series.items()
            if all(_matches(matcher, dict(labels)) for matcher in matchers)
        }
        found = {labels: samples for labels, samples in found.items() if samples}
        cells = [cell for samples in found.values() for cell in samples.values()]
        histograms = np.full(len(cells), None, np.object_)
        for at, cell in enumerate(cells):
            histograms[at] = cell if isinstance(cell, Histogram) else None
        return Series(
            list(found),
            np.cumsum([0, *(len(samples) for samples in found.values())]).astype(np.int64),
            np.array([at * 1000 for samples in found.values() for at in samples], np.int64),
            np.array([0.0 if isinstance(cell, Histogram) else cell for cell in cells], np.float64),
            histograms if any(isinstance(cell, Histogram) for cell in cells) else None,
        )

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        return None


def _matches(matcher: Matcher, labels: dict[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    equal = full_matches(matcher.value, [value])[0] if matcher.op.is_regex else value == matcher.value
    return equal != (matcher.op in {MatchOp.NOT_EQUAL, MatchOp.NOT_REGEX})


def ask(
    source: Written, text: str, *, start: int = 0, step: int = 60, count: int = 1, parts: int = 1
) -> QueryResult:
    """Times in seconds; in several parts as slices of a query are."""
    whole = Steps(start * 1000, step * 1000, count)
    expr = bind(parse(text), whole.start_ms, whole.end_ms, whole.step_ms)
    answers = []
    for share in np.array_split(np.arange(count), parts):
        steps = Steps(whole.start_ms + int(share[0]) * whole.step_ms, whole.step_ms, len(share))
        answers.append(evaluate(expr, steps, source, Options()))
    return combine_results(answers)


def table(answer: QueryResult) -> dict[str, list[float | Histogram | None]]:
    """`{labels: value by step}`, None where there is nothing."""
    vector = answer.value
    if not isinstance(vector, Vector):
        raise TypeError(f"expected a vector, found {type(vector).__name__}")
    found: dict[str, list[float | Histogram | None]] = {}
    for row, labels in enumerate(vector.labels):
        cells: list[float | Histogram | None] = []
        for step in range(vector.present.shape[1]):
            histogram = None if vector.histograms is None else vector.histograms[row, step]
            value = float(vector.values[row, step]) if histogram is None else histogram
            cells.append(value if vector.present[row, step] else None)
        found[written(labels)] = cells
    return found


def written(labels: Labels) -> str:
    rest = ",".join(f"{name}={value}" for name, value in labels if name != "__name__")
    return dict(labels).get("__name__", "") + "{" + rest + "}"


def said(annotations: tuple[Annotation, ...], text: str) -> list[str]:
    return sorted(annotation.render(text) for annotation in annotations)
