"""What the receivers count, added to what the ingress counts."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lakerunner_ingress.telemetry import Telemetry
from resources.exposition import Family, render, series

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
ANNOUNCEMENTS = "lakerunner_push_announcements_waiting"
WITHDRAWALS = "lakerunner_push_withdrawals_waiting"


class PushTelemetry(Telemetry):
    """The telemetry of an ingress with receivers. `watch` says where the gauges are read."""

    def __init__(self) -> None:
        super().__init__()
        self._pushed = threading.Lock()
        self._counters: dict[str, dict[str, float]] = {name: {} for name in HELP}
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def answered(self, protocol: str, status: int, reason: str = "") -> None:
        self._add(REQUESTS, 1, protocol=protocol, status=status)
        if reason:
            self._add(REFUSED, 1, protocol=protocol, reason=reason)

    def kept(self, protocol: str, size: int, rejected: int) -> None:
        self._add(BYTES, size, protocol=protocol)
        if rejected:
            self._add(REJECTED, rejected, protocol=protocol)

    def wrote(self, signal: str, size: int) -> None:
        self._add(OBJECTS, 1, signal=signal)
        self._add(OBJECT_BYTES, size, signal=signal)

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
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
