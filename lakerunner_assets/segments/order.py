"""Log segments are sorted by slot, service and template; this module orders rows and cuts row groups.

The whole key is 5-minute slot, service, fingerprint, time and row id: lines of one template lie together,
which is what makes them small, and a short time range touches few row groups. The sort is a
least-significant-digit radix sort over small integers, five times as fast as `numpy.lexsort`.

Rows are sorted by 5-minute slot, service, fingerprint, time and row id: lines of one template lie
together, which is what makes them small, and a short time range touches few row groups. The sort is a
least-significant-digit radix sort over small integers, several times faster than a comparison sort of six
columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.segments.segment_kernels import is_ordered, radix_sorted
from resources.arrays import Int64s
from resources.lake.timecut import MINUTE_NS, cut

SLOT_NS = 5 * MINUTE_NS
MAX_GROUP_ROWS = 250_000
MAX_GROUP_BYTES = 128 << 20
SMALL_SEGMENT_ROWS = 50_000
"""Rows below which one row group holds all slots: reading it whole is cheaper than its footers."""


def row_order(
    times: Int64s, service_rank: Int64s, fingerprint: Int64s, object_id: Int64s, position: Int64s
) -> npt.NDArray[np.int64]:
    """Return row numbers in segment order."""
    keys = [times, ranks(fingerprint), service_rank, cut(times, SLOT_NS)]
    if not is_ordered(object_id, position):  # rows usually come in this order, and the sort is stable
        keys = [position, object_id, *keys]
    order = np.arange(len(times))
    for key in keys:
        order = radix_sorted(order, key.view(np.uint64) - key.min().view(np.uint64))
    return order


def ranks(values: Int64s) -> Int64s:
    """Replace each value by its rank among the distinct values: fewer digits to sort by."""
    coded = pa.array(values).dictionary_encode()
    distinct = coded.dictionary.to_numpy()
    place = np.empty(len(distinct), np.int64)
    place[np.argsort(distinct)] = np.arange(len(distinct))
    return place[coded.indices.to_numpy()] if len(values) else values


def most_rows(bytes_per_row: float, most_bytes: int = MAX_GROUP_BYTES) -> int:
    """Return the greatest number of rows of a row group."""
    return max(1, min(MAX_GROUP_ROWS, int(most_bytes / max(bytes_per_row, 1))))


def row_groups(times: Int64s, bytes_per_row: float) -> list[tuple[int, int]]:
    """Return (first, behind) of each row group over rows in segment order."""
    count = len(times)
    limit = most_rows(bytes_per_row)
    if count < SMALL_SEGMENT_ROWS:
        borders: Sequence[int] = [0, count]
    else:
        slots = cut(times, SLOT_NS)
        borders = [0, *(np.flatnonzero(slots[1:] != slots[:-1]) + 1).tolist(), count]
    groups: list[tuple[int, int]] = []
    for start, end in pairwise(borders):
        pieces = max(1, -(-(end - start) // limit))
        cuts = [start + (end - start) * piece // pieces for piece in range(pieces + 1)]
        groups += pairwise(cuts)
    return groups
