"""What answers the queries of logqltest scripts: evaluation over lines in memory, whole or cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from lakerunner_query.errors import QueryError
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.logql.metrics.evaluate import LogResult, evaluate
from lakerunner_query.plan.slices import LogSliceSizes
from lakerunner_query.vectors.vector import Scalar
from tests.golden.log_lake import LogLake
from tests.golden.log_memory_source import LogMemorySource
from tests.golden.logqltest_compare import Outcome
from tests.golden.logqltest_script import Eval, LogLine, Row
from tests.support.query.logql_metrics.asking import join_results


class Stack(Protocol):
    def clear(self) -> None: ...

    def load(self, lines: tuple[LogLine, ...]) -> None: ...

    def ask(self, asked: Eval) -> Outcome: ...


class MemoryStack:
    """All steps at once."""

    def __init__(self) -> None:
        self._source = LogMemorySource()

    def clear(self) -> None:
        self._source.lines.clear()

    def load(self, lines: tuple[LogLine, ...]) -> None:
        self._source.lines += lines

    def ask(self, asked: Eval) -> Outcome:
        try:
            expr = parse_expr(asked.text)
            if isinstance(expr, LogQuery):
                raise TypeError(f"{asked.text}: expected a metric query")
            parts = self._parts(LogSteps(asked.start_ns, asked.step_ns, asked.count))
            return outcome_of(join_results([evaluate(expr, steps, self._source) for steps in parts]))
        except QueryError as error:
            return Outcome(failure=error.message)

    def _parts(self, steps: LogSteps) -> list[LogSteps]:
        return [steps]


class CutMemoryStack(MemoryStack):
    """Two steps at a time."""

    def _parts(self, steps: LogSteps) -> list[LogSteps]:
        times = steps.times_ns.tolist()
        return [LogSteps(times[at], steps.step_ns, len(times[at : at + 2])) for at in range(0, len(times), 2)]


def outcome_of(answer: LogResult) -> Outcome:
    if isinstance(answer.value, Scalar):
        return Outcome(number=float(answer.value.values[0]))
    vector = answer.value
    values = np.where(vector.present, vector.values, np.nan).tolist()
    rows = zip(vector.labels, values, vector.present.tolist(), strict=True)
    return Outcome(
        tuple(
            Row(labels, tuple(v if p else None for v, p in zip(row, present, strict=True)))
            for labels, row, present in rows
        )
    )


class LakeStack:
    """Through the engine, over segments; answers come as the text they have in JSON."""

    def __init__(self, lake: LogLake) -> None:
        self.lake = lake
        self._loaded: list[LogLine] = []
        self._is_written = True

    def clear(self) -> None:
        self._loaded.clear()
        self._is_written = False

    def load(self, lines: tuple[LogLine, ...]) -> None:
        self._loaded += lines
        self._is_written = False

    def ask(self, asked: Eval) -> Outcome:
        if not self._is_written:
            self.lake.clear()
            self.lake.write(self._loaded)
            self._is_written = True
        try:
            found = self.lake.ask(asked.text, asked.start_ns, asked.end_ns, asked.step_ns)
        except QueryError as error:
            return Outcome(failure=error.message)
        assert not found.missing, found.missing
        rows = tuple(Row(one.labels, _values(one.floats, asked)) for one in found.series)
        is_number = found.kind == "scalar" and not asked.step_ns
        return Outcome(number=rows[0].values[0]) if is_number else Outcome(rows)


def _values(points: bytes, asked: Eval) -> tuple[float | None, ...]:
    """Of `[1735689600.5,"1"],…` by step; times are told in milliseconds."""
    found: list[float | None] = [None] * asked.count
    for seconds, value in json.loads(f"[{points.decode()}]"):
        at = round(seconds * 1000) * 1_000_000 - asked.start_ns
        step = round(at / asked.step_ns) if asked.step_ns else 0
        assert found[step] is None, f"two values at {seconds}"
        found[step] = float(value)
    return tuple(found)


def _single() -> LakeStack:
    return LakeStack(LogLake())


def _split() -> LakeStack:
    """Three segments of the same hour; slices as small as they can be, on three workers."""
    return LakeStack(LogLake(parts=3, workers=3, sizes=LogSliceSizes(rows=1, at_least=0)))


STACKS: Mapping[str, Callable[[], Stack]] = {
    "memory": MemoryStack,
    "memory-cut": CutMemoryStack,
    "single": _single,
    "split": _split,
}
