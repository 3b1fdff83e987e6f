"""Log segments are sorted by slot, service and template; this module orders rows and cuts row groups.

The whole key is 5-minute slot, service, fingerprint, time and row id: lines of one template lie together,
which is what makes them small, and a short time range of a service touches few row groups. The sort is a
least-significant-digit radix sort over small integers, several times faster than a comparison sort of six
columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.segments.segment_kernels import is_ordered, radix_sorted
from resources.arrays import Int64s
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION, CHQ_STREAM_ID, CHQ_TSNS
from resources.lake.timecut import MINUTE_NS, cut

SLOT_NS = 5 * MINUTE_NS
MAX_GROUP_ROWS = 250_000
MAX_GROUP_BYTES = 128 << 20
SMALL_SEGMENT_ROWS = 50_000
"""Rows below which one row group holds all slots: reading it whole is cheaper than its footers."""
SPAN_GROUP_ROWS = 16_384
"""Most spans of a row group of a new segment: a trace by id reads all columns of one (5 ms instead of 31 ms
for 100,000 rows, for 4 % more bytes)."""
MERGED_SPAN_GROUP_ROWS = 65_536
"""The same of a merged segment, which may have 20 million: some 7 kB of the footer for each row group."""
ROWS_PER_COLUMN = 1000
"""Fewest rows per column of a row group of some services: a column takes 100 to 150 bytes of the footer."""
_FRONT = (CHQ_TSNS, CHQ_STREAM_ID, CHQ_OBJECT, CHQ_POSITION, "log_level", "detected_level", "log_message")
"""Columns of nearly every query, in one range."""


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


def columns_in_order(names: Iterable[str]) -> list[str]:
    """Sort the column names of a log segment as in a file; the rest stays as it came."""
    rank = {name: place for place, name in enumerate(_FRONT)}
    return sorted(names, key=lambda name: rank.get(name, len(rank)))


def fewest_rows(columns: int) -> int:
    """Return the number of rows from which on a row group may end between two services of a slot."""
    return max(SMALL_SEGMENT_ROWS, ROWS_PER_COLUMN * columns)


def service_cut(borders: Int64s, end: int, fewest: int) -> int | None:
    """Choose the first of `borders` with `fewest` rows before it, and behind it up to `end`.

    >>> service_cut(np.array([30, 70, 90]), 200, 50), service_cut(np.array([30, 70]), 100, 50)
    (70, None)
    """
    far = borders[(borders >= fewest) & (borders < end)]
    return int(far[0]) if len(far) and end - far[0] >= fewest else None


def row_groups(times: Int64s, services: Int64s, bytes_per_row: float, columns: int) -> list[tuple[int, int]]:
    """Return (first, behind) of each row group over rows in segment order."""
    count = len(times)
    limit = most_rows(bytes_per_row)
    if count < SMALL_SEGMENT_ROWS:
        borders: Sequence[int] = [0, count]
    else:
        borders = _slots_and_services(cut(times, SLOT_NS), services, fewest_rows(columns))
    groups: list[tuple[int, int]] = []
    for start, end in pairwise(borders):
        pieces = max(1, -(-(end - start) // limit))
        cuts = [start + (end - start) * piece // pieces for piece in range(pieces + 1)]
        groups += pairwise(cuts)
    return groups


def _slots_and_services(slots: Int64s, services: Int64s, fewest: int) -> list[int]:
    """List the first row of each slot, of services in between, and the row behind the last."""
    is_slot = np.flatnonzero(slots[1:] != slots[:-1]) + 1
    is_service = np.flatnonzero((services[1:] != services[:-1]) | (slots[1:] != slots[:-1])) + 1
    borders = [0]
    for end in [*is_slot.tolist(), len(slots)]:
        while (found := service_cut(is_service - borders[-1], end - borders[-1], fewest)) is not None:
            borders.append(borders[-1] + found)
        borders.append(end)
    return borders
