# ruff: noqa: E501 - a case is easier to read in few lines
"""The same spans give the same relation and the same decisions in every shape of a table."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakerunner_assets.decode.dispatch import DecodeOptions, Place
from lakerunner_assets.decode.otlp.traces import decode_traces
from lakerunner_assets.segments.traces import write_span_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_sampling.aggregate import Commit, StateLimits, TraceState
from lakerunner_sampling.lake_shapes import AutomqRawShape, LakeShape, shape_of
from lakerunner_sampling.policies.documents import read_policies
from lakerunner_sampling.policies.model import DecisionMoment, LimiterMemory
from lakerunner_sampling.shapes import (
    SPAN_COLUMNS,
    Attribute,
    AutomqFlatShape,
    CanonicalShape,
    Scope,
    ShapeError,
    SpanShape,
    Wanted,
    schema_of,
)
from tests.support.sampling.spans import BASE_NS, MAP, Span, random_spans, table, write

POLICIES = [
    {"name": "n", "type": "numeric_attribute", "numeric_attribute": {"key": "http.status_code", "min_value": 404}},
    {"name": "s", "type": "string_attribute", "string_attribute": {"key": "tier", "values": ["gold"]}},
    {"name": "svc", "type": "string_attribute", "string_attribute": {"key": "service.name", "values": ["db"]}},
    {"name": "f", "type": "trace_flags"},
    {"name": "t", "type": "trace_state", "trace_state": {"key": "k", "values": ["v1"]}},
    {"name": "e", "type": "and", "and": {"and_sub_policy": [
        {"name": "e1", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
        {"name": "e2", "type": "ottl_condition", "ottl_condition": {
            "span": ['IsRootSpan() and kind == SPAN_KIND_SERVER'],
            "spanevent": ['name == "exception" and attributes["type"] == "a"']}}]}},
    {"name": "p", "type": "probabilistic", "probabilistic": {"sampling_percentage": 10}},
    {"name": "o", "type": "ottl_condition", "ottl_condition": {"span": ['attributes["absent"] == "x"']}},
]  # fmt: skip


def request(spans: Sequence[Span]) -> ExportTraceServiceRequest:
    found = ExportTraceServiceRequest()
    for span in spans:
        group = found.resource_spans.add()
        for key, value in {"service.name": span.service, **span.resource}.items():
            group.resource.attributes.add(key=key).value.string_value = value
        one = group.scope_spans.add().spans.add(
            trace_id=span.trace_id, span_id=span.span.to_bytes(8, "big"), name=span.name, kind=span.kind,
            start_time_unix_nano=span.start_ns, end_time_unix_nano=span.end_ns, trace_state=span.state,
            flags=span.flags,
        )  # fmt: skip
        if span.parent is not None:
            one.parent_span_id = span.parent.to_bytes(8, "big")
        one.status.code, one.status.message = span.status, span.message
        for key, value in span.attributes.items():
            held = one.attributes.add(key=key).value
            if value.isdigit() and str(int(value)) == value:
                held.int_value = int(value)
            elif value in {"true", "false"}:
                held.bool_value = value == "true"
            else:
                held.string_value = value
        for name, attributes in span.events:
            event = one.events.add(time_unix_nano=span.start_ns, name=name)
            for key, value in attributes.items():
                event.attributes.add(key=key).value.string_value = value
                event.attributes.add(key=key).value.string_value = "repeated"
    return found


def raw(spans: Sequence[Span], path: Path) -> str:
    """Write records of a few spans each, with an empty one and one that is no OTLP."""
    parts = [request(spans[at : at + 7]).SerializeToString() for at in range(0, len(spans), 7)]
    values = [*parts[:2], b"", b"no OTLP at all", *parts[2:]]
    pq.write_table(pa.table({"_kafka_key": [None] * len(values), "_kafka_value": pa.array(values)}), path)
    return str(path)


def segment(spans: Sequence[Span], path: Path, others: Sequence[Span] = ()) -> str:
    """Write the spans of raw object 1, and others of raw object 2."""
    decoded = [
        decode_traces(request(each).SerializeToString(), Place(number, 0, 1), DecodeOptions()).table
        for number, each in ((1, spans), (2, others))
        if each
    ]
    write_span_segment(decoded, path, SegmentIdentity("acme", "eu", "traces", BASE_NS, "s1"))
    return str(path)


def flat(spans: Sequence[Span], path: Path) -> str:
    """Write a record for each span, with OTLP's names in JSON and names of kinds as text."""
    held = table(spans)
    kinds = ["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"]
    columns: dict[str, Any] = {
        "traceId": pa.array([each.as_py().hex() for each in held.column("trace_id")]),
        "spanId": pa.array([each.as_py().hex() for each in held.column("span_id")]),
        "parentSpanId": pa.array([(each.as_py() or b"").hex() for each in held.column("parent_span_id")]),
        "startTimeUnixNano": held.column("start_ns"),
        "endTimeUnixNano": held.column("end_ns"),
        "name": held.column("operation_name"),
        "kind": pa.array([f"SPAN_KIND_{kinds[each.as_py()]}" for each in held.column("span_kind")]),
        "statusCode": held.column("status_code").cast(pa.string()),
        "traceState": held.column("trace_state"),
        **{name: held.column(name) for name in ("flags", "attributes", "resource_attributes", "events")},
    }
    pq.write_table(pa.table(columns), path)
    return str(path)


WRITERS = {
    "canonical": (write, CanonicalShape()),
    "automq_flat": (flat, AutomqFlatShape()),
    "automq_raw": (raw, AutomqRawShape()),
    "lake": (segment, LakeShape()),
}


@pytest.fixture(scope="module")
def spans() -> list[Span]:
    return random_spans(3)


def decide(shape: SpanShape, files: list[str], folder: Path) -> dict[bytes, tuple[bool, str, dict[str, Any]]]:
    policies = read_policies(yaml.safe_dump(POLICIES).encode()).policy_set()
    with TraceState(policies, shape, StateLimits(folder / "scratch", readable=(folder,), threads=1)) as state:
        assert state.add(Commit(1, files)) == max(max(s.end_ns, s.start_ns) for s in random_spans(3))
        traces = state.everything()
    found = policies.decide(traces, DecisionMoment(0), LimiterMemory()).table
    kept = zip(found.column("keep").to_pylist(), found.column("policy").to_pylist(), strict=True)
    aggregates = traces.drop_columns(["trace_id"]).to_pylist()
    ids = traces.column("trace_id").to_pylist()
    return {key: (*one, row) for key, one, row in zip(ids, kept, aggregates, strict=True)}


@pytest.mark.parametrize("name", ["automq_flat", "automq_raw", "lake"])
def test_decisions_are_those_of_the_canonical_table(name: str, spans: list[Span], tmp_path: Path) -> None:
    wanted = decide(CanonicalShape(), [write(spans, tmp_path / "a.parquet")], tmp_path)
    writer, shape = WRITERS[name]
    half = len(spans) // 2
    files = [writer(spans[:half], tmp_path / "b.parquet"), writer(spans[half:], tmp_path / "c.parquet")]
    assert decide(shape, files, tmp_path) == wanted
    for column in ("p0", "p1", "p2", "p3", "p4", "p5", "p6"):
        assert len({row[column] for *_, row in wanted.values()}) == 2, f"{column} tells nothing"
    if isinstance(shape, AutomqRawShape):
        assert shape.rejected == 2, "one in each file, and all others were read"


def test_spans_that_came_with_an_earlier_commit_count_once(spans: list[Span], tmp_path: Path) -> None:
    half, policies = len(spans) // 2, read_policies(yaml.safe_dump(POLICIES).encode()).policy_set()
    first = segment(spans[:half], tmp_path / "first.parquet")
    merged = segment(spans[:half], tmp_path / "merged.parquet", spans[half:])
    limits = StateLimits(tmp_path / "scratch", readable=(tmp_path,), threads=1)
    with TraceState(policies, LakeShape(), limits) as state:
        state.add(Commit(1, [first]))
        state.add(Commit(2, [merged], without=(1,)))
        assert sum(state.everything().column("span_count").to_pylist()) == len(spans)


@pytest.mark.parametrize("name", WRITERS)
def test_the_relation_holds_every_column(name: str, spans: list[Span], tmp_path: Path) -> None:
    writer, shape = WRITERS[name]
    files = shape.prepare([writer(spans, tmp_path / "a.parquet")], tmp_path / "prepared")
    attribute = Attribute(Scope.SPAN, "http.status_code")
    wanted = Wanted(frozenset(SPAN_COLUMNS), (attribute, Attribute(Scope.RESOURCE, 'no"such')))
    relation = duckdb.sql(shape.relation(files, schema_of(files), wanted))
    assert dict(zip(relation.columns, (str(each).replace('"', '') for each in relation.types), strict=True)) == {
        **SPAN_COLUMNS, attribute.column: "VARCHAR", 'resource:no"such': "VARCHAR"
    }  # fmt: skip
    rows = {(row["trace_id"], row["span_id"]): row for row in relation.to_arrow_table().to_pylist()}
    assert len(rows) == len(spans)
    for span in spans:
        row = rows[span.trace_id, span.span.to_bytes(8, "big")]
        assert (row["start_ns"], row["end_ns"]) == (span.start_ns, span.end_ns)
        assert (row["name"], row["kind"], row["status_code"]) == (span.name, span.kind, span.status)
        assert (row["parent_span_id"] is None) == (span.parent is None)
        assert (row["trace_state"] or "", row["flags"]) == (span.state, span.flags)
        assert dict(row["attributes"]) == span.attributes
        assert dict(row["resource_attributes"]) == {"service.name": span.service, **span.resource}
        assert [(each["name"], dict(each["attributes"])) for each in row["events"]] == span.events
        assert row[attribute.column] == span.attributes.get("http.status_code")
        assert row["size"] > 80 or not span.name


def test_times_in_ms_and_columns_of_attributes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "spans.parquet"
    held = pa.table({
        "trace_id": pa.array([bytes(16)], pa.binary(16)), "span_id": pa.array([bytes(16)], pa.binary(16)),
        "status_code": pa.array([2], pa.int32()), "duration_ms": pa.array([5], pa.int64()),
        "timestamp_ms": pa.array([1_000], pa.int64()), "operation_name": ["GET"],
        "attributes": pa.array([[("http.route", "map")]], MAP), "attr_http_route": ["own column"],
    })  # fmt: skip
    pq.write_table(held, path)
    wanted = Wanted(frozenset({"start_ns", "end_ns", "name"}), (Attribute(Scope.SPAN, "http.route"),))
    found = duckdb.sql(CanonicalShape().relation([str(path)], held.schema, wanted)).fetchall()
    assert found == [(1_000_000_000, 1_005_000_000, "GET", "own column")]


def test_a_table_without_trace_ids_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ShapeError, match="no column trace_id; it has a"):
        CanonicalShape().relation([str(tmp_path / "a.parquet")], pa.schema([("a", pa.int64())]))
    with pytest.raises(ShapeError, match="no column _kafka_value"):
        AutomqRawShape().prepare([str(tmp_path / "a.parquet")], tmp_path / "p")


def test_the_shape_of_files_is_told_by_their_columns(spans: list[Span], tmp_path: Path) -> None:
    for name, (writer, shape) in WRITERS.items():
        file = writer(spans[:3], tmp_path / f"{name}.parquet")
        assert isinstance(shape, type(shape_of(schema_of([file])))), name


def test_random_bytes_as_records_are_counted_and_left_out(tmp_path: Path) -> None:
    rng = random.Random(1)
    values = [bytes([255]) + rng.randbytes(rng.randrange(40)) for _ in range(50)]
    pq.write_table(pa.table({"_kafka_value": pa.array(values)}), tmp_path / "a.parquet")
    shape = AutomqRawShape()
    files = shape.prepare([str(tmp_path / "a.parquet")], tmp_path / "p")
    assert shape.rejected == 50
    assert duckdb.sql(shape.relation(files, schema_of(files))).fetchall() == []
