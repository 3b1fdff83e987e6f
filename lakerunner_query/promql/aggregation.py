"""`sum` and `avg` where a group has histograms at a step: at once if all have one layout, else cell by cell.

A group that has floats and histograms at one step, or histograms that cannot be added, has no value there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import xxhash

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.strconv import general, plain, quoted
from lakerunner_query.histogram.model import Histogram, IncompatibleHistogramsError
from lakerunner_query.histogram.sums import KahanMean, KahanSum, grid_sums
from lakerunner_query.histogram.text import text
from lakerunner_query.promql.context import Annotations, Context
from lakerunner_query.promql.lang.ast import Aggregate, Expr, Span
from lakerunner_query.promql.selectors import bare, check_size
from lakerunner_query.vectors.group_kernels import (
    any_of_code,
    best_of_group,
    count_of_code,
    extreme_of_code,
    first_of_group,
    mean_of_code,
    quantile_of_group,
    sum_of_code,
    variance_of_code,
)
from lakerunner_query.vectors.labels import Groups, coded, grouped, replaced, value_of
from lakerunner_query.vectors.rows import (
    has_float,
    histograms_of,
    is_histogram,
    no_objects,
    nothing,
    occupied,
)
from lakerunner_query.vectors.vector import NAME, Labels, Objects, Vector
from resources.arrays import Doubles, Flags, Int64s

# << `limit_ratio`: which series are in, by a number in [0, 1] that only their labels decide.
# <<
# << The number is Prometheus': xxHash64 of the labels as its default build keeps them, a length before
# << each text.

_LARGEST = float(2**64 - 1)


def places(labels: list[Labels]) -> Doubles:
    return np.array([xxhash.xxh64_intdigest(_packed(one)) / _LARGEST for one in labels], np.float64)


def within(places: Doubles, ratios: Doubles) -> Flags:
    """(series, steps): a negative ratio takes the upper end, so that r and r - 1 share no series."""
    place, ratio = places[:, np.newaxis], np.clip(ratios, -1.0, 1.0)[np.newaxis, :]
    found: Flags = np.where(ratio >= 0, place < ratio, place >= 1.0 + ratio) & (ratio != 0)
    return found


def _packed(labels: Labels) -> bytes:
    texts = [text.encode() for label in labels for text in label]
    return b"".join(_length(len(text)) + text for text in texts)


def _length(size: int) -> bytes:
    return bytes([size]) if size < 255 else b"\xff" + size.to_bytes(3, "little")


# << `count_values`: how many series of a group have each value; the value becomes a label.
# <<
# << count_values by (job) ("v", x)   x{job="a"} 1, 1, 2   ->   {job="a", v="1"} 2   {job="a", v="2"} 1


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


# << `topk`, `bottomk`, `limitk`, `limit_ratio`: rows of the input, fewer of them at each step.

RANKING = frozenset({"topk", "bottomk"})
CHOOSING = RANKING | {"limitk", "limit_ratio"}
_TOO_LARGE, _TOO_SMALL = float(2**63 - 1024), float(-(2**63))
"""From here on a float is no 64 bit integer, as Prometheus draws the lines."""


def choose(context: Context, expr: Aggregate, vector: Vector, groups: Groups, wanted: Doubles) -> Vector:
    if expr.op == "limit_ratio":
        return _by_ratio(context, expr, vector, wanted)
    if wanted.max() < 1:
        return nothing(context.steps.count)
    if np.isnan(wanted).any():
        raise EvaluationError("Parameter value is NaN")
    if wanted.min() <= _TOO_SMALL:
        raise EvaluationError(f"Scalar value {general(float(wanted.min()))} underflows int64")
    if wanted.max() >= _TOO_LARGE:
        raise EvaluationError(f"Scalar value {general(float(wanted.max()))} overflows int64")
    if not vector.labels:
        return vector
    limits = np.minimum(wanted, len(vector.labels)).astype(np.int64)
    if expr.op == "limitk":
        order, starts = groups.by_group()
        return occupied(replace(vector, present=first_of_group(order, starts, vector.present, limits)))
    return _ranked(context, expr, vector, groups, limits)


def _ranked(context: Context, expr: Aggregate, vector: Vector, groups: Groups, limits: Int64s) -> Vector:
    order, starts = groups.by_group()
    ignored = is_histogram(vector) & vector.present & (limits > 0)
    if ignored.any():
        context.annotations.inform(f"ignored histogram in {expr.op} aggregation", expr.span)
    is_top = expr.op == "topk"
    present = best_of_group(order, starts, vector.values, has_float(vector), limits, is_top)
    chosen = replace(vector, present=present, histograms=None)
    if context.steps.count == 1:
        chosen = chosen.take(_best_first(chosen, groups, is_top=is_top))
    return occupied(chosen)


def _best_first(vector: Vector, groups: Groups, *, is_top: bool) -> Int64s:
    """Rows of an instant query, group by group, the best first and NaN last."""
    value = vector.values[:, 0]
    key = np.where(np.isnan(value), np.inf, -value if is_top else value)
    rows = np.lexsort((np.isnan(value), key, groups.codes)).astype(np.int64)
    best: Int64s = rows[vector.present[rows, 0]]
    return best


def _by_ratio(context: Context, expr: Aggregate, vector: Vector, ratios: Doubles) -> Vector:
    if (ratios == 0).all():
        return nothing(context.steps.count)
    if np.isnan(ratios).any():
        raise EvaluationError("Ratio value is NaN")
    span = expr.span if expr.parameter is None else bare(expr.parameter).span
    for ratio, bound in ((float(ratios.max()), 1.0), (float(ratios.min()), -1.0)):
        if ratio * bound > 1:
            message = (
                f"ratio value should be between -1 and 1, got {general(ratio)}, capping to {general(bound)}"
            )
            context.annotations.warn(message, span)
    if not vector.labels:
        return vector
    return occupied(replace(vector, present=vector.present & within(places(vector.labels), ratios)))


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


# << Aggregations: groups of rows become rows, or rows are chosen out of groups.

_Fold = Callable[[Groups, Doubles, Flags], Doubles]

_FOLDS: Mapping[str, _Fold] = {
    "sum": lambda by, values, members: sum_of_code(by.codes, values, members, by.count),
    "avg": lambda by, values, members: mean_of_code(by.codes, values, members, by.count),
    "min": lambda by, values, members: extreme_of_code(by.codes, values, members, by.count, False),
    "max": lambda by, values, members: extreme_of_code(by.codes, values, members, by.count, True),
    "count": lambda by, _, members: count_of_code(by.codes, members, by.count).astype(np.float64),
    "group": lambda by, _, members: np.ones((by.count, members.shape[1])),
    "stdvar": lambda by, values, members: variance_of_code(by.codes, values, members, by.count),
    "stddev": lambda by, values, members: np.sqrt(variance_of_code(by.codes, values, members, by.count)),
}
_OF_BOTH = frozenset({"count", "group"})
"""Histograms are as good as floats to them."""
_ADDING = frozenset({"sum", "avg"})


def aggregate(context: Context, expr: Aggregate) -> Vector:
    """Parameter first, so that annotations come in the order of the text."""
    if expr.op == "count_values":
        name = context.text(_parameter(expr))
        return count_values(context, context.vector(expr.expr), name, expr)
    wanted = None if expr.parameter is None else context.scalar(expr.parameter).values
    vector = context.vector(expr.expr)
    groups = grouped(vector.labels, expr.grouping, is_without=expr.without)
    if expr.op in CHOOSING or expr.op == "quantile":
        if wanted is None:
            raise TypeError(f"{expr.op}: expected a parameter")
        if expr.op in CHOOSING:
            return choose(context, expr, vector, groups, wanted)
        _warn_of_quantiles(wanted, bare(_parameter(expr)).span, context.annotations)
    if not vector.labels:
        return nothing(context.steps.count)
    fold = _FOLDS[expr.op] if wanted is None else _quantile_fold(wanted)
    return occupied(_reduce(context, expr, vector, groups, fold))


def _parameter(expr: Aggregate) -> Expr:
    if expr.parameter is None:
        raise TypeError(f"{expr.op}: expected a parameter")
    return expr.parameter


def _quantile_fold(wanted: Doubles) -> _Fold:
    def fold(groups: Groups, values: Doubles, members: Flags) -> Doubles:
        order, starts = groups.by_group()
        return quantile_of_group(order, starts, values, members, wanted)

    return fold


def _reduce(context: Context, expr: Aggregate, vector: Vector, groups: Groups, fold: _Fold) -> Vector:
    span, notes = bare(expr.expr).span, context.annotations
    members = vector.present if expr.op in _OF_BOTH else has_float(vector)
    if expr.op not in _OF_BOTH | _ADDING and (is_histogram(vector) & vector.present).any():
        notes.inform(f"ignored histogram in {expr.op} aggregation", span)
    values = fold(groups, vector.values, members)
    present = any_of_code(groups.codes, members, groups.count)
    drop_name = None
    if vector.drop_name is not None:
        drop_name = np.bincount(groups.codes, vector.drop_name, minlength=groups.count) > 0
    reduced = Vector(groups.labels, values, present, None, drop_name)
    if expr.op in _ADDING:
        return with_histograms(reduced, vector, groups, expr.op, span, notes)
    return reduced


def _warn_of_quantiles(quantiles: Doubles, span: Span, notes: Annotations) -> None:
    """NaN is larger than 1 and hides whatever else is wrong."""
    largest, smallest = float(quantiles.max()), float(quantiles.min())
    for one, is_wrong in ((largest, not largest <= 1), (smallest, smallest < 0)):
        if is_wrong:
            notes.warn(f"quantile value should be between 0 and 1, got {general(one)}", span)
