"""`sum` and `avg` where a group has histograms at a step: at once if all have one layout, else cell by cell.

A group that has floats and histograms at one step, or histograms that cannot be added, has no value there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lakerunner_query.evaluate.notes import Annotations
from lakerunner_query.gotext.strconv import quoted
from lakerunner_query.histogram.model import Histogram, IncompatibleHistogramsError
from lakerunner_query.histogram.sums import KahanMean, KahanSum, grid_sums
from lakerunner_query.lang.promql.ast import Span
from lakerunner_query.vectors.group_kernels import any_of_code
from lakerunner_query.vectors.labels import Groups, value_of
from lakerunner_query.vectors.rows import is_histogram, no_objects
from lakerunner_query.vectors.vector import NAME, Labels, Objects, Vector
from resources.arrays import Flags, Int64s

MIXED = "encountered a mix of histograms and floats for aggregation"
CONFLICT = "conflicting counter resets during histogram aggregation"
INCOMPATIBLE = (
    "vector contains a mix of histograms with exponential and custom buckets schemas for metric name"
)


def with_histograms(
    reduced: Vector, vector: Vector, groups: Groups, op: str, span: Span, notes: Annotations
) -> Vector:
    """The sums of floats, with cells that have histograms done over."""
    if vector.histograms is None:
        return reduced
    is_a_histogram = is_histogram(vector) & vector.present
    cells = any_of_code(groups.codes, is_a_histogram, groups.count)
    present, histograms = reduced.present.copy(), no_objects(reduced.present.shape)
    order, starts = groups.by_group()
    for group in np.flatnonzero(cells.any(axis=1)).tolist():
        rows = order[starts[group] : starts[group + 1]]
        whole = cells[group] & (is_a_histogram[rows] | ~vector.present[rows]).all(axis=0)
        done = _at_once(vector, rows, whole, op, span, notes)
        if done is not None:
            histograms[group, whole], present[group, whole] = done, True
            cells[group, whole] = False
    for group, step in np.argwhere(cells).tolist():
        rows = order[starts[group] : starts[group + 1]]
        rows = rows[vector.present[rows, step]]
        first, *others = vector.histograms[rows, step].tolist()
        total = None
        if first is None:
            notes.warn(MIXED, span)
        else:
            labels = [vector.labels[row] for row in rows[1:].tolist()]
            total = _total(op, first, others, labels, span, notes)
        histograms[group, step] = total
        present[group, step] = total is not None
    return replace(reduced, present=present, histograms=histograms)


def _at_once(
    vector: Vector, rows: Int64s, steps: Flags, op: str, span: Span, notes: Annotations
) -> Objects | None:
    """Of a group at steps where all that is present are histograms; None where it cannot be told so."""
    if vector.histograms is None or not steps.any():
        return None
    cells, present = vector.histograms[np.ix_(rows, steps)], vector.present[np.ix_(rows, steps)]
    if len(rows) == 1:
        only: Objects = cells[0]
        return only
    found = grid_sums(cells, present, is_mean=op == "avg")
    if found is None:
        return None
    totals, conflicts = found
    if conflicts.any():
        notes.warn(CONFLICT, span)
    return totals


def _total(
    op: str,
    first: Histogram,
    others: list[Histogram | None],
    labels: list[Labels],
    span: Span,
    notes: Annotations,
) -> Histogram | None:
    """Of a histogram and what follows; None is a float."""
    total = KahanSum(first) if op == "sum" else KahanMean(first)
    is_mixed = is_incompatible = False
    for cell, label in zip(others, labels, strict=True):
        if cell is None:
            is_mixed = True
            continue
        try:
            total.add(cell)
        except IncompatibleHistogramsError:
            notes.warn(f"{INCOMPATIBLE} {quoted(value_of(label, NAME))}", span)
            is_incompatible = True
            break
    if is_mixed:
        notes.warn(MIXED, span)
    if is_mixed or is_incompatible:
        return None
    if total.bounds_reconciled:
        notes.inform("mismatched custom buckets were reconciled during aggregation", span)
    if total.hint_conflict:
        notes.warn(CONFLICT, span)
    return total.result()
