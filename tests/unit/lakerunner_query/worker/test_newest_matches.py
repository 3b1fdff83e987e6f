"""The newest matches are those of a search for all, however the spans of traces are spread over segments."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from benchmarks.ingest.corpus import Corpus
from benchmarks.traces.data import cook
from lakerunner_query.plan.traceql import MAX_NS, MIN_NS, TraceWindow
from lakerunner_query.protocol.traces import FoundTrace
from lakerunner_query.protocol.units import SegmentRef, TraceSearchUnit, segment_ref
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.segment_file import SegmentsInPlace
from lakerunner_query.worker.spans import search
from lakerunner_query.worker.spans.search import TraceScanner
from lakerunner_query.worker.tables.segments import TableOpener
from resources.duckdb import Cancellation

START_NS = 1_795_125_600_000_000_000
SECOND_NS = 10**9
SEGMENTS, TRACES = 6, 90


def segments(folder: Path, seed: int) -> tuple[SegmentRef, ...]:
    """Traces of up to four spans, mostly in the segment of their time, sometimes late in a later one."""
    rng = random.Random(seed)
    data = [TracesData() for _ in range(SEGMENTS)]
    scopes = [one.resource_spans.add().scope_spans.add() for one in data]
    for number in range(TRACES):
        place = number * SEGMENTS // TRACES
        for span in range(rng.randrange(1, 5)):
            late = place if rng.random() < 0.8 else rng.randrange(place, SEGMENTS)
            at = START_NS + (late * TRACES // SEGMENTS + rng.randrange(15)) * SECOND_NS
            trace_id = random.Random(f"{seed} {number}").randbytes(16)
            made = scopes[late].spans.add(
                trace_id=trace_id, span_id=bytes(7) + bytes([span + 1]),
                name="x", start_time_unix_nano=at, end_time_unix_nano=at + 1,
            )  # fmt: skip
            made.attributes.add(key="even").value.bool_value = number % 2 == 0
    return tuple(
        segment_ref(
            cook(Corpus("", (one.SerializeToString(),), len(scope.spans)), folder, START_NS, place + 1)
        )
        for place, (one, scope) in enumerate(zip(data, scopes, strict=True))
        if scope.spans
    )


@pytest.mark.parametrize("q", ["{}", "{ span.even = true }", "{ span.even = true } && { span.even = true }"])
@pytest.mark.parametrize("seed", range(4))
def test_first_matches_of_all(seed: int, q: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = segments(tmp_path, seed)
    scanner = TraceScanner(TableOpener(MetricOpener(SegmentsInPlace(tmp_path), 1 << 24)))
    monkeypatch.setattr(search, "SMALL_SHARE", 0)  # each segment is one row group

    def found(limit: int, end_ns: int) -> tuple[tuple[FoundTrace, ...], int]:
        window = TraceWindow(MIN_NS, MAX_NS)
        unit = TraceSearchUnit("", q, refs, window, START_NS, end_ns, limit, 3)
        answer = scanner.search(unit, Cancellation())
        return answer.traces, answer.spans_read

    for end_ns in (START_NS + 200 * SECOND_NS, START_NS + 70 * SECOND_NS):
        every, read = found(1000, end_ns)
        some, less = found(2, end_ns)
        assert len(every) > 20
        assert starts(some) == starts(every)[:2]
        assert {one.trace_id: one for one in every}[some[0].trace_id].sets == some[0].sets
        assert less < read


def starts(traces: tuple[FoundTrace, ...]) -> list[int]:
    return [one.start_ns for one in traces]
