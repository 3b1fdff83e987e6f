"""PromQL over samples in memory: at one time, or at all times of a test at once.

    engine.ask(Question(PROMQL, "up == 0", 60_000))              the samples at 60 s
    engine.ask_all("up == 0", Steps(0, 60_000, 1000))            the samples of each of 1,000 steps

An expression may be asked at all times at once if nothing that it reads depends on later evaluations:
`can_ask_all` tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from lakerunner_query.errors import PromDurationError
from lakerunner_query.promql.context import Options, Source
from lakerunner_query.promql.evaluate import combine_results, evaluate
from lakerunner_query.promql.lang.ast import Aggregate, Call, Expr, Selector, Subquery, children
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.functions import AGGREGATIONS, FUNCTIONS
from lakerunner_query.promql.lang.parser import parse_cached
from lakerunner_query.rules.documents import AlertRule, Rule
from lakerunner_query.rules.evaluation import (
    ALERTS,
    ALERTS_FOR_STATE,
    Answer,
    Question,
    Sample,
    samples_of,
)
from lakerunner_query.rules.memory_source import MemorySource
from lakerunner_query.syntax import MatchOp
from lakerunner_query.vectors.vector import NAME, Labels, Scalar, Steps, Value, Vector

_STEPS_AT_ONCE = 2_000


@dataclass(slots=True)
class MemoryEngine:
    options: Options
    source: MemorySource = field(default_factory=MemorySource)

    def ask(self, question: Question) -> Answer:
        at_ms = question.at_ms
        expr = bind(parse_cached(question.expr), at_ms, at_ms, 0)
        result = combine_results([evaluate(expr, Steps(at_ms, 1, 1), self.source, self.options)])
        return samples_of(result.value)

    def ask_all(self, text: str, steps: Steps) -> Iterator[Answer]:
        """Answer at each step as `ask` would."""
        return answers(text, steps, self.source, self.options)


def answers(text: str, steps: Steps, source: Source, options: Options) -> Iterator[Answer]:
    """Answer a query at each step as if it were asked there alone, some thousand steps at a time."""
    for first in range(0, steps.count, _STEPS_AT_ONCE):
        start_ms = steps.start_ms + first * steps.step_ms
        part = Steps(start_ms, steps.step_ms, min(_STEPS_AT_ONCE, steps.count - first))
        expr = bind(parse_cached(text), start_ms, start_ms, 0)
        result = combine_results([evaluate(expr, part, source, options)])
        yield from answers_of(result.value, part.count)


def answers_of(value: Value, count: int) -> Iterator[Answer]:
    """Return the samples of each step."""
    if isinstance(value, Scalar):
        yield from ([Sample((), number)] for number in value.values.tolist())
        return
    if not isinstance(value, Vector):
        samples_of(value)
        return
    found: list[list[Sample]] = [[] for _ in range(count)]
    for row, labels in enumerate(value.labels):
        for step in np.flatnonzero(value.present[row]).tolist():
            found[step].append(_sample(value, labels, row, step))
    yield from found


def _sample(vector: Vector, labels: Labels, row: int, step: int) -> Sample:
    histogram = None if vector.histograms is None else vector.histograms[row, step]
    return Sample(labels, float(vector.values[row, step]) if histogram is None else histogram)


def can_ask_all(rules: Sequence[Rule]) -> bool:
    """Tell if each rule can be evaluated at all times before the next one is evaluated at any.

    It can if rules read only what the input or earlier rules made, at or before the time of the evaluation;
    and if no series is made twice and no template asks, which the evaluation shows.
    """
    later = Counter(rule.record for rule in rules if not isinstance(rule, AlertRule))
    later.update((ALERTS, ALERTS_FOR_STATE))
    for rule in rules:
        names = _names_read(rule.expr)
        if names is None or any(later[name] for name in names):
            return False
        if not isinstance(rule, AlertRule):
            later[rule.record] -= 1
    return True


@lru_cache(maxsize=2048)
def _names_read(text: str) -> frozenset[str] | None:
    """Return the names of the metrics that an expression reads.

    None if it may read others, or the future, or changes with the times of the query, or has an order of its
    own, which only an answer at one time has.
    """
    expr = parse_cached(text)
    with suppress(PromDurationError):  # a duration of the times of the query, which are others
        bound = bind(expr, 0, 0, 0)
        return _names_in(bound) if bound == bind(expr, 1, 2, 1) else None
    return None


def _names_in(bound: Expr) -> frozenset[str] | None:
    names: set[str] = set()
    waiting = [bound]
    while waiting:
        one = waiting.pop()
        waiting += children(one)
        match one:
            case Selector() | Subquery() if not _is_in_the_past(one):
                return None
            case Selector(matchers=matchers):
                own = {each.value for each in matchers if each.name == NAME and each.op == MatchOp.EQUAL}
                if len(own) != 1:
                    return None
                names |= own
            case Call(function=function):
                facts = FUNCTIONS[function]
                if facts.orders_answer or facts.syntax.label_selector is not None:
                    return None
            case Aggregate(op=op) if AGGREGATIONS[op].orders_answer:
                return None
    return frozenset(names)


def _is_in_the_past(expr: Selector | Subquery) -> bool:
    offset = expr.shift.offset
    return expr.shift.at is None and isinstance(offset, int) and offset >= 0
