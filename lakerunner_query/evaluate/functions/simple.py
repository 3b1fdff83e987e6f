"""Functions of one float at a time: arithmetic, trigonometry, `clamp` and `round`. Histograms drop out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.arguments import scalar_of, vector_of
from lakerunner_query.evaluate.functions.results import without_names
from lakerunner_query.gotext.conversions import larger, smaller
from lakerunner_query.lang.promql.ast import Call
from lakerunner_query.vectors.rows import has_float
from lakerunner_query.vectors.vector import Value
from resources.arrays import Doubles

Implementation = Callable[[Context, Call], Value]


def of_floats(function: Callable[[Doubles], Doubles]) -> Implementation:
    """Infinities, NaN and overflow are answers here, not faults."""

    def apply(context: Context, call: Call) -> Value:
        vector = vector_of(context, call)
        with np.errstate(all="ignore"):
            values = function(vector.values)
        return without_names(vector.labels, values, has_float(vector))

    return apply


def sign(values: Doubles) -> Doubles:
    """NaN and zeros stay as they are, with their sign."""
    found: Doubles = np.where(values < 0, -1.0, np.where(values > 0, 1.0, values))
    return found


def sinh(values: Doubles) -> Doubles:
    return _halved(np.sinh(values), values, np.copysign(np.inf, values))


def cosh(values: Doubles) -> Doubles:
    return _halved(np.cosh(values), values, np.full(values.shape, np.inf))


def _halved(found: Doubles, values: Doubles, infinite: Doubles) -> Doubles:
    """Prometheus halves `e^x`: where that is infinite already, its half is too."""
    answers: Doubles = np.where(np.isinf(np.exp(np.abs(values))), infinite, found)
    return answers


def round_to(context: Context, call: Call) -> Value:
    """Ties go up. `to_nearest` is inverted first: fewer digits are lost."""
    vector = vector_of(context, call)
    nearest = scalar_of(context, call, 1) if len(call.arguments) > 1 else np.ones(context.steps.count)
    with np.errstate(all="ignore"):
        inverse = 1.0 / nearest
        values = np.floor(vector.values * inverse + 0.5) / inverse
    return without_names(vector.labels, values, has_float(vector))


def clamp(context: Context, call: Call) -> Value:
    return _clamped(context, call, scalar_of(context, call, 1), scalar_of(context, call, 2))


def clamp_min(context: Context, call: Call) -> Value:
    return _clamped(context, call, scalar_of(context, call, 1), np.full(context.steps.count, np.inf))


def clamp_max(context: Context, call: Call) -> Value:
    return _clamped(context, call, np.full(context.steps.count, -np.inf), scalar_of(context, call, 1))


def _clamped(context: Context, call: Call, lowest: Doubles, highest: Doubles) -> Value:
    """Where the highest is below the lowest there is nothing."""
    vector = vector_of(context, call)
    values = larger(lowest, smaller(highest, vector.values))
    return without_names(vector.labels, values, has_float(vector) & ~(highest < lowest))


def _degrees(values: Doubles) -> Doubles:
    return values * 180 / math.pi


def _radians(values: Doubles) -> Doubles:
    return values * math.pi / 180


SIMPLE: dict[str, Implementation] = {
    "abs": of_floats(np.abs),
    "ceil": of_floats(np.ceil),
    "floor": of_floats(np.floor),
    "exp": of_floats(np.exp),
    "sqrt": of_floats(np.sqrt),
    "ln": of_floats(np.log),
    "log2": of_floats(np.log2),
    "log10": of_floats(np.log10),
    "sgn": of_floats(sign),
    "sin": of_floats(np.sin),
    "cos": of_floats(np.cos),
    "tan": of_floats(np.tan),
    "asin": of_floats(np.arcsin),
    "acos": of_floats(np.arccos),
    "atan": of_floats(np.arctan),
    "sinh": of_floats(sinh),
    "cosh": of_floats(cosh),
    "tanh": of_floats(np.tanh),
    "asinh": of_floats(np.arcsinh),
    "acosh": of_floats(np.arccosh),
    "atanh": of_floats(np.arctanh),
    "deg": of_floats(_degrees),
    "rad": of_floats(_radians),
    "round": round_to,
    "clamp": clamp,
    "clamp_min": clamp_min,
    "clamp_max": clamp_max,
}
