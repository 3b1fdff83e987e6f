"""`TraceMetricsScanner` counts the spans of one window into cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakerunner_query.plan.traceql import stands_alone
from lakerunner_query.protocol.traces import (
    Named,
    TraceCells,
    TraceExemplar,
    TraceMetricsAnswer,
    TypedValue,
)
from lakerunner_query.protocol.units import TraceMetricsUnit
from lakerunner_query.traceql.cells import Cells, LabelValue, Steps, measure
from lakerunner_query.traceql.frame import Frame
from lakerunner_query.traceql.lang.ast import Field, MetricsAggregation, MetricsCompare, Type
from lakerunner_query.traceql.lang.conditions import analyse
from lakerunner_query.traceql.lang.parser import parse_metrics
from lakerunner_query.traceql.lang.printer import field_text
from lakerunner_query.traceql.series import metrics_functions
from lakerunner_query.traceql.spansets import evaluate_pipeline
from lakerunner_query.worker.spans.compare import compare_spans
from lakerunner_query.worker.spans.rows import SpanReader, Wanted
from lakerunner_query.worker.spans.search import fields_of, ids_of
from lakerunner_query.worker.tables.segments import TableOpener
from resources.arrays import Int64s
from resources.duckdb import Cancellation

NS_PER_MS = 1_000_000


class TraceMetricsScanner:
    """Answers units of TraceQL metrics."""

    def __init__(self, opener: TableOpener) -> None:
        self._opener = opener

    def run(self, unit: TraceMetricsUnit, cancellation: Cancellation) -> TraceMetricsAnswer:
        query = parse_metrics(unit.text)
        nodes = metrics_functions(query)
        with self._opener.open_unit(cancellation) as reader:
            spans = SpanReader(reader)
            wanted = Wanted.of(fields_of(query))
            if any(isinstance(node, MetricsCompare) for node in nodes):
                wanted = spans.all_attributes(unit.segments, wanted)
            is_any = stands_alone(analyse(query))
            frame = spans.read(unit.segments, wanted, ids_of(unit.window), is_any_order=is_any)
            cancellation.check()
            wanted_now = set(unit.functions) or set(range(len(nodes)))
            functions = tuple(
                _cells_of(frame, node, unit) if number in wanted_now else ()
                for number, node in enumerate(nodes)
            )
            return TraceMetricsAnswer(functions, spans.rows, unit.is_for_exemplars, reader.reader.report())


def _cells_of(
    frame: Frame, node: MetricsAggregation | MetricsCompare, unit: TraceMetricsUnit
) -> tuple[TraceCells, ...]:
    rows = np.sort(evaluate_pipeline(frame, node.pipeline).rows)
    starts = frame.start_ns[rows]
    rows = rows[(starts >= unit.window.first_ns) & (starts < unit.window.behind_ns)]
    steps = Steps(unit.start_ns, unit.step_ns, unit.steps)
    if isinstance(node, MetricsCompare):
        return () if unit.is_for_exemplars else compare_spans(frame, node, rows, steps)
    cells = measure(frame, node, rows, steps)
    exemplars = _exemplars(frame, node, cells, unit.exemplars)
    if unit.is_for_exemplars:
        return tuple(
            TraceCells(_labels(node.by, cells.labels[number]), b"", b"", found)
            for number, found in exemplars.items()
        )
    return tuple(
        TraceCells(
            _labels(node.by, labels),
            cells.counts[number].astype("<i8").tobytes(),
            cells.values[number].astype("<f8").tobytes() if len(cells.values) else b"",
            exemplars.get(number, ()),
        )
        for number, labels in enumerate(cells.labels)
    )


def _labels(by: Sequence[Field], values: Sequence[LabelValue]) -> Named:
    return tuple(
        (
            field_text(field),
            TypedValue("nil" if kind is None else kind.value, None if kind is None else value),
        )
        for field, (kind, value) in zip(by, values, strict=True)
    )


def _exemplars(
    frame: Frame, node: MetricsAggregation, cells: Cells, most: int
) -> dict[int, tuple[TraceExemplar, ...]]:
    """Choose spans evenly over the rows that count, in all groups together."""
    if most <= 0 or not len(cells.rows):
        return {}
    chosen = np.unique(np.linspace(0, len(cells.rows) - 1, min(most, len(cells.rows))).astype(np.int64))
    rows = cells.rows[chosen]
    values = _values(frame, node, rows)
    found: dict[int, list[TraceExemplar]] = {}
    for group, row, value in zip(cells.groups[chosen].tolist(), rows.tolist(), values, strict=True):
        trace = frame.trace_ids[frame.trace_of[row]].tobytes().hex()
        one = TraceExemplar(trace, int(frame.start_ns[row]) // NS_PER_MS, value)
        found.setdefault(group, []).append(one)
    return {group: tuple(ones) for group, ones in found.items()}


def _values(frame: Frame, node: MetricsAggregation, rows: Int64s) -> list[float]:
    """Return what spans add: the operand, durations in seconds; without one the duration."""
    if node.operand is None:
        durations: list[float] = ((frame.end_ns - frame.start_ns)[rows] / 1e9).tolist()
        return durations
    column = frame.column(node.operand).within(rows)
    values = np.zeros(len(rows))
    for part in column.parts:
        if part.kind.is_numeric:
            values[part.rows] = part.values / (1e9 if part.kind is Type.DURATION else 1.0)
    return values.tolist()
