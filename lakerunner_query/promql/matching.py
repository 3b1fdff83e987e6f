"""Binary operators between vectors: rows are matched by labels, then combined.

Each row is matched once for all steps. The "one" side may have several rows of the same labels as long as no
step has two of them: then every pair that shares a step is a row of the result.

    a{x="1"} * on(x) group_left b{x="1", v="1"}, b{x="1", v="2"}     two pairs, each at the steps of its b
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.strconv import label_set
from lakerunner_query.promql.cells import CellAnnotations, Cells, Outcome, combine_cells
from lakerunner_query.promql.context import Context
from lakerunner_query.promql.lang.ast import Binary, Cardinality, Matching
from lakerunner_query.promql.selectors import check_size
from lakerunner_query.vectors.group_kernels import any_of_code, count_of_code
from lakerunner_query.vectors.labels import (
    METADATA,
    drop_labels,
    keep_labels,
    key_of,
    number_keys,
    set_label,
    value_of,
)
from lakerunner_query.vectors.rows import (
    ARITHMETIC,
    COMPARISONS,
    SETS,
    apply_to_scalars,
    drop_empty_rows,
    drop_flags,
    empty_objects,
    empty_vector,
    stack_rows,
)
from lakerunner_query.vectors.vector import Labels, Scalar, Value, Vector
from resources.arrays import Flags, Int64s


def apply_set_operator(op: str, left: Vector, right: Vector, matching: Matching) -> Vector:
    """Evaluate `and`, `or` or `unless`, which select cells of rows and never combine them."""
    """Evaluate `and`, `or` or `unless`, which select cells of rows and never combine them."""
    key = key_of(matching.labels, is_without=not matching.on)
    codes: dict[Labels, int] = {}
    left_codes = number_keys(map(key, left.labels), codes)
    right_codes = number_keys(map(key, right.labels), codes)
    if op == "or":
        taken = any_of_code(left_codes, left.present, len(codes))[right_codes]
        return drop_empty_rows(stack_rows([left, replace(right, present=right.present & ~taken)]))
    match_vectors = any_of_code(right_codes, right.present, len(codes))[left_codes]
    present = left.present & (match_vectors if op == "and" else ~match_vectors)
    return drop_empty_rows(replace(left, present=present))


NO_ROW = -1
"""Row number of a side that has no match and is filled."""
NOT_EXPLICIT = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
NOT_UNIQUE = "multiple matches for labels: grouping labels must ensure unique matches"


@dataclass(frozen=True, slots=True)
class _Pairs:
    many: Int64s
    one: Int64s
    present: Flags
    """Cells (pairs, steps) that both rows have."""


@dataclass(frozen=True, slots=True)
class _Operands:
    """Both sides with the codes of their match groups; if swapped, "many" is the right side."""

    expr: Binary
    matching: Matching
    is_swapped: bool
    many: Vector
    one: Vector
    many_codes: Int64s
    one_codes: Int64s
    count: int

    @property
    def has_fill(self) -> bool:
        return self.matching.fill_left is not None or self.matching.fill_right is not None

    def active_steps(self) -> Flags:
        """Return the steps at which rows are matched.

        With one side empty nothing is matched, so nothing is ambiguous either.
        """
        many, one = self.many.present.any(axis=0), self.one.present.any(axis=0)
        both = (many, one)
        found: Flags = np.logical_or(*both) if self.has_fill else np.logical_and(*both)
        return found

    def match_group(self, labels: Labels) -> Labels:
        return key_of(self.matching.labels, is_without=not self.matching.on)(labels)


def match_vectors(context: Context, expr: Binary, left: Vector, right: Vector, matching: Matching) -> Vector:
    operands = _align(expr, left, right, matching)
    ambiguous_step = _first_ambiguous_step(operands)
    if operands.has_fill or (left.labels and right.labels):
        pairs = _pairs(context, operands, stop_at=ambiguous_step)
    else:
        return empty_vector(context.steps.count)
    annotations = CellAnnotations()
    outcome = _combine(operands, pairs, annotations)
    labels = _labels(operands, pairs)
    pair_cells = pairs.present & ~outcome.failures
    _check(operands, pairs, labels, pair_cells, ambiguous_step)
    parts = [_vector(operands, outcome, pair_cells, labels)]
    if matching.fill_left is not None:
        parts.append(_fill_unmatched(operands, pairs, pair_cells, annotations))
    annotations.report(context.annotations, expr.span)
    return drop_empty_rows(stack_rows(parts))


def _align(expr: Binary, left: Vector, right: Vector, matching: Matching) -> _Operands:
    is_swapped = matching.cardinality == Cardinality.ONE_TO_MANY
    many, one = (right, left) if is_swapped else (left, right)
    key = key_of(matching.labels, is_without=not matching.on)
    codes: dict[Labels, int] = {}
    many_codes, one_codes = (
        number_keys(map(key, many.labels), codes),
        number_keys(map(key, one.labels), codes),
    )
    return _Operands(expr, matching, is_swapped, many, one, many_codes, one_codes, len(codes))


def _first_ambiguous_step(operands: _Operands) -> int | None:
    """Find the first step at which the "one" side has two rows of one match group."""
    if len(np.unique(operands.one_codes)) == len(operands.one_codes):
        return None
    counts = count_of_code(operands.one_codes, operands.one.present, operands.count)
    ambiguous = (counts > 1).any(axis=0) & operands.active_steps()
    return int(ambiguous.argmax()) if ambiguous.any() else None


def _pairs(context: Context, operands: _Operands, stop_at: int | None) -> _Pairs:
    """Pair every row of the "many" side with the rows of the other side that share a step.

    Matching ends at the step `stop_at`, which raises an error later.
    """
    order = np.argsort(operands.one_codes, kind="stable").astype(np.int64)
    starts = np.searchsorted(operands.one_codes[order], np.arange(operands.count + 1))
    counts = (starts[1:] - starts[:-1])[operands.many_codes]
    many = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    within = np.arange(len(many)) - np.repeat(np.cumsum(counts) - counts, counts)
    one = order[np.repeat(starts[:-1][operands.many_codes], counts) + within]
    check_size(context, len(many) * context.steps.count)
    present = operands.many.present[many] & operands.one.present[one]
    if stop_at is not None:
        present[:, stop_at:] = False
    if (counts > 1).any():
        shared = present.any(axis=1)
        many, one, present = many[shared], one[shared], present[shared]
    if operands.matching.fill_right is None:
        return _Pairs(many, one, present)
    unmatched = _unmatched_cells(operands, stop_at)
    rows = np.flatnonzero(unmatched.any(axis=1)).astype(np.int64)
    many = np.concatenate((many, rows))
    one = np.concatenate((one, np.full(len(rows), NO_ROW, np.int64)))
    present = np.concatenate((present, unmatched[rows]))
    by_row = np.argsort(many, kind="stable")
    return _Pairs(many[by_row], one[by_row], present[by_row])


def _unmatched_cells(operands: _Operands, stop_at: int | None) -> Flags:
    """Return the cells of the "many" side that the other side has no match for."""
    has_one = any_of_code(operands.one_codes, operands.one.present, operands.count)
    unmatched: Flags = operands.many.present & ~has_one[operands.many_codes]
    if stop_at is not None:
        unmatched[:, stop_at:] = False
    return unmatched


def _combine(operands: _Operands, pairs: _Pairs, annotations: CellAnnotations) -> Outcome:
    many = _cells(operands.many, pairs.many, operands.matching.fill_left)
    one = _cells(operands.one, pairs.one, operands.matching.fill_right)
    left, right = (one, many) if operands.is_swapped else (many, one)
    return combine_cells(operands.expr.op, left, right, pairs.present, annotations)


def _cells(vector: Vector, rows: Int64s, fill: float | None) -> Cells:
    if fill is None or (rows != NO_ROW).all():
        return Cells(vector.values[rows], None if vector.histograms is None else vector.histograms[rows])
    real = rows != NO_ROW
    values = np.full((len(rows), vector.values.shape[1]), fill)
    values[real] = vector.values[rows[real]]
    if vector.histograms is None:
        return Cells(values, None)
    histograms = empty_objects(values.shape)
    histograms[real] = vector.histograms[rows[real]]
    return Cells(values, histograms)


def _labels(operands: _Operands, pairs: _Pairs) -> list[Labels]:
    found = []
    for many, one in zip(pairs.many.tolist(), pairs.one.tolist(), strict=True):
        is_filled = many == NO_ROW
        many_labels = (
            operands.match_group(operands.one.labels[one]) if is_filled else operands.many.labels[many]
        )
        one_labels = operands.match_group(many_labels) if one == NO_ROW else operands.one.labels[one]
        found.append(_result(operands, many_labels, one_labels))
    return found


def _result(operands: _Operands, many: Labels, one: Labels) -> Labels:
    matching = operands.matching
    labels = drop_labels(many, METADATA) if operands.expr.op in ARITHMETIC else many
    if matching.cardinality == Cardinality.ONE_TO_ONE:
        labels = keep_labels(labels, matching.labels) if matching.on else drop_labels(labels, matching.labels)
    for name in matching.include:
        labels = set_label(labels, name, value_of(one, name))
    return labels


def _check(
    operands: _Operands, pairs: _Pairs, labels: list[Labels], pair_cells: Flags, ambiguous_step: int | None
) -> None:
    """Raise `EvaluationError` if a step is ambiguous."""
    codes = operands.many_codes[pairs.many]
    message, keys, count = NOT_EXPLICIT, codes, operands.count
    if operands.matching.cardinality != Cardinality.ONE_TO_ONE:
        numbers: dict[tuple[int, Labels], int] = {}
        keys = number_keys(zip(codes.tolist(), labels, strict=True), numbers)
        message, count = NOT_UNIQUE, len(numbers)
    if len(np.unique(keys)) < len(keys) and (count_of_code(keys, pair_cells, count) > 1).any():
        raise EvaluationError(message)
    if ambiguous_step is not None:
        raise EvaluationError(_ambiguity(operands, ambiguous_step))


def _ambiguity(operands: _Operands, step: int) -> str:
    seen: dict[int, int] = {}
    for row in np.flatnonzero(operands.one.present[:, step]).tolist():
        earlier = seen.setdefault(int(operands.one_codes[row]), row)
        if earlier != row:
            break
    side = "left" if operands.is_swapped else "right"
    labels = [operands.one.labels[earlier], operands.one.labels[row]]
    first, second = sorted(labels)
    group = label_set(operands.match_group(labels[1]))
    return (
        f"found duplicate series for the match group {group} on the {side} "
        f"hand-side of the operation: [{label_set(first)}, {label_set(second)}];many-to-many matching not "
        "allowed: matching labels must be unique on one side"
    )


def _vector(operands: _Operands, outcome: Outcome, pair_cells: Flags, labels: list[Labels]) -> Vector:
    """Build the result; comparisons keep names that an operand was about to lose, as in Prometheus."""
    if operands.expr.return_bool:
        return Vector(
            labels, outcome.survivors.astype(np.float64), pair_cells, None, np.ones(len(labels), np.bool_)
        )
    keeps = np.zeros(len(labels), np.bool_)
    return Vector(labels, outcome.cells.values, outcome.survivors, outcome.cells.histograms, keeps)


def _fill_unmatched(
    operands: _Operands, pairs: _Pairs, pair_cells: Flags, annotations: CellAnnotations
) -> Vector:
    """Combine the unmatched cells of the "one" side with the fill value."""
    met = any_of_code(operands.many_codes[pairs.many], pair_cells, operands.count)
    unmatched = operands.one.present & ~met[operands.one_codes]
    rows = np.flatnonzero(unmatched.any(axis=1)).astype(np.int64)
    filled = _Pairs(np.full(len(rows), NO_ROW, np.int64), rows, unmatched[rows])
    later = CellAnnotations()
    outcome = _combine(operands, filled, later)
    annotations.by_step.update(later.by_step)
    labels = _labels(operands, filled)
    return _vector(operands, outcome, filled.present & ~outcome.failures, labels)


def evaluate_binary(context: Context, expr: Binary) -> Value:
    """Evaluate an operator by the kinds of its operands: scalars, a scalar and a vector, or vectors."""
    """Evaluate an operator by the kinds of its operands: scalars, a scalar and a vector, or vectors."""
    left, right = context.evaluate(expr.left), context.evaluate(expr.right)
    match left, right:
        case Scalar(), Scalar():
            return Scalar(apply_to_scalars(expr.op, left.values, right.values))
        case Vector(), Scalar():
            return _combine_with_scalar(context, expr, left, right, is_swapped=False)
        case Scalar(), Vector():
            return _combine_with_scalar(context, expr, right, left, is_swapped=True)
        case Vector(), Vector():
            matching = expr.matching or Matching()
            if expr.op in SETS:
                return apply_set_operator(expr.op, left, right, matching)
            return match_vectors(context, expr, left, right, matching)
    raise TypeError(
        f"{expr.op}: expected scalars or instant vectors, found {type(left).__name__}, {type(right).__name__}"
    )


def _combine_with_scalar(
    context: Context, expr: Binary, vector: Vector, scalar: Scalar, *, is_swapped: bool
) -> Vector:
    """Combine each row with a scalar; comparisons return the vector's element on either side."""
    rows = Cells(vector.values, vector.histograms)
    row = Cells(scalar.values[np.newaxis, :], None)
    annotations = CellAnnotations()
    outcome = combine_cells(
        expr.op, *((row, rows) if is_swapped else (rows, row)), vector.present, annotations
    )
    annotations.report(context.annotations, expr.span)
    values, histograms = outcome.cells.values, outcome.cells.histograms
    present, drop_name = outcome.survivors, drop_flags(vector)
    if expr.op in COMPARISONS and is_swapped:
        values, histograms = vector.values, vector.histograms
    if expr.return_bool:
        values, present = outcome.survivors.astype(np.float64), vector.present & ~outcome.failures
    if expr.return_bool or expr.op in ARITHMETIC:
        drop_name = np.ones(len(vector.labels), np.bool_)
    return drop_empty_rows(
        replace(vector, values=values, present=present, histograms=histograms, drop_name=drop_name)
    )
