"""PromQL over a source: the only way in.

    evaluate(expr, Steps(0, 60_000, 3), source, Options())   for some steps; names are still to be dropped
    combine_results([first, second])                         for all steps, as users see it

Runs of steps are evaluated independently. Only `combine_results` drops metric names and merges the series
that become equal, because that takes all steps.
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
    CachedSource,
    Context,
    Evaluator,
    KnownVector,
    Options,
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
from lakerunner_query.promql.lang.bind import find_invariant_parts
from lakerunner_query.promql.lang.functions import AGGREGATIONS, FUNCTIONS, ResetHints
from lakerunner_query.promql.matching import evaluate_binary
from lakerunner_query.promql.selectors import (
    drop_names,
    drop_stale,
    extend_to_edges,
    instant_vector,
    select_samples,
    strip_parens,
    trim,
    window,
    window_expr,
)
from lakerunner_query.promql.subqueries import interpolated_vector, subquery_samples
from lakerunner_query.vectors.labels import drop_metadata
from lakerunner_query.vectors.rows import (
    ARITHMETIC,
    COMPARISONS,
    drop_empty_rows,
    drop_flags,
    join_steps,
    merge_rows,
    repeat_steps,
    stack_rows,
)
from lakerunner_query.vectors.vector import (
    Labels,
    Scalar,
    Series,
    Steps,
    String,
    Value,
    Vector,
    histogram_mask,
)


def evaluate_node(context: Context, expr: Expr) -> Value:
    """Evaluate an expression at every step; a range vector gives the samples of its windows."""
    known = context.known.get(id(expr))
    if known is not None:
        return _known_vector(context, known)
    is_costly = isinstance(expr, Call | Aggregate | Binary)
    if is_costly and context.steps.count > 1 and id(expr) in context.invariant:
        return _evaluate_once(context, expr)
    return _EVALUATIONS[type(expr)](context, expr)


def _known_vector(context: Context, known: KnownVector) -> Vector:
    """Return the value, and add its annotations as late as if it were evaluated now."""
    for annotation in known.annotations:
        context.annotations.add(annotation)
    vector, steps = known.vector, context.steps.count
    if vector.present.shape[1] == steps:
        return vector
    return replace(  # below something that is the same at every step, and looked at once
        vector,
        values=vector.values[:, :steps],
        present=vector.present[:, :steps],
        histograms=None if vector.histograms is None else vector.histograms[:, :steps],
    )


def _evaluate_number(context: Context, expr: Number) -> Scalar:
    return Scalar(np.full(context.steps.count, expr.value))


def _evaluate_text(_: Context, expr: Text) -> String:
    return String(expr.value)


def _evaluate_selector(context: Context, expr: Selector) -> Vector:
    return (
        interpolated_vector(context, expr) if expr.reach == Reach.SMOOTHED else instant_vector(context, expr)
    )


def _evaluate_paren(context: Context, expr: Paren) -> Value:
    return evaluate_node(context, expr.expr)


def _evaluate_call(context: Context, expr: Call) -> Value:
    hints = _hints_below(expr, context.hints)
    if hints is not context.hints:
        context = replace(context, hints=hints)
    return evaluate_call(context, expr)


def _hints_below(call: Call, hints: ResetHints) -> ResetHints:
    return max(hints, FUNCTIONS[call.function].hints_below)


def select_range(context: Context, expr: Expr) -> Series:
    match window_expr(expr):
        case Selector() as selector:
            return select_samples(context, selector)
        case Matrix() as matrix:
            return drop_stale(select_samples(context, matrix))
        case Subquery() as subquery:
            return subquery_samples(context, subquery)


def _evaluate_once(context: Context, expr: Expr) -> Value:
    """Evaluate at the first step and repeat the value at all others."""
    start, steps = context.steps.start_ms, context.steps
    value = evaluate_node(replace(context, steps=Steps(start, steps.step_ms, 1)), expr)
    match value:
        case Vector():
            return repeat_steps(value, steps)
        case Scalar():
            return Scalar(np.repeat(value.values, steps.count))
        case _:
            return value


def _evaluate_unary(context: Context, expr: Unary) -> Value:
    value = evaluate_node(context, expr.expr)
    if expr.op == "+":
        return value
    match value:
        case Scalar():
            return Scalar(-value.values)
        case Vector():
            return _negate(value)
        case _:
            raise TypeError(f"unary -: expected a scalar or an instant vector, found {type(value).__name__}")


def _negate(vector: Vector) -> Vector:
    histograms = vector.histograms
    if histograms is not None:
        histograms = histograms.copy()
        for cell in np.argwhere(histogram_mask(histograms)).tolist():
            histograms[tuple(cell)] = negate(histograms[tuple(cell)])
    drop_name = np.ones(len(vector.labels), np.bool_)
    return replace(vector, values=-vector.values, histograms=histograms, drop_name=drop_name)


_EVALUATIONS: Mapping[type[Expr], Callable[[Context, Any], Value]] = {
    Number: _evaluate_number,
    Text: _evaluate_text,
    Selector: _evaluate_selector,
    Matrix: select_range,
    Subquery: select_range,
    Paren: _evaluate_paren,
    Unary: _evaluate_unary,
    Binary: evaluate_binary,
    Aggregate: aggregate,
    Call: _evaluate_call,
}
EVALUATOR = Evaluator(evaluate_node, window, select_range, repeat_steps)


STACK_FRAMES = 12_000
"""Recursion limit: an expression may be 500 levels deep, and a level takes several Python calls."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    value: Value
    annotations: tuple[Annotation, ...] = ()
    is_ordered: bool = False
    """The query orders the series itself; true for instant queries only."""


def evaluate(
    expr: Expr, steps: Steps, source: Source, options: Options, known: Mapping[int, KnownVector] | None = None
) -> QueryResult:
    """Evaluate an expression that is bound to times; `known` holds values of its parts."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), STACK_FRAMES))
    notes = Annotations()
    invariant = find_invariant_parts(expr)
    context = Context(
        steps, CachedSource(source), options, notes, EVALUATOR, invariant=invariant, known=known or {}
    )
    value = EVALUATOR.evaluate(context, expr)
    if isinstance(value, Vector):
        value = merge_rows(value)
    elif isinstance(value, Series) and isinstance(strip_parens(expr), Matrix):
        where = EVALUATOR.window(context, expr)
        value = trim(value, where) if where.reach == Reach.PLAIN else extend_to_edges(value, where)
    return QueryResult(value, notes.all(), steps.count == 1 and _is_ordered(expr))


def evaluate_parts(
    expr: Expr, parts: Sequence[Expr], steps: Steps, source: Source, options: Options
) -> list[KnownVector]:
    """Evaluate some parts of an expression as if each were evaluated in its place."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), STACK_FRAMES))
    invariant, hints, cached = find_invariant_parts(expr), _hints(expr), CachedSource(source)
    found: list[KnownVector] = []
    for part in parts:
        notes = Annotations()
        context = Context(steps, cached, options, notes, EVALUATOR, hints[id(part)], invariant)
        found.append(KnownVector(context.vector(part), notes.all()))
    return found


def _hints(expr: Expr) -> dict[int, ResetHints]:
    """Map the ids of all expressions outside subqueries to their reset hints."""
    found: dict[int, ResetHints] = {}
    waiting = [(expr, ResetHints.STORED)]
    while waiting:
        one, hints = waiting.pop()
        found[id(one)] = hints
        below = _hints_below(one, hints) if isinstance(one, Call) else hints
        waiting += [(child, below) for child in children(one) if not isinstance(one, Subquery)]
    return found


def combine_results(parts: Sequence[QueryResult]) -> QueryResult:
    """Join the results of runs of steps: drop names, merge equal series, order by labels."""
    notes = Annotations(annotation for part in parts for annotation in part.annotations)
    values = [part.value for part in parts]
    is_ordered = len(parts) == 1 and parts[0].is_ordered
    return QueryResult(_combine_values(values), notes.all(), is_ordered)


def _combine_values(values: list[Value]) -> Value:
    vectors = [value for value in values if isinstance(value, Vector)]
    if len(vectors) == len(values):
        return _combine_vectors(vectors)
    scalars = [value for value in values if isinstance(value, Scalar)]
    if len(scalars) == len(values):
        return Scalar(np.concatenate([scalar.values for scalar in scalars]))
    if len(values) > 1:
        raise TypeError(
            f"expected vectors or scalars of several runs, found {[type(v).__name__ for v in values]}"
        )
    value = values[0]
    return drop_names(value) if isinstance(value, Series) else value


def _combine_vectors(parts: list[Vector]) -> Vector:
    vector = drop_empty_rows(merge_rows(_join_rows(parts)))
    if vector.drop_name is not None:
        labels = [
            drop_metadata(labels) if drop else labels
            for labels, drop in zip(vector.labels, drop_flags(vector).tolist(), strict=True)
        ]
        vector = replace(merge_rows(vector, labels), drop_name=None)
    if vector.present.shape[1] == 1:
        return vector
    return vector.take(np.array(_label_order(vector.labels), np.int64))


def _join_rows(parts: list[Vector]) -> Vector:
    """Stack the rows of all parts, each at its own steps."""
    if len(parts) == 1:
        return parts[0]
    widths = [part.present.shape[1] for part in parts]
    found, before = [], 0
    for part, width in zip(parts, widths, strict=True):
        rows = len(part.labels)
        blanks = [
            _blank_vector(part, rows, before),
            part,
            _blank_vector(part, rows, sum(widths) - before - width),
        ]
        found.append(join_steps(blanks))
        before += width
    return stack_rows(found)


def _blank_vector(part: Vector, rows: int, steps: int) -> Vector:
    return replace(
        part, values=np.zeros((rows, steps)), present=np.zeros((rows, steps), np.bool_), histograms=None
    )


def _label_order(labels: list[Labels]) -> list[int]:
    return sorted(range(len(labels)), key=labels.__getitem__)


def _is_ordered(expr: Expr) -> bool:
    """Check that the outermost function or aggregation orders its result."""
    match strip_parens(expr):
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
