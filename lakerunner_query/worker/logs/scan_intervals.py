"""A scan goes through time intervals that share no row group: the first ones small, later ones larger.

    row groups   [0 5] [1 4]   [6 9]   [12 15]          newest first:  [12, …)  [6, 12)  […, 6)

A query for the last hundred lines reads the newest row groups and stops; no row group is read twice. The
report of a unit says which were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from lakerunner_query.protocol.units import Missing, UnitReport
from lakerunner_query.worker.logs.segment_opener import OpenSegment, OpenSegments
from lakerunner_query.worker.shared.segment_file import Range
from resources.arrays import Int64s

FEWEST_ROWS = 1000
SPARE = 1.25
"""Rows that are read, for each that is expected to be needed."""
MOST_GROWTH = 16.0
"""An interval has at most so many times the rows of all before it."""
COMMON_BYTES = 512
"""Bytes of a common row; a longer one counts as several."""


@dataclass(frozen=True, slots=True)
class IntervalSizes:
    """Rows of an interval, and how much of that the first ones have."""

    rows: int = 2_000_000
    first: float = 1 / 64
    growth: float = 4.0


@dataclass(slots=True)
class Pace:
    """Sizes of intervals, one after the other: as many rows as those before promise to be enough.

    >>> pace = Pace(IntervalSizes(), limit=100)
    >>> pace.next_rows(), pace.next_rows()
    (31250, 125000)
    >>> pace.note(31_250, 50); pace.next_rows()
    39062
    >>> pace.note(31_250, 0); pace.next_rows()
    78125
    """

    sizes: IntervalSizes
    limit: int = 0
    """Lines that are wanted."""
    _last: int = 0
    _rows: int = 0
    """Rows of the intervals that were scanned, and the lines found in them."""
    _found: int = 0

    def note(self, rows: int, found: int) -> None:
        """Take in how many lines an interval had."""
        self._rows, self._found = self._rows + rows, self._found + found

    def next_rows(self) -> int:
        """Return the rows of the next interval; four times the last one while nothing is known."""
        if self._rows:
            needed = SPARE * self._rows * max(1, self.limit - self._found) / max(self._found, 0.5)
            wanted = min(max(needed, self._rows), MOST_GROWTH * self._rows)
        else:
            wanted = self._last * self.sizes.growth or self.sizes.rows * self.sizes.first
        self._last = min(self.sizes.rows, int(wanted))
        return self._last


@dataclass(frozen=True, slots=True)
class ScanInterval:
    """`[start_ns, end_ns)` and the files that may have rows in it."""

    start_ns: int
    end_ns: int
    files: tuple[OpenSegment, ...]
    rows: int = 0
    """Rows of its row groups; long ones count as several. Only `scan_intervals` counts them."""


Wanted = list[tuple[OpenSegment, list[Range]]]
"""Ranges to read, by file."""


def chunks_to_read(
    files: Iterable[OpenSegment], columns: Iterable[str], start_ns: int, end_ns: int
) -> Wanted:
    """Return where these columns of matching row groups lie, in files that are not on this disk."""
    names = list(columns)
    return [
        (one, list(one.footer.chunk_ranges(names, one.matching_groups(start_ns, end_ns))))
        for one in files
        if not one.is_local
    ]


def fetch(wanted: Wanted) -> None:
    """Request all ranges of all files at the same time, and wait until they are here."""
    fetch_ahead(wanted)
    for one, ranges in wanted:
        one.fetch(ranges)


def fetch_ahead(wanted: Wanted) -> None:
    for one, ranges in wanted:
        one.fetch_ahead(ranges)


def scan_intervals(
    opened: Sequence[OpenSegment], start_ns: int, end_ns: int, pace: Pace, *, reverse: bool
) -> Iterator[ScanInterval]:
    """Yield intervals that cover all matching row groups."""
    low, high, rows = _extents(opened, start_ns, end_ns)
    clusters = list(_clusters(low, high, rows))
    load, begin, target = 0, None, pace.next_rows()
    for lo, hi, size in reversed(clusters) if reverse else clusters:
        load += size
        if begin is None:
            begin = hi if reverse else lo
        if load >= target:
            yield _interval(opened, *((lo, begin) if reverse else (begin, hi)), load)
            load, begin, target = 0, None, pace.next_rows()
    if begin is not None:
        first, last = clusters[0], clusters[-1]
        yield _interval(opened, *((first[0], begin) if reverse else (begin, last[1])), load)


def with_next(
    intervals: Iterable[ScanInterval],
) -> Iterator[tuple[ScanInterval, ScanInterval | None]]:
    """Yield each interval with the one behind it, None for the last and where all files are on this disk."""
    before: ScanInterval | None = None
    for interval in intervals:
        if before is not None:
            yield before, interval
        before = interval
        if all(one.is_local for one in interval.files):
            yield interval, None
            before = None
    if before is not None:
        yield before, None


def rows_in_bytes(group: Sequence[OpenSegment], size: int, most: int) -> int:
    """Return how many rows are about `size` bytes, estimated from the whole files."""
    rows = sum(one.footer.rows for one in group)
    plain = sum(int(one.footer.groups.bytes.sum()) for one in group)
    return max(FEWEST_ROWS, min(most, size * rows // max(1, plain)))


def _extents(opened: Sequence[OpenSegment], start_ns: int, end_ns: int) -> tuple[Int64s, Int64s, Int64s]:
    """Return begin, end and rows of all matching row groups within the range."""
    low, high, rows = [], [], []
    for one in opened:
        matching, groups = one.matching_groups(start_ns, end_ns), one.footer.groups
        low.append(np.maximum(groups.min_ns[matching], start_ns))
        high.append(np.minimum(groups.max_ns[matching], end_ns - 1) + 1)
        rows.append(np.maximum(np.diff(groups.first), groups.bytes // COMMON_BYTES)[matching])
    if not low:
        return (np.zeros(0, np.int64),) * 3
    return np.concatenate(low), np.concatenate(high), np.concatenate(rows)


def _clusters(low: Int64s, high: Int64s, rows: Int64s) -> Iterator[tuple[int, int, int]]:
    """Yield overlapping row groups as one interval, in order of time."""
    order = np.argsort(low, kind="stable")
    current: tuple[int, int, int] | None = None
    for lo, hi, size in zip(low[order].tolist(), high[order].tolist(), rows[order].tolist(), strict=True):
        if current is not None and lo < current[1]:
            current = current[0], max(current[1], hi), current[2] + size
            continue
        if current is not None:
            yield current
        current = lo, hi, size
    if current is not None:
        yield current


def _interval(opened: Sequence[OpenSegment], start_ns: int, end_ns: int, rows: int) -> ScanInterval:
    files = (one for one in opened if one.matching_groups(start_ns, end_ns).any())
    return ScanInterval(start_ns, end_ns, tuple(files), rows)


@dataclass(slots=True)
class ScannedIntervals:
    """Intervals that were scanned, by segment."""

    by_segment: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, interval: ScanInterval) -> None:
        for one in interval.files:
            self.by_segment.setdefault(one.segment.segment_id, []).append(
                (interval.start_ns, interval.end_ns)
            )


def unit_report(
    files: OpenSegments, scanned: ScannedIntervals, start_ns: int, end_ns: int, *, truncated: bool = False
) -> UnitReport:
    """Report segments opened and pruned; rows and bytes are those of row groups that were read."""
    groups_read = rows = size = 0
    for one in files.opened:
        matching = np.zeros(len(one.footer.groups.min_ns), np.bool_)
        for first, behind in scanned.by_segment.get(one.segment.segment_id, ()):
            matching |= one.matching_groups(max(first, start_ns), min(behind, end_ns))
        own = int(np.diff(one.footer.groups.first)[matching].sum())
        groups_read += int(matching.sum())
        rows += own
        size += one.segment.bytes * own // max(1, one.footer.rows)
    return UnitReport(
        missing=tuple(files.missing),
        segments_opened=len(files.opened),
        segments_skipped=files.skipped,
        segments_without_words=files.without_words,
        row_groups=sum(len(one.footer.groups.min_ns) for one in files.opened),
        row_groups_read=groups_read,
        rows_considered=rows,
        bytes_considered=size,
        bytes_fetched=files.meter.bytes,
        requests=files.meter.requests,
        truncated=truncated,
    )


def merge_reports(
    reports: Sequence[UnitReport], missing: tuple[Missing, ...] = (), *, truncated: bool = False
) -> UnitReport:
    """Add up reports; a segment that is missing several times counts once."""
    lost = {one.segment_id: one for each in reports for one in each.missing}
    lost.update((one.segment_id, one) for one in missing)
    return UnitReport(
        missing=tuple(lost.values()),
        segments_opened=sum(one.segments_opened for one in reports),
        segments_skipped=sum(one.segments_skipped for one in reports),
        segments_without_words=sum(one.segments_without_words for one in reports),
        row_groups=sum(one.row_groups for one in reports),
        row_groups_read=sum(one.row_groups_read for one in reports),
        rows_considered=sum(one.rows_considered for one in reports),
        bytes_considered=sum(one.bytes_considered for one in reports),
        bytes_fetched=sum(one.bytes_fetched for one in reports),
        requests=sum(one.requests for one in reports),
        truncated=truncated,
    )
