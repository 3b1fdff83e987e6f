"""Spans of several segments are ordered by trace, then as they were sent; each counts once.

    segment 1     a: 2 1    c: 4          a: 1 2 3    b: 5    c: 4          (places in which they were sent)
    segment 2     a: 3 1    b: 5

Rows of a segment come sorted by trace id and start. So only runs of a trace are compared by id, and twins are
looked for only where a trace is in several segments, or has several spans of one start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from resources.arrays import Flags, Int8s, Int64s, UInt64s

LARGEST_KEY = 2**62


@dataclass(frozen=True, slots=True)
class SpanKeys:
    """Keys tell spans apart and order them, by row."""

    high: UInt64s
    low: UInt64s
    """Halves of the trace id."""
    spans: UInt64s
    """Span ids; 0: none."""
    starts: Int64s
    kinds: Int8s
    objects: Int64s
    positions: Int64s
    """The order in which they were sent is that of objects, then positions."""


def order_of(keys: SpanKeys, *, is_any: bool = False) -> Int64s:
    """Return the rows that count, in order.

    If any order will do they stay as they are, unless a trace is in several runs of rows.
    """
    trace, is_shared = _traces(keys)
    is_kept = _first_of_twins(keys, trace, is_shared)
    if is_any and is_kept is None and not is_shared.any():
        return np.arange(len(trace))
    kept: Int64s = np.arange(len(trace)) if is_kept is None else np.flatnonzero(is_kept)
    return kept[_sent_order(trace[kept], keys.objects[kept], keys.positions[kept])]


def _traces(keys: SpanKeys) -> tuple[Int64s, Flags]:
    """Number the traces by id; return that of each row, and which are in several runs of rows."""
    first = np.flatnonzero(_changes(keys.high, keys.low))
    high, low = keys.high[first], keys.low[first]
    by_id = np.lexsort((low, high))
    is_new = _changes(high[by_id], low[by_id])
    numbers = np.empty(len(first), np.int64)
    numbers[by_id] = np.cumsum(is_new) - 1
    trace = np.repeat(numbers, np.diff(np.append(first, len(keys.high))))
    return trace, np.bincount(numbers) > 1


def _changes(*columns: UInt64s) -> Flags:
    found: Flags = np.zeros(len(columns[0]), np.bool_)
    found[:1] = True
    for column in columns:
        found[1:] |= column[1:] != column[:-1]
    return found


def _first_of_twins(keys: SpanKeys, trace: Int64s, is_shared: Flags) -> Flags | None:
    """Flag the spans that count: of twins the one that was sent first. None: all do."""
    is_doubtful = is_shared.copy()
    # a run may go on in the next segment, where starts begin anew
    behind = np.flatnonzero((trace[1:] == trace[:-1]) & (keys.starts[1:] <= keys.starts[:-1]))
    is_doubtful[trace[behind]] = True
    rows = np.flatnonzero(is_doubtful[trace]) if is_doubtful.any() else np.zeros(0, np.int64)
    if not len(rows):
        return None
    columns = keys.kinds[rows], keys.spans[rows], keys.starts[rows], trace[rows]
    same = np.lexsort((keys.positions[rows], keys.objects[rows], *columns))
    is_new = np.zeros(len(rows), np.bool_)
    is_new[:1] = True
    for column in columns:
        is_new[1:] |= column[same[1:]] != column[same[:-1]]
    is_new |= keys.spans[rows][same] == 0  # without an id nothing tells them apart
    if is_new.all():
        return None
    kept: Flags = np.ones(len(trace), np.bool_)
    kept[rows[same[~is_new]]] = False
    return kept


def _sent_order(trace: Int64s, objects: Int64s, positions: Int64s) -> Int64s:
    """Sort by trace, object and position: by one number, if they fit into one."""
    if not len(trace):
        return trace
    widths = [int(one.max()) - int(one.min()) + 1 for one in (objects, positions)]
    if (int(trace.max()) + 1) * widths[0] * widths[1] > LARGEST_KEY:
        return np.lexsort((positions, objects, trace))
    key = (trace * widths[0] + (objects - objects.min())) * widths[1] + (positions - positions.min())
    if (key[1:] > key[:-1]).all():
        return np.arange(len(key))
    return np.argsort(key, kind="stable")
