"""What this process counts and times, as Prometheus text."""

from __future__ import annotations

import threading

from resources.objects.latency import LatencyTable
from resources.objects.store import render_store_metrics

RECORDS = "lakerunner_ingress_records_total"


class Telemetry:
    """Records by what became of them, and the latency of every step of the pipeline."""

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
