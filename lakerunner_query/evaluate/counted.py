"""`count_values`: how many series of a group have each value; the value becomes a label.

count_values by (job) ("v", x)   x{job="a"} 1, 1, 2   ->   {job="a", v="1"} 2   {job="a", v="2"} 1
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakerunner_query.errors import EvaluationError
from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.selecting import check_size
from lakerunner_query.gotext.strconv import plain, quoted
from lakerunner_query.histogram.text import text
from lakerunner_query.lang.promql.ast import Aggregate
from lakerunner_query.vectors.labels import coded, grouped, replaced
from lakerunner_query.vectors.rows import has_float, histograms_of, is_histogram, nothing
from lakerunner_query.vectors.vector import NAME, Labels, Vector
from resources.arrays import Int64s


def count_values(context: Context, vector: Vector, name: str, expr: Aggregate) -> Vector:
    if not name or not _is_text(name):
        raise EvaluationError(f"invalid label name {quoted(name)}")
    steps = vector.present.shape[1]
    if not vector.present.any():
        return nothing(steps)
    groups = grouped(vector.labels, _grouping(name, expr), is_without=expr.without)
    texts, codes = _texts(vector)
    rows, columns = np.nonzero(vector.present)
    keys, places = _numbered(groups.codes[rows] * len(texts) + codes[rows, columns])
    is_shown = not expr.without or not (name in expr.grouping or name == NAME)
    found: dict[Labels, int] = {}
    named = [
        replaced(groups.labels[key // len(texts)], name, texts[key % len(texts)])
        if is_shown
        else groups.labels[key // len(texts)]
        for key in keys.tolist()
    ]
    cells = coded(named, found)[places] * steps + columns
    check_size(context, len(found) * steps)
    counts = np.bincount(cells, minlength=len(found) * steps).reshape(-1, steps)
    return Vector(list(found), counts.astype(np.float64), counts > 0)


def _grouping(name: str, expr: Aggregate) -> list[str]:
    """The value takes the place of a label of this name, so what series have there groups nothing."""
    if expr.without:
        return [*expr.grouping, name]
    return [one for one in expr.grouping if one != name]


def _is_text(name: str) -> bool:
    return not any(0xD800 <= ord(one) <= 0xDFFF for one in name)


def _texts(vector: Vector) -> tuple[list[str], Int64s]:
    """What values are called, and by cell which one it is."""
    codes = np.zeros(vector.present.shape, np.int64)
    numbers: dict[str, int] = {}
    floats = has_float(vector)
    bits, places = _numbered(vector.values[floats].view(np.int64))
    if len(bits):
        codes[floats] = coded(map(plain, bits.view(np.float64).tolist()), numbers)[places]
    histograms = histograms_of(vector)
    for cell in np.argwhere(is_histogram(vector) & vector.present).tolist():
        codes[tuple(cell)] = numbers.setdefault(text(histograms[tuple(cell)]), len(numbers))
    return list(numbers), codes


def _numbered(values: Int64s) -> tuple[Int64s, Int64s]:
    """Distinct values as they come, and which one each is."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy().astype(np.int64)
