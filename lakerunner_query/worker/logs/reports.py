"""What it took to answer: segments opened and pruned, row groups that were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lakerunner_query.protocol.units import Missing, UnitReport
from lakerunner_query.worker.logs.windows import Window, wanted_groups
from lakerunner_query.worker.opening import OpenedSet


@dataclass(slots=True)
class Read:
    """What was scanned, by segment: from when to when."""

    by_segment: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, window: Window) -> None:
        for one in window.files:
            self.by_segment.setdefault(one.segment.segment_id, []).append((window.start_ns, window.end_ns))


def report(
    files: OpenedSet, read: Read, start_ns: int, end_ns: int, *, truncated: bool = False
) -> UnitReport:
    """Rows and bytes are those of row groups that were read."""
    groups_read = rows = size = 0
    for one in files.opened:
        wanted = np.zeros(len(one.footer.groups.min_ns), np.bool_)
        for first, behind in read.by_segment.get(one.segment.segment_id, ()):
            wanted |= wanted_groups(one, max(first, start_ns), min(behind, end_ns))
        own = int(np.diff(one.footer.groups.first)[wanted].sum())
        groups_read += int(wanted.sum())
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
        bytes_fetched=sum(one.fetched for one in files.opened),
        truncated=truncated,
    )


def reports_together(
    reports: Sequence[UnitReport], missing: tuple[Missing, ...] = (), *, truncated: bool = False
) -> UnitReport:
    """One after the other; a segment that is missing several times is one."""
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
        truncated=truncated,
    )
