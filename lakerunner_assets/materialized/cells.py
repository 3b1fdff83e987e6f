"""Observations are counted by labels and bucket of ten seconds.

    service  span_name  start     took            service  span_name  end       count  took
    web      GET /      12:00:01  30 ms           web      GET /      12:00:10      2  30, 50 ms
    web      GET /      12:00:10  50 ms           web      GET /      12:00:20      1  20 ms
    web      GET /      12:00:11  20 ms

Durations stay whole nanoseconds until they are written, so that sums do not depend on the order in which
slices are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from lakerunner_assets.materialized.spans import NONE, Words
from resources.arrays import Doubles, Flags, Int64s
from resources.lake.timecut import SECOND_NS, cut

BUCKET_NS = 10 * SECOND_NS
NS_PER_MS = 1_000_000
BOUNDS = (
    0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.02, 2.05, 4.1, 8.2, 16.4,
)  # fmt: skip
"""Upper bounds of the buckets of durations, in seconds: Tempo's, and two beyond."""
_BOUNDS_NS = np.rint(np.array(BOUNDS) * SECOND_NS).astype(np.int64)
_MOST_CODES = 2**62


@dataclass(frozen=True, slots=True)
class Observations:
    """Spans or edges, one row each."""

    keys: Int64s
    """Codes of the label values, one column per label."""
    start_ns: Int64s
    failed: Flags
    size: Doubles
    durations: tuple[Int64s, ...]
    """Durations that are measured, ns; `NONE` where there is none."""
    trace: Words
    span: Words


@dataclass(frozen=True, slots=True)
class Durations:
    """One measured duration by cell."""

    buckets: Int64s
    """Counts of each cell and bucket, overflow included."""
    sum_ns: Int64s
    worst_ns: Int64s
    """Longest duration, `NONE` in a cell without any; what follows is its exemplar."""
    worst_at_ns: Int64s
    worst_trace: Words
    worst_span: Words

    def take(self, rows: Int64s) -> Durations:
        return Durations(*(getattr(self, name)[rows] for name in Durations.__slots__))


@dataclass(frozen=True, slots=True)
class Cells:
    """Counts by labels and bucket, sorted by both."""

    keys: Int64s
    """Codes of the label values, and the end of the bucket in ms."""
    count: Int64s
    failed: Int64s
    size: Doubles
    durations: tuple[Durations, ...]

    def __len__(self) -> int:
        return len(self.count)


def cells_of(seen: Observations) -> Cells:
    """Count one slice."""
    ends_ms = (cut(seen.start_ns, BUCKET_NS) + BUCKET_NS) // NS_PER_MS
    keys = np.column_stack([seen.keys, ends_ms])
    cell, order, starts = _group(keys)
    count = np.diff(np.append(starts, len(keys)))
    return Cells(
        keys[order[starts]],
        count,
        np.bincount(cell[seen.failed], minlength=len(starts)),
        np.bincount(cell, weights=seen.size, minlength=len(starts)).astype(np.float64),
        tuple(_durations(each, cell, len(starts), seen) for each in seen.durations),
    )


def merge_cells(parts: Sequence[Cells]) -> Cells:
    """Add up the cells of several slices."""
    keys = np.concatenate([part.keys for part in parts])
    cell, order, starts = _group(keys)
    kinds = len(parts[0].durations)
    return Cells(
        keys[order[starts]],
        _sums(np.concatenate([p.count for p in parts]), order, starts),
        _sums(np.concatenate([p.failed for p in parts]), order, starts),
        np.add.reduceat(np.concatenate([p.size for p in parts])[order], starts),
        tuple(_merged([p.durations[n] for p in parts], cell, order, starts) for n in range(kinds)),
    )


def _group(keys: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the cell of each row, the rows in order of cells, and where each cell begins in that order."""
    code = reduce(
        _combined, (keys[:, place] for place in range(keys.shape[1])), np.zeros(len(keys), np.int64)
    )
    order = np.argsort(code, kind="stable")
    ordered = code[order]
    begins = np.concatenate(([True], ordered[1:] != ordered[:-1])) if len(order) else np.zeros(0, np.bool_)
    cell = np.empty(len(order), np.int64)
    cell[order] = np.cumsum(begins) - 1
    return cell, order, np.flatnonzero(begins)


def _combined(code: Int64s, column: Int64s) -> Int64s:
    """Return a code of both that orders like the pair."""
    values, place = np.unique(column, return_inverse=True)
    if len(code) and int(code.max() + 1) * len(values) >= _MOST_CODES:
        code = np.unique(code, return_inverse=True)[1]
    return code * len(values) + place


def _durations(ns: Int64s, cell: Int64s, cells: int, seen: Observations) -> Durations:
    there = np.flatnonzero(ns != NONE)
    ns, cell = ns[there], cell[there]
    width = len(BOUNDS) + 1
    bucket = np.searchsorted(_BOUNDS_NS, ns, side="left")
    buckets = np.bincount(cell * width + bucket, minlength=cells * width).reshape(cells, width)
    sums = np.zeros(cells, np.int64)
    worst, row = np.full(cells, NONE), np.zeros(cells, np.int64)
    order = np.lexsort((ns, cell))
    if len(order):
        begins = np.flatnonzero(np.concatenate(([True], np.diff(cell[order]) != 0)))
        present = cell[order[begins]]
        sums[present] = np.add.reduceat(ns[order], begins)
        last = order[np.append(begins[1:], len(order)) - 1]
        worst[present], row[present] = ns[last], there[last]
    if not len(seen.start_ns):
        return Durations(buckets, sums, worst, row, seen.trace, seen.span)
    return Durations(buckets, sums, worst, seen.start_ns[row], seen.trace[row], seen.span[row])


def _merged(parts: Sequence[Durations], cell: Int64s, order: Int64s, starts: Int64s) -> Durations:
    whole = Durations(*(np.concatenate([getattr(p, name) for p in parts]) for name in Durations.__slots__))
    longest = np.lexsort((whole.worst_ns, cell))[np.append(starts[1:], len(order)) - 1]
    worst = whole.take(longest)
    return Durations(
        np.add.reduceat(whole.buckets[order], starts, axis=0),
        _sums(whole.sum_ns, order, starts),
        worst.worst_ns,
        worst.worst_at_ns,
        worst.worst_trace,
        worst.worst_span,
    )


def _sums(values: Int64s, order: Int64s, starts: Int64s) -> Int64s:
    found: Int64s = np.add.reduceat(values[order], starts)
    return found
