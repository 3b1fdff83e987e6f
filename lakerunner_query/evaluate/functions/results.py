"""Vectors that functions give."""

from __future__ import annotations

import numpy as np

from lakerunner_query.vectors.rows import occupied
from lakerunner_query.vectors.vector import Labels, Objects, Vector
from resources.arrays import Doubles, Flags


def without_names(
    labels: list[Labels], values: Doubles, present: Flags, histograms: Objects | None = None
) -> Vector:
    """The metric names go once the whole query is answered."""
    return occupied(Vector(labels, values, present, histograms, np.ones(len(labels), np.bool_)))


def are_histograms(objects: Objects) -> Flags:
    found: Flags = objects.astype(np.bool_)  # only None is false
    return found


def single(values: Doubles) -> Vector:
    """One series without labels, a value at every step."""
    return Vector([()], values.reshape(1, -1).astype(np.float64), np.ones((1, len(values)), np.bool_))
