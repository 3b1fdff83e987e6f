"""A run claims as many batches as fit together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def within_bytes(batches: Sequence[tuple[int, int]], max_bytes: int) -> list[int]:
    """Return the first batches that fit together, and at least one however large it is."""
    totals = accumulate(size for _, size in batches)
    fitting = [batch_id for (batch_id, _), total in zip(batches, totals, strict=True) if total <= max_bytes]
    return fitting or [batch_id for batch_id, _ in batches[:1]]
