"""Binary operators: which sides are vectors decides how they meet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lakerunner_query.evaluate.cells import Cells, Remarks, combined
from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.matching import matched
from lakerunner_query.evaluate.sets import combined_sets
from lakerunner_query.lang.promql.ast import Binary, Matching
from lakerunner_query.vectors.rows import ARITHMETIC, COMPARISONS, SETS, drops, occupied, of_scalars
from lakerunner_query.vectors.vector import Scalar, Value, Vector


def binary(context: Context, expr: Binary) -> Value:
    left, right = context.evaluate(expr.left), context.evaluate(expr.right)
    match left, right:
        case Scalar(), Scalar():
            return Scalar(of_scalars(expr.op, left.values, right.values))
        case Vector(), Scalar():
            return _with_scalar(context, expr, left, right, is_swapped=False)
        case Scalar(), Vector():
            return _with_scalar(context, expr, right, left, is_swapped=True)
        case Vector(), Vector():
            matching = expr.matching or Matching()
            if expr.op in SETS:
                return combined_sets(expr.op, left, right, matching)
            return matched(context, expr, left, right, matching)
    raise TypeError(
        f"{expr.op}: expected scalars or instant vectors, found {type(left).__name__}, {type(right).__name__}"
    )


def _with_scalar(
    context: Context, expr: Binary, vector: Vector, scalar: Scalar, *, is_swapped: bool
) -> Vector:
    """Comparisons give the vector's element, on whichever side it is."""
    rows = Cells(vector.values, vector.histograms)
    row = Cells(scalar.values[np.newaxis, :], None)
    remarks = Remarks()
    outcome = combined(expr.op, *((row, rows) if is_swapped else (rows, row)), vector.present, remarks)
    remarks.tell(context.annotations, expr.span)
    values, histograms = outcome.cells.values, outcome.cells.histograms
    present, drop_name = outcome.kept, drops(vector)
    if expr.op in COMPARISONS and is_swapped:
        values, histograms = vector.values, vector.histograms
    if expr.return_bool:
        values, present = outcome.kept.astype(np.float64), vector.present & ~outcome.failed
    if expr.return_bool or expr.op in ARITHMETIC:
        drop_name = np.ones(len(vector.labels), np.bool_)
    return occupied(
        replace(vector, values=values, present=present, histograms=histograms, drop_name=drop_name)
    )
