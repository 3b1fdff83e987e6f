"""The order of rows in a span segment, and where its row groups end.

Rows are sorted by trace id, start and row id, so that a trace is one run of rows and the statistics of a row
group, like those of its pages, name a narrow range of ids. Spans without a trace id come last. Trace ids are
ranked first and rows are then sorted by small integers, as logs are.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.segments.order import is_ordered, most_rows, radix_sorted
from resources.arrays import Int64s


def span_order(
    trace_id: pa.FixedSizeBinaryArray, start: Int64s, object_id: Int64s, position: Int64s
) -> npt.NDArray[np.int64]:
    """Row numbers in segment order."""
    keys = [start, trace_ranks(trace_id)]
    if not is_ordered(object_id, position):  # rows usually come in this order, and the sort is stable
        keys = [position, object_id, *keys]
    order = np.arange(len(start))
    for key in keys:
        order = radix_sorted(order, key.view(np.uint64) - key.min().view(np.uint64))
    return order


def trace_ranks(trace_id: pa.FixedSizeBinaryArray) -> Int64s:
    """Each trace's place among the ids here, compared as bytes; behind all of them without one.

    >>> trace_ranks(pa.array([b"b" * 16, None, b"a" * 16, b"b" * 16], pa.binary(16))).tolist()
    [1, 2, 0, 1]
    """
    coded = trace_id.dictionary_encode()
    ids = coded.dictionary
    raw = ids.buffers()[1] or b""
    halves = np.frombuffer(raw, ">u8")[2 * ids.offset : 2 * (ids.offset + len(ids))].astype(np.uint64)
    place = np.empty(len(ids) + 1, np.int64)
    place[np.lexsort((halves[1::2], halves[::2]))] = np.arange(len(ids))
    place[len(ids)] = len(ids)
    ranks: Int64s = place[coded.indices.fill_null(len(ids)).to_numpy()]
    return ranks


def span_groups(count: int, bytes_per_row: float) -> list[tuple[int, int]]:
    """(first, behind) of each row group, all of about the same size."""
    limit = most_rows(bytes_per_row)
    pieces = -(-count // limit)
    return list(pairwise(count * piece // pieces for piece in range(pieces + 1)))
