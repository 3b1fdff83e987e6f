"""A trace is rendered in a time that its spans are proportional to, also where all ids are the same."""

from __future__ import annotations

import time

import msgspec
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from lakerunner_query.api.lakerunner.traces import _Rendering
from lakerunner_query.assembly.otlp import read_spans
from lakerunner_query.assembly.trace import assemble
from lakerunner_query.coordinator.spans import WholeTraces
from lakerunner_query.coordinator.trace_context import TraceContext


def sent(count: int, *, same_id: bool) -> TracesData:
    data = TracesData()
    scope = data.resource_spans.add().scope_spans.add()
    for number in range(count):
        span = scope.spans.add(name="x", start_time_unix_nano=number + 1, end_time_unix_nano=number + 9)
        span.span_id = (1 if same_id else number + 1).to_bytes(8, "big")
        span.parent_span_id = (number // 2).to_bytes(8, "big") if number else b""
    return data


def seconds(count: int, *, same_id: bool) -> float:
    trace = read_spans(sent(count, same_id=same_id))
    found, best = assemble(trace.columns), 1e9
    for _ in range(3):
        began = time.process_time()
        body = _Rendering("1", trace, found, WholeTraces(), TraceContext(0, 0), count).as_json()
        best = min(best, time.process_time() - began)
    assert msgspec.json.decode(msgspec.json.encode(body))["counts"]["spans"] == count
    return best


@pytest.mark.parametrize("same_id", [False, True])
def test_eight_times_the_spans_take_some_eight_times_as_long(same_id: bool) -> None:
    assert seconds(8_000, same_id=same_id) < 25 * seconds(1_000, same_id=same_id) + 0.02
