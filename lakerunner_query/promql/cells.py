"""Operators on cells that are floats or histograms.

left        op  right       gives
float       +   float       float
histogram   +   histogram   histogram, or a warning where they cannot be added
histogram   >   float       nothing, and an info
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lakerunner_query.gotext.strconv import quote
from lakerunner_query.histogram.arithmetic import Combined, add, divide, equal, scale, sub
from lakerunner_query.histogram.model import Hint, Histogram, IncompatibleHistogramsError, compact
from lakerunner_query.histogram.trim import trim_lower, trim_upper
from lakerunner_query.promql.context import Annotation, Annotations, Kind
from lakerunner_query.promql.lang.ast import Span
from lakerunner_query.vectors.rows import ARITHMETIC, COMPARISONS, TRIMS
from lakerunner_query.vectors.vector import Objects, some
from resources.arrays import Doubles, Flags

_DOING = {"+": "addition", "-": "subtraction"}


@dataclass(frozen=True, slots=True)
class Cells:
    values: Doubles
    """(rows, steps)."""
    histograms: Objects | None


@dataclass(frozen=True, slots=True)
class Outcome:
    cells: Cells
    kept: Flags
    """What a comparison lets through, and whatever arithmetic gives."""
    failed: Flags
    """Nothing came out: the two kinds do not go together. Never kept."""


@dataclass(slots=True)
class Remarks:
    """What cells said; at each step only the last is told, as Prometheus does."""

    by_step: dict[int, tuple[int, Kind, str]] = field(default_factory=dict)

    def add(self, row: int, step: int, kind: Kind, message: str) -> None:
        if step not in self.by_step or self.by_step[step][0] <= row:
            self.by_step[step] = (row, kind, message)

    def tell(self, notes: Annotations, span: Span) -> None:
        for _, (_, kind, message) in sorted(self.by_step.items()):
            notes.add(Annotation(kind, message, span))


class _FailedError(Exception):
    """No cell comes of this."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message


def combined(op: str, left: Cells, right: Cells, present: Flags, remarks: Remarks) -> Outcome:
    """Each present cell of the left with that of the right."""
    shape = present.shape
    failed = np.zeros(shape, np.bool_)
    with np.errstate(all="ignore"):
        if op in ARITHMETIC:
            values = np.broadcast_to(ARITHMETIC[op](left.values, right.values), shape)
            kept = present
        elif op in TRIMS:
            values, kept = np.zeros(shape), present
        else:
            values = np.broadcast_to(left.values, shape)
            kept = present & COMPARISONS[op](left.values, right.values)
    either = _either(left, right, shape)
    if op in TRIMS:
        _refuse(present if either is None else present & ~either, op, failed, remarks)
    if either is None:
        return Outcome(Cells(values, None), kept & ~failed, failed)
    kept = kept & ~failed
    return _with_histograms(
        op, (left, right), Outcome(Cells(values, None), kept, failed), present & either, remarks
    )


def _either(left: Cells, right: Cells, shape: tuple[int, ...]) -> Flags | None:
    sides = [side.histograms for side in (left, right) if side.histograms is not None]
    if not sides:
        return None
    found = np.zeros(shape, np.bool_)
    for histograms in sides:
        found |= some(histograms)
    return found


def _refuse(cells: Flags, op: str, failed: Flags, remarks: Remarks) -> None:
    """Floats where one side has to be a histogram."""
    failed |= cells
    for step in np.flatnonzero(cells.any(axis=0)).tolist():
        row = int(np.flatnonzero(cells[:, step])[-1])
        remarks.add(row, step, "info", _incompatible("float", op, "float"))


def _with_histograms(
    op: str, sides: tuple[Cells, Cells], floats: Outcome, at: Flags, remarks: Remarks
) -> Outcome:
    values, kept, failed = floats.cells.values.copy(), floats.kept.copy(), floats.failed
    histograms = np.full(at.shape, None, np.object_)
    for row, step in np.argwhere(at).tolist():
        left, right = (_cell(side, row, step, at.shape) for side in sides)
        kept[row, step] = False
        try:
            histogram, keep, said = _combine(op, left, right)
        except _FailedError as error:
            failed[row, step] = True
            remarks.add(row, step, error.kind, error.message)
            continue
        if said:
            remarks.add(row, step, "info", said)
        histograms[row, step] = histogram
        kept[row, step] = keep
    return Outcome(Cells(values, histograms), kept, failed)


def _cell(side: Cells, row: int, step: int, shape: tuple[int, ...]) -> Histogram | float:
    if side.histograms is not None:
        found: Histogram | None = side.histograms[row, step]
        if found is not None:
            return found
    return float(np.broadcast_to(side.values, shape)[row, step])


def _combine(op: str, left: Histogram | float, right: Histogram | float) -> tuple[Histogram, bool, str]:
    """A histogram, whether it is kept, and what there is to say about it."""
    match left, right:
        case Histogram(), Histogram():
            return _of_two(op, left, right)
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
    raise _FailedError("info", _incompatible(_kind(left), op, _kind(right)))


def _of_two(op: str, left: Histogram, right: Histogram) -> tuple[Histogram, bool, str]:
    if op == "==":
        return left, equal(left, right), ""
    if op == "!=":
        return left, not equal(left, right), ""
    if op not in _DOING:
        raise _FailedError("info", _incompatible("histogram", op, "histogram"))
    try:
        result: Combined = add(left, right) if op == "+" else sub(left, right)
    except IncompatibleHistogramsError as error:
        raise _FailedError(
            "warning", f"incompatible bucket layout encountered for binary operator {op}"
        ) from error
    if result.hint_conflict:
        raise _FailedError("warning", f"conflicting counter resets during histogram {_DOING[op]}")
    histogram = compact(result.histogram)
    if op == "-":
        histogram = histogram.with_hint(Hint.GAUGE)
    said = (
        f"mismatched custom buckets were reconciled during {_DOING[op]}" if result.bounds_reconciled else ""
    )
    return histogram, True, said


def _kind(cell: Histogram | float) -> str:
    return "histogram" if isinstance(cell, Histogram) else "float"


def _incompatible(left: str, op: str, right: str) -> str:
    return f"incompatible sample types encountered for binary operator {quote(op)}: {left} {op} {right}"
