"""`compare()` counts the values of every attribute, on two sides.

    {…} | compare({ status = error })     cells   (baseline, span.http.method = GET)   by step
                                                  (selection, span.http.method = GET)  by step

The baseline are the spans that the selection leaves out. Values of lists count once each.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lakerunner_query.protocol.traces import TraceCells, TypedValue
from lakerunner_query.traceql.cells import Steps
from lakerunner_query.traceql.expressions import evaluate_condition
from lakerunner_query.traceql.frame import Frame
from lakerunner_query.traceql.lang.ast import Attribute, Intrinsic, MetricsCompare, Scope, Type
from lakerunner_query.traceql.lang.printer import field_text
from lakerunner_query.traceql.values import Column, dense, first_of
from resources.arrays import Flags, Int64s

SIDES = ("baseline", "selection")
INTRINSICS = (
    "name", "kind", "status", "statusMessage", "rootName", "rootServiceName", "instrumentation:name",
    "instrumentation:version",
)  # fmt: skip


def compare_spans(frame: Frame, node: MetricsCompare, rows: Int64s, steps: Steps) -> tuple[TraceCells, ...]:
    """Count the values of the spans of each side."""
    places = steps.of(frame.start_ns[rows])
    inside = (places >= 0) & (places < steps.count)
    rows, places = rows[inside], places[inside]
    is_selected = evaluate_condition(frame, node.selection.condition)[rows]
    if node.start_ns or node.end_ns:
        starts = frame.start_ns[rows]
        is_selected &= (starts >= node.start_ns) & (starts < node.end_ns)
    return tuple(
        cells
        for name, column in _columns(frame)
        for cells in _count(name, _listed(name, column.within(rows)), places, is_selected, steps.count)
    )


LISTED = (
    "k8s.cluster.name", "k8s.namespace.name", "k8s.pod.name", "k8s.container.name",
)  # fmt: skip
"""Attributes of resources that are compared even where no span has them."""


def _columns(frame: Frame) -> Iterator[tuple[str, Column]]:
    known = dict.fromkeys((*frame.attributes, *((Scope.RESOURCE, key) for key in LISTED)))
    for scope, key in known:
        if scope in {Scope.SPAN, Scope.RESOURCE, Scope.INSTRUMENTATION, Scope.EVENT, Scope.LINK}:
            field = Attribute(key, scope)
            yield field_text(field), frame.attributes.get((scope, key), Column(frame.size))
    for name in INTRINSICS:
        yield name, frame.column(Intrinsic(name))


def _listed(name: str, column: Column) -> Column:
    """Return the column with `nil` for spans without the attribute, of those that are always listed."""
    if name.removeprefix("resource.") not in LISTED:
        return column
    return first_of((column, dense(Type.NIL, np.zeros(column.size, np.int64), texts=("nil",))), column.size)


def _count(name: str, column: Column, places: Int64s, is_selected: Flags, steps: int) -> Iterator[TraceCells]:
    for part in column.parts:
        if part.kind is Type.ATTRIBUTE:
            continue
        distinct, codes = np.unique(part.values, return_inverse=True)
        for number, side in enumerate(SIDES):
            of_side = is_selected[part.rows] == bool(number)
            flat = codes[of_side] * steps + places[part.rows[of_side]]
            counts = np.bincount(flat, minlength=len(distinct) * steps).reshape(len(distinct), steps)
            for place in range(len(distinct)):
                value = part.texts[distinct[place]] if part.has_texts else distinct[place].item()
                typed = TypedValue(part.kind.value, None if part.kind is Type.NIL else value)
                labels = ("__meta_type", TypedValue("string", side)), (name, typed)
                yield TraceCells(labels, counts[place].astype("<i8").tobytes())
