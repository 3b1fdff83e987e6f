"""`count_values`: how many series of a group have each value; the value becomes a label.

count_values by (job) ("v", x)   x{job="a"} 1, 1, 2   ->   {job="a", v="1"} 2   {job="a", v="2"} 1
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakerunner_query.evaluate.failures import EvaluationError
from lakerunner_query.evaluate.histogram import text
from lakerunner_query.evaluate.labels import grouped, replaced
from lakerunner_query.evaluate.rows import has_float, is_histogram, nothing
from lakerunner_query.evaluate.spelling import plain, quoted
from lakerunner_query.evaluate.vectors import NAME, Labels, Vector
from lakerunner_query.lang.promql.ast import Aggregate


def count_values(vector: Vector, name: str, expr: Aggregate) -> Vector:
    if not name or not _is_text(name):
        raise EvaluationError(f"invalid label name {quoted(name)}")
    groups = grouped(vector.labels, [*expr.grouping, *_hidden(name, expr)], is_without=expr.without)
    is_shown = not expr.without or not (name in expr.grouping or name == NAME)
    found: dict[Labels, npt.NDArray[np.float64]] = {}
    texts, codes = _texts(vector)
    steps = vector.present.shape[1]
    rows, columns = np.nonzero(vector.present)
    keys = groups.codes[rows] * len(texts) + codes[rows, columns]
    chosen, places = np.unique(keys, return_inverse=True)
    counts = np.bincount(places.ravel() * steps + columns, minlength=len(chosen) * steps).reshape(-1, steps)
    for key, count in zip(chosen.tolist(), counts, strict=True):
        group, value = divmod(key, len(texts))
        base = groups.labels[group]
        labels = replaced(base, name, texts[value]) if is_shown else base
        found[labels] = found[labels] + count if labels in found else count.astype(np.float64)
    if not found:
        return nothing(steps)
    values = np.array(list(found.values()))
    return Vector(list(found), values, values > 0)


def _hidden(name: str, expr: Aggregate) -> tuple[str, ...]:
    """A label that series have already is as if it was not there: the value takes its place."""
    return (name,) if expr.without else ()


def _is_text(name: str) -> bool:
    return not any(0xD800 <= ord(one) <= 0xDFFF for one in name)


def _texts(vector: Vector) -> tuple[list[str], npt.NDArray[np.int64]]:
    """What values are called, and by cell which one it is."""
    codes = np.zeros(vector.present.shape, np.int64)
    numbers: dict[str, int] = {}
    floats = has_float(vector)
    bits, places = np.unique(vector.values[floats].view(np.int64), return_inverse=True)
    names = [numbers.setdefault(plain(value), len(numbers)) for value in bits.view(np.float64).tolist()]
    codes[floats] = np.array(names, np.int64)[places.ravel()] if names else 0
    if vector.histograms is not None:
        for row, step in np.argwhere(is_histogram(vector) & vector.present).tolist():
            codes[row, step] = numbers.setdefault(text(vector.histograms[row, step]), len(numbers))
    return list(numbers), codes
