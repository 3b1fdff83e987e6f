"""Answers of derived metrics become the cells that units over spans would bring.

{name="GET /", __part__="0 count"}  [[60,"2"],[180,"1"]]     start = 60 s, step = 60 s

function 0, name = "GET /": counts 2 0 1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from lakerunner_query.plan.rewrite_traceql import COUNTS, PART, label_name
from lakerunner_query.plan.traceql import TraceMetricsRequest
from lakerunner_query.protocol.answers import MetricAnswer, RenderedSeries, decode_metric_answer
from lakerunner_query.protocol.traces import (
    Named,
    TraceCells,
    TraceMetricsAnswer,
    TypedValue,
    decode_trace_metrics,
)
from lakerunner_query.traceql.lang.ast import Field, Intrinsic, MetricsAggregation, MetricsCompare, Type
from lakerunner_query.traceql.lang.functions import Merge
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS
from lakerunner_query.traceql.lang.printer import field_text
from resources.arrays import Doubles

NS_PER_MS = 1_000_000
FIRST_KEY = b"\xa4kind"
"""First key of an encoded `MetricAnswer`, behind the byte that says how many there are."""


def decode_cells(body: bytes) -> TraceMetricsAnswer | MetricAnswer:
    """Decode the answer of a unit, over spans or over derived metrics."""
    if body[1 : 1 + len(FIRST_KEY)] == FIRST_KEY:
        return decode_metric_answer(body)
    return decode_trace_metrics(body)


def cells_of_metrics(
    answer: MetricAnswer,
    nodes: Sequence[MetricsAggregation | MetricsCompare],
    merges: Sequence[Merge],
    request: TraceMetricsRequest,
) -> Iterator[tuple[int, TraceCells]]:
    """Yield the cells of each group, with the number of its function."""
    counts: dict[tuple[int, Named], Doubles] = {}
    values: dict[tuple[int, Named], Doubles] = {}
    for series in answer.series:
        labels = dict(series.labels)
        number, _, kind = labels[PART].partition(" ")
        key = int(number), _named(nodes[int(number)], labels)
        absent = np.nan if kind != COUNTS and merges[int(number)] in {Merge.MIN, Merge.MAX} else 0.0
        (counts if kind == COUNTS else values)[key] = _by_step(series, absent, request)
    for key, found in counts.items():
        of_values = values[key].astype("<f8").tobytes() if key in values else b""
        yield key[0], TraceCells(key[1], np.rint(found).astype("<i8").tobytes(), of_values)


def _by_step(series: RenderedSeries, absent: float, request: TraceMetricsRequest) -> Doubles:
    found = np.full(request.steps, absent)
    for at, text in msgspec.json.decode(b"[" + series.floats + b"]", type=list[tuple[float, str]]):
        step = (round(at * 1000) * NS_PER_MS - request.start_ns) // request.step_ns
        found[step] = float(text)
    return found


def _named(node: MetricsAggregation | MetricsCompare, labels: dict[str, str]) -> Named:
    by = node.by if isinstance(node, MetricsAggregation) else ()
    return tuple((field_text(one), _typed(one, labels.get(label_name(one)))) for one in by)


def _typed(field: Field, text: str | None) -> TypedValue:
    """Return a value with the type that it has on spans; labels are texts."""
    if text is None:
        return TypedValue(Type.NIL.value)
    kind = INTRINSICS[field.name].type if isinstance(field, Intrinsic) else Type.STRING
    return TypedValue(kind.value, text)
