"""Where row groups end, while rows still come: the rules of the ordinary writers, as far as can be seen.

They know how many rows are to come and cut a slot into pieces of one size. Here full groups are taken off the
front and the rest of a slot is its last group.
"""
# ruff: noqa: ARG001  all cutters are asked the same way

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lakerunner_assets.segments.merge.request import MergeKind
from lakerunner_assets.segments.merge.rounds import Rows
from lakerunner_assets.segments.order import SLOT_NS, SMALL_SEGMENT_ROWS
from resources.lake.timecut import cut

Cutter = Callable[[Sequence[Rows], int, bool, bool], int]
"""How many of the pending rows are the next row group, 0: wait. Given the most that one may have, whether the
file has a group already, and whether these are the last rows."""


def log_cut(pending: Sequence[Rows], most: int, has_groups: bool, is_end: bool) -> int:
    """Slots are not mixed, but for a file that is small as a whole."""
    total = sum(map(len, pending))
    if not has_groups and total < SMALL_SEGMENT_ROWS:
        return min(total, most) if is_end or total > most else 0
    return _cut(pending, most, is_end, _slots, whole=False)


def span_cut(pending: Sequence[Rows], most: int, has_groups: bool, is_end: bool) -> int:
    """Full groups; what is left at the end is dealt evenly."""
    total = sum(map(len, pending))
    if is_end:
        return -(-total // -(-total // most)) if total else 0
    return most if total > most + most // 4 else 0


def series_cut(pending: Sequence[Rows], most: int, has_groups: bool, is_end: bool) -> int:
    """As many whole series as fit, a longer series in pieces."""
    return _cut(pending, most, is_end, _series, whole=True)


CUTTERS: dict[MergeKind, Cutter] = {
    MergeKind.LOGS: log_cut,
    MergeKind.TRACES: span_cut,
    MergeKind.SAMPLES: series_cut,
    MergeKind.ROLLUP: series_cut,
}


def _cut(
    pending: Sequence[Rows], most: int, is_end: bool, of_row: Callable[[Rows], np.ndarray], *, whole: bool
) -> int:
    """`whole`: several slots or series share a group, else each has its own."""
    total = sum(map(len, pending))
    borders = _borders([of_row(rows) for rows in pending])
    if whole:
        if total <= most:
            return total if is_end else 0
        inside = borders[(borders > 0) & (borders <= most)]
        return int(inside[-1]) if len(inside) else most
    end = int(borders[1]) if len(borders) > 1 else total
    if end > most:
        return most
    return end if len(borders) > 1 or is_end else 0


def _borders(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Rows at which another value begins, the first row too."""
    found: list[np.ndarray] = []
    row = 0
    for place, values in enumerate(parts):
        changes = np.flatnonzero(values[1:] != values[:-1]) + 1
        if place == 0 or values[0] != parts[place - 1][-1]:
            changes = np.concatenate(([0], changes))
        found.append(changes + row)
        row += len(values)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _slots(rows: Rows) -> np.ndarray:
    return cut(rows.times, SLOT_NS)


def _series(rows: Rows) -> np.ndarray:
    return rows.codes
