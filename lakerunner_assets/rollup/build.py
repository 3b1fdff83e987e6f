"""The rollup of a window is built from live segments: samples, or the rollup below it.

    10 s     12:00:10 … 12:01:00 … 13:00:00              1 m     12:01:00 … 13:00:00
             (6 rows per minute and series)      ->              (1 row per minute and series)

Sources may be wider than the window and may lie in it in any number; equal inputs give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakerunner_assets.rollup.buckets import NS_PER_MS, Cut, whole_buckets
from lakerunner_assets.rollup.coarser import roll_rollups
from lakerunner_assets.rollup.parts import Parts, PartsWriter, RollupSegment
from lakerunner_assets.rollup.samples import roll_samples
from lakerunner_assets.segments.merge.rounds import SortedSamples, sorted_rollups, sorted_samples
from lakerunner_assets.segments.written import SegmentIdentity
from resources.lake.columns import HIST_PREFIX, SUMMARY_PREFIX
from resources.lake.frequency import AS_SENT

__all__ = ["RollupRequest", "RollupSegment", "roll_up"]

_HISTOGRAMS = (HIST_PREFIX, SUMMARY_PREFIX)


@dataclass(frozen=True, slots=True)
class RollupRequest:
    sources: Sequence[Path]
    """Live segments: samples if `source_ms` is 0, else rollups of that width."""
    source_ms: int
    target_ms: int
    start_ns: int
    width_ns: int
    """Width of the window: only rows of `(start, start + width]` are used."""
    folder: Path
    """Folder of the segments, named `tbl_<segment id>.parquet`."""
    org: str
    collector: str
    dataset: str
    target_bytes: int
    """Size from which a segment ends, at the border of a row group."""
    memory_bytes: int
    """Budget for decoded rows."""
    name: Callable[[int], str]
    """Segment id of part n."""


def roll_up(request: RollupRequest) -> tuple[RollupSegment, ...]:
    """Build the segments of a window; none if no row of the sources lies in it."""
    cut = _cut(request)
    if not request.sources:
        return ()
    from_samples = request.source_ms == AS_SENT
    open_sources, roll = (sorted_samples, roll_samples) if from_samples else (sorted_rollups, roll_rollups)
    stream = open_sources(request.sources, request.memory_bytes // 4)
    with PartsWriter(_parts(request, stream)) as writer:
        for table, codes in whole_buckets(stream.chunks(), request.target_ms):
            writer.add(roll(table, codes, cut))
        return writer.finish()


def _cut(request: RollupRequest) -> Cut:
    """Check that buckets tile the window, and that source buckets tile those."""
    width = request.target_ms * NS_PER_MS
    if request.start_ns % width or request.width_ns % width or request.width_ns <= 0:
        raise ValueError(
            f"window of {request.width_ns} ns from {request.start_ns}: "
            f"expected multiples of {request.target_ms} ms"
        )
    if request.source_ms and request.target_ms % request.source_ms:
        raise ValueError(f"buckets of {request.target_ms} ms are no union of those of {request.source_ms} ms")
    start = request.start_ns // NS_PER_MS
    return Cut(start, start + request.width_ns // NS_PER_MS, request.target_ms)


def _parts(request: RollupRequest, stream: SortedSamples) -> Parts:
    def identity(part: int) -> SegmentIdentity:
        return SegmentIdentity(
            request.org, request.collector, request.dataset, request.start_ns, request.name(part)
        )

    return Parts(
        request.folder,
        identity,
        request.target_ms,
        request.target_bytes,
        request.memory_bytes // 8,
        lambda: [each.labels for each in stream.series],
        any(column.name.startswith(_HISTOGRAMS) for column in stream.layout.columns),
    )
