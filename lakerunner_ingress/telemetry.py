"""Counters, gauges and latencies of this process, as Prometheus text."""

from __future__ import annotations

import threading
from collections.abc import Callable

from resources.exposition import Family, render, series
from resources.objects.latency import LatencyTable
from resources.objects.store import render_store_metrics

RECORDS = "lakerunner_ingress_records_total"


class Telemetry:
    """Counts of records by outcome, and the latency of every step of the pipeline."""

    def __init__(self) -> None:
        self.steps = LatencyTable("lakerunner_ingress_step_seconds")
        self._lock = threading.Lock()
        self._records: dict[str, int] = {}

    def count(self, outcome: str, records: int) -> None:
        with self._lock:
            self._records[outcome] = self._records.get(outcome, 0) + records

    def render(self) -> str:
        with self._lock:
            counted = [f'{RECORDS}{{outcome="{name}"}} {n}' for name, n in sorted(self._records.items())]
        lines = [f"# TYPE {RECORDS} counter", *counted, ""]
        return "\n".join(lines) + self.steps.render() + render_store_metrics()


REQUESTS = "lakerunner_push_requests_total"
REFUSED = "lakerunner_push_refused_total"
REJECTED = "lakerunner_push_rejected_records_total"
BYTES = "lakerunner_push_bytes_total"
OBJECTS = "lakerunner_push_objects_total"
OBJECT_BYTES = "lakerunner_push_object_bytes_total"
HELP = {
    REQUESTS: "Pushes that were answered, by protocol and status.",
    REFUSED: "Pushes that were refused, by protocol and reason.",
    REJECTED: "Records left out of pushes that were otherwise kept.",
    BYTES: "Bytes of pushes that were kept, once opened.",
    OBJECTS: "Raw objects written from pushes.",
    OBJECT_BYTES: "Bytes of raw objects written from pushes.",
}
MEMORY = "lakerunner_push_memory_bytes"
CHECKS = "lakerunner_push_checks_waiting"
ANNOUNCEMENTS = "lakerunner_push_announcements_waiting"
WITHDRAWALS = "lakerunner_push_withdrawals_waiting"


class PushTelemetry(Telemetry):
    """The telemetry of an ingress with receivers."""

    def __init__(self) -> None:
        super().__init__()
        self._pushed = threading.Lock()
        self._counters: dict[str, dict[str, float]] = {name: {} for name in HELP}
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def count_answer(self, protocol: str, status: int, reason: str = "") -> None:
        self._add(REQUESTS, 1, protocol=protocol, status=status)
        if reason:
            self._add(REFUSED, 1, protocol=protocol, reason=reason)

    def count_push(self, protocol: str, size: int, rejected: int) -> None:
        self._add(BYTES, size, protocol=protocol)
        if rejected:
            self._add(REJECTED, rejected, protocol=protocol)

    def count_object(self, signal: str, size: int) -> None:
        self._add(OBJECTS, 1, signal=signal)
        self._add(OBJECT_BYTES, size, signal=signal)

    def add_gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._gauges[name] = (text, read)

    def render(self) -> str:
        with self._pushed:
            families = [Family(n, "counter", HELP[n], dict(found)) for n, found in self._counters.items()]
        gauges = [Family(n, "gauge", text, {n: read()}) for n, (text, read) in self._gauges.items()]
        return super().render() + render([*families, *gauges])

    def _add(self, name: str, amount: float, **labels: object) -> None:
        found, key = self._counters[name], series(name, **labels)
        with self._pushed:
            found[key] = found.get(key, 0.0) + amount
