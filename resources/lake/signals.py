"""Differences between signals that receivers, the index, the pipeline and commands share.

What only the pipeline needs to know of a signal stands in `lakerunner_assets/signals`. No other module asks
which signal it works on.
"""

from __future__ import annotations

from dataclasses import dataclass

from resources.lake.frequency import ROLLUPS, Rollup
from resources.lake.layout import Signal
from resources.lake.retention import RAW, SEGMENTS, TIERS


@dataclass(frozen=True, slots=True)
class SignalFacts:
    """One row of the table."""

    dataset: str
    """Dataset of its cooked segments."""
    rollups: tuple[Rollup, ...]
    """Rollups that are built from it."""
    tiers: tuple[str, ...]
    """Tiers that have a retention of their own."""
    otlp_root: str
    """Message of which an OTLP request is a list."""


FACTS: dict[Signal, SignalFacts] = {
    Signal.LOGS: SignalFacts(
        dataset="logs",
        rollups=(),
        tiers=(RAW, SEGMENTS),
        otlp_root="ResourceLogs",
    ),
    Signal.METRICS: SignalFacts(
        dataset="metrics",
        rollups=ROLLUPS,
        tiers=TIERS,
        otlp_root="ResourceMetrics",
    ),
    Signal.TRACES: SignalFacts(
        dataset="traces",
        rollups=(),
        tiers=(RAW, SEGMENTS),
        otlp_root="ResourceSpans",
    ),
}
