"""The one exporter of the pipeline: what runs and tables know, served by the ingress.

Runs come and go, so they leave their counters in the index; the state of the pipeline is rows there as well.
Reading them costs scans, so one reading serves every scrape until it is old, and an index that takes long is
asked the less often. While it does not answer, `lakerunner_index_up` is 0 and the other families are absent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from lakerunner_ingress.tier_metrics import tier_families
from resources.exposition import Family, families, render, series
from resources.index.contract import StatusIndex
from resources.index.postgres.connections import IndexUnavailableError

MAX_AGE_S = 15.0
SHARE = 20
"""A reading that took 1 s is kept for at least 20 s: at most 5 % of a connection's time goes to scrapes."""
PATIENCE_S = 5.0
"""A reading under way for longer hangs: the numbers of the last one would hide it."""
GAUGES = {
    "pending_objects": ("lakerunner_pipeline_pending_objects", "Raw objects registered and not yet done."),
    "pending_bytes": ("lakerunner_pipeline_pending_bytes", "Bytes of the pending raw objects."),
    "oldest_pending_s": (
        "lakerunner_pipeline_oldest_pending_seconds",
        "Age of the oldest pending raw object.",
    ),
    "done_objects": ("lakerunner_pipeline_done_objects", "Raw objects whose rows can be queried."),
    "parked_objects": ("lakerunner_pipeline_parked_objects", "Raw objects given up on until retried."),
    "overwritten_objects": ("lakerunner_pipeline_overwritten_objects", "Raw objects whose key was reused."),
    "rows": ("lakerunner_pipeline_rows", "Rows taken from done raw objects."),
    "rejected": ("lakerunner_pipeline_rejected_rows", "Rows that could not be decoded."),
    "quarantined": ("lakerunner_pipeline_quarantined_rows", "Rows outside the horizon."),
    "segments": ("lakerunner_pipeline_segments", "Live segments."),
    "segment_bytes": ("lakerunner_pipeline_segment_bytes", "Bytes of live segments."),
}


def _up(value: int) -> Family:
    return Family(
        "lakerunner_index_up", "gauge", "Whether the index answered.", {"lakerunner_index_up": value}
    )


UNANSWERED = render([_up(0)])


class PipelineMetrics:
    """The last reading, as text."""

    def __init__(self, index: StatusIndex, clock: Callable[[], float] = time.monotonic) -> None:
        self._index = index
        self._clock = clock
        self._reading = threading.Lock()
        self._text = UNANSWERED
        self._keep_until = float("-inf")
        self._began = float("inf")

    def render(self) -> str:
        """One reading at a time; whoever comes meanwhile gets the last one, unless the new one hangs."""
        if self._clock() < self._keep_until:
            return self._text
        if self._reading.acquire(blocking=False):
            try:
                self._read()
            finally:
                self._reading.release()
        elif self._clock() - self._began > PATIENCE_S:
            return UNANSWERED
        return self._text

    def _read(self) -> None:
        self._began = self._clock()
        self._text = _read(self._index)
        ended = self._clock()
        self._keep_until = ended + max(MAX_AGE_S, SHARE * (ended - self._began))


def _read(index: StatusIndex) -> str:
    try:
        rows, tiers = index.pipeline_status(), index.tier_status()
        backlog, counters = index.backlog(), index.counters()
    except IndexUnavailableError:
        return UNANSWERED
    waiting = {
        "lakerunner_dead_letters": backlog.dead_letters,
        "lakerunner_outbox_messages": backlog.outbox_messages,
        "lakerunner_outbox_oldest_seconds": backlog.outbox_oldest_s,
    }
    gauges = [_gauge(column, rows) for column in GAUGES]
    return render([_up(1), *gauges, *tier_families(tiers), *families(waiting), *families(counters)])


def _gauge(column: str, rows: list[Mapping[str, object]]) -> Family:
    name, text = GAUGES[column]
    samples = {series(name, org=row["org"], signal=row["signal"]): float(str(row[column])) for row in rows}
    return Family(name, "gauge", text, samples)
