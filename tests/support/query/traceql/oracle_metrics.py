"""A plain evaluation of TraceQL metrics: a dictionary of samples for each series, step by step.

Spans count by their start in `(t - step, t]`. Series come of lists of values, not of merged cells.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakerunner_query.traceql.lang.ast import (
    Attribute,
    Field,
    Intrinsic,
    Literal,
    MetricsAggregation,
    MetricsCompare,
    MetricsExpr,
    MetricsMath,
    Query,
    Ranking,
    Scope,
    Threshold,
    Type,
)
from lakerunner_query.traceql.lang.printer import field_text
from tests.support.query.traceql.answers import Labels, Samples, shown
from tests.support.query.traceql.oracle import evaluate_pipeline
from tests.support.query.traceql.oracle_fields import COMPARISONS, At, Trace, Typed, holds

SECOND = 1e9
BUCKETS = ("quantile_over_time", "histogram_over_time")
LISTED = ("k8s.cluster.name", "k8s.namespace.name", "k8s.pod.name", "k8s.container.name")
"""Attributes of resources that `compare()` shows even where they are missing."""
COMPARED = (
    "name", "kind", "status", "statusMessage", "rootName", "rootServiceName", "instrumentation:name",
    "instrumentation:version",
)  # fmt: skip
TypedLabels = tuple[tuple[str, Typed | None], ...]
Series = dict[TypedLabels, dict[int, float]]
"""Values by labels and step; a step that is not there has none."""


@dataclass(frozen=True)
class Steps:
    start_ns: int
    step_ns: int
    count: int

    def of(self, time_ns: int) -> int | None:
        number = -((self.start_ns - time_ns) // self.step_ns)
        return number if 0 <= number < self.count else None

    def times_ms(self) -> list[int]:
        return [(self.start_ns + number * self.step_ns) // 1_000_000 for number in range(self.count)]


def metrics(traces: Sequence[Trace], query: Query, steps: Steps) -> dict[Labels, Samples]:
    """Return the series of a query by labels, with samples by time in milliseconds."""
    times = steps.times_ms()
    found = _series(traces, query.body, steps)  # type: ignore[arg-type]
    return {
        as_shown(labels): {times[step]: value for step, value in values.items()}
        for labels, values in found.items()
    }


def as_shown(labels: TypedLabels) -> Labels:
    return tuple(sorted(((name, shown(value)) for name, value in labels), key=repr))


def _series(traces: Sequence[Trace], expr: MetricsExpr, steps: Steps) -> Series:
    match expr:
        case MetricsAggregation():
            return _aggregated(traces, expr, steps)
        case MetricsCompare():
            return _compared(traces, expr, steps)
        case Ranking(op=op, limit=limit):
            return _ranked(_series(traces, expr.expr, steps), limit, steps, is_top=op == "topk")
        case Threshold(op=op, value=literal):
            assert isinstance(literal.value, int | float)
            limit = literal.value / SECOND if literal.type is Type.DURATION else literal.value
            series = _series(traces, expr.expr, steps)
            return _with_values(series, lambda value: value if COMPARISONS[op.value](value, limit) else None)
        case MetricsMath():
            return _math(traces, expr, steps)


def counted(
    traces: Sequence[Trace], expr: MetricsAggregation | MetricsCompare, steps: Steps
) -> Iterator[tuple[At, int]]:
    """Yield the spans that a pipeline selects, with their steps."""
    for trace in traces:
        for one in evaluate_pipeline(trace, expr.pipeline):
            for place in one.places:
                step = steps.of(trace.spans[place].start_ns)
                if step is not None:
                    yield At(trace, place), step


def _aggregated(traces: Sequence[Trace], node: MetricsAggregation, steps: Steps) -> Series:
    groups: dict[TypedLabels, dict[int, list[float]]] = {}
    if not node.by and node.operand is None:
        groups[()] = {}
    for at, step in counted(traces, node, steps):
        value = 0.0 if node.operand is None else _operand(node, at)
        if value is not None:
            labels = tuple((field_text(one), at.field(one).group()) for one in node.by)
            groups.setdefault(labels, {}).setdefault(step, []).append(value)
    found: Series = {}
    for labels, by_step in groups.items():
        if node.function == "histogram_over_time":
            found |= _histogram(node, labels, by_step, steps)
        elif node.function == "quantile_over_time":
            for quantile in node.quantiles:
                values = {
                    step: _quantile(node, quantile, by_step.get(step, [])) for step in range(steps.count)
                }
                found[*labels, ("p", (Type.FLOAT, quantile))] = values
        else:
            named = labels or (("__name__", (Type.STRING, node.function)),)
            found[named] = _reduced(node.function, by_step, steps)
    return found


def _operand(node: MetricsAggregation, at: At) -> float | None:
    """Return what a span adds: durations in seconds, but in nanoseconds where powers of two count."""
    assert node.operand is not None
    number = at.field(node.operand).number()
    if number is None:
        return None
    kind, value = number
    if node.function in BUCKETS:
        return None if kind is Type.FLOAT or value < 2 else float(value)
    return value / SECOND if kind is Type.DURATION else float(value)


def _reduced(function: str, by_step: dict[int, list[float]], steps: Steps) -> dict[int, float]:
    if function in {"rate", "count_over_time"}:
        width = steps.step_ns / SECOND if function == "rate" else 1.0
        return {step: len(by_step.get(step, [])) / width for step in range(steps.count)}
    reduce: Callable[[list[float]], float] = {
        "min_over_time": min, "max_over_time": max, "sum_over_time": math.fsum,
        "avg_over_time": lambda values: math.fsum(values) / len(values),
    }[function]  # fmt: skip
    return {step: reduce(values) for step, values in by_step.items()}


def _power(value: float) -> int:
    return min(math.ceil(math.log2(value)), 63)


def _scale(node: MetricsAggregation) -> float:
    durations = {"duration", "traceDuration", "event:timeSinceStart"}
    return SECOND if isinstance(node.operand, Intrinsic) and node.operand.name in durations else 1.0


def _histogram(
    node: MetricsAggregation, labels: TypedLabels, by_step: dict[int, list[float]], steps: Steps
) -> Series:
    found: Series = {}
    for power in {_power(value) for values in by_step.values() for value in values}:
        counts = {
            step: float(sum(_power(value) == power for value in by_step.get(step, [])))
            for step in range(steps.count)
        }
        found[*labels, ("__bucket", (Type.FLOAT, 2.0**power / _scale(node)))] = counts
    return found


def _quantile(node: MetricsAggregation, quantile: float, values: Sequence[float]) -> float:
    """Interpolate between the power of two that has the quantile and the one below that has values."""
    if not values:
        return 0.0
    powers = sorted(map(_power, values))
    rank = max(1, math.ceil(quantile * len(powers)))
    power = powers[rank - 1]
    below = [one for one in powers if one < power]
    inside = powers.count(power)
    least = below[-1] if below else power - 1
    share = (rank - len(below)) / inside
    return float(2.0 ** (least + (power - least) * share)) / _scale(node)


def _with_values(series: Series, change: Callable[[float], float | None]) -> Series:
    """Change all values; series without any are left out."""
    found: Series = {}
    for labels, values in series.items():
        changed = {step: change(value) for step, value in values.items()}
        known = {
            step: value for step, value in changed.items() if value is not None and not math.isnan(value)
        }  # fmt: skip
        if known:
            found[labels] = known
    return found


def _ranked(series: Series, limit: int, steps: Steps, *, is_top: bool) -> Series:
    """Keep the first values of each step; among equal ones the labels decide."""
    found: Series = {}
    for step in range(steps.count):
        known = sorted(
            ((label_text(labels), labels) for labels, values in series.items() if step in values),
            key=lambda one: one[0],
        )
        known.sort(key=lambda one: series[one[1]][step] * (-1 if is_top else 1))
        for _, labels in known[:limit]:
            found.setdefault(labels, {})[step] = series[labels][step]
    return found


def label_text(labels: TypedLabels) -> str:
    return ",".join(f"{name}={value and value[1]}" for name, value in labels)


def _math(traces: Sequence[Trace], expr: MetricsMath, steps: Steps) -> Series:
    operation = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide}[expr.op.value]
    if isinstance(expr.left, Literal):
        number = float(expr.left.value or 0)
        return _with_values(_series(traces, expr.right, steps), lambda value: operation(number, value))  # type: ignore[arg-type]
    left = _series(traces, expr.left, steps)
    if isinstance(expr.right, Literal):
        number = float(expr.right.value or 0)
        return _with_values(left, lambda value: operation(value, number))
    right = _series(traces, expr.right, steps)
    partners = {_unnamed(labels): labels for labels in right}
    found: Series = {}
    for labels, values in left.items():
        partner = partners.get(_unnamed(labels))
        if partner is not None:
            name = f"({_name(labels)} {expr.op.value} {_name(partner)})"
            both = {
                step: operation(value, right[partner][step])
                for step, value in values.items() if step in right[partner]
            }  # fmt: skip
            found[_unnamed(labels) or (("__name__", (Type.STRING, name)),)] = both
    return _with_values(found, lambda value: value)


def _divide(left: float, right: float) -> float:
    return math.nan if right == 0 else left / right


def _unnamed(labels: TypedLabels) -> TypedLabels:
    return tuple(sorted((one for one in labels if one[0] != "__name__"), key=repr))


def _name(labels: TypedLabels) -> str:
    return next((str(value[1]) for name, value in labels if name == "__name__" and value), "")


def _compared(traces: Sequence[Trace], node: MetricsCompare, steps: Steps) -> Series:
    """Count the values of every attribute; of each side and attribute the most frequent ones are kept."""
    counts: dict[tuple[str, str], dict[Any, dict[int, float]]] = {}
    for at, step in counted(traces, node, steps):
        start = at.span.start_ns
        is_inside = not (node.start_ns or node.end_ns) or node.start_ns <= start < node.end_ns
        side = "selection" if is_inside and holds(node.selection.condition, at) else "baseline"
        for name, value in _all_values(at, node):
            by_step = counts.setdefault((side, name), {}).setdefault(value, {})
            by_step[step] = by_step.get(step, 0.0) + 1
    found: Series = {}
    for (side, name), values in counts.items():
        for value, by_step in values.items():
            found[("__meta_type", (Type.STRING, side)), (name, value)] = by_step
        total: dict[int, float] = {}
        for by_step in values.values():
            for step, count in by_step.items():
                total[step] = total.get(step, 0.0) + count
        found[("__meta_type", (Type.STRING, f"{side}_total")), (name, None)] = total
    return found


def _all_values(at: At, node: MetricsCompare) -> Iterator[tuple[str, Typed | None]]:
    span = at.span
    fields: list[Field] = [Intrinsic(name) for name in COMPARED]
    fields += [Attribute(key, Scope.SPAN) for key in span.attributes]
    fields += [
        Attribute(key, Scope.RESOURCE) for key in dict.fromkeys((*span.resource, "service.name", *LISTED))
    ]
    fields += [Attribute(key, Scope.INSTRUMENTATION) for key in span.library.attributes]
    fields += sorted({one for one in _named(node) if one.scope in {Scope.EVENT, Scope.LINK}}, key=repr)
    for one in fields:
        found = at.field(one)
        for value in found.values:
            yield field_text(one), value
        if not found.is_there and isinstance(one, Attribute) and one.name in LISTED:
            yield field_text(one), None


def _named(node: MetricsCompare) -> Iterator[Attribute]:
    from lakerunner_query.traceql.lang.ast import walk

    return (one for one in walk(node) if isinstance(one, Attribute))
