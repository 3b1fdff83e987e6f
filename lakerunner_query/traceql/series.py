"""Cells of all units become series: rates, means, quantiles, rankings, thresholds, arithmetic.

({status=error} | rate()) / ({} | rate()) > 0.1      two functions, joined by labels, then thresholded
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.traceql.cells import NANOSECONDS, POWERS
from lakerunner_query.traceql.lang.ast import (
    Intrinsic,
    Literal,
    MetricsAggregation,
    MetricsCompare,
    MetricsExpr,
    MetricsMath,
    Query,
    Ranking,
    Threshold,
    Type,
)
from lakerunner_query.traceql.lang.functions import METRICS_FUNCTIONS, RANKINGS, Merge
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS
from lakerunner_query.traceql.values import COMPARISONS
from resources.arrays import Doubles, Int64s

LabelSet = tuple[tuple[str, str, object], ...]
"""Labels as (name, type, value), sorted by name."""


class GroupCells(Protocol):
    """Merged cells of a group."""

    counts: Int64s
    values: Doubles


class Sample(Protocol):
    """A span that stands for others of its group."""

    @property
    def time_ms(self) -> int: ...

    @property
    def value(self) -> float: ...


S = TypeVar("S", bound=Sample)


@dataclass(frozen=True, slots=True)
class Series:
    """Values by step; NaN where there is none."""

    labels: LabelSet
    values: Doubles


def metrics_functions(query: Query) -> list[MetricsAggregation | MetricsCompare]:
    """Return the functions of a query, left to right."""
    return list(_functions(query.body))  # type: ignore[arg-type]


def _functions(expr: MetricsExpr | Literal) -> Iterator[MetricsAggregation | MetricsCompare]:
    match expr:
        case MetricsAggregation() | MetricsCompare():
            yield expr
        case Ranking(expr=below) | Threshold(expr=below):
            yield from _functions(below)
        case MetricsMath(left=left, right=right):
            yield from _functions(left)
            yield from _functions(right)


def make_series(
    query: Query, cells: Sequence[Mapping[LabelSet, GroupCells]], steps: int, step_ns: int
) -> list[Series]:
    """Return the series of a query, from the cells of its functions."""
    numbered = iter(cells)
    return _evaluate(query.body, lambda: next(numbered), steps, step_ns)  # type: ignore[arg-type]


_NextCells = Callable[[], Mapping[LabelSet, GroupCells]]


def _evaluate(expr: MetricsExpr, cells: _NextCells, steps: int, step_ns: int) -> list[Series]:
    match expr:
        case MetricsAggregation():
            return _aggregate(expr, cells(), steps, step_ns)
        case MetricsCompare():
            return _compared(expr, cells())
        case Ranking():
            return rank(
                _evaluate(expr.expr, cells, steps, step_ns), expr.limit, RANKINGS[expr.op].is_descending
            )
        case Threshold():
            return _threshold(expr, _evaluate(expr.expr, cells, steps, step_ns))
        case MetricsMath():
            sides = [
                one if isinstance(one, Literal) else _evaluate(one, cells, steps, step_ns)
                for one in (expr.left, expr.right)
            ]
            return _math(expr, sides[0], sides[1])


def share_exemplars(
    series: Sequence[Series], samples: Mapping[LabelSet, Sequence[S]], most: int
) -> dict[LabelSet, list[S]]:
    """Give each series the samples of its group, at most so many together, evenly over time.

    Of quantiles and buckets the first one that is not below the sample has it, else the last.
    """
    members: dict[LabelSet, list[Series]] = {}
    for one in series:
        members.setdefault(_group_of(one.labels), []).append(one)
    known = [(labels, one) for labels, ones in samples.items() if labels in members for one in ones]
    known.sort(key=lambda pair: pair[1].time_ms)
    chosen = np.unique(np.linspace(0, len(known) - 1, min(most, len(known))).astype(np.int64))
    found: dict[LabelSet, list[S]] = {}
    for labels, sample in (known[place] for place in chosen.tolist()):
        ranked = sorted(members[labels], key=_bound_of)
        holder = next((one for one in ranked if _bound_of(one) >= sample.value), ranked[-1])
        found.setdefault(holder.labels, []).append(sample)
    return found


def _group_of(labels: LabelSet) -> LabelSet:
    return tuple(one for one in labels if one[0] not in {NAME, QUANTILE, BUCKET})


def _bound_of(series: Series) -> float:
    """Return the greatest value of a bucket, or of a quantile; others have no bound."""
    for name, _, value in series.labels:
        if name == BUCKET and isinstance(value, float):
            return value
        if name == QUANTILE:
            return float(np.nanmax(series.values, initial=-math.inf))
    return math.inf


def _aggregate(
    node: MetricsAggregation, groups: Mapping[LabelSet, GroupCells], steps: int, step_ns: int
) -> list[Series]:
    row = METRICS_FUNCTIONS[node.function]
    found: list[Series] = []
    if not groups and not node.by and node.operand is None:
        return [Series(((NAME, "string", node.function),), np.zeros(steps))]
    for labels, group in groups.items():
        if row.merge is Merge.BUCKETS:
            counts = group.counts.reshape(steps, POWERS)
            found += _of_buckets(node, labels, counts)
            continue
        totals: Doubles = group.counts.astype(np.float64)
        values: Doubles = group.values if len(group.values) else totals
        if row.merge is Merge.MEAN:
            with np.errstate(all="ignore"):
                values = values / totals
        elif row.is_per_second:
            values = values / (step_ns / NANOSECONDS)
        elif node.operand is not None:
            values = np.where(totals > 0, values, np.nan)
        found.append(Series(labels or ((NAME, "string", node.function),), values))
    return found


NAME, QUANTILE, BUCKET = "__name__", "p", "__bucket"


def _of_buckets(node: MetricsAggregation, labels: LabelSet, counts: Int64s) -> list[Series]:
    scale = NANOSECONDS if _is_duration(node) else 1.0
    if node.function == "histogram_over_time":
        return [
            Series(
                with_label(labels, BUCKET, "float", 2.0**power / scale),
                counts[:, power].astype(np.float64),
            )
            for power in np.flatnonzero(counts.any(axis=0)).tolist()
        ]
    return [
        Series(
            with_label(labels, QUANTILE, "float", quantile),
            np.array([log2_quantile(quantile, row) for row in counts.tolist()]) / scale,
        )
        for quantile in node.quantiles
    ]


def _is_duration(node: MetricsAggregation) -> bool:
    field = node.operand
    return isinstance(field, Intrinsic) and INTRINSICS[field.name].type is Type.DURATION


def with_label(labels: LabelSet, name: str, kind: str, value: object) -> LabelSet:
    return (*labels, (name, kind, value))


def log2_quantile(quantile: float, counts: Sequence[int]) -> float:
    """Return a quantile of values that are counted by the power of two which is not less.

    Values are taken to lie evenly in the logarithm between this power and the one before that has some.

    >>> log2_quantile(0.5, [0, 0, 4])
    2.8284271247461903
    """
    total = sum(counts)
    if not total:
        return 0.0
    wanted = max(1, math.ceil(quantile * total))
    below, previous = 0, None
    for power, count in enumerate(counts):
        if not count:
            continue
        if below + count >= wanted:
            least = power - 1 if previous is None else previous
            return float(2.0 ** (least + (power - least) * (wanted - below) / count))
        below, previous = below + count, power
    raise EvaluationError(f"{quantile} is no quantile")


def _compared(node: MetricsCompare, groups: Mapping[LabelSet, GroupCells]) -> list[Series]:
    """Return the most frequent values of each attribute, and its total, on both sides."""
    found: list[Series] = []
    by_attribute: dict[tuple[object, str], list[tuple[LabelSet, Doubles]]] = {}
    for labels, group in groups.items():
        side, attribute = labels[0], labels[1]
        by_attribute.setdefault((side[2], attribute[0]), []).append((labels, group.counts.astype(np.float64)))
    for (side_name, attribute_name), values in by_attribute.items():
        values.sort(key=lambda one: (-one[1].sum(), repr(one[0])))
        found += [Series(labels, counts) for labels, counts in values[: node.limit]]
        total = np.sum([counts for _, counts in values], axis=0)
        meta = (("__meta_type", "string", f"{side_name}_total"), (attribute_name, "nil", None))
        found.append(Series(meta, total))
    return found


def rank(series: list[Series], limit: int, is_descending: bool) -> list[Series]:
    """Keep the values of each step that are among the first; ties go by labels."""
    if not series:
        return []
    values = np.stack([one.values for one in series])
    order = sorted(range(len(series)), key=lambda place: label_text(series[place].labels))
    kept = np.full(values.shape, np.nan)
    for step in range(values.shape[1]):
        known = [place for place in order if not math.isnan(values[place, step])]
        known.sort(key=lambda place: -values[place, step] if is_descending else values[place, step])
        for place in known[:limit]:
            kept[place, step] = values[place, step]
    return [Series(one.labels, row) for one, row in zip(series, kept, strict=True) if not np.isnan(row).all()]


def label_text(labels: LabelSet) -> str:
    return ",".join(f"{name}={value}" for name, _, value in labels)


def _threshold(node: Threshold, series: list[Series]) -> list[Series]:
    limit = node.value.value
    if not isinstance(limit, int | float):
        raise EvaluationError("series compare with numbers")
    if node.value.type is Type.DURATION:
        limit = limit / NANOSECONDS
    compare = COMPARISONS[node.op.value]
    found = []
    for one in series:
        kept = np.where(compare(one.values, limit), one.values, np.nan)
        if not np.isnan(kept).all():
            found.append(Series(one.labels, kept))
    return found


def _divide(left: Doubles, right: Doubles) -> Doubles:
    """Divide; by zero there is no result."""
    found: Doubles = np.where(right == 0, np.nan, left / right)
    return found


_OPERATIONS: dict[str, Callable[[Doubles, Doubles], Doubles]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": _divide,
}


def _math(node: MetricsMath, left: list[Series] | Literal, right: list[Series] | Literal) -> list[Series]:
    """Compute by labels; series without a partner have no result."""
    operation = _OPERATIONS[node.op.value]
    with np.errstate(all="ignore"):
        if isinstance(left, Literal) and not isinstance(right, Literal):
            return _with_values(
                Series(one.labels, operation(_constant(left, one), one.values)) for one in right
            )
        if isinstance(right, Literal) and not isinstance(left, Literal):
            return _with_values(
                Series(one.labels, operation(one.values, _constant(right, one))) for one in left
            )
        if isinstance(left, Literal) or isinstance(right, Literal):
            raise EvaluationError("two numbers make no series")
        partners = {_unnamed(one.labels): one for one in right}
        found = []
        for one in left:
            other = partners.get(_unnamed(one.labels))
            if other is not None:
                labels = _unnamed(one.labels) or _named_together(one, node.op.value, other)
                found.append(Series(labels, operation(one.values, other.values)))
        return _with_values(found)


def _constant(literal: Literal, series: Series) -> Doubles:
    return np.full(len(series.values), literal.value, np.float64)


def _with_values(series: Iterable[Series]) -> list[Series]:
    return [one for one in series if not np.isnan(one.values).all()]


def _unnamed(labels: LabelSet) -> LabelSet:
    return tuple(sorted((one for one in labels if one[0] != NAME), key=repr))


def _named_together(left: Series, op: str, right: Series) -> LabelSet:
    names = [next((value for name, _, value in one.labels if name == NAME), "") for one in (left, right)]
    return ((NAME, "string", f"({names[0]} {op} {names[1]})"),)
