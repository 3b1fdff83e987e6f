"""PromQL over a source: the one way in.

    evaluate(expr, Steps(0, 60_000, 3), source, Options())   for these steps, names still to be dropped
    settle([first, second])                                  for all steps, as people see it

An expression is evaluated for runs of steps that know nothing of each other; whatever needs all of them, that
is the dropping of names and the merging of series that are the same then, is done when they are together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lakerunner_query.histogram.arithmetic import negate
from lakerunner_query.promql.aggregation import aggregate
from lakerunner_query.promql.context import (
    Annotation,
    Annotations,
    Context,
    Evaluator,
    Given,
    Options,
    Remembered,
    Source,
)
from lakerunner_query.promql.functions.registry import evaluate_call
from lakerunner_query.promql.lang.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    Matrix,
    Number,
    Paren,
    Reach,
    Selector,
    Subquery,
    Text,
    Unary,
    children,
)
from lakerunner_query.promql.lang.bind import invariant_parts
from lakerunner_query.promql.lang.functions import AGGREGATIONS, FUNCTIONS, ResetHints
from lakerunner_query.promql.matching import binary
from lakerunner_query.promql.selectors import (
    bare,
    dropped,
    extended,
    instant,
    ranged,
    selected,
    trimmed,
    window,
    without_stale,
)
from lakerunner_query.promql.subqueries import smoothed, subquery_samples
from lakerunner_query.vectors.labels import without_metadata
from lakerunner_query.vectors.rows import (
    ARITHMETIC,
    COMPARISONS,
    beside,
    drops,
    merged,
    occupied,
    spread,
    stacked,
)
from lakerunner_query.vectors.vector import Labels, Scalar, Series, Steps, String, Value, Vector, some

# << The walk over the tree: every kind of expression to what evaluates it.


def evaluate_node(context: Context, expr: Expr) -> Value:
    """The value at every step; range vectors as the samples that their windows need."""
    given = context.given.get(id(expr))
    if given is not None:
        return _told(context, given)
    is_costly = isinstance(expr, Call | Aggregate | Binary)
    if is_costly and context.steps.count > 1 and id(expr) in context.invariant:
        return _once(context, expr)
    return _EVALUATIONS[type(expr)](context, expr)


def _told(context: Context, given: Given) -> Vector:
    """Annotations come as late as if the part were evaluated now."""
    for annotation in given.annotations:
        context.annotations.add(annotation)
    vector, steps = given.vector, context.steps.count
    if vector.present.shape[1] == steps:
        return vector
    return replace(  # below something that is the same at every step, and looked at once
        vector,
        values=vector.values[:, :steps],
        present=vector.present[:, :steps],
        histograms=None if vector.histograms is None else vector.histograms[:, :steps],
    )


def _number(context: Context, expr: Number) -> Scalar:
    return Scalar(np.full(context.steps.count, expr.value))


def _text(_: Context, expr: Text) -> String:
    return String(expr.value)


def _selector(context: Context, expr: Selector) -> Vector:
    return smoothed(context, expr) if expr.reach == Reach.SMOOTHED else instant(context, expr)


def _inner(context: Context, expr: Paren) -> Value:
    return evaluate_node(context, expr.expr)


def _call(context: Context, expr: Call) -> Value:
    hints = _hints_below(expr, context.hints)
    if hints is not context.hints:
        context = replace(context, hints=hints)
    return evaluate_call(context, expr)


def _hints_below(call: Call, hints: ResetHints) -> ResetHints:
    return max(hints, FUNCTIONS[call.function].hints_below)


def samples(context: Context, expr: Expr) -> Series:
    match ranged(expr):
        case Selector() as selector:
            return selected(context, selector)
        case Matrix() as matrix:
            return without_stale(selected(context, matrix))
        case Subquery() as subquery:
            return subquery_samples(context, subquery)


def _once(context: Context, expr: Expr) -> Value:
    """At the first step, and the same at all others."""
    start, steps = context.steps.start_ms, context.steps
    value = evaluate_node(replace(context, steps=Steps(start, steps.step_ms, 1)), expr)
    match value:
        case Vector():
            return spread(value, steps)
        case Scalar():
            return Scalar(np.repeat(value.values, steps.count))
        case _:
            return value


def _unary(context: Context, expr: Unary) -> Value:
    value = evaluate_node(context, expr.expr)
    if expr.op == "+":
        return value
    match value:
        case Scalar():
            return Scalar(-value.values)
        case Vector():
            return _negated(value)
        case _:
            raise TypeError(f"unary -: expected a scalar or an instant vector, found {type(value).__name__}")


def _negated(vector: Vector) -> Vector:
    histograms = vector.histograms
    if histograms is not None:
        histograms = histograms.copy()
        for cell in np.argwhere(some(histograms)).tolist():
            histograms[tuple(cell)] = negate(histograms[tuple(cell)])
    drop_name = np.ones(len(vector.labels), np.bool_)
    return replace(vector, values=-vector.values, histograms=histograms, drop_name=drop_name)


_EVALUATIONS: Mapping[type[Expr], Callable[[Context, Any], Value]] = {
    Number: _number,
    Text: _text,
    Selector: _selector,
    Matrix: samples,
    Subquery: samples,
    Paren: _inner,
    Unary: _unary,
    Binary: binary,
    Aggregate: aggregate,
    Call: _call,
}
EVALUATOR = Evaluator(evaluate_node, window, samples, spread)


_FRAMES = 12_000
"""An expression may be 500 levels deep, and a level takes several calls of Python's."""


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


def _hints(expr: Expr) -> dict[int, ResetHints]:
    """By the ids of all expressions but those in subqueries."""
    found: dict[int, ResetHints] = {}
    waiting = [(expr, ResetHints.STORED)]
    while waiting:
        one, hints = waiting.pop()
        found[id(one)] = hints
        below = _hints_below(one, hints) if isinstance(one, Call) else hints
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
            return FUNCTIONS[function].orders_answer
        case Aggregate(op=op):
            return AGGREGATIONS[op].orders_answer
        case Unary(expr=inner):
            return _is_ordered(inner)
        case Binary(op=op, matching=None, left=left, right=right) if op in ARITHMETIC or op in COMPARISONS:
            return _is_ordered(left) or _is_ordered(right)
        case _:
            return False
