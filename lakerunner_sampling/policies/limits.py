"""Limits cut a batch by randomness, so that counts can be scaled back.

    budget 10: costs 4 4 4 by falling randomness  →  the first two; threshold just above the third's

The bucket is the collector's: it fills with the watermark, and holds at most `burst` between batches. A trace
above the burst never fits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakerunner_sampling.policies.hashing import ALWAYS, NEVER
from resources.arrays import Flags, Int64s

SECOND = 10**9


@dataclass(frozen=True, slots=True)
class Cut:
    """Threshold of one batch, and what it spends."""

    threshold: int
    spent: int


def cut(randomness: Int64s, cost: Int64s, candidates: Flags, budget: int) -> Cut:
    """Keep the candidates of greatest randomness that fit into the budget together.

    >>> r, c = np.array([30, 20, 10]), np.array([4, 4, 4])
    >>> cut(r, c, np.ones(3, np.bool_), 10)
    Cut(threshold=11, spent=8)
    """
    rows = np.flatnonzero(candidates)
    rows = rows[np.argsort(-randomness[rows], kind="stable")]
    total = np.cumsum(cost[rows])
    kept = int(np.searchsorted(total, budget, side="right"))
    if kept == len(rows):
        return Cut(ALWAYS, int(total[-1]) if kept else 0)
    rejected = randomness[rows[kept]]
    kept = int(np.searchsorted(-randomness[rows], -rejected, side="left"))  # those that tie go too
    if kept == 0:
        return Cut(NEVER, 0)
    return Cut(int(rejected) + 1, int(total[kept - 1]))


def budget_of(tokens: float | None, per_second: int, burst: int, elapsed_s: float) -> float:
    """Return what a bucket may spend now; it begins full."""
    return float(burst) if tokens is None else tokens + per_second * elapsed_s


def elapsed_s(at_ns: int | None, now_ns: int) -> float:
    """Return the time since the last decision; watermarks never go back."""
    return 0.0 if at_ns is None else max(0, now_ns - at_ns) / SECOND
