"""The memory of a worker is taken while it reads a trace of a hundred thousand spans."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from benchmarks.ingest.corpus import HOUR_NS
from benchmarks.ingest.corpus.spans import large_trace
from benchmarks.logql.lake import KEY, publish
from benchmarks.logql.measure import asker
from benchmarks.promql.ours import Ours
from benchmarks.report import Record
from benchmarks.traces.data import cook
from benchmarks.traces.questions import PROTOBUF, SECOND_NS, Values, spans_of_trace, traces_of_search
from resources.index.postgres import PostgresIndex
from resources.lake.timecut import hour_start

MOST_MB, AIM_MB = 1024, 512
"""Growth of all our processes while the trace is read."""
PAUSE_S = 0.02
BELOW = '{ name = "GET /orders" } >> { name = "charge" && status = error }'


def measure_memory(folder: Path, index: PostgresIndex, dsn: str, spans: int) -> list[Record]:
    start_ns = hour_start(time.time_ns()) - 2 * HOUR_NS
    trace_id, corpus = large_trace(spans, 5, start_ns)
    lake = folder / "large-lake"
    publish(index, cook(corpus, lake, start_ns, 1))
    below = {"q": BELOW, "start": start_ns // SECOND_NS, "end": (start_ns + HOUR_NS) // SECOND_NS}
    ours = Ours(folder / "ours-large", lake, dsn, workers=1)
    by_id = f"/v2/traces/{trace_id.hex()}"
    try:
        return [
            _record("by-id", ours, by_id, {}, lambda body: len(spans_of_trace(body)), spans),
            _record("structural", ours, "/search", below, lambda body: len(traces_of_search(body)), 1),
        ]
    finally:
        ours.stop()


def _record(
    name: str, ours: Ours, path: str, values: Values, count: Callable[[bytes], int], expected: int
) -> Record:
    """Ask processes that were just started."""
    ours.restart()
    ask = asker(ours.port, f"/tempo/api{path}", values, {"Api-Key": KEY, **PROTOBUF})
    before = ours.proportional_bytes()
    with _Peak(ours) as peak:
        began = time.perf_counter()
        body = ask()
        took = time.perf_counter() - began
    if count(body) != expected:
        raise RuntimeError(f"{name}: expected {expected}, found {count(body)}")
    grown = (peak.bytes - before) / 1e6
    counters = {
        "peak_mb": round(peak.bytes / 1e6), "seconds": round(took, 2), "answer_mb": round(len(body) / 1e6, 1),
    }  # fmt: skip
    what = f"growth of our processes for a large trace, {name}"
    ok = grown <= MOST_MB
    return Record(f"memory-{name}", what, grown, "MB", MOST_MB, AIM_MB, ok, counters=counters)


class _Peak:
    """The greatest memory of all our processes while the block runs, looked at fifty times a second."""

    def __init__(self, ours: Ours) -> None:
        self.bytes = 0
        self._ours, self._over = ours, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(PAUSE_S):
            self.bytes = max(self.bytes, self._ours.proportional_bytes())
