"""Functions of classic and native histograms: statistics, quantiles and fractions.

    x_bucket{job="a", le="1"} 3
    x_bucket{job="a", le="+Inf"} 7      one classic histogram x_bucket{job="a"}
    x_bucket{job="a"} {{count:7}}       and a native one of the same labels: both are left out at that step

Floats without `le` drop out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lakerunner_query.gotext.numbers import format_float, parse_float
from lakerunner_query.histogram.batch import COUNT, SUM, find_rows, totals_of
from lakerunner_query.histogram.classic import ClassicQuantile, bucket_fraction, bucket_quantile
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.histogram.quantiles import (
    NanFact,
    fraction,
    is_plain,
    plain_quantiles,
    quantile,
    sheet_quantiles,
)
from lakerunner_query.promql.context import Context, FunctionBody, MonotonicityFix
from lakerunner_query.promql.functions.messages import ArgumentAnnotations
from lakerunner_query.promql.functions.windows import notes_at, scalar_of, vector_of, without_names
from lakerunner_query.promql.lang.ast import Call
from lakerunner_query.vectors.labels import drop_labels, set_label, value_of
from lakerunner_query.vectors.rows import has_float, is_histogram, merge_rows, stack_rows
from lakerunner_query.vectors.vector import NAME, Labels, Value, Vector
from resources.arrays import Doubles, Flags


def histogram_function(function: Callable[[Histogram], float]) -> FunctionBody:
    """Build a function of one native histogram at a time."""

    def apply(context: Context, call: Call) -> Value:
        vector = vector_of(context, call)
        present = vector.present & is_histogram(vector)
        return without_names(vector.labels, map_histograms(vector, present, function), present)

    return apply


def histogram_total_function(function: Callable[[Sequence[Histogram]], Doubles]) -> FunctionBody:
    """Build a function that needs no buckets, computed for all histograms at once."""

    def apply(context: Context, call: Call) -> Value:
        vector = vector_of(context, call)
        present = vector.present & is_histogram(vector)
        values = np.full(present.shape, np.nan)
        if vector.histograms is not None and present.any():
            values[present] = function(vector.histograms[present].tolist())
        return without_names(vector.labels, values, present)

    return apply


def counts(histograms: Sequence[Histogram]) -> Doubles:
    return totals_of(histograms, COUNT)


def sums(histograms: Sequence[Histogram]) -> Doubles:
    return totals_of(histograms, SUM)


def means(histograms: Sequence[Histogram]) -> Doubles:
    with np.errstate(all="ignore"):
        return sums(histograms) / counts(histograms)


def map_histograms(vector: Vector, present: Flags, function: Callable[[Histogram], float]) -> Doubles:
    values = np.full(vector.present.shape, np.nan)
    if vector.histograms is not None:
        values[present] = [function(one) for one in vector.histograms[present]]
    return values


BOUND = "le"


def parse_bound(text: str) -> float | None:
    """Parse a label as Go's `ParseFloat` does.

    >>> parse_bound("+Inf"), parse_bound(".5"), parse_bound("0x1p-2"), parse_bound(" 1"), parse_bound("")
    (inf, 0.5, 0.25, None, None)
    """
    return None if "_" in text else parse_float(text)  # a label has no digit separators


Members = list[tuple[float, int]]
"""Bounds and their rows, ascending."""

MANY_CELLS = 2_000_000
"""Upper bound of the cells of counts computed at once."""


@dataclass(frozen=True, slots=True)
class ClassicHistograms:
    """Classic histograms that share their bounds."""

    labels: list[Labels]
    """Labels with the name and without `le`."""
    le: Doubles
    counts: Doubles
    """Counts of (bounds, histograms, steps)."""
    present: Flags

    @property
    def visible_cells(self) -> Flags:
        """Cells (histograms, steps) that have any bucket."""
        found: Flags = np.asarray(self.present.any(axis=0))
        return found

    def parts(self) -> Iterator[ClassicHistograms]:
        """Split into parts of bounded size."""
        bounds, histograms, steps = self.counts.shape
        some = max(1, MANY_CELLS // max(1, bounds * steps))
        for begin in range(0, histograms, some):
            rows = slice(begin, begin + some)
            yield ClassicHistograms(self.labels[rows], self.le, self.counts[:, rows], self.present[:, rows])


@dataclass(frozen=True, slots=True)
class HistogramVector:
    vector: Vector
    natives: Flags
    """Cells (rows, steps) of native histograms in use."""
    classics: list[ClassicHistograms]


def split_histograms(vector: Vector, notes: ArgumentAnnotations) -> HistogramVector:
    """Separate native histograms from the classic ones that series with `le` make up."""
    floats, natives = has_float(vector), vector.present & is_histogram(vector)
    members: dict[Labels, Members] = {}
    for row in np.flatnonzero(floats.any(axis=1)).tolist():
        labels = vector.labels[row]
        label = value_of(labels, BOUND)
        bound = parse_bound(label)
        if bound is None:
            notes.bad_bucket(label, value_of(labels, NAME))
            continue
        members.setdefault(drop_labels(labels, (BOUND,)), []).append((bound, row))
    classics = list(_group_by_layout(vector, floats, members))
    if natives.any():
        _remove_conflicts(vector, natives, classics, notes)
    return HistogramVector(vector, natives, classics)


def _group_by_layout(
    vector: Vector, floats: Flags, members: dict[Labels, Members]
) -> Iterator[ClassicHistograms]:
    layouts: dict[tuple[float, ...], list[Labels]] = {}
    for labels, rows in members.items():
        rows.sort()
        layouts.setdefault(tuple(bound for bound, _ in rows), []).append(labels)
    for bounds, histograms in layouts.items():
        rows_of = np.array([[row for _, row in members[labels]] for labels in histograms]).T
        yield ClassicHistograms(histograms, np.array(bounds), vector.values[rows_of], floats[rows_of])


def _remove_conflicts(
    vector: Vector, natives: Flags, classics: list[ClassicHistograms], notes: ArgumentAnnotations
) -> None:
    places = {labels: (some, at) for some in classics for at, labels in enumerate(some.labels)}
    for row in np.flatnonzero(natives.any(axis=1)).tolist():
        if vector.labels[row] not in places:
            continue
        some, at = places[vector.labels[row]]
        both = natives[row] & some.present[:, at].any(axis=0)
        if both.any():
            notes.mixed_histograms(value_of(vector.labels[row], NAME))
            natives[row, both] = False
            some.present[:, at, both] = False


def with_label(labels: list[Labels], name: str, value: str) -> list[Labels]:
    return [set_label(one, name, value) for one in labels]


def histogram_quantile(context: Context, call: Call) -> Value:
    quantiles = scalar_of(context, call, 0)
    _warn_of_quantiles(quantiles, notes_at(context, call, 0))
    notes = notes_at(context, call, 1)
    return _quantiles(context, split_histograms(vector_of(context, call, 1), notes), quantiles, notes)


def histogram_quantiles(context: Context, call: Call) -> Value:
    """Compute several quantiles, each a series of its own with the quantile as label."""
    label = context.text(call.arguments[1])
    notes = notes_at(context, call, 0)
    wanted = []
    for index in range(2, len(call.arguments)):
        quantiles = scalar_of(context, call, index)
        _warn_of_quantiles(quantiles, notes_at(context, call, index))
        wanted.append(quantiles)
    found = split_histograms(vector_of(context, call), notes)
    parts = []
    for quantiles in wanted:
        answer = _quantiles(context, found, quantiles, notes)
        for value, steps in distinct_values(quantiles):
            present = answer.present & steps
            labels = with_label(answer.labels, label, format_open_metrics(value))
            parts.append(without_names(labels, answer.values, present))
    return merge_rows(stack_rows(parts))


def _warn_of_quantiles(quantiles: Doubles, notes: ArgumentAnnotations) -> None:
    with np.errstate(invalid="ignore"):
        is_invalid = ~((quantiles >= 0) & (quantiles <= 1))
    for value in dict.fromkeys(quantiles[is_invalid].tolist()):
        notes.invalid_quantile(value)


def _quantiles(
    context: Context, found: HistogramVector, quantiles: Doubles, notes: ArgumentAnnotations
) -> Vector:
    values = np.full(found.natives.shape, np.nan)
    vector = found.vector
    for row, step, histogram in _uncommon_histograms(found, quantiles, values):
        answer = quantile(float(quantiles[step]), histogram)
        values[row, step] = answer.value
        if answer.nan == NanFact.RESULT:
            notes.no_quantile_with_nan(value_of(vector.labels[row], NAME))
        elif answer.nan == NanFact.SKEW:
            notes.quantile_skewed_by_nan(value_of(vector.labels[row], NAME))
    parts = [without_names(vector.labels, values, found.natives)]
    for some in (part for classics in found.classics for part in classics.parts()):
        answers = bucket_quantile(_tile(quantiles, some), some.le, *_flatten(some))
        parts.append(
            without_names(some.labels, answers.value.reshape(some.visible_cells.shape), some.visible_cells)
        )
        _annotate_fixes(some, answers, context.steps.times_ms.tolist(), notes)
    return stack_rows(parts)


def _uncommon_histograms(
    found: HistogramVector, quantiles: Doubles, values: Doubles
) -> Iterator[tuple[int, int, Histogram]]:
    """Fill in the quantiles of plain histograms, and yield the other cells."""
    left = found.natives & ~_fill_from_sheets(found, quantiles, values)
    plain: list[tuple[int, int]] = []
    histograms: list[Histogram] = []
    for row, step, histogram in _native_cells(found, left):
        if is_plain(histogram, float(quantiles[step])):
            plain.append((row, step))
            histograms.append(histogram)
        else:
            yield row, step, histogram
    if plain:
        rows, steps = np.array(plain, np.int64).T
        values[rows, steps] = plain_quantiles(quantiles[steps], histograms)


def _fill_from_sheets(found: HistogramVector, quantiles: Doubles, values: Doubles) -> Flags:
    """Fill in quantiles for whole sheets at once, and flag the cells that are done."""
    done = np.zeros(found.natives.shape, np.bool_)
    if found.vector.histograms is None:
        return done
    rows, steps = np.nonzero(found.natives)
    sheets = find_rows(found.vector.histograms[rows, steps].tolist())
    for sheet, mine, at in sheets.by_sheet() if sheets is not None else ():
        told, are_plain = sheet_quantiles(quantiles[steps[mine]], sheet, at)
        plain = mine[are_plain]
        values[rows[plain], steps[plain]] = told[are_plain]
        done[rows[plain], steps[plain]] = True
    return done


def _tile(by_step: Doubles, some: ClassicHistograms) -> Doubles:
    return np.tile(by_step, len(some.labels))


def _flatten(some: ClassicHistograms) -> tuple[Doubles, Flags]:
    """Line up the steps of all histograms, which the arithmetic treats as steps of one."""
    return some.counts.reshape(len(some.le), -1), some.present.reshape(len(some.le), -1)


def _annotate_fixes(
    some: ClassicHistograms, answers: ClassicQuantile, times: list[int], notes: ArgumentAnnotations
) -> None:
    for at in np.flatnonzero(answers.is_forced & some.visible_cells.ravel()).tolist():
        histogram, step = divmod(at, len(times))
        bounds = float(answers.lowest[at]), float(answers.highest[at])
        forced = MonotonicityFix(*bounds, float(answers.difference[at]), times[step], times[step])
        notes.monotonicity_fix(value_of(some.labels[histogram], NAME), forced)


def histogram_fraction(context: Context, call: Call) -> Value:
    lower, upper = scalar_of(context, call, 0), scalar_of(context, call, 1)
    notes = notes_at(context, call, 2)
    found = split_histograms(vector_of(context, call, 2), notes)
    values = np.full(found.natives.shape, np.nan)
    for row, step, histogram in _native_cells(found, found.natives):
        answer = fraction(float(lower[step]), float(upper[step]), histogram)
        values[row, step] = answer.value
        if answer.has_nans:
            notes.fraction_without_nan(value_of(found.vector.labels[row], NAME))
    parts = [without_names(found.vector.labels, values, found.natives)]
    for some in (part for classics in found.classics for part in classics.parts()):
        answers = bucket_fraction(_tile(lower, some), _tile(upper, some), some.le, *_flatten(some))
        parts.append(
            without_names(some.labels, answers.reshape(some.visible_cells.shape), some.visible_cells)
        )
    return stack_rows(parts)


def _native_cells(found: HistogramVector, cells: Flags) -> Iterator[tuple[int, int, Histogram]]:
    if found.vector.histograms is not None:
        for row, step in np.argwhere(cells).tolist():
            yield row, step, found.vector.histograms[row, step]


def distinct_values(values: Doubles) -> Iterator[tuple[float, Flags]]:
    """Yield each distinct value, NaN once, with the steps that have it."""
    is_nan = np.isnan(values)
    for value in dict.fromkeys(values[~is_nan].tolist()):
        yield value, values == value
    if is_nan.any():
        yield float("nan"), is_nan


def format_open_metrics(value: float) -> str:
    """Format a quantile as OpenMetrics does.

    >>> [format_open_metrics(one) for one in (1.0, 0.25, 1e9, float("inf"))]
    ['1.0', '0.25', '1e+09', '+Inf']
    """
    text = format_float(value)
    return text if any(one in text for one in ".eIN") else f"{text}.0"
