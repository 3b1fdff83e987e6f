"""Traces that the benchmark makes have the shape it asks for, and answers are compared by what they say."""

from __future__ import annotations

import json
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from benchmarks.ingest.corpus.spans import SPANS_PER_TRACE, large_trace, shop_spans
from benchmarks.traces.questions import later_samples, samples_of_series, traces_of_search
from benchmarks.traces.tempo import TENANT, block_bytes, block_traces, double_blocks

SECOND_NS = 10**9


def spans_of(objects: tuple[bytes, ...]) -> list[tuple[bytes, bytes, bytes, int]]:
    return [
        (span.trace_id, span.span_id, span.parent_span_id, span.start_time_unix_nano)
        for data in objects
        for resource in TracesData.FromString(data).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def test_spans_of_a_part_lie_in_its_slot() -> None:
    start, width = 1_000 * SECOND_NS, 10 * SECOND_NS
    part = shop_spans(800, 5, start, width)
    found = spans_of(part.objects)
    assert len(found) == part.rows == 800
    assert all(start < begin < start + width + SECOND_NS for *_, begin in found)
    assert len({trace for trace, *_ in found}) == 800 // SPANS_PER_TRACE


def test_a_large_trace_is_one_tree() -> None:
    trace_id, corpus = large_trace(500, 3, SECOND_NS)
    found = spans_of(corpus.objects)
    ids = {span_id for _, span_id, *_ in found}
    assert {trace for trace, *_ in found} == {trace_id}
    assert len(ids) == corpus.rows == 500
    assert [parent for _, _, parent, _ in found if parent not in ids] == [b""]


def test_samples_of_steps_by_their_begin_equal_those_by_their_end() -> None:
    def body(*times: int) -> bytes:
        samples = [{"timestampMs": str(time), "value": 1.5} for time in times]
        empty = {"timestampMs": "0"}
        return json.dumps({"series": [{"labels": [], "samples": [*samples, empty]}]}).encode()

    assert samples_of_series(body(60_000, 120_000)) == later_samples(body(0, 60_000))
    assert samples_of_series(body(60_000)) != later_samples(body(60_000))


def test_matches_of_all_span_sets_count() -> None:
    one = {"traceID": "a", "startTimeUnixNano": "5", "spanSets": [{"matched": 2}, {"matched": 1}]}
    assert traces_of_search(json.dumps({"traces": [one]}).encode()) == {"a": (None, None, "5", 0, 3)}


def test_copied_blocks_are_marked_and_not_counted(tmp_path: Path) -> None:
    block = tmp_path / TENANT / "first"
    block.mkdir(parents=True)
    (block / "data.parquet").write_bytes(b"x" * 100)
    (block / "meta.json").write_text(json.dumps({"blockID": "first", "totalObjects": 7}))
    before = block_bytes(tmp_path)
    double_blocks(tmp_path)
    metas = [json.loads(path.read_text()) for path in tmp_path.glob("*/*/meta.json")]
    assert sorted(meta.get("replicationFactor", 0) for meta in metas) == [0, 1]
    assert block_bytes(tmp_path) == before >= 100
    assert block_traces(tmp_path) == 14
