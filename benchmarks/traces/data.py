"""Spans of the last hours go to a lake and to Tempo as the same raw objects.

    part n (a seed, a slot of two hours)  ──►  decoder, segment writer  ──►  one segment, one row of the index
                                          ──►  OTLP over HTTP           ──►  blocks of a Tempo

A folder that is kept has the segments, their rows of the index and Tempo's blocks: the next run loads
nothing.
"""

from __future__ import annotations

import json
import pickle
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from benchmarks.ingest.corpus import HOUR_NS, Corpus
from benchmarks.ingest.corpus.spans import SPANS_PER_TRACE, shop_spans
from benchmarks.ingest.ours import decoded
from benchmarks.logql.lake import COLLECTOR, ORG, publish, segment_row
from benchmarks.traces.tempo import Tempo, double_blocks
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_assets.signals import SIGNALS
from resources.index.postgres import PostgresIndex
from resources.index.types import Segment
from resources.lake.layout import Signal, hourly_segment_key
from resources.lake.timecut import hour_start

HOURS = 2
MARGIN_NS = 2_000_000_000
"""Spans of a slot end before the next slot, and none lies behind the hour."""
KEPT, ROWS = "kept.json", "segments.pickle"
NAMED_TRACES = 40


@dataclass(frozen=True, slots=True)
class Loaded:
    """The spans of both sides."""

    folder: Path
    spans: int
    start_ns: int
    traces: tuple[str, ...]
    """Ids of some traces, all over the range."""
    user: str
    """A value of `user.id` that some span has."""
    seconds: dict[str, float]

    @property
    def end_ns(self) -> int:
        return self.start_ns + HOURS * HOUR_NS

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def blocks(self) -> Path:
        return self.folder / "tempo" / "blocks"

    def segments(self) -> list[Segment]:
        rows: list[Segment] = pickle.loads((self.folder / ROWS).read_bytes())  # noqa: S301
        return rows

    def publish(self, index: PostgresIndex) -> None:
        for segment in self.segments():
            publish(index, segment)


def load(folder: Path, spans: int, segments: int, program: Path | None) -> Loaded:
    """Take what the folder keeps, or generate, cook and push all spans."""
    if (folder / KEPT).is_file():
        kept = json.loads((folder / KEPT).read_text())
        loaded = Loaded(folder, **{**kept, "traces": tuple(kept["traces"])})
        if loaded.spans != spans:
            raise ValueError(f"{folder}: expected {spans} spans, found {loaded.spans}")
        return loaded
    start_ns = hour_start(time.time_ns()) - (HOURS + 1) * HOUR_NS
    seconds = {"lake": 0.0, "tempo": 0.0}
    tempo = Tempo(program, folder / "tempo") if program else None
    rows: list[Segment] = []
    traces: list[str] = []
    user, loaded_spans = "", 0
    for number, part in enumerate(_parts(spans, segments, start_ns)):
        began = time.perf_counter()
        rows.append(cook(part, folder / "lake", start_ns + number * HOURS * HOUR_NS // segments, number + 1))
        seconds["lake"] += time.perf_counter() - began
        began = time.perf_counter()
        for each in part.objects if tempo else ():
            tempo.send(each)  # type: ignore[union-attr]
        seconds["tempo"] += time.perf_counter() - began
        loaded_spans += part.rows
        if number % max(1, segments // NAMED_TRACES) == 0:
            trace, user = _named(part.objects[0])
            traces.append(trace)
    if tempo:
        began = time.perf_counter()
        tempo.settle(loaded_spans // SPANS_PER_TRACE)
        tempo.stop()
        double_blocks(folder / "tempo" / "blocks")
        seconds["tempo"] += time.perf_counter() - began
    (folder / ROWS).write_bytes(pickle.dumps(rows))
    kept = {
        "spans": loaded_spans, "start_ns": start_ns, "traces": traces, "user": user,
        "seconds": {name: round(each, 1) for name, each in seconds.items()},
    }  # fmt: skip
    (folder / KEPT).write_text(json.dumps(kept))
    return Loaded(folder, **{**kept, "traces": tuple(traces)})  # type: ignore[arg-type]


def cook(part: Corpus, lake: Path, time_ns: int, number: int) -> Segment:
    """Write the spans as one segment."""
    name, hour = f"{number:032x}", hour_start(time_ns)
    dataset = SIGNALS[Signal.TRACES].dataset
    key = hourly_segment_key(ORG, COLLECTOR, dataset, hour, name)
    path = lake / key
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = decoded(Signal.TRACES, part.objects, "object.binpb")
    identity = SegmentIdentity(ORG, COLLECTOR, dataset, hour, name)
    written = SIGNALS[Signal.TRACES].write(tables, path, identity)
    if written.rows != part.rows:
        raise ValueError(f"{written.rows} rows of {part.rows} spans")
    return segment_row(Signal.TRACES, key, name, hour, written)


def _parts(spans: int, segments: int, start_ns: int) -> Iterator[Corpus]:
    """Generate part after part, two at a time."""
    waiting: deque[Future[Corpus]] = deque()
    slot = HOURS * HOUR_NS // segments
    with ProcessPoolExecutor(2) as pool:
        for number in range(segments):
            at = start_ns + number * slot
            waiting.append(pool.submit(shop_spans, spans // segments, 1000 + number, at, slot - MARGIN_NS))
            if len(waiting) > 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _named(data: bytes) -> tuple[str, str]:
    """Return a trace id and a `user.id` of an object."""
    resources = TracesData.FromString(data).resource_spans
    span = resources[len(resources) // 2].scope_spans[0].spans[-1]
    users = [each.value.string_value for each in span.attributes if each.key == "user.id"]
    return span.trace_id.hex(), users[0]


def lake_bytes(segments: Sequence[Segment]) -> int:
    return sum(segment.bytes for segment in segments)
