"""Binary operators: between numbers, a number and every series, or the series of two vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lakerunner_query.evaluate.logs.metrics.context import Context
from lakerunner_query.evaluate.logs.metrics.labels import key_of
from lakerunner_query.evaluate.logs.metrics.matching import matched
from lakerunner_query.lang.logql.ast import Binary, Matching
from lakerunner_query.vectors.group_kernels import any_of_code
from lakerunner_query.vectors.labels import coded
from lakerunner_query.vectors.rows import COMPARISONS, SETS, combined, merged, occupied, stacked
from lakerunner_query.vectors.vector import Labels, Scalar, Vector

Value = Scalar | Vector


def operate(context: Context, expr: Binary, left: Value, right: Value) -> Value:
    """The parser has refused numbers as sides of set operations."""
    match left, right:
        case Vector(), Vector():
            if expr.op in SETS:
                return occupied(merged(_of_sets(expr.op, left, right, expr.matching)))
            return occupied(merged(matched(context, expr, left, right)))
        case Vector(), Scalar():
            return _with_number(expr, left, right, is_left=False)
        case Scalar(), Vector():
            return _with_number(expr, right, left, is_left=True)
        case _:
            return Scalar(combined(expr.op, left.values, right.values, return_bool=True).values)


def _with_number(expr: Binary, vector: Vector, number: Scalar, *, is_left: bool) -> Vector:
    """A comparison that filters keeps the series' value, whichever side it stands on."""
    sides = (number.values[None, :], vector.values)
    left, right = sides if is_left else reversed(sides)
    outcome = combined(expr.op, left, right, return_bool=expr.return_bool)
    is_filter = expr.op in COMPARISONS and not expr.return_bool
    values = vector.values if is_filter else outcome.values
    return occupied(replace(vector, values=values, present=vector.present & outcome.kept))


def _of_sets(op: str, left: Vector, right: Vector, matching: Matching) -> Vector:
    """Series stay as they are; each step asks whether the other side has a match."""
    key, codes = key_of(matching), dict[Labels, int]()
    left_codes, right_codes = coded(map(key, left.labels), codes), coded(map(key, right.labels), codes)
    if op == "or":
        taken = any_of_code(left_codes, left.present, len(codes))[right_codes]
        return stacked([left, replace(right, present=right.present & ~taken)])
    found = any_of_code(right_codes, right.present, len(codes))[left_codes]
    present = left.present & (found if op == "and" else np.logical_not(found))
    return replace(left, present=present)
