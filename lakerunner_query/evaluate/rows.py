"""Rows of vectors: left out, put below each other, merged where they are one series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lakerunner_query.errors import SAME_LABELS, EvaluationError
from lakerunner_query.evaluate.labels import coded
from lakerunner_query.evaluate.vectors import Labels, Objects, Steps, Vector, some
from resources.arrays import Flags, Int64s


def nothing(steps: int) -> Vector:
    return Vector([], np.zeros((0, steps)), np.zeros((0, steps), np.bool_))


def no_objects(shape: tuple[int, ...]) -> Objects:
    return np.full(shape, None, np.object_)


def occupied(vector: Vector) -> Vector:
    """Without rows that have nothing at any step, and without a place for histograms if there is none."""
    if vector.histograms is not None and not (is_histogram(vector) & vector.present).any():
        vector = replace(vector, histograms=None)
    keep: Flags = np.logical_or.reduce(vector.present, axis=1)
    return vector if keep.all() else vector.take(keep)


def is_histogram(vector: Vector) -> Flags:
    """Cells with a histogram; where nothing is present, anything."""
    if vector.histograms is None:
        return np.zeros(vector.present.shape, np.bool_)
    return some(vector.histograms)


def has_float(vector: Vector) -> Flags:
    return vector.present if vector.histograms is None else vector.present & ~is_histogram(vector)


def drops(vector: Vector) -> Flags:
    return np.zeros(len(vector.labels), np.bool_) if vector.drop_name is None else vector.drop_name


def stacked(vectors: Sequence[Vector]) -> Vector:
    """Rows of all, in this order."""
    some_histograms = any(vector.histograms is not None for vector in vectors)
    some_drops = any(vector.drop_name is not None for vector in vectors)
    return Vector(
        [labels for vector in vectors for labels in vector.labels],
        np.concatenate([vector.values for vector in vectors]),
        np.concatenate([vector.present for vector in vectors]),
        np.concatenate([histograms_of(vector) for vector in vectors]) if some_histograms else None,
        np.concatenate([drops(vector) for vector in vectors]) if some_drops else None,
    )


def beside(vectors: Sequence[Vector]) -> Vector:
    """The same rows, steps one after the other."""
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
    return no_objects(vector.present.shape) if vector.histograms is None else vector.histograms


def spread(vector: Vector, steps: Steps) -> Vector:
    """A vector of one step, the same at all."""
    return replace(
        vector,
        values=np.repeat(vector.values, steps.count, axis=1),
        present=np.repeat(vector.present, steps.count, axis=1),
        histograms=None if vector.histograms is None else np.repeat(vector.histograms, steps.count, axis=1),
    )


def merged(vector: Vector, labels: list[Labels] | None = None) -> Vector:
    """One row for all rows of equal labels; an error if two of them have something at the same step.

    Whether the name will go is what the row says that comes first in time.
    """
    found: dict[Labels, int] = {}
    labels = vector.labels if labels is None else labels
    codes = coded(labels, found)
    if len(found) == len(labels):
        return vector if labels is vector.labels else vector.with_labels(labels)
    order = np.argsort(codes, kind="stable").astype(np.int64)
    starts = np.searchsorted(codes[order], np.arange(len(found)))
    if (np.add.reduceat(vector.present[order].astype(np.int32), starts, axis=0) > 1).any():
        raise EvaluationError(SAME_LABELS)
    return _folded(vector, list(found), codes)


def _folded(vector: Vector, labels: list[Labels], codes: Int64s) -> Vector:
    rows, columns = np.nonzero(vector.present)
    targets = codes[rows]
    shape = (len(labels), vector.present.shape[1])
    values, present = np.full(shape, np.nan), np.zeros(shape, np.bool_)
    values[targets, columns] = vector.values[rows, columns]
    present[targets, columns] = True
    histograms = None
    if vector.histograms is not None:
        histograms = no_objects(shape)
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
