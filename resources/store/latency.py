"""How long operations take in this process, ready for `/metrics`.

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
    """Histograms by (operation, outcome); safe to use from any thread."""

    def __init__(self, name: str) -> None:
        self.name = name
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
            self._add(operation, outcome, time.perf_counter() - start)

    def count(self, operation: str, outcome: str = "ok") -> int:
        with self._lock:
            row = self._rows.get((operation, outcome))
            return sum(row.buckets) if row else 0

    def render(self) -> str:
        """Prometheus text exposition of every histogram."""
        with self._lock:
            lines = [line for key in sorted(self._rows) for line in _lines(self.name, key, self._rows[key])]
        return "\n".join([f"# TYPE {self.name} histogram", *lines, ""])

    def _add(self, operation: str, outcome: str, seconds: float) -> None:
        with self._lock:
            self._rows.setdefault((operation, outcome), Histogram()).add(seconds)


def _lines(name: str, key: tuple[str, str], row: Histogram) -> list[str]:
    labels, lines, seen = f'operation="{key[0]}",outcome="{key[1]}"', [], 0
    for bound, count in zip((*BOUNDS_S, "+Inf"), row.buckets, strict=True):
        seen += count
        lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {seen}')
    return [*lines, f"{name}_sum{{{labels}}} {row.total_s:.6f}", f"{name}_count{{{labels}}} {seen}"]


LATENCY = LatencyTable("lakerunner_store_operation_seconds")
