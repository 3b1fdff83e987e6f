"""Spans that are put together from columns are the spans that were sent, each once."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, TracesData

from benchmarks.ingest.ours import decoded, write
from lakerunner_query.worker.spans.otlp import FEW, PackedSpans, pack_spans, traces_data
from resources.lake.layout import Signal
from resources.lake.segment_file import read_label_map

START_NS = 1_795_125_600_000_000_000


def value(rng: random.Random) -> AnyValue:
    found = AnyValue()
    match rng.randrange(7):
        case 0:
            found.string_value = rng.choice(["", "é", "x"])
        case 1:
            found.int_value = rng.randrange(-2, 3)
        case 2:
            found.double_value = rng.choice([1.5, float("inf")])
        case 3:
            found.bool_value = rng.random() < 0.5
        case 4:
            found.bytes_value = b"\0\1"
        case 5:
            found.array_value.values.add().int_value = 7
        case 6:
            found.kvlist_value.values.add(key="z").value.string_value = "q"
    return found


def sent(seed: int, spans: int) -> TracesData:
    """A trace with everything that OTLP has."""
    rng = random.Random(seed)
    data = TracesData()
    for number in range(2):
        group = data.resource_spans.add(schema_url=rng.choice(["", "u"]))
        group.resource.attributes.add(key="service.name").value.string_value = f"service-{number}"
        group.resource.dropped_attributes_count = rng.randrange(2)
        scope = group.scope_spans.add(schema_url=rng.choice(["", "v"]))
        scope.scope.name, scope.scope.version = rng.choice(["", "a"]), rng.choice(["", "1"])
        scope.scope.attributes.add(key="fast").value.bool_value = True
        for _ in range(spans):
            add_span(rng, scope)
    return data


def add_span(rng: random.Random, scope: ScopeSpans) -> None:
    span = scope.spans.add(
        trace_id=b"t" * 16, span_id=rng.randbytes(8), parent_span_id=rng.choice([b"", b"p" * 8]),
        name=rng.choice(["", "x"]), kind=rng.randrange(6), trace_state=rng.choice(["", "k=v"]),  # type: ignore[arg-type]
        start_time_unix_nano=START_NS + rng.randrange(5), end_time_unix_nano=START_NS + rng.randrange(5, 9),
        flags=rng.choice([0, 1, 257]), dropped_attributes_count=rng.randrange(2),
        dropped_events_count=rng.randrange(2), dropped_links_count=rng.randrange(2),
    )  # fmt: skip
    span.status.code, span.status.message = rng.randrange(3), rng.choice(["", "m"])  # type: ignore[assignment]
    for name in "abcd":
        if rng.random() < 0.5:
            span.attributes.add(key=name).value.CopyFrom(value(rng))
    for at in range(rng.randrange(3)):
        event = span.events.add(time_unix_nano=START_NS + at, name="e", dropped_attributes_count=at)
        event.attributes.add(key="k").value.CopyFrom(value(rng))
    for _ in range(rng.randrange(3)):
        link = span.links.add(trace_id=b"l" * 16, span_id=b"m" * 8, trace_state="s", flags=1)
        link.attributes.add(key="k").value.CopyFrom(value(rng))


def rows(data: TracesData) -> list[tuple[bytes, bytes, bytes]]:
    """Resource, scope and span of each span, comparable."""
    found = []
    for group in data.resource_spans:
        for scope in group.scope_spans:
            head = group.schema_url.encode() + group.resource.SerializeToString(deterministic=True)
            own = scope.schema_url.encode() + scope.scope.SerializeToString(deterministic=True)
            found += [(head, own, in_order(span)) for span in scope.spans]
    return sorted(found)


def in_order(span: Span) -> bytes:
    attributes = sorted(span.attributes, key=lambda one: one.key)
    del span.attributes[:]
    span.attributes.extend(attributes)
    return span.SerializeToString(deterministic=True)


def packed(data: TracesData, folder: Path) -> PackedSpans:
    written = write(
        Signal.TRACES, decoded(Signal.TRACES, [data.SerializeToString()], "o.binpb"), folder / "s"
    )
    assert written.rows
    file = pq.ParquetFile(folder / "s")
    return pack_spans(file.read(), read_label_map(file.metadata))


@pytest.mark.parametrize("spans", [3, FEW])
@pytest.mark.parametrize("seed", range(5))
def test_a_trace_is_what_was_sent(seed: int, spans: int, tmp_path: Path) -> None:
    data = sent(seed, spans)
    part = packed(data, tmp_path)
    stored, duplicates = traces_data([part, part])
    found = TracesData.FromString(stored)
    assert duplicates == len(part.spans)
    assert len(found.resource_spans) == 2
    assert rows(found) == rows(data)


def test_spans_come_by_start_and_id(tmp_path: Path) -> None:
    found = TracesData.FromString(traces_data([packed(sent(1, 40), tmp_path)])[0])
    for group in found.resource_spans:
        (scope,) = group.scope_spans
        keys = [(span.start_time_unix_nano, span.span_id) for span in scope.spans]
        assert keys == sorted(keys)


def test_nothing_found_is_no_bytes() -> None:
    assert traces_data([]) == (b"", 0)
