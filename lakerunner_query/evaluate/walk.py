"""The walk over the tree: every kind of expression to what evaluates it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lakerunner_query.evaluate.aggregate import aggregate
from lakerunner_query.evaluate.binary import binary
from lakerunner_query.evaluate.context import Context, Evaluator, Given, hints_below
from lakerunner_query.evaluate.functions import FUNCTIONS
from lakerunner_query.evaluate.selecting import instant, ranged, selected, window, without_stale
from lakerunner_query.evaluate.smoothing import smoothed
from lakerunner_query.evaluate.subqueries import subquery_samples
from lakerunner_query.histogram.arithmetic import negate
from lakerunner_query.lang.promql.ast import (
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
)
from lakerunner_query.vectors.rows import spread
from lakerunner_query.vectors.vector import Scalar, Series, Steps, String, Value, Vector, some


def evaluate(context: Context, expr: Expr) -> Value:
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
    return evaluate(context, expr.expr)


def _call(context: Context, expr: Call) -> Value:
    hints = hints_below(expr.function, context.hints)
    if hints is not context.hints:
        context = replace(context, hints=hints)
    return FUNCTIONS[expr.function](context, expr)


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
    value = evaluate(replace(context, steps=Steps(start, steps.step_ms, 1)), expr)
    match value:
        case Vector():
            return spread(value, steps)
        case Scalar():
            return Scalar(np.repeat(value.values, steps.count))
        case _:
            return value


def _unary(context: Context, expr: Unary) -> Value:
    value = evaluate(context, expr.expr)
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
EVALUATOR = Evaluator(evaluate, window, samples, spread)
