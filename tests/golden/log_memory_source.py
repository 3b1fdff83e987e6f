"""Lines in memory as a `LogSource`: what is told of lines is the same as of a lake's segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakerunner_query.gotext import regexp
from lakerunner_query.logql.frame import Category, LogFrame, of_texts
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.pipeline import Buckets, Demand, apply
from lakerunner_query.syntax import Matcher
from tests.golden.logqltest_script import LogLine

NOW_NS = 1_767_312_000 * 10**9


class LogMemorySource:
    """Frames are small, so that a query has to put several together."""

    def __init__(self, lines: Sequence[LogLine] = (), frame_rows: int = 7) -> None:
        self.lines = list(lines)
        self._frame_rows = frame_rows

    def rows(self, query: LogQuery, from_ns: int, to_ns: int, demand: Demand) -> Iterator[LogFrame]:
        chosen = [
            (position, line)
            for position, line in enumerate(self.lines)
            if from_ns < line.time_ns <= to_ns and fits(query.matchers, line)
        ]
        for start in range(0, len(chosen), self._frame_rows):
            frame = frame_of(chosen[start : start + self._frame_rows])
            yield apply(frame, query.stages, demand, NOW_NS)

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
        del query, by, start_ns, width_ns, count, with_bytes
        return None


def fits(matchers: Sequence[Matcher], line: LogLine) -> bool:
    labels = dict(line.labels)
    return all(_fits(matcher, labels.get(matcher.name, "")) for matcher in matchers)


def _fits(matcher: Matcher, value: str) -> bool:
    is_equal = (
        regexp.full_matches(matcher.value, [value])[0] if matcher.op.is_regex else value == matcher.value
    )
    return is_equal != matcher.op.is_negative


def frame_of(lines: Sequence[tuple[int, LogLine]]) -> LogFrame:
    """Lines with their positions; a stream has no empty labels, metadata may."""
    texts: dict[str, list[str | None]] = {}
    kinds: dict[str, list[Category]] = {}
    for row, (_, line) in enumerate(lines):
        for name, value, kind in _labels(line):
            texts.setdefault(name, [None] * len(lines))[row] = value
            kinds.setdefault(name, [Category.STREAM] * len(lines))[row] = kind
    columns = {name: of_texts(pa.array(column, pa.string())) for name, column in texts.items()}
    return LogFrame(
        np.array([line.time_ns for _, line in lines], np.int64),
        pa.array([line.text for _, line in lines], pa.string()),
        {name: replace(column, category=np.array(kinds[name], np.int8)) for name, column in columns.items()},
        row_object=np.zeros(len(lines), np.int64),
        row_position=np.array([position for position, _ in lines], np.int64),
    )


def _labels(line: LogLine) -> Iterator[tuple[str, str, Category]]:
    """What metadata calls as the stream calls one of its own has another name."""
    stream = {name: value for name, value in line.labels if value}
    for name, value in stream.items():
        yield name, value, Category.STREAM
    for name, value in line.metadata:
        yield f"{name}_extracted" if name in stream else name, value, Category.METADATA
