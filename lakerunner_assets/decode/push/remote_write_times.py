"""Times of remote write: milliseconds as sent, as long as nanoseconds can say them too."""

from __future__ import annotations

from collections import Counter

import numpy as np

from lakerunner_assets.decode.otlp.owners import LAST_NS
from resources.arrays import Int64s

NS_PER_MS = 1_000_000
LAST_MS = LAST_NS // NS_PER_MS
FIRST_MS = -9_214_646_400_000
"""1678-01-01: the earliest whose hour also begins within 64 bits."""


def in_range(times: Int64s, notes: Counter[str]) -> Int64s:
    """Those beyond become the first or last instant that fits, for the quarantine."""
    for note, odd in (("time_after_2262", times > LAST_MS), ("time_before_1678", times < FIRST_MS)):
        if odd.any():
            notes[note] += int(odd.sum())
    return np.clip(times, FIRST_MS, LAST_MS)
