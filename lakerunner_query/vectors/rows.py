"""Vectors are masked, stacked and merged row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lakerunner_query.errors import SAME_LABELS, EvaluationError
from lakerunner_query.vectors.labels import number_keys
from lakerunner_query.vectors.vector import Labels, Objects, Steps, Vector, histogram_mask
from resources.arrays import Doubles, Flags, Int64s

ARITHMETIC: Mapping[str, Callable[[Doubles, Doubles], Doubles]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
"""Operators on floats, cell by cell, as IEEE 754 and Go's `math` have them."""
COMPARISONS: Mapping[str, Callable[[Doubles, Doubles], Flags]] = {
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}
TRIMS = frozenset({"</", ">/"})
"""Operators that cut histograms off at a float."""
SETS = frozenset({"and", "or", "unless"})


def apply_to_scalars(op: str, left: Doubles, right: Doubles) -> Doubles:
    """Apply PromQL's operator to numbers; of those the parser lets through, trims need a histogram."""
    with np.errstate(all="ignore"):
        if op in ARITHMETIC:
            return ARITHMETIC[op](left, right)
        if op in COMPARISONS:
            return COMPARISONS[op](left, right).astype(np.float64)
    raise EvaluationError(f'operator "{op}" not allowed for Scalar operations')


DIVISIONS = frozenset({"/", "%"})
"""LogQL gives NaN for a division by zero."""


@dataclass(frozen=True, slots=True)
class OperatorResult:
    values: Doubles
    is_kept: Flags
    """Cells that a comparison lets through; all cells of other operators."""


def apply_operator(op: str, left: Doubles, right: Doubles, *, return_bool: bool) -> OperatorResult:
    """Apply LogQL's operator to numbers.

    A comparison gives the left side where it holds, with `bool` 1 where it does and 0 elsewhere.

    >>> apply_operator("/", np.array([1.0, 6.0]), np.array([0.0, 2.0]), return_bool=False).values.tolist()
    [nan, 3.0]
    >>> apply_operator(">", np.array([1.0, 6.0]), np.array([2.0, 2.0]), return_bool=False).is_kept.tolist()
    [False, True]
    """
    left, right = np.broadcast_arrays(left, right)
    with np.errstate(all="ignore"):
        if op in COMPARISONS:
            holds = COMPARISONS[op](left, right)
            return (
                OperatorResult(holds.astype(np.float64), np.ones_like(holds))
                if return_bool
                else OperatorResult(left, holds)
            )
        values = ARITHMETIC[op](left, right)
    if op in DIVISIONS:
        values = np.where(right == 0, np.nan, values)
    return OperatorResult(values, np.ones(values.shape, np.bool_))


def empty_vector(steps: int) -> Vector:
    return Vector([], np.zeros((0, steps)), np.zeros((0, steps), np.bool_))


def empty_objects(shape: tuple[int, ...]) -> Objects:
    return np.full(shape, None, np.object_)


def drop_empty_rows(vector: Vector) -> Vector:
    """Drop rows that are empty at every step, and the cells of histograms if there are none."""
    if vector.histograms is not None and not (is_histogram(vector) & vector.present).any():
        vector = replace(vector, histograms=None)
    keep: Flags = np.logical_or.reduce(vector.present, axis=1)
    return vector if keep.all() else vector.take(keep)


def is_histogram(vector: Vector) -> Flags:
    """Flag cells with a histogram; flags of empty cells mean nothing."""
    if vector.histograms is None:
        return np.zeros(vector.present.shape, np.bool_)
    return histogram_mask(vector.histograms)


def has_float(vector: Vector) -> Flags:
    return vector.present if vector.histograms is None else vector.present & ~is_histogram(vector)


def drop_flags(vector: Vector) -> Flags:
    return np.zeros(len(vector.labels), np.bool_) if vector.drop_name is None else vector.drop_name


def stack_rows(vectors: Sequence[Vector]) -> Vector:
    """Put the rows of all vectors below each other, in this order."""
    some_histograms = any(vector.histograms is not None for vector in vectors)
    some_drops = any(vector.drop_name is not None for vector in vectors)
    return Vector(
        [labels for vector in vectors for labels in vector.labels],
        np.concatenate([vector.values for vector in vectors]),
        np.concatenate([vector.present for vector in vectors]),
        np.concatenate([histograms_of(vector) for vector in vectors]) if some_histograms else None,
        np.concatenate([drop_flags(vector) for vector in vectors]) if some_drops else None,
    )


def join_steps(vectors: Sequence[Vector]) -> Vector:
    """Join vectors of the same rows, steps one after the other."""
    some_histograms = any(vector.histograms is not None for vector in vectors)
    return replace(
        vectors[0],
        values=np.concatenate([vector.values for vector in vectors], axis=1),
        present=np.concatenate([vector.present for vector in vectors], axis=1),
        histograms=np.concatenate([histograms_of(vector) for vector in vectors], axis=1)
        if some_histograms
        else None,
    )


def histograms_of(vector: Vector) -> Objects:
    return empty_objects(vector.present.shape) if vector.histograms is None else vector.histograms


def repeat_steps(vector: Vector, steps: Steps) -> Vector:
    """Repeat a vector of one step at every step."""
    return replace(
        vector,
        values=np.repeat(vector.values, steps.count, axis=1),
        present=np.repeat(vector.present, steps.count, axis=1),
        histograms=None if vector.histograms is None else np.repeat(vector.histograms, steps.count, axis=1),
    )


def merge_rows(vector: Vector, labels: list[Labels] | None = None) -> Vector:
    """Merge rows of equal labels; raise EvaluationError if two of them have a value at the same step.

    The row that comes first in time decides whether the name is dropped.
    """
    found: dict[Labels, int] = {}
    labels = vector.labels if labels is None else labels
    codes = number_keys(labels, found)
    if len(found) == len(labels):
        return vector if labels is vector.labels else vector.with_labels(labels)
    order = np.argsort(codes, kind="stable").astype(np.int64)
    starts = np.searchsorted(codes[order], np.arange(len(found)))
    if (np.add.reduceat(vector.present[order].astype(np.int32), starts, axis=0) > 1).any():
        raise EvaluationError(SAME_LABELS)
    return _merge_equal_rows(vector, list(found), codes)


def _merge_equal_rows(vector: Vector, labels: list[Labels], codes: Int64s) -> Vector:
    rows, columns = np.nonzero(vector.present)
    targets = codes[rows]
    shape = (len(labels), vector.present.shape[1])
    values, present = np.full(shape, np.nan), np.zeros(shape, np.bool_)
    values[targets, columns] = vector.values[rows, columns]
    present[targets, columns] = True
    histograms = None
    if vector.histograms is not None:
        histograms = empty_objects(shape)
        histograms[targets, columns] = vector.histograms[rows, columns]
    return Vector(labels, values, present, histograms, _first_drops(vector, codes, len(labels)))


def _first_drops(vector: Vector, codes: Int64s, count: int) -> Flags | None:
    if vector.drop_name is None:
        return None
    first = np.where(vector.present.any(axis=1), vector.present.argmax(axis=1), vector.present.shape[1])
    drop = np.zeros(count, np.bool_)
    latest_first: npt.NDArray[np.intp] = np.argsort(-first, kind="stable")
    drop[codes[latest_first]] = vector.drop_name[latest_first]
    return drop
