"""Partial aggregates of each commit are merged into the state of undecided traces.

    commit 7: t1 2 spans, error       commit 8: t1 1 span, t2 4 spans       →  t1 3 spans, error; t2 4 spans

The state is a cache: reading the same files again gives the same state. Its watermark, never a clock, says
when a trace is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from lakerunner_sampling.policies.decide import PolicySet
from lakerunner_sampling.shapes import SpanShape


@dataclass(frozen=True, slots=True)
class StateLimits:
    """Bounds of the state, and when a trace is complete."""

    scratch: Path
    inactivity_ns: int = 300 * 10**9
    max_duration_ns: int = 3600 * 10**9
    max_spans: int = 1_000_000
    """Spans after which a trace is decided."""
    memory_mb: int = 128
    threads: int = 2
    readable: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """Files of one commit of the table, in its order."""

    seq: int
    files: Sequence[str]
    schema: pa.Schema


class TraceState(Protocol):
    """State of undecided traces (constructor: `TraceState(policies: PolicySet, shape: SpanShape, limits)`)."""

    policies: PolicySet
    shape: SpanShape

    def add(self, commit: Commit) -> int | None:
        """Add a commit's spans; return the greatest end of a span, in ns."""

    def ready(self, watermark_ns: int) -> pa.Table:
        """Return the aggregates of complete traces."""

    def early(self) -> pa.Table:
        """Return aggregates of traces of the last commit that an early policy may keep."""

    def evict(self, trace_ids: pa.Array) -> None:
        """Forget decided traces."""

    def rebuild(self, commits: Iterable[Commit]) -> None:
        """Replace the state by that of these commits."""
