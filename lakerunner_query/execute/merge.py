"""Joining unit answers: concatenation, and a stop.

Units are disjoint in time and arrive in answering order, each already ordered by (time, stream labels,
row id), so the first `limit` rows of the concatenation are exactly the first `limit` rows of the query.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from lakerunner_query.protocol.units import Missing, UnitReport

COUNTS = (
    "segments_opened", "segments_skipped", "segments_without_words", "row_groups", "row_groups_read",
    "rows_considered", "bytes_considered", "bytes_fetched",
)  # fmt: skip


@dataclass(slots=True)
class Collected:
    """What a running query has so far."""

    limit: int
    rows: int = 0
    units: int = 0
    missing: dict[str, Missing] = field(default_factory=dict)
    segments_opened: int = 0
    segments_skipped: int = 0
    segments_without_words: int = 0
    row_groups: int = 0
    row_groups_read: int = 0
    rows_considered: int = 0
    bytes_considered: int = 0
    bytes_fetched: int = 0

    @property
    def full(self) -> bool:
        """True when no unread unit can contribute a row any more."""
        return self.rows >= self.limit

    def add(self, block: pa.Table, report: UnitReport) -> pa.Table:
        """Count one unit's answer; returns the rows that still fit."""
        kept = block.slice(0, max(0, self.limit - self.rows))
        self.rows += kept.num_rows
        self.units += 1
        self.missing.update((lost.segment_id, lost) for lost in report.missing)
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(report, name))
        return kept
