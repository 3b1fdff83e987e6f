"""PromQL over a source: the one way in.

    evaluate(expr, Steps(0, 60_000, 3), source, Options())   for these steps, names still to be dropped
    settle([first, second])                                  for all steps, as people see it

An expression is evaluated for runs of steps that know nothing of each other; whatever needs all of them, that
is the dropping of names and the merging of series that are the same then, is done when they are together.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.evaluate.context import Context, Given, Hints, Options, hints_below
from lakerunner_query.evaluate.invariance import invariant_parts
from lakerunner_query.evaluate.notes import Annotation, Annotations
from lakerunner_query.evaluate.ranges import dropped, extended, trimmed
from lakerunner_query.evaluate.remembered import Remembered
from lakerunner_query.evaluate.selecting import bare
from lakerunner_query.evaluate.source import Source
from lakerunner_query.evaluate.walk import EVALUATOR
from lakerunner_query.lang.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    Matrix,
    Reach,
    Subquery,
    Unary,
    children,
)
from lakerunner_query.vectors.labels import without_metadata
from lakerunner_query.vectors.rows import ARITHMETIC, COMPARISONS, beside, drops, merged, occupied, stacked
from lakerunner_query.vectors.vector import Labels, Scalar, Series, Steps, Value, Vector

_FRAMES = 12_000
"""An expression may be 500 levels deep, and a level takes several calls of Python's."""
_ORDERING_CALLS = frozenset({"sort", "sort_desc", "sort_by_label", "sort_by_label_desc"})
_ORDERING_AGGREGATIONS = frozenset({"topk", "bottomk"})


@dataclass(frozen=True, slots=True)
class Answer:
    value: Value
    annotations: tuple[Annotation, ...] = ()
    is_ordered: bool = False
    """Of an instant query: the order of series was asked for."""


def evaluate(
    expr: Expr, steps: Steps, source: Source, options: Options, given: Mapping[int, Given] | None = None
) -> Answer:
    """The answer at these steps; the expression is bound already, and of some parts the value is `given`."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES))
    notes = Annotations()
    invariant = invariant_parts(expr)
    context = Context(
        steps, Remembered(source), options, notes, EVALUATOR, invariant=invariant, given=given or {}
    )
    value = EVALUATOR.evaluate(context, expr)
    if isinstance(value, Vector):
        value = merged(value)
    elif isinstance(value, Series) and isinstance(bare(expr), Matrix):
        where = EVALUATOR.window(context, expr)
        value = trimmed(value, where) if where.reach == Reach.PLAIN else extended(value, where)
    return Answer(value, notes.all(), steps.count == 1 and _is_ordered(expr))


def evaluate_parts(
    expr: Expr, parts: Sequence[Expr], steps: Steps, source: Source, options: Options
) -> list[Given]:
    """Some vectors of an expression, each as if it were evaluated where it stands."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES))
    invariant, hints, remembered = invariant_parts(expr), _hints(expr), Remembered(source)
    found: list[Given] = []
    for part in parts:
        notes = Annotations()
        context = Context(steps, remembered, options, notes, EVALUATOR, hints[id(part)], invariant)
        found.append(Given(context.vector(part), notes.all()))
    return found


def _hints(expr: Expr) -> dict[int, Hints]:
    """By the ids of all expressions but those in subqueries."""
    found: dict[int, Hints] = {}
    waiting = [(expr, Hints.STORED)]
    while waiting:
        one, hints = waiting.pop()
        found[id(one)] = hints
        below = hints_below(one.function, hints) if isinstance(one, Call) else hints
        waiting += [(child, below) for child in children(one) if not isinstance(one, Subquery)]
    return found


def settle(parts: Sequence[Answer]) -> Answer:
    """Answers of runs of steps, first to last, as one: names dropped, equal series merged, in order."""
    notes = Annotations(annotation for part in parts for annotation in part.annotations)
    values = [part.value for part in parts]
    is_ordered = len(parts) == 1 and parts[0].is_ordered
    return Answer(_settled(values), notes.all(), is_ordered)


def _settled(values: list[Value]) -> Value:
    vectors = [value for value in values if isinstance(value, Vector)]
    if len(vectors) == len(values):
        return _vector(vectors)
    scalars = [value for value in values if isinstance(value, Scalar)]
    if len(scalars) == len(values):
        return Scalar(np.concatenate([scalar.values for scalar in scalars]))
    if len(values) > 1:
        raise TypeError(
            f"expected vectors or scalars of several runs, found {[type(v).__name__ for v in values]}"
        )
    value = values[0]
    return dropped(value) if isinstance(value, Series) else value


def _vector(parts: list[Vector]) -> Vector:
    vector = occupied(merged(_joined(parts)))
    if vector.drop_name is not None:
        labels = [
            without_metadata(labels) if drop else labels
            for labels, drop in zip(vector.labels, drops(vector).tolist(), strict=True)
        ]
        vector = replace(merged(vector, labels), drop_name=None)
    if vector.present.shape[1] == 1:
        return vector
    return vector.take(np.array(_sorted(vector.labels), np.int64))


def _joined(parts: list[Vector]) -> Vector:
    """Rows of all parts, each at its own steps."""
    if len(parts) == 1:
        return parts[0]
    widths = [part.present.shape[1] for part in parts]
    found, before = [], 0
    for part, width in zip(parts, widths, strict=True):
        rows = len(part.labels)
        blanks = [_blank(part, rows, before), part, _blank(part, rows, sum(widths) - before - width)]
        found.append(beside(blanks))
        before += width
    return stacked(found)


def _blank(part: Vector, rows: int, steps: int) -> Vector:
    return replace(
        part, values=np.zeros((rows, steps)), present=np.zeros((rows, steps), np.bool_), histograms=None
    )


def _sorted(labels: list[Labels]) -> list[int]:
    return sorted(range(len(labels)), key=labels.__getitem__)


def _is_ordered(expr: Expr) -> bool:
    """Whether what orders is outermost, or only looked through."""
    match bare(expr):
        case Call(function=function):
            return function in _ORDERING_CALLS
        case Aggregate(op=op):
            return op in _ORDERING_AGGREGATIONS
        case Unary(expr=inner):
            return _is_ordered(inner)
        case Binary(op=op, matching=None, left=left, right=right) if op in ARITHMETIC or op in COMPARISONS:
            return _is_ordered(left) or _is_ordered(right)
        case _:
            return False
