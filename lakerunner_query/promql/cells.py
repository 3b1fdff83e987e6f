"""Binary operators on cells that are floats or histograms.

left        op  right       gives
float       +   float       float
histogram   +   histogram   histogram, or a warning where they cannot be added
histogram   >   float       nothing, and an info
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lakerunner_query.gotext.strconv import quote
from lakerunner_query.histogram.arithmetic import HistogramSum, add, divide, equal, scale, sub
from lakerunner_query.histogram.model import Hint, Histogram, IncompatibleHistogramsError, compact
from lakerunner_query.histogram.trim import trim_lower, trim_upper
from lakerunner_query.promql.context import Annotation, Annotations, Kind
from lakerunner_query.promql.lang.ast import Span
from lakerunner_query.vectors.rows import ARITHMETIC, COMPARISONS, TRIMS
from lakerunner_query.vectors.vector import Objects, histogram_mask
from resources.arrays import Doubles, Flags

_OPERATIONS = {"+": "addition", "-": "subtraction"}


@dataclass(frozen=True, slots=True)
class Cells:
    values: Doubles
    """Array of (rows, steps)."""
    histograms: Objects | None


@dataclass(frozen=True, slots=True)
class Outcome:
    cells: Cells
    survivors: Flags
    """Cells that a comparison lets through, and all results of arithmetic."""
    failures: Flags
    """Cells without a result because the two kinds do not go together; never among the survivors."""


@dataclass(slots=True)
class CellAnnotations:
    """Annotations of cells; only the last one of each step is reported, as in Prometheus."""

    by_step: dict[int, tuple[int, Kind, str]] = field(default_factory=dict)

    def add(self, row: int, step: int, kind: Kind, message: str) -> None:
        if step not in self.by_step or self.by_step[step][0] <= row:
            self.by_step[step] = (row, kind, message)

    def report(self, notes: Annotations, span: Span) -> None:
        for _, (_, kind, message) in sorted(self.by_step.items()):
            notes.add(Annotation(kind, message, span))


class _NoCellError(Exception):
    """The operator is not defined for these cells."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message


def combine_cells(
    op: str, left: Cells, right: Cells, present: Flags, annotations: CellAnnotations
) -> Outcome:
    """Apply the operator to each present pair of cells."""
    shape = present.shape
    failures = np.zeros(shape, np.bool_)
    with np.errstate(all="ignore"):
        if op in ARITHMETIC:
            values = np.broadcast_to(ARITHMETIC[op](left.values, right.values), shape)
            survivors = present
        elif op in TRIMS:
            values, survivors = np.zeros(shape), present
        else:
            values = np.broadcast_to(left.values, shape)
            survivors = present & COMPARISONS[op](left.values, right.values)
    either = _histogram_cells(left, right, shape)
    if op in TRIMS:
        _reject_floats(present if either is None else present & ~either, op, failures, annotations)
    if either is None:
        return Outcome(Cells(values, None), survivors & ~failures, failures)
    survivors = survivors & ~failures
    return _combine_histograms(
        op, (left, right), Outcome(Cells(values, None), survivors, failures), present & either, annotations
    )


def _histogram_cells(left: Cells, right: Cells, shape: tuple[int, ...]) -> Flags | None:
    sides = [side.histograms for side in (left, right) if side.histograms is not None]
    if not sides:
        return None
    found = np.zeros(shape, np.bool_)
    for histograms in sides:
        found |= histogram_mask(histograms)
    return found


def _reject_floats(cells: Flags, op: str, failures: Flags, annotations: CellAnnotations) -> None:
    """Fail the cells where both sides are floats and one has to be a histogram."""
    failures |= cells
    for step in np.flatnonzero(cells.any(axis=0)).tolist():
        row = int(np.flatnonzero(cells[:, step])[-1])
        annotations.add(row, step, "info", _incompatible("float", op, "float"))


def _combine_histograms(
    op: str, sides: tuple[Cells, Cells], floats: Outcome, at: Flags, annotations: CellAnnotations
) -> Outcome:
    values, survivors, failures = floats.cells.values.copy(), floats.survivors.copy(), floats.failures
    histograms = np.full(at.shape, None, np.object_)
    for row, step in np.argwhere(at).tolist():
        left, right = (_cell(side, row, step, at.shape) for side in sides)
        survivors[row, step] = False
        try:
            histogram, keep, said = _combine(op, left, right)
        except _NoCellError as error:
            failures[row, step] = True
            annotations.add(row, step, error.kind, error.message)
            continue
        if said:
            annotations.add(row, step, "info", said)
        histograms[row, step] = histogram
        survivors[row, step] = keep
    return Outcome(Cells(values, histograms), survivors, failures)


def _cell(side: Cells, row: int, step: int, shape: tuple[int, ...]) -> Histogram | float:
    if side.histograms is not None:
        found: Histogram | None = side.histograms[row, step]
        if found is not None:
            return found
    return float(np.broadcast_to(side.values, shape)[row, step])


def _combine(op: str, left: Histogram | float, right: Histogram | float) -> tuple[Histogram, bool, str]:
    """Return a histogram, a flag that it survives, and the text of an annotation."""
    match left, right:
        case Histogram(), Histogram():
            return _combine_two(op, left, right)
        case Histogram(), float():
            if op == "*":
                return compact(scale(left, right)), True, ""
            if op == "/":
                return compact(divide(left, right)), True, ""
            if op == "</":
                return trim_upper(left, right), True, ""
            if op == ">/":
                return trim_lower(left, right), True, ""
        case float(), Histogram():
            if op == "*":
                return compact(scale(right, left)), True, ""
    raise _NoCellError("info", _incompatible(_kind(left), op, _kind(right)))


def _combine_two(op: str, left: Histogram, right: Histogram) -> tuple[Histogram, bool, str]:
    if op == "==":
        return left, equal(left, right), ""
    if op == "!=":
        return left, not equal(left, right), ""
    if op not in _OPERATIONS:
        raise _NoCellError("info", _incompatible("histogram", op, "histogram"))
    try:
        result: HistogramSum = add(left, right) if op == "+" else sub(left, right)
    except IncompatibleHistogramsError as error:
        raise _NoCellError(
            "warning", f"incompatible bucket layout encountered for binary operator {op}"
        ) from error
    if result.hint_conflict:
        raise _NoCellError("warning", f"conflicting counter resets during histogram {_OPERATIONS[op]}")
    histogram = compact(result.histogram)
    if op == "-":
        histogram = histogram.with_hint(Hint.GAUGE)
    said = (
        f"mismatched custom buckets were reconciled during {_OPERATIONS[op]}"
        if result.bounds_reconciled
        else ""
    )
    return histogram, True, said


def _kind(cell: Histogram | float) -> str:
    return "histogram" if isinstance(cell, Histogram) else "float"


def _incompatible(left: str, op: str, right: str) -> str:
    return f"incompatible sample types encountered for binary operator {quote(op)}: {left} {op} {right}"
