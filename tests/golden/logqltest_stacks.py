"""What answers the queries of logqltest scripts: evaluation over lines in memory, whole or cut."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from lakerunner_query.errors import QueryError
from lakerunner_query.evaluate.logs.metrics.answer import Answer, evaluate, joined
from lakerunner_query.evaluate.logs.metrics.times import LogSteps
from lakerunner_query.evaluate.vectors import Scalar
from lakerunner_query.lang.logql.ast import LogQuery
from lakerunner_query.lang.logql.parser import parse_expr
from tests.golden.log_memory_source import LogMemorySource
from tests.golden.logqltest_compare import Outcome
from tests.golden.logqltest_script import Eval, LogLine, Row


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
            return outcome_of(joined([evaluate(expr, steps, self._source) for steps in parts]))
        except QueryError as error:
            return Outcome(failure=error.message)

    def _parts(self, steps: LogSteps) -> list[LogSteps]:
        return [steps]


class CutMemoryStack(MemoryStack):
    """Two steps at a time."""

    def _parts(self, steps: LogSteps) -> list[LogSteps]:
        times = steps.times_ns.tolist()
        return [LogSteps(times[at], steps.step_ns, len(times[at : at + 2])) for at in range(0, len(times), 2)]


def outcome_of(answer: Answer) -> Outcome:
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


STACKS = {"memory": MemoryStack, "memory-cut": CutMemoryStack}
