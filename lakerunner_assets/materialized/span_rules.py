"""Rules from traces are evaluated as TraceQL is, over one read of spans.

    { resource.service.name = "shop" && status = error }      spans, counted by what the rule keeps
    { kind = server }, value duration                          durations in seconds

A span belongs to the hour in which it began. A rule that looks at other spans of the trace is derived with
those of the neighbouring hours, but may not stand for a query: a trace may reach further.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakerunner_assets.materialized.rule_cells import (
    BUCKET_NS,
    BUCKETS,
    RuleCells,
    RuleTask,
    RuleTextError,
    SourceUnreadableError,
)
from lakerunner_assets.materialized.spans import SLICE_ROWS
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.rules.documents import DerivedMetric
from lakerunner_query.traceql.cells import LabelValue, Steps, group, measure
from lakerunner_query.traceql.frame import Frame
from lakerunner_query.traceql.lang.ast import Field, Intrinsic, MetricsAggregation, SpansetFilter, Type
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS, Home
from lakerunner_query.traceql.lang.parser import parse_metrics
from lakerunner_query.traceql.lang.printer import field_text
from lakerunner_query.traceql.spansets import evaluate_pipeline
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.segment_file import SegmentsInPlace
from lakerunner_query.worker.spans.rows import SpanReader, TraceRange, Wanted
from lakerunner_query.worker.spans.search import fields_of
from lakerunner_query.worker.tables.segments import TableOpener
from resources.duckdb import Cancellation
from resources.lake.timecut import HOUR_NS

CACHE_BYTES = 16 << 20
_UNSAFE = re.compile("[^a-zA-Z0-9_]")
_FUNCTIONS = ("sum_over_time", "min_over_time", "max_over_time")


@dataclass(frozen=True, slots=True)
class SpanRule:
    """A rule as a metrics function of TraceQL over ten seconds."""

    node: MetricsAggregation
    fields: frozenset[Field]
    looks_at_traces: bool

    @classmethod
    def of(cls, metric: DerivedMetric) -> SpanRule:
        query = parse_metrics(aggregation_text(metric))
        node = query.body
        if not isinstance(node, MetricsAggregation):
            raise RuleTextError(f"{metric.metric}: expected a selection of spans, found {metric.select}")
        fields = fields_of(query)
        is_plain = len(node.pipeline.stages) == 1 and isinstance(node.pipeline.stages[0], SpansetFilter)
        return cls(node, fields, not is_plain or any(map(_is_of_trace, fields)))


def aggregation_text(metric: DerivedMetric) -> str:
    """Return the TraceQL that a rule stands for.

    >>> aggregation_text(DerivedMetric("m", Signal.TRACES, "{ kind = server }", ("name",), "duration"))
    '{ kind = server } | sum_over_time(duration) by (name)'
    """
    function = f"sum_over_time({metric.value})" if metric.value else "count_over_time()"
    by = f" by ({', '.join(metric.keep)})" if metric.keep else ""
    return f"{metric.select} | {function}{by}"


def label_name(field: str) -> str:
    """Return the label of a kept field, as PromQL spells it.

    >>> label_name("resource.service.name")
    'resource_service_name'
    """
    return _UNSAFE.sub("_", field)


def derive_spans(
    rules: Sequence[RuleTask],
    own: Sequence[SegmentRef],
    beside: Sequence[SegmentRef],
    hour_ns: int,
    most: int,
    place: SegmentsInPlace,
) -> dict[int, RuleCells]:
    """Return the cells of each rule by its id."""
    known = {rule.rule_id: SpanRule.of(rule.metric) for rule in rules}
    cells = {
        one: RuleCells(hour_ns, most, with_values=rule.node.operand is not None)
        for one, rule in known.items()
    }
    for one, rule in known.items():
        if rule.looks_at_traces:
            cells[one].refuse("the rule looks at whole traces")
    segments = [*own, *(beside if any(rule.looks_at_traces for rule in known.values()) else ())]
    opener = TableOpener(MetricOpener(place, CACHE_BYTES))
    wanted = Wanted.of({field for rule in known.values() for field in rule.fields})
    count = max(1, -(-sum(one.rows for one in segments) // SLICE_ROWS))
    with opener.open_unit(Cancellation()) as reader:
        spans = SpanReader(reader)
        for number in range(count):
            frame = spans.read(segments, wanted, _slice(number, count))
            for one, rule in known.items():
                _add(rule, frame, cells[one])
        for missing in reader.reader.report().missing:
            raise SourceUnreadableError(f"segment {missing.segment_id}: {missing.reason}")
    return cells


def _slice(number: int, count: int) -> TraceRange:
    """Return a share of all trace ids; the first and the last are open."""
    low, high = (((number + step) * 2**32 // count) for step in (0, 1))
    first = low.to_bytes(4, "big") + bytes(12) if number else b""
    return TraceRange(first, high.to_bytes(4, "big") + bytes(12) if number < count - 1 else b"")


def _is_of_trace(field: Field) -> bool:
    return isinstance(field, Intrinsic) and INTRINSICS[field.name].home in {Home.TRACE, Home.TREE}


def _add(rule: SpanRule, frame: Frame, cells: RuleCells) -> None:
    """Count the spans of a slice."""
    rows = np.sort(evaluate_pipeline(frame, rule.node.pipeline).rows)
    starts = frame.start_ns[rows]
    rows = rows[(starts > cells.hour_ns) & (starts <= cells.hour_ns + HOUR_NS)]
    if not len(rows) or cells.has_overflowed:
        return
    if len(group(frame, rule.node.by, rows)[1]) > cells.most:
        cells.overflow()
        return
    steps = Steps(cells.hour_ns + BUCKET_NS, BUCKET_NS, BUCKETS)
    nodes = [replace(rule.node, function=name) for name in _FUNCTIONS] if cells.with_values else [rule.node]
    found = [measure(frame, node, rows, steps) for node in nodes]
    labels = _labels(rule.node.by, found[0].labels, cells)
    cells.add_counts(labels, found[0].counts, [each.values for each in found])


def _labels(by: Sequence[Field], groups: Iterable[tuple[LabelValue, ...]], cells: RuleCells) -> list[Labels]:
    """Return labels as texts; others than texts may not stand for a query, which would show their type."""
    names = [label_name(field_text(field)) for field in by]
    found: list[Labels] = []
    for values in groups:
        pairs: list[tuple[str, str]] = []
        for name, field, (kind, value) in zip(names, by, values, strict=True):
            if kind is None:
                continue
            is_text = kind is Type.STRING and isinstance(value, str)  # a list of texts is none
            if not (is_text or isinstance(field, Intrinsic)) or value == "":
                cells.refuse(f"{field_text(field)} is not always a text")
            pairs.append((name, _text(value)))
        found.append(tuple(pairs))
    return found


def _text(value: object) -> str:
    """Return a value as PromQL shows it.

    >>> _text(True), _text(500), _text("a")
    ('true', '500', 'a')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
