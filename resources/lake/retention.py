"""Retention is a number of days per organisation, signal and tier; this is its arithmetic.

What is older than `keep_days` is not taken in any more; what ended two hours before that is let go. The two
hours between are for work that was planned just before: it may still publish into the oldest hour.

    now 2026-03-10T12:30, 9 days   →   rows up to 2026-03-01T12:00 are too old
                                       windows that ended by 2026-03-01T10:30 go
"""

from __future__ import annotations

from resources.lake.frequency import AS_SENT, ROLLUPS
from resources.lake.timecut import DAY_NS, HOUR_NS, cut

RAW = "raw"
SEGMENTS = "segments"
FREQUENCIES: dict[str, int] = {SEGMENTS: AS_SENT, **{r.label: r.frequency_ms for r in ROLLUPS}}
"""Tiers that are segments, by name. Cardinality goes with the tier of its frequency."""
TIERS = (RAW, *FREQUENCIES)
SLACK_NS = 2 * HOUR_NS
NOTICE_S = 7200.0
"""Age from which a retention deletes: cooking that began without it is over by then,
and a slip of the finger can be put right."""


def ended_by_ns(keep_days: int, now_ns: int) -> int:
    """Return the time at or before which windows must have ended to be deleted."""
    return now_ns - keep_days * DAY_NS - SLACK_NS


def too_old_ns(keep_days: int, now_ns: int) -> int:
    """Return the start of an hour at or before which rows are refused."""
    return cut(now_ns - keep_days * DAY_NS + 1, HOUR_NS)
