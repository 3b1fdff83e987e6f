"""Random lines, and what metric queries say of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import strategies as st

from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.metrics.context import LogSteps, Options, by_labels
from lakerunner_query.logql.metrics.evaluate import LogResult, evaluate
from lakerunner_query.logql.pipeline import Buckets, Demand, LogSource
from lakerunner_query.vectors.labels import number_keys
from lakerunner_query.vectors.rows import join_steps, merge_rows, stack_rows
from lakerunner_query.vectors.vector import Labels, Vector
from resources.arrays import Int64s
from tests.golden.log_memory_source import LogMemorySource
from tests.golden.logqltest_script import LogLine

SECOND = 10**9
LINES = st.lists(
    st.builds(
        lambda at, app, pod, value, level: LogLine(
            (("app", app), ("pod", pod)), at * SECOND, f"v={value} level={level}", (("level", level),)
        ),
        st.integers(0, 300),
        st.sampled_from(["web", "db"]),
        st.sampled_from(["1", "2", "3"]),
        st.sampled_from(["1", "2.5", "-4", "NaN", "1e3", "7"]),
        st.sampled_from(["info", "warn"]),
    ),
    max_size=40,
)
STEPS = st.builds(
    LogSteps,
    st.integers(0, 200).map(lambda t: t * SECOND),
    st.integers(1, 50).map(lambda t: t * SECOND),
    st.integers(1, 12),
)


def ask(text: str, source: LogSource, steps: LogSteps, options: Options | None = None) -> LogResult:
    expr = parse_expr(text)
    assert not isinstance(expr, LogQuery)
    return evaluate(expr, steps, source, options)


def points(answer: LogResult) -> dict[Labels, list[float | None]]:
    """By series its values, None where there is none."""
    vector = answer.value
    assert isinstance(vector, Vector)
    assert len(set(vector.labels)) == len(vector.labels)
    rows = np.where(vector.present, np.where(np.isnan(vector.values), -12345.0, vector.values), np.nan)
    return {
        labels: [None if np.isnan(value) else float(value) for value in row]
        for labels, row in zip(vector.labels, rows, strict=True)
    }


def same(found: dict[Labels, list[float | None]], expected: dict[Labels, list[float | None]]) -> bool:
    """But for the last digits: numbers are added in different orders."""
    return found.keys() == expected.keys() and all(
        found[labels] == pytest.approx(values) for labels, values in expected.items()
    )


class CountingSource(LogMemorySource):
    """Counts lines in buckets where it is asked to, and remembers what it was asked for."""

    def __init__(self, lines: Sequence[LogLine], *, counts: bool = True) -> None:
        super().__init__(lines)
        self.asked = 0
        self.demands: list[Demand] = []
        self._counts = counts

    def rows(self, query: LogQuery, from_ns: int, to_ns: int, demand: Demand) -> Iterator[LogFrame]:
        self.demands.append(demand)
        return super().rows(query, from_ns, to_ns, demand)

    def buckets(
        self,
        query: LogQuery,
        by: tuple[str, ...],
        start_ns: int,
        width_ns: int,
        count: int,
        *,
        with_bytes: bool,
    ) -> Buckets | None:
        if not self._counts:
            return None
        self.asked += 1
        found: list[tuple[Labels, int, int]] = []
        for frame in self.rows(query, start_ns, start_ns + width_ns * count, Demand(None)):
            for row, time_ns in enumerate(frame.tsns.tolist()):
                columns = {name: frame.labels[name] for name in by if name in frame.labels}
                labels = {
                    name: column.values[int(column.codes[row])].as_py()
                    for name, column in columns.items()
                    if column.codes[row] >= 0
                }
                size = len(frame.line[row].as_py().encode())
                found.append((tuple(sorted(labels.items())), (time_ns - start_ns - 1) // width_ns, size))
        codes, labels = number_labels([one for one, _, _ in found])
        counts, sizes = np.zeros((2, len(labels), count), np.int64)
        for code, (_, bucket, size) in zip(codes, found, strict=True):
            counts[code, bucket] += 1
            sizes[code, bucket] += size
        return Buckets(labels, counts, sizes if with_bytes else np.zeros_like(sizes))


def join_results(answers: Sequence[LogResult]) -> LogResult:
    """Join the answers of runs of steps, which follow each other in time."""
    if len(answers) == 1:
        return answers[0]
    vectors = [answer.value for answer in answers if isinstance(answer.value, Vector)]
    widths = [vector.present.shape[1] for vector in vectors]
    parts = []
    for place, vector in enumerate(vectors):
        before, behind = sum(widths[:place]), sum(widths[place + 1 :])
        parts.append(join_steps([_blank(vector, before), vector, _blank(vector, behind)]))
    return LogResult(by_labels(merge_rows(stack_rows(parts))))


def _blank(vector: Vector, steps: int) -> Vector:
    shape = (len(vector.labels), steps)
    return Vector(vector.labels, np.zeros(shape), np.zeros(shape, np.bool_))


def number_labels(labels: list[Labels]) -> tuple[Int64s, list[Labels]]:
    """Return the number of each row's label set, and the distinct sets."""
    codes: dict[Labels, int] = {}
    return number_keys(labels, codes), list(codes)
