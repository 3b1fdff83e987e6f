"""`sum` and `avg` where a group has histograms at a step: cell by cell, since they are rare.

A group that has floats and histograms at one step, or histograms that cannot be added, has no value there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lakerunner_query.evaluate.histogram import (
    Histogram,
    IncompatibleHistogramsError,
    KahanMean,
    KahanSum,
)
from lakerunner_query.evaluate.labels import Groups, value_of
from lakerunner_query.evaluate.notes import Annotations
from lakerunner_query.evaluate.reductions import any_of_code
from lakerunner_query.evaluate.rows import is_histogram, no_objects
from lakerunner_query.evaluate.spelling import quoted
from lakerunner_query.evaluate.vectors import NAME, Labels, Vector
from lakerunner_query.lang.promql.ast import Span

MIXED = "encountered a mix of histograms and floats for aggregation"
INCOMPATIBLE = (
    "vector contains a mix of histograms with exponential and custom buckets schemas for metric name"
)


def with_histograms(
    reduced: Vector, vector: Vector, groups: Groups, op: str, span: Span, notes: Annotations
) -> Vector:
    """The sums of floats, with cells that have histograms done over."""
    if vector.histograms is None:
        return reduced
    cells = any_of_code(groups.codes, is_histogram(vector) & vector.present, groups.count)
    present, histograms = reduced.present.copy(), no_objects(reduced.present.shape)
    order, starts = groups.by_group()
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
        notes.warn("conflicting counter resets during histogram aggregation", span)
    return total.result()
