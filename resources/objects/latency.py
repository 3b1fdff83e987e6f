"""Latencies of operations in this process are kept as histograms for `/metrics`.

`timed()` is wrapped around a call (for the object store: each attempt), so that neither callers nor the
operations themselves hold a timer. Rendering is Prometheus text; there is no other consumer.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from resources.exposition import series

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

Result = TypeVar("Result")


@dataclass(slots=True)
class Histogram:
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


class LatencyTable:
    """Histograms by two labels, `(operation, outcome)` unless named otherwise; thread-safe."""

    def __init__(self, name: str, labels: tuple[str, str] = ("operation", "outcome")) -> None:
        self.name = name
        self._labels = labels
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str], Histogram] = {}

    def timed(self, operation: str, call: Callable[[], Result]) -> Result:
        start, outcome = time.perf_counter(), "ok"
        try:
            return call()
        except Exception as error:
            outcome = type(error).__name__
            raise
        finally:
            self.add(operation, outcome, time.perf_counter() - start)

    def count(self, operation: str, outcome: str = "ok") -> int:
        with self._lock:
            row = self._rows.get((operation, outcome))
            return sum(row.buckets) if row else 0

    def render(self) -> str:
        """Write every histogram as Prometheus text."""
        with self._lock:
            rows = sorted(self._rows.items())
            lines = [
                line
                for key, row in rows
                for line in _lines(self.name, dict(zip(self._labels, key, strict=True)), row)
            ]
        return "\n".join([f"# TYPE {self.name} histogram", *lines, ""])

    def add(self, operation: str, outcome: str, seconds: float) -> None:
        """Add a duration that was not measured around one call."""
        with self._lock:
            self._rows.setdefault((operation, outcome), Histogram()).add(seconds)


def _lines(name: str, labels: dict[str, str], row: Histogram) -> list[str]:
    lines, seen = [], 0
    for bound, observed in zip((*BOUNDS_S, "+Inf"), row.buckets, strict=True):
        seen += observed
        lines.append(f"{series(f'{name}_bucket', **labels, le=bound)} {seen}")
    total, count = series(f"{name}_sum", **labels), series(f"{name}_count", **labels)
    return [*lines, f"{total} {row.total_s:.6f}", f"{count} {seen}"]


LATENCY = LatencyTable("lakerunner_store_operation_seconds")
