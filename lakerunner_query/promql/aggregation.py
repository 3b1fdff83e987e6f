"""Aggregation operators: groups of series become one series, or series are chosen from groups.

    sum by (job) (x)   x{job="a", env="x"} 1, x{job="a", env="y"} 2   ->   {job="a"} 3

`sum` and `avg` add histograms, all at once where they share a layout, else cell by cell. A group with both
floats and histograms at one step, or with histograms that cannot be added, has no value there. `AGGREGATORS`
binds the implementations; other facts of an operator stand in `promql/lang/functions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import xxhash

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.gotext.strconv import quote
from lakerunner_query.histogram.model import Histogram, IncompatibleHistogramsError
from lakerunner_query.histogram.sums import KahanMean, KahanSum, grid_sums
from lakerunner_query.histogram.text import text
from lakerunner_query.promql.context import Annotation, Annotations, Context, Extreme
from lakerunner_query.promql.lang.ast import Aggregate, Expr, Span
from lakerunner_query.promql.selectors import check_size, strip_parens
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
from lakerunner_query.vectors.labels import Groups, group_series, number_keys, set_label, value_of
from lakerunner_query.vectors.rows import (
    drop_empty_rows,
    empty_objects,
    empty_vector,
    has_float,
    histograms_of,
    is_histogram,
)
from lakerunner_query.vectors.vector import NAME, Labels, Objects, Vector
from resources.arrays import Doubles, Flags, Int64s

Aggregator = Callable[[Context, Aggregate], Vector]
Fold = Callable[[Groups, Doubles, Flags], Doubles]
"""Reduction of values and membership flags of series to values of groups."""
Total = type[KahanSum] | type[KahanMean]

_LARGEST = float(2**64 - 1)


def hash_ratios(labels: list[Labels]) -> Doubles:
    """Map each series to a number in [0, 1], decided by its labels as in Prometheus.

    That is xxHash64 of the labels as Prometheus' default build keeps them, each text behind its length.
    """
    return np.array([xxhash.xxh64_intdigest(_pack(one)) / _LARGEST for one in labels], np.float64)


def in_ratio(hashes: Doubles, ratios: Doubles) -> Flags:
    """Flag (series, steps) in the ratio.

    A negative ratio takes the upper end, so that r and r - 1 share no series.
    """
    place, ratio = hashes[:, np.newaxis], np.clip(ratios, -1.0, 1.0)[np.newaxis, :]
    found: Flags = np.where(ratio >= 0, place < ratio, place >= 1.0 + ratio) & (ratio != 0)
    return found


def _pack(labels: Labels) -> bytes:
    texts = [text.encode() for label in labels for text in label]
    return b"".join(_length(len(text)) + text for text in texts)


def _length(size: int) -> bytes:
    return bytes([size]) if size < 255 else b"\xff" + size.to_bytes(3, "little")


def count_values(context: Context, expr: Aggregate) -> Vector:
    """Count the series of a group that share a value; the value becomes a label.

    count_values by (job) ("v", x)   x{job="a"} 1, 1, 2   ->   {job="a", v="1"} 2   {job="a", v="2"} 1
    """
    name = context.text(_parameter(expr))
    vector = context.vector(expr.expr)
    if not name or not _is_text(name):
        raise EvaluationError(f"invalid label name {quote(name)}")
    steps = vector.present.shape[1]
    if not vector.present.any():
        return empty_vector(steps)
    groups = group_series(vector.labels, _grouping(name, expr), is_without=expr.without)
    texts, codes = _value_texts(vector)
    rows, columns = np.nonzero(vector.present)
    keys, places = _encode(groups.codes[rows] * len(texts) + codes[rows, columns])
    is_shown = not expr.without or not (name in expr.grouping or name == NAME)
    numbers: dict[Labels, int] = {}
    labels = [
        set_label(groups.labels[key // len(texts)], name, texts[key % len(texts)])
        if is_shown
        else groups.labels[key // len(texts)]
        for key in keys.tolist()
    ]
    cells = number_keys(labels, numbers)[places] * steps + columns
    check_size(context, len(numbers) * steps)
    counts = np.bincount(cells, minlength=len(numbers) * steps).reshape(-1, steps)
    return Vector(list(numbers), counts.astype(np.float64), counts > 0)


def _grouping(name: str, expr: Aggregate) -> list[str]:
    """Return the labels to group by, without the one that the value replaces."""
    if expr.without:
        return [*expr.grouping, name]
    return [one for one in expr.grouping if one != name]


def _is_text(name: str) -> bool:
    return not any(0xD800 <= ord(one) <= 0xDFFF for one in name)


def _value_texts(vector: Vector) -> tuple[list[str], Int64s]:
    """Return the distinct values as text, and the index of its text for each cell."""
    codes = np.zeros(vector.present.shape, np.int64)
    numbers: dict[str, int] = {}
    floats = has_float(vector)
    bits, places = _encode(vector.values[floats].view(np.int64))
    if len(bits):
        codes[floats] = number_keys(
            [format_float(one, "f") for one in bits.view(np.float64).tolist()], numbers
        )[places]
    histograms = histograms_of(vector)
    for cell in np.argwhere(is_histogram(vector) & vector.present).tolist():
        codes[tuple(cell)] = numbers.setdefault(text(histograms[tuple(cell)]), len(numbers))
    return list(numbers), codes


def _encode(values: Int64s) -> tuple[Int64s, Int64s]:
    """Return the distinct values in order of appearance, and the index of its value for each element."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy().astype(np.int64)


_TOO_LARGE, _TOO_SMALL = float(2**63 - 1024), float(-(2**63))
"""Bounds from which on a float is no 64 bit integer, as Prometheus draws them."""


def limit_ratio(context: Context, expr: Aggregate) -> Vector:
    ratios, vector, _ = _arguments(context, expr)
    if (ratios == 0).all():
        return empty_vector(context.steps.count)
    if np.isnan(ratios).any():
        raise EvaluationError("Ratio value is NaN")
    span = strip_parens(_parameter(expr)).span
    _warn_outside((-1, 1), "ratio", ratios, span, context.annotations)
    if not vector.labels:
        return vector
    return drop_empty_rows(
        replace(vector, present=vector.present & in_ratio(hash_ratios(vector.labels), ratios))
    )


def limitk(context: Context, expr: Aggregate) -> Vector:
    numbers, vector, groups = _arguments(context, expr)
    limits = _limits(numbers, vector)
    if limits is None:
        return empty_vector(context.steps.count)
    if not vector.labels:
        return vector
    order, starts = groups.by_group()
    return drop_empty_rows(replace(vector, present=first_of_group(order, starts, vector.present, limits)))


def _rank(*, is_top: bool) -> Aggregator:
    """Build `topk` or `bottomk`."""

    def aggregate(context: Context, expr: Aggregate) -> Vector:
        numbers, vector, groups = _arguments(context, expr)
        limits = _limits(numbers, vector)
        if limits is None:
            return empty_vector(context.steps.count)
        if not vector.labels:
            return vector
        order, starts = groups.by_group()
        if (is_histogram(vector) & vector.present & (limits > 0)).any():
            context.annotations.inform(f"ignored histogram in {expr.op} aggregation", expr.span)
        present = best_of_group(order, starts, vector.values, has_float(vector), limits, is_top)
        best = replace(vector, present=present, histograms=None)
        if context.steps.count == 1:
            best = best.take(_best_first(best, groups, is_top=is_top))
        return drop_empty_rows(best)

    return aggregate


def _limits(numbers: Doubles, vector: Vector) -> Int64s | None:
    """Return the number of series to choose at each step; None where no step takes any."""
    if numbers.max() < 1:
        return None
    if np.isnan(numbers).any():
        raise EvaluationError("Parameter value is NaN")
    if numbers.min() <= _TOO_SMALL:
        raise EvaluationError(f"Scalar value {format_float(float(numbers.min()))} underflows int64")
    if numbers.max() >= _TOO_LARGE:
        raise EvaluationError(f"Scalar value {format_float(float(numbers.max()))} overflows int64")
    return np.minimum(numbers, len(vector.labels)).astype(np.int64)


def _best_first(vector: Vector, groups: Groups, *, is_top: bool) -> Int64s:
    """Order the rows of an instant query group by group, the best first and NaN last."""
    value = vector.values[:, 0]
    key = np.where(np.isnan(value), np.inf, -value if is_top else value)
    rows = np.lexsort((np.isnan(value), key, groups.codes)).astype(np.int64)
    best: Int64s = rows[vector.present[rows, 0]]
    return best


MIXED = "encountered a mix of histograms and floats for aggregation"
CONFLICT = "conflicting counter resets during histogram aggregation"
INCOMPATIBLE = (
    "vector contains a mix of histograms with exponential and custom buckets schemas for metric name"
)


def _add_histograms(
    reduced: Vector, vector: Vector, groups: Groups, total: Total, span: Span, notes: Annotations
) -> Vector:
    """Replace the sums of floats in all cells of a group and step that have histograms."""
    if vector.histograms is None:
        return reduced
    is_a_histogram = is_histogram(vector) & vector.present
    cells = any_of_code(groups.codes, is_a_histogram, groups.count)
    present, histograms = reduced.present.copy(), empty_objects(reduced.present.shape)
    order, starts = groups.by_group()
    for group in np.flatnonzero(cells.any(axis=1)).tolist():
        rows = order[starts[group] : starts[group + 1]]
        whole = cells[group] & (is_a_histogram[rows] | ~vector.present[rows]).all(axis=0)
        totals = _group_totals(vector, rows, whole, total, span, notes)
        if totals is not None:
            histograms[group, whole], present[group, whole] = totals, True
            cells[group, whole] = False
    for group, step in np.argwhere(cells).tolist():
        rows = order[starts[group] : starts[group + 1]]
        rows = rows[vector.present[rows, step]]
        first, *others = vector.histograms[rows, step].tolist()
        cell = None
        if first is None:
            notes.warn(MIXED, span)
        else:
            labels = [vector.labels[row] for row in rows[1:].tolist()]
            cell = _cell_total(total(first), others, labels, span, notes)
        histograms[group, step] = cell
        present[group, step] = cell is not None
    return replace(reduced, present=present, histograms=histograms)


def _group_totals(
    vector: Vector, rows: Int64s, steps: Flags, total: Total, span: Span, notes: Annotations
) -> Objects | None:
    """Add the histograms of a group at steps without floats; None if layouts differ."""
    if vector.histograms is None or not steps.any():
        return None
    cells, present = vector.histograms[np.ix_(rows, steps)], vector.present[np.ix_(rows, steps)]
    if len(rows) == 1:
        only: Objects = cells[0]
        return only
    found = grid_sums(cells, present, is_mean=total is KahanMean)
    if found is None:
        return None
    totals, conflicts = found
    if conflicts.any():
        notes.warn(CONFLICT, span)
    return totals


def _cell_total(
    total: KahanSum | KahanMean,
    others: list[Histogram | None],
    labels: list[Labels],
    span: Span,
    notes: Annotations,
) -> Histogram | None:
    """Add the cells after the first; None among them is a float."""
    is_mixed = is_incompatible = False
    for cell, label in zip(others, labels, strict=True):
        if cell is None:
            is_mixed = True
            continue
        try:
            total.add(cell)
        except IncompatibleHistogramsError:
            notes.warn(f"{INCOMPATIBLE} {quote(value_of(label, NAME))}", span)
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


def _add_both(fold: Fold, total: Total) -> Aggregator:
    """Build an operator that adds histograms as well as floats."""

    def aggregate(context: Context, expr: Aggregate) -> Vector:
        vector, groups = _operand(context, expr)
        if not vector.labels:
            return empty_vector(context.steps.count)
        reduced = _fold(fold, vector, groups, has_float(vector))
        span = strip_parens(expr.expr).span
        return drop_empty_rows(_add_histograms(reduced, vector, groups, total, span, context.annotations))

    return aggregate


def _count_both(fold: Fold) -> Aggregator:
    """Build an operator to which histograms are as good as floats."""

    def aggregate(context: Context, expr: Aggregate) -> Vector:
        vector, groups = _operand(context, expr)
        if not vector.labels:
            return empty_vector(context.steps.count)
        return drop_empty_rows(_fold(fold, vector, groups, vector.present))

    return aggregate


def _reduce_floats(fold: Fold) -> Aggregator:
    """Build an operator that ignores histograms, and says so."""

    def aggregate(context: Context, expr: Aggregate) -> Vector:
        vector, groups = _operand(context, expr)
        return _fold_floats(context, expr, fold, vector, groups)

    return aggregate


def quantile(context: Context, expr: Aggregate) -> Vector:
    quantiles, vector, groups = _arguments(context, expr)
    _warn_outside((0, 1), "quantile", quantiles, strip_parens(_parameter(expr)).span, context.annotations)

    def fold(groups: Groups, values: Doubles, members: Flags) -> Doubles:
        order, starts = groups.by_group()
        return quantile_of_group(order, starts, values, members, quantiles)

    return _fold_floats(context, expr, fold, vector, groups)


def _fold_floats(context: Context, expr: Aggregate, fold: Fold, vector: Vector, groups: Groups) -> Vector:
    if not vector.labels:
        return empty_vector(context.steps.count)
    if (is_histogram(vector) & vector.present).any():
        context.annotations.inform(
            f"ignored histogram in {expr.op} aggregation", strip_parens(expr.expr).span
        )
    return drop_empty_rows(_fold(fold, vector, groups, has_float(vector)))


def _fold(fold: Fold, vector: Vector, groups: Groups, members: Flags) -> Vector:
    values = fold(groups, vector.values, members)
    present = any_of_code(groups.codes, members, groups.count)
    drop_name = None
    if vector.drop_name is not None:
        drop_name = np.bincount(groups.codes, vector.drop_name, minlength=groups.count) > 0
    return Vector(groups.labels, values, present, None, drop_name)


AGGREGATORS: Mapping[str, Aggregator] = MappingProxyType(
    {
        "avg": _add_both(
            lambda by, values, members: mean_of_code(by.codes, values, members, by.count), KahanMean
        ),
        "bottomk": _rank(is_top=False),
        "count": _count_both(
            lambda by, _, members: count_of_code(by.codes, members, by.count).astype(np.float64)
        ),
        "count_values": count_values,
        "group": _count_both(lambda by, _, members: np.ones((by.count, members.shape[1]))),
        "limit_ratio": limit_ratio,
        "limitk": limitk,
        "max": _reduce_floats(
            lambda by, values, members: extreme_of_code(by.codes, values, members, by.count, True)
        ),
        "min": _reduce_floats(
            lambda by, values, members: extreme_of_code(by.codes, values, members, by.count, False)
        ),
        "quantile": quantile,
        "stddev": _reduce_floats(
            lambda by, values, members: np.sqrt(variance_of_code(by.codes, values, members, by.count))
        ),
        "stdvar": _reduce_floats(
            lambda by, values, members: variance_of_code(by.codes, values, members, by.count)
        ),
        "sum": _add_both(
            lambda by, values, members: sum_of_code(by.codes, values, members, by.count), KahanSum
        ),
        "topk": _rank(is_top=True),
    }
)
"""The implementation of every aggregation operator."""


def aggregate(context: Context, expr: Aggregate) -> Vector:
    return AGGREGATORS[expr.op](context, expr)


def _operand(context: Context, expr: Aggregate) -> tuple[Vector, Groups]:
    vector = context.vector(expr.expr)
    return vector, group_series(vector.labels, expr.grouping, is_without=expr.without)


def _arguments(context: Context, expr: Aggregate) -> tuple[Doubles, Vector, Groups]:
    """Evaluate the parameter first, so that annotations come in the order of the text."""
    parameter = context.scalar(_parameter(expr)).values
    return parameter, *_operand(context, expr)


def _parameter(expr: Aggregate) -> Expr:
    if expr.parameter is None:
        raise TypeError(f"{expr.op}: expected a parameter")
    return expr.parameter


def _warn_outside(
    bounds: tuple[int, int], noun: str, values: Doubles, span: Span, notes: Annotations
) -> None:
    """Warn of the largest and the smallest value outside the bounds; NaN hides all others."""
    message = f"{noun} value should be between {bounds[0]} and {bounds[1]}, got "
    smallest, largest = float(values.min()), float(values.max())
    for one, bound, is_largest in ((largest, bounds[1], True), (smallest, bounds[0], False)):
        if (not one <= bound) if is_largest else one < bound:
            behind = f", capping to {bound}" if noun == "ratio" else ""
            notes.add(Annotation("warning", message, span, extreme=Extreme(one, is_largest, behind)))
