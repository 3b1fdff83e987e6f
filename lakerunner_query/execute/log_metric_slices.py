"""Cutting a metric query over logs along its evaluation times, as `metric_slices.py` does for samples.

Rows that have to be looked at one by one cost more than samples, so that a part is of fewer rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakerunner_query.execute.metric_slices import steady_parts
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.plan.log_metrics import LogReads
from lakerunner_query.vectors.vector import Steps
from resources.index.types import Segment

Load = tuple[LogReads, Sequence[Segment]]


@dataclass(frozen=True, slots=True)
class LogSliceSizes:
    rows: int = 4_000_000
    """About as many rows are read for one part."""
    at_least: int = 400_000
    """Not worth cutting for the sake of more workers."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Steps that are evaluated together."""

    number: int
    """Of the stretch of time they lie in, the same in every query with this step: it chooses the worker."""
    steps: LogSteps


def cut_log_steps(
    steps: LogSteps, loads: Sequence[Load], workers: int, sizes: LogSliceSizes
) -> list[LogPart]:
    """Runs of steps, in order; not narrower than the widest window, whose rows would be read repeatedly."""
    rows = sum(_rows(read, segments) for read, segments in loads)
    parts = max(1, -(-rows // sizes.rows))
    if rows > sizes.at_least:
        parts = max(parts, workers)
    if steps.count == 1 or parts == 1:
        return [LogPart(0, steps)]
    span = steps.end_ns - steps.start_ns
    width = max((read.to_ns - read.from_ns for read, _ in loads), default=0)
    window = max(1, width - span)
    parts = max(1, min(parts, steps.count, max(workers if rows > sizes.at_least else 1, span // window)))
    plain = Steps(steps.start_ns, steps.step_ns, steps.count)
    return [
        LogPart(part.number, LogSteps(part.steps.start_ms, part.steps.step_ms, part.steps.count))
        for part in steady_parts(plain, parts)
    ]


def needed(reads: Sequence[LogReads], segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Those that overlap any of the stretches."""
    return tuple(
        segment
        for segment in segments
        if any(segment.min_ns <= read.to_ns and segment.max_ns > read.from_ns for read in reads)
    )


def _rows(read: LogReads, segments: Sequence[Segment]) -> int:
    total = 0.0
    for segment in segments:
        low, high = max(segment.min_ns, read.from_ns), min(segment.max_ns, read.to_ns)
        share = (high - low + 1) / (segment.max_ns - segment.min_ns + 1)
        total += segment.rows * min(1.0, max(0.0, share))
    return int(total)
